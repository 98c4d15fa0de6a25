// The files of language models. The core reads the ranges that it needs from any source. A file whose hash is checked, or that
// is kept in the browser, is first read from start to end.

import { isGivenAway } from "./data.js";
import { argumentError, formatError } from "./errors.js";
import { refused } from "./host.js";
import { KeptFile, webAddress, withLock } from "./kept.js";

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

/** Reports the received bytes and the total. Both are equal while the total is unknown. */
type Report = (done: number, total: number) => void;

/** A file that ranges are read from. */
interface File {
  readonly length: number;
  read(start: number, end: number): Promise<Uint8Array>;
  close?(): Promise<void>;
}

/** A file on a server. */
interface Received {
  readonly file: File;
  /** The version of the file: its ETag or date, or null if the server sends neither. */
  readonly tag: string | null;
}

/** A file that a model is loaded from. */
interface Opened {
  file: File;
  /** The name in errors. */
  readonly name: string;
  /** Whether all its bytes are already counted in the progress. */
  isCounted: boolean;
  /** The URL and version of a file that will be kept in the browser. */
  readonly remote?: { readonly url: string; readonly tag: string | null };
  /** The stored file, if it is kept already. */
  readonly kept?: KeptFile;
}

/**
 * The bytes of a range request, and the number of these windows in the cache. Files may store layer 10 before layer 2, so bytes
 * in between are often read later.
 */
const [WINDOW, KEPT] = [1 << 22, 16];

/** The number of attempts after a broken connection, and the milliseconds before the first retry. The pause doubles. */
const [TRIES, PAUSE] = [4, 250];

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

const unreadable = (op: string, name: string, cause: unknown) =>
  formatError(`${op}: ${name} must be readable, got: ${(cause as Error).message || String(cause)}`);

function blobFile(op: string, name: string, blob: Blob): File {
  const read = async (start: number, end: number) => {
    try {
      return new Uint8Array(await blob.slice(start, end).arrayBuffer());
    } catch (cause) {
      throw unreadable(op, name, cause);
    }
  };
  return { length: blob.size, read };
}

function bytesFile(bytes: Uint8Array): File {
  return { length: bytes.length, read: async (start, end) => bytes.subarray(start, end) };
}

/** Builds a blob from pieces. The browser may store blobs on disk. */
class BlobMaker {
  #blob = new Blob();
  #parts: BlobPart[] = [];

  add(part: Uint8Array): void {
    this.#parts.push(part as Uint8Array<ArrayBuffer>);
    if (this.#parts.length < 256) return;
    this.#blob = this.blob;
    this.#parts = [];
  }

  get blob(): Blob {
    return new Blob([this.#blob, ...this.#parts]);
  }
}

/** Reads all of a response in pieces. Closes its connection at the end and after an error. */
async function* bodyOf(op: string, name: string, response: Response, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  const cancel = () => void reader?.cancel().catch(() => {});
  signal?.addEventListener("abort", cancel);
  try {
    for (let part; reader && !(part = await reader.read()).done; ) yield part.value;
    signal?.throwIfAborted();
  } catch (cause) {
    signal?.throwIfAborted();
    throw cause instanceof TypeError ? unreadable(op, name, cause) : cause;
  } finally {
    signal?.removeEventListener("abort", cancel);
    cancel();
  }
}

/** Receives all of a response. */
async function responseFile(op: string, response: Response, report: Report, signal?: AbortSignal): Promise<File> {
  const address = response.url || "the response";
  if (!response.ok) throw formatError(`${op}: ${address} must load, got ${response.status} ${response.statusText}`.trim());
  if (response.bodyUsed || response.body?.locked) {
    throw argumentError(`${op}: ${address} must be unread, got one that was read`);
  }
  const total = Number(response.headers.get("content-length") ?? 0);
  const maker = new BlobMaker();
  let done = 0;
  for await (const part of bodyOf(op, address, response, signal)) {
    maker.add(part);
    report((done += part.length), Math.max(total, done));
  }
  return blobFile(op, address, maker.blob);
}

const tagOf = ({ headers }: Response) => headers.get("etag") ?? headers.get("last-modified");

/** A file on a server, read by range requests. */
class RemoteFile implements File {
  readonly #op: string;
  readonly #address: string;
  readonly #stop = new AbortController();
  readonly #unlink: () => void;
  readonly length: number;
  readonly tag: string | null;
  /** The windows in the cache by their numbers, the most recently used last. */
  readonly #windows = new Map<number, Promise<Uint8Array>>();

  private constructor(op: string, address: string, signal: AbortSignal | undefined, first: Response, length: number) {
    [this.#op, this.#address, this.length, this.tag] = [op, address, length, tagOf(first)];
    const stop = () => this.#stop.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    this.#unlink = () => signal?.removeEventListener("abort", stop);
    this.#remember(0, this.#received(first, 0, Math.min(WINDOW, length)));
  }

  /** Requests the beginning. A server without range support sends the whole file, which is then received. */
  static async open(op: string, address: string, signal: AbortSignal | undefined, report: Report): Promise<Received> {
    let response = await asked(op, address, `bytes=0-${WINDOW - 1}`, signal);
    const [, length] = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "") ?? [];
    if (response.status === 206 && length !== undefined) {
      const file = new RemoteFile(op, address, signal, response, Number(length));
      return { file, tag: file.tag };
    }
    if (response.status === 206) {
      // A server of another origin may not expose the length to the page.
      await response.body?.cancel();
      response = await asked(op, address, undefined, signal);
    }
    return { file: await responseFile(op, response, report, signal), tag: tagOf(response) };
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

  /** Aborts requests in progress. */
  async close(): Promise<void> {
    this.#unlink();
    this.#stop.abort();
  }

  #window(number: number): Promise<Uint8Array> {
    const there = this.#windows.get(number);
    if (there) {
      this.#windows.delete(number);
      this.#windows.set(number, there);
      return there;
    }
    const [start, end] = [number * WINDOW, Math.min((number + 1) * WINDOW, this.length)];
    return this.#remember(number, this.#received(undefined, start, end));
  }

  #remember(number: number, window: Promise<Uint8Array>): Promise<Uint8Array> {
    window.catch(() => this.#windows.delete(number));
    this.#windows.set(number, window);
    const [oldest] = this.#windows.keys();
    if (this.#windows.size > KEPT) this.#windows.delete(oldest!);
    return window;
  }

  /** Receives the bytes of a range. After a broken connection, the rest of the range is requested. */
  async #received(first: Response | undefined, start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start);
    const { signal } = this.#stop;
    let [at, failed] = [0, 0];
    for (let response = first; at < bytes.length; response = undefined) {
      try {
        response ??= await asked(this.#op, this.#address, `bytes=${start + at}-${end - 1}`, signal);
        if (response.status !== 206 || tagOf(response) !== this.tag) {
          throw formatError(`${this.#op}: ${this.#address} must stay the same, got another file`);
        }
        // A page may not see the header of a server of another origin.
        const range = response.headers.get("content-range");
        const sent = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(range ?? "");
        if (range !== null && (!sent || Number(sent[1]) !== start + at || ![String(this.length), "*"].includes(sent[2]!))) {
          const wanted = `bytes ${start + at}-${end - 1}/${this.length}`;
          throw formatError(`${this.#op}: ${this.#address} must send ${wanted}, got ${range}`);
        }
        const reader = response.body!.getReader();
        for (let part; !(part = await reader.read()).done; ) {
          bytes.set(part.value.subarray(0, bytes.length - at), at);
          at = Math.min(at + part.value.length, bytes.length);
          failed = 0;
        }
        if (at < bytes.length) throw new TypeError("the connection ended early");
      } catch (error) {
        await again(error, ++failed, this.#op, this.#address, signal);
      }
    }
    return bytes;
  }
}

/** Waits before a retry. Throws if there were too many failures, or if the connection was not the reason. */
async function again(error: unknown, failed: number, op: string, address: string, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  if (!(error instanceof TypeError)) throw error;
  if (failed >= TRIES) throw unreadable(op, address, error);
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, PAUSE * 2 ** failed);
    signal?.addEventListener("abort", end);
  });
}

/** Requests a range, or the whole file, from a server. */
async function asked(op: string, address: string, range: string | undefined, signal?: AbortSignal): Promise<Response> {
  for (let failed = 1; ; failed++) {
    try {
      const response = await fetch(address, { headers: range === undefined ? {} : { range }, signal: signal ?? null });
      if (response.ok) return response;
      if (response.status < 500 || failed >= TRIES) {
        throw formatError(`${op}: ${address} must load, got ${response.status} ${response.statusText}`.trim());
      }
    } catch (error) {
      await again(error, failed, op, address, signal);
    }
  }
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

  /** Opens the parts of a model. */
  static async open(sources: readonly unknown[], how: Opening): Promise<Reader> {
    const reader = new Reader(how);
    try {
      for (const [part, source] of sources.entries()) {
        reader.#files.push(await reader.#opened(source, sources.length > 1 ? `part ${part + 1}` : "the file"));
      }
      if (how.isWhole) await reader.#prepare();
      return reader;
    } catch (error) {
      await reader.close();
      throw error;
    }
  }

  async #opened(source: unknown, name: string): Promise<Opened> {
    const { op, keep, signal } = this.#how;
    const what = kind(source);
    if (typeof source === "string" || what === "URL") return this.#openedAddress(String(source));
    if (keep) throw refused(op, "the source", "an address, because keep is set", source);
    const opened = (file: File, name: string) => ({ file, name, isCounted: false });
    if (what === "Response") {
      return this.#openedResponse(name, (report) => responseFile(op, source as Response, report, signal));
    }
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
  async #openedAddress(name: string): Promise<Opened> {
    const { op, keep, signal } = this.#how;
    const url = keep ? webAddress(name) : undefined;
    if (keep && !url) throw refused(op, "the source", "an address of http or https, because keep is set", name);
    const kept = url ? await KeptFile.find(op, url) : undefined;
    if (kept?.isWhole) return { file: blobFile(op, name, kept.blob), name, isCounted: false, kept };
    const files = nodeFiles();
    if (files && !/^(https?|blob|data):/i.test(name)) {
      return { file: await pathFile(op, /^file:/i.test(name) ? new URL(name) : name, files), name, isCounted: false };
    }
    let tag: string | null = null;
    const opened = await this.#openedResponse(name, async (report) => {
      const received = await RemoteFile.open(op, name, signal, report);
      tag = received.tag;
      return received.file;
    });
    return url ? { ...opened, remote: { url, tag } } : opened;
  }

  /** Opens a file that may be received as a whole, which then counts as progress. */
  async #openedResponse(name: string, open: (report: Report) => Promise<File>): Promise<Opened> {
    const before = this.#done;
    const file = await open((done, total) => {
      this.#how.signal?.throwIfAborted();
      this.#done = before + done;
      this.#report(this.#total + total);
    });
    return { file, name, isCounted: !(file instanceof RemoteFile) };
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
    for (const { file } of this.#files.splice(0)) await file.close?.();
  }
}
