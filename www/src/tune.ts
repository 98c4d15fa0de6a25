// Choosing the kernels that are fastest on a device.

import { checked } from "./host.js";
import { load, store } from "./stored.js";

/** The parameters of {@link Device.tune}. */
export interface TuneOptions {
  /** Whether to measure even if that was done before. Default: false. */
  again?: boolean;
}

/** What {@link Device.tune} found. */
export interface Tuned {
  /** The kernels that the device runs from now on, in words. */
  kernelConfig: string;
  /** Whether they were measured just now. */
  measured: boolean;
}

/** What a device has for it. */
interface Tunable {
  readonly info: object;
  version(): string;
  measure(): Promise<number>;
  choose(number: number): string;
}

/** See {@link Device.tune}. */
export async function tune(device: Tunable, options?: TuneOptions): Promise<Tuned> {
  const { again = false } = checked("tune", options, ["again"]);
  // Not every program that runs JavaScript says which one it is.
  const program = globalThis.navigator?.userAgent ?? "";
  const key = [device.version(), ...Object.values(device.info), program].join("\n");
  let number = again ? undefined : await load(key);
  const measured = number === undefined;
  if (number === undefined) {
    number = await device.measure();
    await store(key, number);
  }
  return { kernelConfig: device.choose(number), measured };
}
