// Tests that every example in the documents and in the declarations' comments compiles as strict TypeScript. Examples use names
// that they do not declare, such as `device` and `x`. Those have the types below, and all other undeclared names are `any`.

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { finish } from "./support/browser.js";
import * as warpweft from "../dist/models.js";

const dist = join(root, "www", "dist");
const documents = ["README.md", "docs/guide.md", "docs/training.md", "docs/custom-kernels.md"];
const declarations = readdirSync(dist).filter((name) => name.endsWith(".d.ts"));

/** The place and the code of each example. */
const examples = [];
for (const name of documents) {
  const text = readFileSync(join(root, name), "utf8");
  for (const [, code] of text.matchAll(/^```(?:js|ts)\n(.*?)^```$/gms)) examples.push([name, code]);
}
for (const name of declarations) {
  const text = readFileSync(join(dist, name), "utf8");
  for (const [, code] of text.matchAll(/^ *\* ```(?:js|ts)\n(.*?)^ *\* ```$/gms)) {
    examples.push([name, code.replace(/^ *\* ?/gm, "")]);
  }
}

const known = `
declare const device: Device, generator: Generator;
declare const optimizer: Optimizer, trainer: Trainer;
declare const x: Tensor, y: Tensor, z: Tensor, w: Tensor, a: Tensor, b: Tensor, scores: Tensor, loss: Tensor;
declare const xTest: Tensor, yTest: Tensor, blocks: Layer[];
`;

/** Returns the type of `model` in an example, mostly a model of layers. */
const modelIn = (where) => (where === "language.d.ts" ? "LanguageModel" : "Layer & { body: Layer; head: Layer }");

/** Returns a module of an example: its imports, then a function with the rest. */
function written(where, code) {
  const imports = /^import [^;]*;\n?/gm;
  const own = (code.match(imports) ?? []).join("");
  const names = Object.keys(warpweft).filter((name) => !new RegExp(`\\b${name}\\b`).test(own));
  const all = `import { ${names.join(", ")} } from "warpweft/models";\n`;
  const model = `declare const model: ${modelIn(where)};\n`;
  return `${own}${all}${known}${model}export async function example() {\n${code.replace(imports, "")}\n}\n`;
}

const folder = join(root, "out", "examples");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
examples.forEach(([where, code], n) => writeFileSync(join(folder, `${n}.ts`), written(where, code)));
const entries = { warpweft: "index", "warpweft/nn": "nn", "warpweft/models": "models" };
const paths = Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, [join(dist, `${file}.d.ts`)]]));
const modules = { target: "esnext", module: "esnext", moduleResolution: "bundler" };
const options = { ...modules, strict: true, noEmit: true, skipLibCheck: true };
const lib = ["esnext", "dom", "dom.iterable"];
writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: { ...options, lib, types: [], paths } }));

let output = "";
try {
  execFileSync(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", folder], { encoding: "utf8" });
} catch (error) {
  output = error.stdout;
}
/** Errors about undeclared names and their consequences, and about modules of the user. */
const aside = new Set(["TS2304", "TS2552", "TS2307", "TS18004"]);
const found = [...output.matchAll(/(\d+)\.ts\((\d+),\d+\): error (TS\d+): (.*)/g)].filter(([, , , code]) => !aside.has(code));
const results = examples.map(([where, code], n) => {
  // JavaScript in a document has no types.
  const untyped = (code) => code === "TS7006" && where.endsWith(".md");
  const here = found.filter(([, of, , code]) => Number(of) === n && !untyped(code));
  const own = here.map(([, , line, code, text]) => `${line}: ${code} ${text}`);
  const error = own.length ? `${own.join("\n")}\n${code}` : undefined;
  return { name: `example ${n} of ${where}`, error };
});
const few = examples.length < 60 || /error TS(?!\d+:)|Cannot find module 'warpweft/.test(output);
const all = `${examples.length} examples; ${output.slice(0, 300)}`;
results.push({ name: "examples were found and compiled", error: few ? all : undefined });
finish(results);
