// Encoders. The core implements them, and this file finds the files of a folder.

import type { Device } from "./classes.js";
import { checked } from "./host.js";
import { Reader } from "./model-files.js";
import { canReopenFolder, filesIn, folderOf } from "./model-folder.js";
import { withFiles, type Loading } from "./model-loading.js";
import { hostOf, isGone, Shown } from "./objects.js";

/** Internal functions of the core's class. */
interface Core {
  files(): string[];
  open(device: Device, reader: Reader, names: string[], reopen?: () => Promise<Reader>): Promise<Embedder>;
}

export class Embedder extends Shown {
  declare readonly dimensions: number;

  static async load(source: unknown, options?: Partial<Loading>): Promise<Embedder> {
    const op = "load";
    const { device, onProgress, signal } = checked(op, options, ["device", "onProgress", "signal"]);
    return withFiles(op, { device, onProgress, signal }, async (device, open, signal) => {
      const core = hostOf(device, op).classes.Embedder as Core;
      const how = { keep: false, isWhole: true };
      const { names, files } = await filesIn(folderOf(op, source, signal), core.files());
      // A signal aborts only the first loading.
      const reopen = async () => {
        const { files } = await filesIn(folderOf(op, source, undefined), names);
        return Reader.open(files, { op, onProgress: onProgress ?? (() => {}), signal: undefined, ...how }, names);
      };
      const isReopened = canReopenFolder(source);
      return core.open(device, await open(files, how, names), names, isReopened ? reopen : undefined);
    });
  }

  override toString(): string {
    return isGone(this) ? "Embedder(disposed)" : `Embedder(${this.dimensions})`;
  }
}
