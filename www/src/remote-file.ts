// Files on servers: requests, their retries, and files that are read by range requests.

import { argumentError, formatError } from "./errors.js";

/** A file that ranges are read from. */
export interface File {
  readonly length: number;
  read(start: number, end: number): Promise<Uint8Array>;
  close?(): Promise<void>;
}

/** The answer of a server: a file that is read by range requests, or a response with the whole file. */
export type Answer =
  | { readonly file: RemoteFile; readonly response?: undefined; readonly tag: string | null }
  | { readonly file?: undefined; readonly response: Response; readonly tag: string | null };

/**
 * The bytes of a range request, and the number of these windows in the cache. Files may store layer 10 before layer 2, so bytes
 * in between are often read later.
 */
export const [WINDOW, KEPT] = [1 << 22, 16];

/** The number of attempts after a broken connection, and the milliseconds before the first retry. The pause doubles. */
const [TRIES, PAUSE] = [4, 250];

/** The longest pause before a retry that a server can ask for, in milliseconds. */
const MAX_PAUSE = 30_000;

export const unreadable = (op: string, name: string, cause: unknown) =>
  formatError(`${op}: ${name} must be readable, got: ${(cause as Error).message || String(cause)}`);

export function blobFile(op: string, name: string, blob: Blob): File {
  const read = async (start: number, end: number) => {
    try {
      return new Uint8Array(await blob.slice(start, end).arrayBuffer());
    } catch (cause) {
      throw unreadable(op, name, cause);
    }
  };
  return { length: blob.size, read };
}

/** Builds a blob from pieces. The browser may store blobs on disk. */
export class BlobMaker {
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

const refusal = (op: string, address: string, { status, statusText }: Response, more = "") =>
  formatError(`${op}: ${address} must load, got ${`${status} ${statusText}`.trim()}${more}`);

/** Refuses a response that has no file, or whose file was read already. */
export function needFile(op: string, name: string, response: Response): void {
  const address = response.url || name;
  if (!response.ok) throw refusal(op, address, response);
  if (response.bodyUsed || response.body?.locked) {
    throw argumentError(`${op}: ${address} must be unread, got one that was read`);
  }
}

/** Returns the number of bytes that a server announces, or undefined. A response that is compressed has more bytes. */
export function announced(response: Response): number | undefined {
  const length = Number(response.headers.get("content-length") ?? NaN);
  return Number.isInteger(length) ? length : undefined;
}

/** Receives all of a response. `report` is called with the number of bytes so far. */
export async function responseFile(
  op: string,
  name: string,
  response: Response,
  report: (done: number) => void,
  signal?: AbortSignal,
): Promise<File> {
  needFile(op, name, response);
  const address = response.url || name;
  const maker = new BlobMaker();
  let done = 0;
  for await (const part of bodyOf(op, address, response, signal)) {
    maker.add(part);
    report((done += part.length));
  }
  return blobFile(op, address, maker.blob);
}

const tagOf = ({ headers }: Response) => headers.get("etag") ?? headers.get("last-modified");

/** A file on a server, read by range requests. */
export class RemoteFile implements File {
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

  /** Requests the beginning. A server without range support answers with the whole file. */
  static async open(op: string, address: string, signal: AbortSignal | undefined): Promise<Answer> {
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
    return { response, tag: tagOf(response) };
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

  /**
   * Receives the bytes of a range. If fewer bytes arrive, the rest is requested. There is a pause before that only if no byte
   * arrived.
   */
  async #received(first: Response | undefined, start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start);
    const { signal } = this.#stop;
    let [at, failed] = [0, 0];
    for (let response = first; at < bytes.length; response = undefined) {
      const before = at;
      try {
        response ??= await asked(this.#op, this.#address, `bytes=${start + at}-${end - 1}`, signal);
        this.#needRange(response, start + at, end);
        const reader = response.body!.getReader();
        for (let part; !(part = await reader.read()).done; ) {
          bytes.set(part.value.subarray(0, bytes.length - at), at);
          at = Math.min(at + part.value.length, bytes.length);
        }
        if (at === before) throw new TypeError("the connection ended early");
        failed = 0;
      } catch (error) {
        if (at > before && error instanceof TypeError && !signal.aborted) failed = 0;
        else await again(error, ++failed, this.#op, this.#address, signal);
      }
    }
    return bytes;
  }

  /** Refuses a response with another file or with another range. */
  #needRange(response: Response, start: number, end: number): void {
    if (response.status !== 206 || tagOf(response) !== this.tag) {
      throw formatError(`${this.#op}: ${this.#address} must stay the same, got another file`);
    }
    // A page may not see the header of a server of another origin.
    const range = response.headers.get("content-range");
    const sent = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(range ?? "");
    if (range !== null && (!sent || Number(sent[1]) !== start || ![String(this.length), "*"].includes(sent[2]!))) {
      const wanted = `bytes ${start}-${end - 1}/${this.length}`;
      throw formatError(`${this.#op}: ${this.#address} must send ${wanted}, got ${range}`);
    }
  }
}

/** The milliseconds before a retry after this many failures. */
const pauseAfter = (failed: number) => PAUSE * 2 ** failed;

/** Waits before a retry. Throws if there were too many failures, or if the connection was not the reason. */
async function again(error: unknown, failed: number, op: string, address: string, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  if (!(error instanceof TypeError)) throw error;
  if (failed >= TRIES) throw unreadable(op, address, error);
  await pause(pauseAfter(failed), signal);
}

/** Waits, until a signal is aborted. */
async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
  signal?.throwIfAborted();
}

/**
 * Requests a range, or the whole file, from a server. After a broken connection, or an answer that the server is busy (429) or
 * has failed (5xx), the request is repeated after a pause. Each pause is twice as long as the last one, and at least as long as
 * the server asks for in `Retry-After`, up to {@link MAX_PAUSE}. A response with a status that is not `accepted` is refused.
 */
export async function asked(
  op: string,
  address: string,
  range: string | undefined,
  signal?: AbortSignal,
  accepted: readonly number[] = [],
): Promise<Response> {
  for (let failed = 1; ; failed++) {
    let response: Response;
    try {
      response = await fetch(address, { headers: range === undefined ? {} : { range }, signal: signal ?? null });
    } catch (error) {
      await again(error, failed, op, address, signal);
      continue;
    }
    if (response.ok || accepted.includes(response.status)) return response;
    await response.body?.cancel().catch(() => {});
    if (response.status !== 429 && response.status < 500) throw refusal(op, address, response);
    if (failed >= TRIES) throw refusal(op, address, response, ` in ${failed} attempts`);
    // A date is ignored, because the clocks may differ.
    const wanted = Number(/^\d+$/.exec(response.headers.get("retry-after") ?? "")?.[0] ?? 0) * 1000;
    await pause(Math.max(pauseAfter(failed), Math.min(wanted, MAX_PAUSE)), signal);
  }
}
