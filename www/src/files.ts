// Files: weights as safetensors, and arrays in NumPy's `.npy` and `.npz` format.

import type { Device, Tensor } from "./classes.js";
import { isGivenAway } from "./data.js";
import { argumentError, formatError } from "./errors.js";
import { checked, refused } from "./host.js";
import { entries, record, type Named } from "./named.js";
import type { PlatformBlob, PlatformResponse } from "./platform.js";

/** The source of a file's bytes. */
export type FileSource = PlatformBlob | PlatformResponse | ArrayBuffer | ArrayBufferView;

/** The options of reading a file. */
export interface FileOptions {
  /** Called with the number of received bytes of a response. `total` is undefined if the server did not send it. */
  onProgress?: (bytes: { done: number; total: number | undefined }) => void;
}

/** A file of weights. */
export interface Safetensors {
  tensors: Record<string, Tensor>;
  /** The metadata that the writer of the file added. */
  metadata: Record<string, string>;
  /** Tensors that were not loaded because no tensor type holds their elements, such as `F8_E4M3`. */
  skipped: Record<string, Skipped>;
}

/** A tensor of a file that was not loaded. */
export interface Skipped {
  /** The type in the file, such as `F8_E4M3`. */
  dtype: string;
  /** The shape in the file. */
  shape: number[];
  /** The offset of the first byte in the file. `blob.slice(start, end)` gives the tensor's bytes. */
  start: number;
  /** The offset after the last byte. */
  end: number;
}

/** Internal methods of a device for files. */
export interface Files {
  fromSafetensors(bytes: Uint8Array): { tensors: Named<Tensor>; metadata: Named<string>; skipped: Named<Skipped> };
  toSafetensors(names: string[], values: unknown[], notes: string[], texts: unknown[]): Promise<Uint8Array>;
  fromNpy(bytes: Uint8Array): Tensor;
  fromNpz(bytes: Uint8Array): Named<Tensor>;
  toNpz(names: string[], values: unknown[], compressed: boolean): Promise<Uint8Array>;
}

const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

/** Receives the bytes of a response, and reports the progress. */
async function received(op: string, response: Response, report: NonNullable<FileOptions["onProgress"]>): Promise<Uint8Array> {
  const address = response.url || "the response";
  if (!response.ok) throw formatError(`${op}: ${address} must load, got ${response.status} ${response.statusText}`.trim());
  if (response.bodyUsed || response.body?.locked) {
    throw argumentError(`${op}: ${address} must be unread, got one that was read`);
  }
  const length = response.headers.get("content-length");
  // A decoded body has another length.
  const total = length !== null && !response.headers.has("content-encoding") ? Number(length) : undefined;
  const reader = response.body?.getReader();
  const parts: Uint8Array[] = [];
  let done = 0;
  try {
    for (let part; reader && !(part = await reader.read()).done; ) {
      parts.push(part.value);
      report({ done: (done += part.value.length), total });
    }
  } catch (error) {
    // Stops the download. An error of that is ignored, because it is not the cause.
    reader?.cancel(error).catch(() => {});
    throw error;
  }
  const bytes = new Uint8Array(done);
  parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
  return bytes;
}

/** Returns the bytes of a file. */
export async function bytesOf(op: string, source: unknown, options?: FileOptions): Promise<Uint8Array> {
  const { onProgress = () => {} } = checked(op, options, ["onProgress"]);
  if (typeof onProgress !== "function") throw refused(op, "onProgress", "a function", onProgress);
  if (kind(source) === "Response") return received(op, source as Response, onProgress);
  if (kind(source) === "Blob" || kind(source) === "File") return new Uint8Array(await (source as Blob).arrayBuffer());
  if (isGivenAway(source)) throw argumentError(`${op}: the buffer must not be detached, got one that was transferred`);
  if (kind(source) === "ArrayBuffer") return new Uint8Array(source as ArrayBuffer);
  if (!ArrayBuffer.isView(source)) throw refused(op, "the source", "a Blob, a Response or bytes", source);
  return new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength);
}

export async function loadSafetensors(device: Device & Files, source: unknown, options?: FileOptions): Promise<Safetensors> {
  const file = device.fromSafetensors(await bytesOf("loadSafetensors", source, options));
  return { tensors: record(file.tensors), metadata: record(file.metadata), skipped: record(file.skipped) };
}

export function saveSafetensors(device: Files, tensors: unknown, metadata: unknown = {}): Promise<Uint8Array> {
  return device.toSafetensors(...entries("saveSafetensors", tensors), ...entries("saveSafetensors", metadata));
}

export async function loadNpz(device: Device & Files, source: unknown): Promise<Record<string, Tensor>> {
  return record(device.fromNpz(await bytesOf("loadNpz", source)));
}
