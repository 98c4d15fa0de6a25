// The files of language models. The core reads the ranges that it needs from any source. A file whose hash is checked, or that
// is kept in the browser, is first read from start to end.

import { isGivenAway } from "./data.js";
import { argumentError, formatError } from "./errors.js";
import { refused } from "./host.js";
import { KeptFile, webAddress, withLock } from "./kept.js";
import {
  announced,
  asked,
  blobFile,
  BlobMaker,
  needFile,
  RemoteFile,
  responseFile,
  unreadable,
  WINDOW,
  type File,
} from "./remote-file.js";

/** The number of bytes read, the total, and the estimated seconds that remain. */
export interface Progress {
  done: number;
  total: number;
  seconds: number | undefined;
}

/** An incremental SHA-256 hash: a class of the core. */
export interface Hasher {
  update(bytes: Uint8Array): void;
  /** Returns the hash in lower-case hexadecimal digits. */
  finish(): string;
  free(): void;
}

/** The options of opening files. */
export interface Opening {
  /** The operation that errors name. */
  op: string;
  onProgress: (progress: Progress) => void;
  signal: AbortSignal | undefined;
  /** Whether files of URLs are kept in the browser. */
  keep: boolean;
  /** Whether whole files are needed, not only their beginnings. */
  isWhole: boolean;
  /** The SHA-256 that each file must have, if they are checked. */
  check?: { readonly hashes: readonly string[]; hasher(): Hasher } | undefined;
}

/** A file that a model is loaded from. */
interface Opened {
  file: File;
  /** The name in errors. */
  readonly name: string;
  /** Whether all its bytes are already counted in the progress. */
  isCounted: boolean;
  /** The response with the file, or a function that requests it, until the file is received. */
  waiting?: Response | (() => Promise<Response>) | undefined;
  /** The URL and version of a file that will be kept in the browser. */
  readonly remote?: { readonly url: string; readonly tag: string | null };
  /** The stored file, if it is kept already. */
  readonly kept?: KeptFile;
}

/** Checks that a signal is an abort signal. */
export function checkSignal(op: string, signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  if (typeof Object(signal).throwIfAborted !== "function") throw refused(op, "signal", "an AbortSignal", signal);
  return signal as AbortSignal;
}

const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

/** Whether a source can be opened again. Bytes could be, but the model would have to keep them in memory. */
export const canReopen = (source: unknown) =>
  typeof source === "string" || ["URL", "Blob", "File", "FileSystemFileHandle"].includes(kind(source));

function bytesFile(bytes: Uint8Array): File {
  return { length: bytes.length, read: async (start, end) => bytes.subarray(start, end) };
}

/** Node's file functions, if available. They are not imported, because bundlers for browsers would try to resolve them. */
interface NodeFiles {
  access(path: string | URL): Promise<void>;
  stat(path: string | URL): Promise<{ isDirectory(): boolean }>;
  open(path: string | URL): Promise<{
    stat(): Promise<{ size: number }>;
    read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
    close(): Promise<void>;
  }>;
}

export const nodeFiles = () =>
  (globalThis as { process?: { getBuiltinModule?(name: string): unknown } }).process?.getBuiltinModule?.(
    "node:fs/promises",
  ) as NodeFiles | undefined;

async function pathFile(op: string, path: string | URL, files: NodeFiles): Promise<File> {
  const failed = (cause: unknown) => unreadable(op, String(path), cause);
  const file = await files.open(path).catch((cause: unknown) => {
    throw failed(cause);
  });
  const { size } = await file.stat();
  const read = async (start: number, end: number) => {
    const bytes = new Uint8Array(end - start);
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at).catch((cause: unknown) => {
        throw failed(cause);
      });
      if (bytesRead === 0) throw formatError(`${op}: ${path} must have its ${size} bytes, got ${start + at}`);
      at += bytesRead;
    }
    return bytes;
  };
  return { length: size, read, close: () => file.close() };
}

/** Reads a file from a byte to its end, in pieces of a window. The next piece is read ahead. */
async function* pieces(file: File, start = 0): AsyncGenerator<Uint8Array> {
  const read = (at: number) => {
    const piece = at < file.length ? file.read(at, Math.min(at + WINDOW, file.length)) : undefined;
    piece?.catch(() => {}); // The piece is awaited below, unless the reader stops earlier.
    return piece;
  };
  for (let [at, next] = [start, read(start)]; next; ) {
    const piece = await next;
    next = read((at += piece.length));
    yield piece;
  }
}

/** The milliseconds between samples of the rate, and the time constant of the moving average. */
const [SAMPLE, MEMORY] = [500, 5000];

/** The pace of a download: a moving average of its rate. */
class Pace {
  #sampled: { time: number; done: number } | undefined;
  /** The rate in bytes per millisecond. */
  #rate: number | undefined;

  /** Returns the estimated seconds that remain, once they can be estimated. */
  seconds(done: number, total: number): number | undefined {
    const time = performance.now();
    this.#sampled ??= { time, done };
    const passed = time - this.#sampled.time;
    if (passed >= SAMPLE) {
      const rate = (done - this.#sampled.done) / passed;
      this.#rate ??= rate;
      this.#rate += (1 - Math.exp(-passed / MEMORY)) * (rate - this.#rate);
      this.#sampled = { time, done };
    }
    return done < total && this.#rate ? (total - done) / this.#rate / 1000 : undefined;
  }
}

/** The files of a model, as the core reads them. */
export class Reader {
  readonly #how: Opening;
  readonly #files: Opened[] = [];
  #pace = new Pace();
  /** The number of bytes received or read. A file that was received as a whole does not count again when it is read. */
  #done = 0;

  private constructor(how: Opening) {
    this.#how = how;
  }

  /**
   * Opens the parts of a model, or the files in a folder, which have names. All are opened before any is received, so that the
   * total is known when progress is reported first.
   */
  static async open(sources: readonly unknown[], how: Opening, names?: readonly string[]): Promise<Reader> {
    const reader = new Reader(how);
    try {
      for (const [part, source] of sources.entries()) {
        const name = names?.[part] ?? (sources.length > 1 ? `part ${part + 1}` : "the file");
        reader.#files.push(await reader.#opened(source, name, part === sources.length - 1));
      }
      await reader.#receive();
      if (how.isWhole) await reader.#prepare();
      return reader;
    } catch (error) {
      await reader.close();
      throw error;
    }
  }

  async #opened(source: unknown, name: string, isLast: boolean): Promise<Opened> {
    const { op, keep } = this.#how;
    const what = kind(source);
    if (typeof source === "string" || what === "URL") return this.#openedAddress(String(source), isLast);
    if (keep) throw refused(op, "the source", "an address, because keep is set", source);
    const opened = (file: File, name: string) => ({ file, name, isCounted: false });
    if (what === "Response") return this.#openedResponse(name, source as Response);
    if (what === "Blob") return opened(blobFile(op, name, source as Blob), name);
    if (what === "File" || what === "FileSystemFileHandle") {
      const file = what === "File" ? (source as globalThis.File) : await (source as FileSystemFileHandle).getFile();
      return opened(blobFile(op, file.name, file), file.name);
    }
    if (isGivenAway(source)) throw argumentError(`${op}: the buffer must not be detached, got one that was transferred`);
    if (what === "ArrayBuffer") return opened(bytesFile(new Uint8Array(source as ArrayBuffer)), name);
    if (ArrayBuffer.isView(source)) {
      return opened(bytesFile(new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength)), name);
    }
    throw refused(op, "the source", "a Blob, a Response, bytes, an address or a path", source);
  }

  /** Opens a URL or a path. */
  async #openedAddress(name: string, isLast: boolean): Promise<Opened> {
    const { op, keep, signal } = this.#how;
    const url = keep ? webAddress(name) : undefined;
    if (keep && !url) throw refused(op, "the source", "an address of http or https, because keep is set", name);
    const kept = url ? await KeptFile.find(op, url) : undefined;
    if (kept?.isWhole) return { file: blobFile(op, name, kept.blob), name, isCounted: false, kept };
    const files = nodeFiles();
    if (files && !/^(https?|blob|data):/i.test(name)) {
      return { file: await pathFile(op, /^file:/i.test(name) ? new URL(name) : name, files), name, isCounted: false };
    }
    const { file, response, tag } = await RemoteFile.open(op, name, signal);
    let opened: Opened;
    if (file) opened = { file, name, isCounted: false };
    else {
      opened = this.#openedResponse(name, response);
      // Browsers open few connections to a server, so one response at most may wait for the other files.
      if (!isLast && opened.waiting) {
        await response.body?.cancel();
        opened.waiting = () => asked(op, name, undefined, signal);
      }
    }
    return url ? { ...opened, remote: { url, tag } } : opened;
  }

  /** Opens a response, which is received later. */
  #openedResponse(name: string, response: Response): Opened {
    needFile(this.#how.op, name, response);
    const read = () => Promise.reject(new Error("not received yet"));
    return { file: { length: announced(response) ?? 0, read }, name, isCounted: false, waiting: response };
  }

  /** Receives the files of responses. Open connections come first, because servers close idle ones. */
  async #receive(): Promise<void> {
    const { op, signal } = this.#how;
    const isOpen = ({ waiting }: Opened) => waiting !== undefined && typeof waiting !== "function";
    const later = this.#files.filter(({ waiting }) => typeof waiting === "function");
    for (const opened of [...this.#files.filter(isOpen), ...later]) {
      const { waiting, name, file } = opened;
      const response = typeof waiting === "function" ? await waiting() : waiting!;
      opened.waiting = undefined;
      const [before, rest] = [this.#done, this.#total - file.length];
      const report = (done: number) => {
        signal?.throwIfAborted();
        this.#done = before + done;
        this.#report(rest + Math.max(file.length, done));
      };
      opened.file = await responseFile(op, name, response, report, signal);
      opened.isCounted = true;
    }
  }

  get #total(): number {
    return this.#files.reduce((sum, { file: { length } }) => sum + length, 0);
  }

  #report(total = this.#total): void {
    const done = Math.min(this.#done, total);
    this.#how.onProgress({ done, total, seconds: this.#pace.seconds(done, total) });
  }

  /** Counts bytes, and reports the progress. */
  #count(bytes: number): void {
    this.#done += bytes;
    this.#report();
  }

  /** Counts bytes that are already stored. They are excluded from the pace. */
  #skip(bytes: number): void {
    this.#done += bytes;
    this.#pace = new Pace();
  }

  /** Downloads the files that are kept or checked, and checks their hashes. */
  async #prepare(): Promise<void> {
    const { keep, check, signal } = this.#how;
    if (!keep && !check) return;
    for (const [part, opened] of this.#files.entries()) {
      const { remote, file } = opened;
      const hash = check?.hashes[part];
      if (remote) await withLock(remote.url, signal, () => this.#keep(opened, remote, hash));
      else if (file instanceof RemoteFile) await this.#collect(opened, hash);
      else if (hash !== undefined) await this.#check(opened, hash);
    }
  }

  /** Checks the hash of a file that is already available. */
  async #check(opened: Opened, hash: string): Promise<void> {
    if (!opened.isCounted) this.#skip(opened.file.length);
    opened.isCounted = true;
    await this.#hashed(opened.name, hash, opened.kept, (digest) => this.#each(opened.file, 0, async (piece) => {
      digest!.update(piece);
    }));
  }

  /**
   * Downloads a file into the browser's storage. The stored part of an interrupted download is kept, and the next load
   * continues it.
   */
  async #keep({ file, name, isCounted }: Opened, remote: { url: string; tag: string | null }, hash?: string): Promise<void> {
    const { op } = this.#how;
    const kept = await KeptFile.continue(op, { ...remote, total: file.length });
    await kept.checkRoom();
    await this.#hashed(name, hash, kept, async (digest) => {
      if (digest) await this.#each(blobFile(op, name, kept.blob), 0, async (piece) => digest.update(piece));
      if (!isCounted) this.#skip(kept.length);
      try {
        await this.#each(file, kept.length, async (piece) => {
          await kept.write(piece);
          digest?.update(piece);
          if (!isCounted) this.#count(piece.length);
        });
      } catch (error) {
        await kept.abandon();
        throw error;
      }
      await kept.close();
    });
    await this.#replace(file, kept.blob);
  }

  /** Downloads a file into a blob, so that the model uses exactly the bytes that were checked. */
  async #collect({ file, name }: Opened, hash?: string): Promise<void> {
    const maker = new BlobMaker();
    await this.#hashed(name, hash, undefined, (digest) => this.#each(file, 0, async (piece) => {
      maker.add(piece);
      digest?.update(piece);
      this.#count(piece.length);
    }));
    await this.#replace(file, maker.blob);
  }

  /** Replaces a downloaded file by a blob. */
  async #replace(file: File, blob: Blob): Promise<void> {
    const opened = this.#files.find((opened) => opened.file === file)!;
    opened.file = blobFile(this.#how.op, opened.name, blob);
    opened.isCounted = true;
    await file.close?.();
  }

  /** Runs `work`, which reads all of a file, and checks its hash if there is one. A kept file with another hash is deleted. */
  async #hashed(
    name: string,
    hash: string | undefined,
    kept: KeptFile | undefined,
    work: (digest: Hasher | undefined) => Promise<void>,
  ): Promise<void> {
    if (hash === undefined) return work(undefined);
    const digest = this.#how.check!.hasher();
    try {
      await work(digest);
      const found = digest.finish();
      if (found === hash) return;
      await kept?.delete();
      throw formatError(`${this.#how.op}: ${name} must have the SHA-256 ${hash}, got ${found}`);
    } finally {
      digest.free();
    }
  }

  /** Reads a file from a byte to its end. */
  async #each(file: File, start: number, take: (piece: Uint8Array) => Promise<void>): Promise<void> {
    for await (const piece of pieces(file, start)) {
      this.#how.signal?.throwIfAborted();
      await take(piece);
    }
  }

  /** The number of files. */
  get count(): number {
    return this.#files.length;
  }

  async length(part: number): Promise<number> {
    return this.#files[part]!.file.length;
  }

  async read(part: number, start: number, end: number): Promise<Uint8Array> {
    const { signal } = this.#how;
    signal?.throwIfAborted();
    const { file, isCounted } = this.#files[part]!;
    const bytes = await file.read(start, end);
    signal?.throwIfAborted();
    if (!isCounted) this.#count(bytes.length);
    return bytes;
  }

  async close(): Promise<void> {
    for (const { file, waiting } of this.#files.splice(0)) {
      if (typeof waiting === "object") await waiting.body?.cancel().catch(() => {});
      await file.close?.();
    }
  }
}
