// Opening a device: its core is fetched and compiled while the browser looks for an adapter.

import { checked, refused } from "./host.js";
import { choose, type Choice } from "./choose.js";
import { load, type Core, type CoreName, type WasmSources } from "./load.js";

/** Which device is wanted. */
export interface DeviceOptions {
  /**
   * - `"auto"` (usual): the GPU, else the CPU, which `device.fallback` then says openly;
   * - `"gpu"`: the GPU or an error; `"low-power"`: the one that takes least power;
   * - `"cpu"`: the CPU; `"software"`: a software GPU, which computes on the CPU, for tests;
   * - a number: an index into `Device.discover()`; any other text: part of a device's name.
   */
  prefer?: "auto" | "gpu" | "low-power" | "cpu" | "software" | (string & {}) | number;
  /**
   * Where the WebAssembly comes from; usually from beside this module. A core is loaded once: what is said of one that
   * is there already changes nothing.
   *
   * ```js
   * const device = await Device.new({ wasm: { gpu: "/assets/gpu.wasm", cpu: "/assets/cpu.wasm" } });
   * ```
   */
  wasm?: WasmSources;
}

/** What a device is opened with. */
export interface Opening {
  core: Core;
  choice: Choice;
}

/** An opening under way. */
interface Begun {
  prefer: unknown;
  choice: Promise<Choice>;
  core: Promise<Core>;
}

let early: Begun | undefined;

/**
 * Begins with what `Device.new()` does, if it is called with the same `prefer` later: fetches and compiles the core and
 * asks the browser for an adapter. Whatever goes wrong, `Device.new()` tells.
 *
 * ```js
 * import { Device, preload } from "warpweft";
 *
 * preload();                          // as early as can be
 * const device = await Device.new();  // when it is needed
 * ```
 */
export function preload(settings?: DeviceOptions): void {
  early = begin(settings);
}

/** Gives `make` the core and the choice; where that fails and nothing is preferred, the CPU's. */
export async function open<T>(settings: DeviceOptions | undefined, make: (opening: Opening) => Promise<T>): Promise<T> {
  const { prefer, wasm } = wanted(settings);
  const finish = async ({ choice, core }: Begun) => make({ choice: await choice, core: await core });
  if (early && early.prefer === prefer) {
    const prepared = early;
    early = undefined;
    // It may have got old, as adapters do: then from the beginning.
    const made = await finish(prepared).catch(() => undefined);
    if (made !== undefined) return made;
  }
  const begun = begin(settings);
  try {
    return await finish(begun);
  } catch (error) {
    if (prefer !== "auto" || (await begun.choice).core === "cpu") throw error;
    const why = error instanceof Error ? error.message : String(error);
    const fallback = `${why}; computing on the CPU`;
    return make({ core: await load("cpu", wasm).core, choice: { core: "cpu", fallback } });
  }
}

function wanted(settings: DeviceOptions | undefined): { prefer: unknown; wasm: WasmSources } {
  const { prefer = "auto", wasm = {} } = checked("device", settings, ["prefer", "wasm"]);
  if (typeof wasm !== "object" || wasm === null) throw refused("device", "wasm", "an object of sources by core", wasm);
  return { prefer, wasm };
}

function begin(settings: DeviceOptions | undefined): Begun {
  const { prefer, wasm } = wanted(settings);
  const name = likely(prefer);
  const asked = name && load(name, wasm);
  const choice = choose(prefer);
  const core = choice.then(
    (chosen) => {
      if (asked && chosen.core === name) return asked.core;
      asked?.drop();
      return load(chosen.core, wasm).core;
    },
    (error: unknown) => {
      asked?.drop();
      throw error;
    },
  );
  // Whoever waits hears of it, and of what failed first.
  for (const part of [choice, core]) part.catch(() => {});
  return { prefer, choice, core };
}

/** The core that a preference needs as far as can be told without asking for an adapter. */
function likely(prefer: unknown): CoreName | undefined {
  const gpu = Boolean(globalThis.navigator?.gpu);
  if (prefer === "cpu" || (prefer === "auto" && !gpu)) return "cpu";
  return gpu && ["auto", "gpu", "low-power", "software"].includes(prefer as string) ? "gpu" : undefined;
}

/** Runs `ask`, whose call for an adapter before it returns gets this one: browsers are asked once. */
export function handing<T>(adapter: GPUAdapter | undefined, ask: () => T): T {
  if (!adapter) return ask();
  const { gpu } = navigator;
  const own = Object.getOwnPropertyDescriptor(gpu, "requestAdapter");
  Object.defineProperty(gpu, "requestAdapter", { value: async () => adapter, configurable: true });
  try {
    return ask();
  } finally {
    if (own) Object.defineProperty(gpu, "requestAdapter", own);
    else Reflect.deleteProperty(gpu, "requestAdapter");
  }
}
