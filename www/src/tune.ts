// The choice of the fastest kernels for a device.

import { checked, refused } from "./host.js";
import { load, store } from "./stored.js";

/** The options of {@link Device.tune}. */
export interface TuneOptions {
  /** Whether to measure even if stored results exist. Default: false. */
  again?: boolean;
}

/** The result of {@link Device.tune}. */
export interface Tuned {
  /** A description of the kernels that the device runs from now on. */
  kernelConfig: string;
  /** Whether the kernels were measured by this call. */
  measured: boolean;
}

/** The internal methods of a device for tuning. */
interface Tunable {
  readonly info: object;
  version(): string;
  measure(): Promise<number>;
  choose(number: number): string;
}

/** Implements {@link Device.tune}. */
export async function tune(device: Tunable, options?: TuneOptions): Promise<Tuned> {
  const { again = false } = checked("tune", options, ["again"]);
  if (typeof again !== "boolean") throw refused("tune", "again", "true or false", again);
  // Not every JavaScript runtime has a user agent.
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
