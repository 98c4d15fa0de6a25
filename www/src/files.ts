// Files: weights as safetensors, arrays as NumPy's `.npy` and `.npz`, from wherever their bytes are.

import type { Device, Tensor } from "./classes.js";
import { isGivenAway } from "./data.js";
import { dataError } from "./errors.js";
import { checked, refused } from "./host.js";
import { entries, record, type Named } from "./named.js";
import type { PlatformBlob, PlatformResponse } from "./platform.js";

/** What a file is read from. */
export type FileSource = PlatformBlob | PlatformResponse | ArrayBuffer | ArrayBufferView;

/** How a file is read. */
export interface FileOptions {
  /** Hears how many bytes of a response are there, and of how many where the server said so. */
  onProgress?: (bytes: { done: number; total: number | undefined }) => void;
}

/** A file of weights. */
export interface Safetensors {
  tensors: Record<string, Tensor>;
  /** What the file's writer noted. */
  metadata: Record<string, string>;
  /** The tensors that were not loaded because no tensor here holds elements of their type, such as `F8_E4M3`. */
  skipped: Record<string, Skipped>;
}

/** A tensor of a file that was not loaded. */
export interface Skipped {
  /** The type that the file says, as `F8_E4M3`. */
  dtype: string;
  /** The shape that the file says. */
  shape: number[];
  /** The offset of its first byte in the file: `blob.slice(start, end)` has its bytes. */
  start: number;
  /** The offset behind its last byte. */
  end: number;
}

/** What a device has that is not for users. */
export interface Files {
  fromSafetensors(bytes: Uint8Array): { tensors: Named<Tensor>; metadata: Named<string>; skipped: Named<Skipped> };
  toSafetensors(names: string[], values: unknown[], notes: string[], said: unknown[]): Promise<Uint8Array>;
  fromNpy(bytes: Uint8Array): Tensor;
  fromNpz(bytes: Uint8Array): Named<Tensor>;
  toNpz(names: string[], values: unknown[], compressed: boolean): Promise<Uint8Array>;
}

const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

/** The bytes of a response, told of as they arrive. */
async function received(op: string, response: Response, tell: NonNullable<FileOptions["onProgress"]>): Promise<Uint8Array> {
  const place = response.url || "the response";
  if (!response.ok) throw dataError(`${op}: ${place} must load, got ${response.status} ${response.statusText}`.trim());
  if (response.bodyUsed || response.body?.locked) throw dataError(`${op}: ${place} must be unread, got one that was read`);
  const length = response.headers.get("content-length");
  // What is decoded on the way has another length.
  const total = length !== null && !response.headers.has("content-encoding") ? Number(length) : undefined;
  const reader = response.body?.getReader();
  const parts: Uint8Array[] = [];
  let done = 0;
  for (let part; reader && !(part = await reader.read()).done; ) {
    parts.push(part.value);
    tell({ done: (done += part.value.length), total });
  }
  const bytes = new Uint8Array(done);
  parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
  return bytes;
}

/** The bytes of a file. */
export async function bytesOf(op: string, source: unknown, options?: FileOptions): Promise<Uint8Array> {
  const { onProgress = () => {} } = checked(op, options, ["onProgress"]);
  if (typeof onProgress !== "function") throw refused(op, "onProgress", "a function", onProgress);
  if (kind(source) === "Response") return received(op, source as Response, onProgress);
  if (kind(source) === "Blob" || kind(source) === "File") return new Uint8Array(await (source as Blob).arrayBuffer());
  if (isGivenAway(source)) throw dataError(`${op}: the bytes must be here, got ones transferred to another thread`);
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
