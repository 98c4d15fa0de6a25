// The files of language models: whatever they come from, parts of them are read when they are needed.

import { isGivenAway } from "./data.js";
import { dataError } from "./errors.js";
import { refused } from "./host.js";

/** Bytes that were read, and that there are. */
export interface Progress {
  done: number;
  total: number;
}

/** A file that parts are read of. */
interface File {
  readonly length: number;
  read(start: number, end: number): Promise<Uint8Array>;
  close?(): Promise<void>;
}

/**
 * Bytes of a file of an address that are asked for at once, and how many such windows are kept. Files may have layer 10 before
 * layer 2, so what lies between is read later.
 */
const [WINDOW, KEPT] = [1 << 22, 16];

/** How often a broken connection is tried again, and the milliseconds before the first time; they double. */
const [TRIES, PAUSE] = [4, 250];

const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

function blobFile(blob: Blob): File {
  const read = async (start: number, end: number) => new Uint8Array(await blob.slice(start, end).arrayBuffer());
  return { length: blob.size, read };
}

function bytesFile(bytes: Uint8Array): File {
  return { length: bytes.length, read: async (start, end) => bytes.subarray(start, end) };
}

/** What a server answered, as a whole. */
async function responseFile(op: string, response: Response, tell: (done: number, total: number) => void): Promise<File> {
  const place = response.url || "the response";
  if (!response.ok) throw dataError(`${op}: ${place} must load, got ${response.status} ${response.statusText}`.trim());
  if (response.bodyUsed || response.body?.locked) throw dataError(`${op}: ${place} must be unread, got one that was read`);
  const total = Number(response.headers.get("content-length") ?? 0);
  const reader = response.body?.getReader();
  // A blob need not be in memory.
  let [blob, done] = [new Blob(), 0];
  let parts: BlobPart[] = [];
  for (let part; reader && !(part = await reader.read()).done; ) {
    parts.push(part.value as Uint8Array<ArrayBuffer>);
    tell((done += part.value.length), Math.max(total, done));
    if (parts.length < 256) continue;
    [blob, parts] = [new Blob([blob, ...parts]), []];
  }
  return blobFile(new Blob([blob, ...parts]));
}

/** A file that a server has, which is asked for parts of it. */
class RemoteFile implements File {
  readonly #op: string;
  readonly #place: string;
  readonly #signal: AbortSignal | undefined;
  readonly length: number;
  /** What says that the file is still the same. */
  readonly #tag: string | null;
  /** The windows that were used last, by their numbers, the last one at the end. */
  readonly #windows = new Map<number, Promise<Uint8Array>>();

  private constructor(op: string, place: string, signal: AbortSignal | undefined, length: number, tag: string | null) {
    this.#op = op;
    this.#place = place;
    this.#signal = signal;
    this.length = length;
    this.#tag = tag;
  }

  /** Asks for the beginning. A server that does not know of ranges sends all of it, which is taken as it comes. */
  static async open(
    op: string,
    place: string,
    signal: AbortSignal | undefined,
    tell: (done: number, total: number) => void,
  ): Promise<File> {
    const response = await asked(op, place, 0, WINDOW, signal);
    const [, length] = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "") ?? [];
    if (response.status !== 206 || length === undefined) return responseFile(op, response, tell);
    const file = new RemoteFile(op, place, signal, Number(length), response.headers.get("etag"));
    file.#windows.set(0, file.#received(response, 0, Math.min(WINDOW, file.length)));
    return file;
  }

  async read(start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start);
    for (let at = start; at < end; ) {
      const window = Math.floor(at / WINDOW);
      const first = window * WINDOW;
      const part = (await this.#window(window)).subarray(at - first, Math.min(end - first, WINDOW));
      bytes.set(part, at - start);
      at += part.length;
    }
    return bytes;
  }

  #window(number: number): Promise<Uint8Array> {
    const there = this.#windows.get(number);
    if (there) {
      this.#windows.delete(number);
      this.#windows.set(number, there);
      return there;
    }
    const [start, end] = [number * WINDOW, Math.min((number + 1) * WINDOW, this.length)];
    const window = this.#received(undefined, start, end);
    window.catch(() => this.#windows.delete(number));
    this.#windows.set(number, window);
    const [oldest] = this.#windows.keys();
    if (this.#windows.size > KEPT) this.#windows.delete(oldest!);
    return window;
  }

  /** The bytes of a range. What broke off is asked for again from where it did. */
  async #received(first: Response | undefined, start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start);
    let [at, failed] = [0, 0];
    for (let response = first; at < bytes.length; response = undefined) {
      try {
        response ??= await asked(this.#op, this.#place, start + at, end, this.#signal);
        const tag = response.headers.get("etag");
        if (response.status !== 206 || tag !== this.#tag) {
          throw dataError(`${this.#op}: ${this.#place} must stay the same, got another file`);
        }
        const reader = response.body!.getReader();
        for (let part; !(part = await reader.read()).done; ) {
          bytes.set(part.value.subarray(0, bytes.length - at), at);
          at = Math.min(at + part.value.length, bytes.length);
          failed = 0;
        }
        if (at < bytes.length) throw new TypeError("the connection ended early");
      } catch (error) {
        await again(error, ++failed, this.#op, this.#place, this.#signal);
      }
    }
    return bytes;
  }
}

/** Waits before what failed is tried again, unless it has failed too often, or for another reason than the connection. */
async function again(error: unknown, failed: number, op: string, place: string, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  if (!(error instanceof TypeError)) throw error;
  if (failed >= TRIES) throw dataError(`${op}: ${place} must be readable, got: ${error.message}`);
  await new Promise((resolve) => setTimeout(resolve, PAUSE * 2 ** failed));
}

/** Asks a server for a range. */
async function asked(op: string, place: string, start: number, end: number, signal?: AbortSignal): Promise<Response> {
  for (let failed = 1; ; failed++) {
    try {
      const response = await fetch(place, { headers: { range: `bytes=${start}-${end - 1}` }, signal: signal ?? null });
      if (response.ok) return response;
      if (response.status < 500 || failed >= TRIES) {
        throw dataError(`${op}: ${place} must load, got ${response.status} ${response.statusText}`.trim());
      }
    } catch (error) {
      await again(error, failed, op, place, signal);
    }
  }
}

/** Node's files, where there are any. Not imported: bundlers for pages would look for them. */
interface NodeFiles {
  open(place: string | URL): Promise<{
    stat(): Promise<{ size: number }>;
    read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
    close(): Promise<void>;
  }>;
}

const nodeFiles = () =>
  (globalThis as { process?: { getBuiltinModule?(name: string): unknown } }).process?.getBuiltinModule?.(
    "node:fs/promises",
  ) as NodeFiles | undefined;

async function pathFile(op: string, place: string | URL, files: NodeFiles): Promise<File> {
  const failed = (cause: unknown) => dataError(`${op}: ${place} must be readable, got ${String(cause)}`);
  const file = await files.open(place).catch((cause: unknown) => {
    throw failed(cause);
  });
  const { size } = await file.stat();
  const read = async (start: number, end: number) => {
    const bytes = new Uint8Array(end - start);
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at).catch((cause: unknown) => {
        throw failed(cause);
      });
      if (bytesRead === 0) throw dataError(`${op}: ${place} must have its ${size} bytes, got ${start + at}`);
      at += bytesRead;
    }
    return bytes;
  };
  return { length: size, read, close: () => file.close() };
}

/** The files of a model, for the core. */
export class Reader {
  readonly #files: File[] = [];
  readonly #tell: (bytes: Progress) => void;
  readonly #signal: AbortSignal | undefined;
  #done = 0;
  /** Whether the progress is that of a download, after which reading takes no time. */
  #isReceived = false;

  private constructor(tell: (bytes: Progress) => void, signal: AbortSignal | undefined) {
    this.#tell = tell;
    this.#signal = signal;
  }

  /** Opens the parts of a model. */
  static async open(
    op: string,
    sources: readonly unknown[],
    tell: (bytes: Progress) => void,
    signal: AbortSignal | undefined,
  ): Promise<Reader> {
    const reader = new Reader(tell, signal);
    try {
      for (const source of sources) reader.#files.push(await reader.#opened(op, source));
      return reader;
    } catch (error) {
      await reader.close();
      throw error;
    }
  }

  async #opened(op: string, source: unknown): Promise<File> {
    const received = (done: number, total: number) => {
      this.#signal?.throwIfAborted();
      this.#isReceived = true;
      this.#tell({ done, total });
    };
    const what = kind(source);
    if (what === "Response") return responseFile(op, source as Response, received);
    if (what === "Blob" || what === "File") return blobFile(source as Blob);
    if (what === "FileSystemFileHandle") return blobFile(await (source as FileSystemFileHandle).getFile());
    if (isGivenAway(source)) throw dataError(`${op}: the bytes must be here, got ones transferred to another thread`);
    if (what === "ArrayBuffer") return bytesFile(new Uint8Array(source as ArrayBuffer));
    if (ArrayBuffer.isView(source)) {
      return bytesFile(new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength));
    }
    if (typeof source !== "string" && what !== "URL") {
      throw refused(op, "the source", "a Blob, a Response, bytes, an address or a path", source);
    }
    const place = String(source);
    const files = nodeFiles();
    if (files && !/^(https?|blob|data):/i.test(place)) {
      return pathFile(op, /^file:/i.test(place) ? new URL(place) : place, files);
    }
    return RemoteFile.open(op, place, this.#signal, received);
  }

  /** How many files there are. */
  get count(): number {
    return this.#files.length;
  }

  async length(part: number): Promise<number> {
    return this.#files[part]!.length;
  }

  async read(part: number, start: number, end: number): Promise<Uint8Array> {
    this.#signal?.throwIfAborted();
    const bytes = await this.#files[part]!.read(start, end);
    this.#signal?.throwIfAborted();
    const total = this.#files.reduce((sum, { length }) => sum + length, 0);
    this.#done = Math.min(this.#done + bytes.length, total);
    if (!this.#isReceived) this.#tell({ done: this.#done, total });
    return bytes;
  }

  async close(): Promise<void> {
    for (const file of this.#files.splice(0)) await file.close?.();
  }
}
