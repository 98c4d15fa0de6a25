// The WebAssembly cores: loaded when first used, once each.

import type * as Exports from "./gpu/warpweft.js";
import { fingerprint } from "./codes.js";
import { translate, WarpweftError } from "./errors.js";

/** What both cores export; how each starts differs. */
export type Core = Omit<typeof Exports, "default" | "initSync"> & { default(): Promise<unknown> };

/** The core for GPUs, and the one that computes on the CPU. */
export type CoreName = "gpu" | "cpu";

const importers: Record<CoreName, () => Promise<Core>> = {
  gpu: () => import("./gpu/warpweft.js"),
  cpu: () => import("./cpu/warpweft.js"),
};

const loaded = new Map<CoreName, Promise<Core>>();

/** Loads a core, or gives the one that is there. A load that failed is tried again the next time. */
export function loadCore(name: CoreName): Promise<Core> {
  let core = loaded.get(name);
  if (!core) {
    core = load(name);
    core.catch(() => loaded.delete(name));
    loaded.set(name, core);
  }
  return core;
}

async function load(name: CoreName): Promise<Core> {
  let core: Core;
  try {
    core = await importers[name]();
    await core.default();
  } catch (error) {
    throw new WarpweftError("NoDevice", `load: the ${name} core does not load: ${String(error)}`);
  }
  if (core.fingerprint() !== fingerprint) {
    throw new WarpweftError("NoDevice", `load: the ${name} core is of another build than the JavaScript around it`);
  }
  return core;
}

/** What a core's `ask` is asked for, as `src/js/mod.rs` has it. */
export const enum Ask {
  describe = 0,
  figures = 1,
  trim = 2,
  flush = 3,
  run = 4,
  lastPlan = 5,
  programPlan = 6,
  runProgram = 7,
  grad = 8,
  runBatch = 9,
  planBatch = 10,
}

/** What a core's `later` does. */
export const enum Later {
  open = 0,
  sync = 1,
  read = 2,
}

/** What a core's `words` tells of. */
export const enum Words {
  device = 0,
  source = 1,
  plan = 2,
}

/** The number of the pointwise table's first row as an operation. */
export const FIRST_ROW = 1000;

/** Asks a core for something that is there at once; the first handle is what is asked. */
export function ask(core: Core, what: Ask, handles: readonly number[]): Float64Array {
  return call(() => core.ask(what, Uint32Array.from(handles)));
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
