// Changes to the files that wasm-bindgen generates for a core.

/** Replaces `from`, which must occur exactly once in `text`, by `to`. */
function once(text, from, to) {
  const parts = text.split(from);
  if (parts.length !== 2) throw new Error(`wasm-bindgen wrote ${parts.length - 1} times: ${from}`);
  return parts.join(to);
}

/**
 * Renames the pointers in a core's JavaScript. Each core has a different name, so that no core accepts another core's pointers.
 */
export function ownPointers(script, name) {
  if (!script.includes("this.__wbg_ptr")) throw new Error("wasm-bindgen gave the pointers of objects another name");
  return script.replaceAll("__wbg_ptr", `__${name}_ptr`);
}

const head = `// The classes, their documentation and the types of their arguments, as wasm-bindgen wrote them.

import type { DeviceInfo, Found } from "./choose.js";
import type { DeviceOptions } from "./open.js";
import type { FileOptions, FileSource, Safetensors } from "./files.js";
import type { BufferSpec, GpuBuffer, GpuDevice, SharedBuffer, ShareOptions } from "./share.js";
import type { TextOptions } from "./text.js";
import type { Tuned, TuneOptions } from "./tune.js";

declare global {
  // Also where TypeScript is told of no \`lib\` that has them.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
  interface GPUAdapter {}
}

`;

const dispose = `/**
     * Frees the object immediately. Later calls have no effect. Using the object afterwards is an error of code
     * \`InvalidState\`. The garbage collector frees objects that are not disposed of.
     */
    dispose(): void;
    /** Disposes of the object at the end of a block with \`using\`. */
    [Symbol.dispose](): void;`;

/** The imports that the added declarations need besides classes. */
const also = {
  nn: `import type { FileOptions, FileSource } from "./files.js";
import type { FitOptions, Forward, TrainingData } from "./train.js";
`,
  language: `import type { PlatformBlob, PlatformFolder, PlatformResponse, PlatformSignal, PlatformUrl } from "./platform.js";
`,
};

/**
 * Returns the declarations of the classes. `Tensor` gets its element type as a type parameter, which wasm-bindgen does not
 * support.
 */
export const classes = (declarations) => head + typed(declarations);

/**
 * Returns the declarations of a core that smaller cores do not have: layers and trainers, or language models. `smaller` has the
 * modules and the declarations of the smaller cores, the smallest first.
 */
export function added(kind, smaller, all) {
  const items = (text) => typed(text).split(/\n\n(?=\S)/).map((item) => item.trim());
  const namesOf = (item) => item.match(/^export (?:class|interface|type) (\w+)/m)?.[1] ?? [];
  const known = new Set();
  const modules = new Map();
  for (const [module, declarations] of smaller) {
    const fresh = items(declarations).filter((item) => !known.has(item));
    fresh.forEach((item) => known.add(item));
    modules.set(module, [...new Set(fresh.flatMap(namesOf))]);
  }
  const text = items(all).filter((item) => !known.has(item)).join("\n\n");
  const imports = [...modules].flatMap(([module, names]) => {
    const used = names.filter((name) => new RegExp(`\\b${name}\\b`).test(text));
    return used.length ? [`import type { ${used.join(", ")} } from "./${module}.js";`] : [];
  });
  return `// More classes, as wasm-bindgen wrote them.

${imports.join("\n")}
${also[kind]}
${text}`;
}

function typed(declarations) {
  const generic = once(declarations, "export class Tensor {", "export class Tensor<D extends DType = DType> {")
    .replace(/^( +(?:static )?\w+)(\(.*\): Tensor<T>(?:\[\])?;)$/gm, '$1<T extends DType = "f32">$2')
    .replaceAll("free(): void;\n    [Symbol.dispose](): void;", dispose);
  // Doc comments that passed through declarative macros are raw strings.
  const plain = generic.replace(/^( +\*) r#"(.*)"#$/gm, "$1$2").replace(/^( +\*) r"/gm, "$1");
  const own = plain.split("\n").filter((line) => !/^\/\* (tslint|eslint)|^export function start/.test(line));
  return own.join("\n").replace(/\n{3,}/g, "\n\n").trimStart();
}
