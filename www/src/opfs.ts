// Files that a site stores in the browser, in this package's folder of the origin private file system.

import { WarpweftError } from "./errors.js";
import { describe, refused } from "./host.js";

const directory = "warpweft";

/** A file handle with `move`, which is not in the standard but in some browsers. */
interface Movable extends FileSystemFileHandle {
  move?(name: string): Promise<void>;
}

function checkName(op: string, name: unknown): string {
  if (typeof name !== "string") throw refused(op, "name", "a string", name);
  if (/^$|[/\\\0]|^\.\.?$/.test(name)) throw refused(op, "name", "the name of a file", name);
  return name;
}

async function folder(op: string): Promise<FileSystemDirectoryHandle> {
  // The type declares `storage` everywhere, but only pages on https and localhost have it, and Node does not.
  const storage = (globalThis.navigator as Navigator | undefined)?.storage as StorageManager | undefined;
  if (typeof storage?.getDirectory !== "function") {
    const message = `${op}: the origin private file system must be available, got none; it needs a page on https or localhost`;
    throw new WarpweftError("Unsupported", message);
  }
  try {
    return await (await storage.getDirectory()).getDirectoryHandle(directory, { create: true });
  } catch (cause) {
    const message = `${op}: the browser denies the origin private file system: ${String(cause)}`;
    throw new WarpweftError("Unsupported", message, { cause });
  }
}

/**
 * Stores bytes under a name. The bytes are written to a temporary file, which is then renamed. A file is therefore replaced
 * completely or not at all.
 */
export async function writeStored(op: string, name: unknown, bytes: () => Promise<Uint8Array>): Promise<void> {
  const known = checkName(op, name);
  const files = await folder(op);
  const content = (await bytes()) as Uint8Array<ArrayBuffer>;
  const part = `${known}.${Date.now()}-${Math.random()}.part`;
  try {
    const file: Movable = await files.getFileHandle(part, { create: true });
    await write(file, content);
    if (file.move) return await file.move(known);
    // Browsers replace a file by a stream's content atomically when the stream is closed.
    await write(await files.getFileHandle(known, { create: true }), content);
    await files.removeEntry(part);
  } catch (cause) {
    await files.removeEntry(part).catch(() => {});
    const code = (cause as Error).name === "QuotaExceededError" ? "Memory" : "Unsupported";
    throw new WarpweftError(code, `${op}: ${describe(known)} cannot be written: ${String(cause)}`, { cause });
  }
}

async function write(file: FileSystemFileHandle, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const stream = await file.createWritable();
  await stream.write(bytes);
  await stream.close();
}

/** Returns the file stored under a name, or undefined if it does not exist. */
export async function readStored(op: string, name: unknown): Promise<Blob | undefined> {
  const known = checkName(op, name);
  const files = await folder(op);
  try {
    return await (await files.getFileHandle(known)).getFile();
  } catch (cause) {
    if ((cause as Error).name === "NotFoundError") return undefined;
    throw new WarpweftError("Unsupported", `${op}: ${describe(known)} cannot be read: ${String(cause)}`, { cause });
  }
}
