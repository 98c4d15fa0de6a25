// The WebAssembly cores: loaded when first used, once each.

import { number } from "./arguments.js";
import * as gpu from "./gpu/warpweft.js";
import { FIRST_EXTRA, fingerprint, type Ask, type Code } from "./codes.js";
import { translate, WarpweftError } from "./errors.js";
import { unpack } from "./packed.js";

/** What both cores export; how each starts differs. */
export type Core = Omit<typeof gpu, "default" | "initSync"> & {
  default(wasm: Uint8Array<ArrayBuffer>): Promise<WebAssembly.ModuleImports>;
};

/** The core for GPUs, and the one that computes on the CPU. */
export type CoreName = "gpu" | "cpu";

/**
 * What a page need not load: `"extras"`, operations that not everyone needs, of which {@link Device.load} has the list;
 * and `"grad"`, gradients. The CPU's core has both built in.
 */
export type Part = "extras" | "grad";

/** All parts. */
export const allParts: readonly Part[] = ["extras", "grad"];

// Written out, so that bundlers find the files.
const glue: Record<CoreName, () => Promise<Core>> = {
  gpu: () => Promise.resolve(gpu as unknown as Core), // The build gave it that start.
  cpu: () => import("./cpu/warpweft.js") as Promise<unknown> as Promise<Core>,
};
const files: Record<CoreName | Part, () => URL> = {
  gpu: () => new URL(/* @vite-ignore */ "./gpu/core.wasm", import.meta.url),
  cpu: () => new URL(/* @vite-ignore */ "./cpu/core.wasm", import.meta.url),
  extras: () => new URL(/* @vite-ignore */ "./gpu/extras.wasm", import.meta.url),
  grad: () => new URL(/* @vite-ignore */ "./gpu/grad.wasm", import.meta.url),
};

/** A core, and what its parts are linked to. */
interface Loaded {
  core: Core;
  exports: WebAssembly.ModuleImports;
}

const loading = new Map<CoreName | Part, Promise<Loaded>>();
const without = new WeakMap<Core, Set<Part>>();

/** Loads a core and parts of it, or gives the one that is there. What failed is tried again the next time. */
export async function loadCore(name: CoreName, parts: readonly Part[]): Promise<Core> {
  const core = once(name, () => start(name));
  const wanted = name === "gpu" ? parts : [];
  await Promise.all(wanted.map((part) => once(part, () => link(part, core))));
  return (await core).core;
}

function once(name: CoreName | Part, load: () => Promise<Loaded>): Promise<Loaded> {
  let loaded = loading.get(name);
  if (!loaded) {
    loaded = load().catch((error: unknown) => {
      loading.delete(name);
      if (error instanceof WarpweftError) throw error;
      throw new WarpweftError("NoDevice", `load: "${name}" does not load: ${String(error)}`);
    });
    loading.set(name, loaded);
  }
  return loaded;
}

async function start(name: CoreName): Promise<Loaded> {
  const [core, wasm] = await Promise.all([glue[name](), code(name)]);
  const exports = await core.default(wasm);
  if (core.fingerprint() !== fingerprint) {
    throw new WarpweftError("NoDevice", `load: the ${name} core is of another build than the JavaScript around it`);
  }
  without.set(core, new Set(name === "gpu" ? allParts : []));
  return { core, exports };
}

/** Loads a part, which brings its functions into the core's table. */
async function link(part: Part, loaded: Promise<Loaded>): Promise<Loaded> {
  const [wasm, { core, exports }] = await Promise.all([code(part), loaded]);
  await WebAssembly.instantiate(wasm, { "": exports });
  without.get(core)?.delete(part);
  return { core, exports };
}

async function code(name: CoreName | Part): Promise<Uint8Array<ArrayBuffer>> {
  const answer = await fetch(files[name]());
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${answer.statusText}`);
  return unpack(new Uint8Array(await answer.arrayBuffer()));
}

/** Refuses what is in a part that was not loaded. */
export function need(core: Core, part: Part, name: string): void {
  if (!without.get(core)?.has(part)) return;
  const how = `leave it in the \`parts\` of Device.new(), or wait for device.load("${part}")`;
  throw new WarpweftError("Unsupported", `${name}: is in the part "${part}", which was not loaded: ${how}`);
}

/** Asks a core for something that is there at once; the first handle is what is asked. */
export function ask(core: Core, what: Ask, handles: readonly number[]): Float64Array {
  return call(() => core.ask(what, Uint32Array.from(handles)));
}

/** Numbers that are passed to an operation, as callers gave them. */
export type Numbers = readonly (number | boolean)[];

/** Records an operation other than the table's rows; gives the handle of its result. */
export function record(core: Core, code: Code, name: string, handles: readonly number[], given: Numbers): number {
  if (code >= FIRST_EXTRA) need(core, "extras", name);
  const numbers = Float64Array.from(given as readonly unknown[], (value) => number(name, value));
  return call(() => core.apply(code, Uint32Array.from(handles), numbers));
}

/** Runs a call into WebAssembly; what it throws comes out as an error. */
export function call<T>(work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw translate(thrown);
  }
}

/** The same for a call that answers later: it is given a function that it calls once. */
export function callAsync<T>(work: (settle: (failed: boolean, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call(() => work((failed, value) => (failed ? reject(translate(value)) : resolve(value))));
  });
}
