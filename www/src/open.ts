// Opening of devices. The core is fetched and compiled while the browser looks for an adapter.

import { checked, refused } from "./host.js";
import { choose, type Choice } from "./choose.js";
import { load, type Core, type CoreName, type WasmSources } from "./load.js";

/** The options of `Device.new()`. */
export interface DeviceOptions {
  /**
   * The preferred device.
   *
   * - `"auto"` (default): the GPU, or the CPU as a fallback. `device.fallback` then gives the reason.
   * - `"gpu"`: the GPU, or an error.
   * - `"low-power"`: the GPU with the lowest power consumption, or an error.
   * - `"cpu"`: the CPU.
   * - `"software"`: a software GPU, which computes on the CPU, for tests.
   * - A number: an index into the result of `Device.discover()`.
   * - Any other text: a part of a device's name.
   */
  prefer?: "auto" | "gpu" | "low-power" | "cpu" | "software" | (string & {}) | number;
  /**
   * The sources of the WebAssembly. Default: the files next to this module. A core is loaded only once, so sources for a loaded
   * core have no effect.
   *
   * ```js
   * const device = await Device.new({ wasm: { gpu: "/assets/gpu.wasm", cpu: "/assets/cpu.wasm" } });
   * ```
   */
  wasm?: WasmSources;
}

/** A core and the choice of a device. */
export interface Opening {
  core: Core;
  choice: Choice;
}

/** An opening in progress. */
interface Begun {
  prefer: unknown;
  choice: Promise<Choice>;
  core: Promise<Core>;
}

let early: Begun | undefined;

/**
 * Starts the work of a later `Device.new()` with the same `prefer`. Fetches and compiles the core, and requests an adapter from
 * the browser. Errors are reported by `Device.new()`.
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

/** Calls `make` with the core and the choice. If that fails with the preference `auto`, calls it with the CPU core. */
export async function open<T>(settings: DeviceOptions | undefined, make: (opening: Opening) => Promise<T>): Promise<T> {
  const { prefer, wasm } = wanted(settings);
  const finish = async ({ choice, core }: Begun) => make({ choice: await choice, core: await core });
  if (early && early.prefer === prefer) {
    const prepared = early;
    early = undefined;
    // An adapter may have expired, in which case everything is started again.
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
  // The callers that await them receive the errors.
  for (const part of [choice, core]) part.catch(() => {});
  return { prefer, choice, core };
}

/** Returns the core that a preference most likely needs, judged without requesting an adapter. */
function likely(prefer: unknown): CoreName | undefined {
  const gpu = Boolean(globalThis.navigator?.gpu);
  if (prefer === "cpu" || (prefer === "auto" && !gpu)) return "cpu";
  return gpu && ["auto", "gpu", "low-power", "software"].includes(prefer as string) ? "gpu" : undefined;
}

/** Calls `ask` so that its synchronous request for an adapter returns this one. The browser is then asked only once. */
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
