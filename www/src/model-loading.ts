// Loading of models: opens a device and the model's files, and closes the files afterwards.

import { Device } from "./classes.js";
import { Brand } from "./brand.js";
import { refused } from "./host.js";
import { checkSignal, Reader, type Opening, type Progress } from "./model-files.js";
import type { PlatformSignal } from "./platform.js";

/** The options that all models have. */
export interface Loading {
  device: Device | undefined;
  onProgress: ((bytes: Progress) => void) | undefined;
  signal: PlatformSignal | undefined;
}

/** Opens files for the core. */
export type Open = (
  sources: readonly unknown[],
  how: Pick<Opening, "keep" | "isWhole" | "check">,
  names?: readonly string[],
) => Promise<Reader>;

/** Runs `work` with a device and a function that opens files, and closes the files. Opens a device if none is given. */
export async function withFiles<T>(
  op: string,
  { device: own, onProgress = () => {}, signal: stop }: Loading,
  work: (device: Device, open: Open, signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const signal = checkSignal(op, stop);
  if (typeof onProgress !== "function") throw refused(op, "onProgress", "a function", onProgress);
  signal?.throwIfAborted();
  const isDevice = (own ?? undefined) === undefined || (typeof own === "object" && Brand.kind(own) === "Device");
  if (!isDevice) throw refused(op, "device", "a Device", own);
  const device = own ?? (await Device.new());
  let reader: Reader | undefined;
  const open: Open = async (sources, how, names) =>
    (reader = await Reader.open(sources, { op, onProgress, signal, ...how }, names));
  try {
    return await work(device, open, signal);
  } catch (error) {
    // A device that was opened here is not used by other code.
    if (!own) (device as Device & { dispose(): void }).dispose();
    throw error;
  } finally {
    await reader?.close();
  }
}
