// Choosing the kernels that are fastest on a device.

import { options } from "./arguments.js";
import type { DeviceInfo } from "./choose.js";
import { Ask, fingerprint, Later, Words } from "./codes.js";
import { ask, call, callAsync } from "./core.js";
import type { Core } from "./load.js";
import { load, store } from "./stored.js";

/** The parameters of {@link Device.tune}. */
export interface TuneOptions {
  /** Whether to measure even if that was done before; usually not. */
  again?: boolean;
}

/** What {@link Device.tune} found. */
export interface Tuned {
  /** The kernels that the device runs from now on, in words. */
  variants: string;
  /** Whether they were measured just now. */
  measured: boolean;
}

/** See {@link Device.tune}; `handle` refuses where the device is gone. */
export async function tune(core: Core, handle: () => number, info: DeviceInfo, settings?: TuneOptions): Promise<Tuned> {
  const device = handle();
  const { again = false } = options("tune", settings);
  const key = [fingerprint, ...Object.values(info), navigator.userAgent].join("\n");
  let number = again ? undefined : await load(key);
  const measured = number === undefined;
  if (number === undefined) {
    number = await callAsync<number>((settle) => core.later(Later.tune, device, 0, 0, settle));
    await store(key, number);
  }
  ask(core, Ask.variants, [handle(), number]);
  return { variants: call(() => core.words(Words.variants, device, 0)), measured };
}
