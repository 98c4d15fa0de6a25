// Encoders: Rust's own, with the files of a folder that JavaScript finds.

import type { Device } from "./classes.js";
import { dataError } from "./errors.js";
import { checked, refused } from "./host.js";
import { nodeFiles, type Reader } from "./model-files.js";
import { withFiles, type Loading } from "./model-loading.js";
import { hostOf, isGone, Shown } from "./objects.js";

/** Functions of the core's class that are not for users. */
interface Core {
  files(): string[];
  open(device: Device, reader: Reader, names: string[]): Promise<Embedder>;
}


const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

/** Finds a file by its name in a folder; undefined if it is not there. */
type Find = (name: string) => unknown;

/** A folder that a server has. A file is there unless the server answers 404, or with a page of its own. */
function remoteFolder(op: string, place: string, signal: AbortSignal | undefined): Find {
  const folder = place.endsWith("/") ? place : `${place}/`;
  /** The names of the folders inside, as far as a file named them that was found before. */
  let known = "";
  return async (name) => {
    const address = folder + name;
    if (name === "model.safetensors") return address;
    const [inner, file] = name.split("/");
    if (file !== undefined && !known.includes(`"${inner}"`)) return undefined;
    const response = await fetch(address, { signal: signal ?? null }).catch((cause: unknown) => {
      signal?.throwIfAborted();
      throw dataError(`${op}: ${address} must be readable, got: ${(cause as Error).message}`);
    });
    const isPage = response.headers.get("content-type")?.startsWith("text/html");
    if (response.status === 404 || isPage) {
      await response.body?.cancel();
      return undefined;
    }
    if (name === "modules.json") known = await response.clone().text();
    return response;
  };
}

/** A folder on a disk, in Node. */
const diskFolder = (place: string): Find => {
  const files = nodeFiles()!;
  return async (name) => {
    const path = /^file:/i.test(place) ? new URL(name, place.replace(/\/?$/, "/")) : `${place}/${name}`;
    return files.access(path).then(
      () => String(path),
      () => undefined,
    );
  };
};

/** A folder that the browser opened. */
const openedFolder = (folder: FileSystemDirectoryHandle): Find => {
  return async (name) => {
    const path = name.split("/");
    const file = path.pop()!;
    try {
      let inner = folder;
      for (const part of path) inner = await inner.getDirectoryHandle(part);
      return await inner.getFileHandle(file);
    } catch (error) {
      if ((error as Error).name === "NotFoundError") return undefined;
      throw error;
    }
  };
};

/** Files that were picked or dropped as a folder: their paths begin with its name. */
function pickedFolder(op: string, files: readonly unknown[]): Find {
  const named = new Map<string, unknown>();
  for (const file of files) {
    if (kind(file) !== "File") throw refused(op, "the source", "a list of files", file);
    const { name, webkitRelativePath: path } = file as File;
    named.set(path ? path.slice(path.indexOf("/") + 1) : name, file);
  }
  return (name) => named.get(name);
}

function folderOf(op: string, source: unknown, signal: AbortSignal | undefined): Find {
  const what = kind(source);
  if (typeof source === "string" || what === "URL") {
    const place = String(source);
    const isOnDisk = nodeFiles() && !/^(https?|blob|data):/i.test(place);
    return isOnDisk ? diskFolder(place) : remoteFolder(op, place, signal);
  }
  if (what === "FileSystemDirectoryHandle") return openedFolder(source as FileSystemDirectoryHandle);
  if (Array.isArray(source) || what === "FileList") return pickedFolder(op, [...(source as Iterable<unknown>)]);
  if (what === "Object") return (name) => (Object.hasOwn(source as object, name) ? (source as never)[name] : undefined);
  throw refused(op, "the source", "the address of a folder, a path, a folder, a list of files, or files by name", source);
}

export class Embedder extends Shown {
  declare readonly dimensions: number;

  static async load(source: unknown, options?: Partial<Loading>): Promise<Embedder> {
    const op = "load";
    const { device, onProgress, signal } = checked(op, options, ["device", "onProgress", "signal"]);
    return withFiles(op, { device, onProgress, signal }, async (device, open, signal) => {
      const core = hostOf(device, op).classes.Embedder as Core;
      const find = folderOf(op, source, signal);
      const [names, files]: [string[], unknown[]] = [[], []];
      for (const name of core.files()) {
        const file = await find(name);
        if (file === undefined) continue;
        names.push(name);
        files.push(file);
      }
      return core.open(device, await open(files, { keep: false, isWhole: true }), names);
    });
  }

  override toString(): string {
    return isGone(this) ? "Embedder(disposed)" : `Embedder(${this.dimensions})`;
  }
}
