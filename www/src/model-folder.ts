// Folders of models: on a server, on a disk, opened by the browser, or given as files by name.

import { refused } from "./host.js";
import { canReopen, nodeFiles } from "./model-files.js";
import { asked } from "./remote-file.js";

const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

/** Finds a file in a folder by its name. Returns undefined if it does not exist. */
export type Find = (name: string) => unknown;

/** The answers that a file does not exist. Some servers, such as those of storage, answer 403 for a missing file. */
const ABSENT = [403, 404, 410];

/** The files that every model has. For others, an answer of {@link ABSENT} means that the model does not have them. */
const NEEDED = ["config.json", "tokenizer.json"];

/**
 * Makes a folder on a server. An optional file is absent if the server answers 403, 404 or 410, or sends an HTML page. Weights
 * are not requested here.
 */
function remoteFolder(op: string, address: string, signal: AbortSignal | undefined): Find {
  const folder = address.endsWith("/") ? address : `${address}/`;
  /** The text of `modules.json`, which names the folders inside, once it was found. */
  let known = "";
  return async (name) => {
    const address = folder + name;
    if (/^[^/]*\.safetensors$/.test(name)) return address;
    const [inner, file] = name.split("/");
    if (file !== undefined && !known.includes(`"${inner}"`)) return undefined;
    const response = await asked(op, address, undefined, signal, NEEDED.includes(name) ? [] : ABSENT);
    if (!response.ok || response.headers.get("content-type")?.startsWith("text/html")) {
      await response.body?.cancel();
      return undefined;
    }
    if (name === "modules.json") known = await response.clone().text();
    return response;
  };
}

/** Makes a folder on a disk, in Node. */
const diskFolder = (address: string): Find => {
  const files = nodeFiles()!;
  return async (name) => {
    const path = /^file:/i.test(address) ? new URL(name, address.replace(/\/?$/, "/")) : `${address}/${name}`;
    return files.access(path).then(
      () => String(path),
      () => undefined,
    );
  };
};

/** Makes a folder that the browser opened. */
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

/** Makes a folder of files that were picked or dropped. Their paths begin with the folder's name. */
function pickedFolder(op: string, files: readonly unknown[]): Find {
  const named = new Map<string, unknown>();
  for (const file of files) {
    if (kind(file) !== "File") throw refused(op, "the source", "a list of files", file);
    const { name, webkitRelativePath: path } = file as File;
    named.set(path ? path.slice(path.indexOf("/") + 1) : name, file);
  }
  return (name) => named.get(name);
}

/** Makes the folder that a user passed. */
export function folderOf(op: string, source: unknown, signal: AbortSignal | undefined): Find {
  const what = kind(source);
  if (typeof source === "string" || what === "URL") {
    const address = String(source);
    const isOnDisk = nodeFiles() && !/^(https?|blob|data):/i.test(address);
    return isOnDisk ? diskFolder(address) : remoteFolder(op, address, signal);
  }
  if (what === "FileSystemDirectoryHandle") return openedFolder(source as FileSystemDirectoryHandle);
  if (Array.isArray(source) || what === "FileList") return pickedFolder(op, [...(source as Iterable<unknown>)]);
  if (what === "Object") return (name) => (Object.hasOwn(source as object, name) ? (source as never)[name] : undefined);
  throw refused(op, "the source", "the address of a folder, a path, a folder, a list of files, or files by name", source);
}

/** Whether a source is a list of files, such as the files that a user picked. */
export const isList = (source: unknown): source is Iterable<unknown> => Array.isArray(source) || kind(source) === "FileList";

/** Whether a source is a folder, and not a file or the parts of one. A URL is a folder if it ends with a slash. */
export async function isFolder(source: unknown): Promise<boolean> {
  const what = kind(source);
  if (typeof source === "string" || what === "URL") {
    const address = String(source);
    const files = /^(https?|blob|data):/i.test(address) ? undefined : nodeFiles();
    if (!files) return /^[^?#]*\/$/.test(address);
    const about = await files.stat(/^file:/i.test(address) ? new URL(address) : address).catch(() => undefined);
    return about?.isDirectory() ?? false;
  }
  if (isList(source)) {
    return [...source].some((file) => kind(file) === "File" && (file as File).name === "config.json");
  }
  return what === "FileSystemDirectoryHandle" || (what === "Object" && Object.hasOwn(source as object, "config.json"));
}

/** Whether the files in a folder can be opened again. */
export const canReopenFolder = (source: unknown) =>
  kind(source) !== "Object" || Object.values(source as object).every(canReopen);

/** Returns the files with these names that exist in a folder. */
export async function filesIn(find: Find, wanted: Iterable<string>): Promise<{ names: string[]; files: unknown[] }> {
  const [names, files]: [string[], unknown[]] = [[], []];
  for (const name of wanted) {
    const file = await find(name);
    if (file === undefined) continue;
    names.push(name);
    files.push(file);
  }
  return { names, files };
}
