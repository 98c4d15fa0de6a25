// Choosing the kernels that are fastest on a device.

import type { Device } from "./classes.js";
import { dataError } from "./errors.js";
import { describe, unknownOption } from "./host.js";

/** The parameters of {@link Device.tune}. */
export interface TuneOptions {
  /** Whether to measure even if that was done before. Default: false. */
  again?: boolean;
}

/** What {@link Device.tune} found. */
export interface Tuned {
  /** The kernels that the device runs from now on, in words. */
  variants: string;
  /** Whether they were measured just now. */
  measured: boolean;
}

/** See {@link Device.tune}. */
export async function tune(device: Device, options: TuneOptions = {}): Promise<Tuned> {
  if (typeof options !== "object" || options === null) throw dataError(`tune: ${describe(options)} is not an object of options`);
  const odd = Object.keys(options).find((key) => key !== "again");
  if (odd !== undefined) throw dataError(`tune: ${unknownOption(odd, ["again"])}`);
  const { load, store } = await import("./stored.js");
  const key = [device.version(), ...Object.values(device.info), navigator.userAgent].join("\n");
  let number = options.again ? undefined : await load(key);
  const measured = number === undefined;
  if (number === undefined) {
    number = await device.measure();
    await store(key, number);
  }
  return { variants: device.choose(number), measured };
}
