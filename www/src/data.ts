// Conversion of JavaScript data to the bytes that devices store, and of results to nested arrays.

import { argumentError, shapeError, WarpweftError } from "./errors.js";
import { look, needShort, refused } from "./host.js";

export type DType = "f32" | "f16" | "i32" | "u32" | "bool" | "i8" | "u8" | "i16" | "u16";
export type NestedArray = readonly (number | boolean | bigint | NestedArray)[];

/** Elements in the format of the upload, with the type they are then cast to and their shape. */
export interface Elements {
  bytes: Uint8Array;
  /** The type of the bytes. `f16` is uploaded as `f32`, and the device rounds it. */
  stored: DType;
  dtype: DType;
  shape: readonly number[];
}

/** The storage array of each type, and its smallest and largest value. */
const types = {
  f32: { Store: Float32Array },
  f16: { Store: Float32Array },
  i32: { Store: Int32Array, low: -(2 ** 31), high: 2 ** 31 - 1 },
  u32: { Store: Uint32Array, low: 0, high: 2 ** 32 - 1 },
  bool: { Store: Uint32Array, low: 0, high: 1 },
  i8: { Store: Int8Array, low: -128, high: 127 },
  u8: { Store: Uint8Array, low: 0, high: 255 },
  i16: { Store: Int16Array, low: -32768, high: 32767 },
  u16: { Store: Uint16Array, low: 0, high: 65535 },
} as const;

/**
 * The default type of each array class. Classes are matched by name, because other realms have separate classes and not every
 * browser has all of them.
 */
const natural: Record<string, DType> = {
  Float16Array: "f16",
  Float32Array: "f32",
  Float64Array: "f32",
  Int8Array: "i32",
  Int16Array: "i32",
  Int32Array: "i32",
  BigInt64Array: "i32",
  Uint8Array: "u32",
  Uint8ClampedArray: "u32",
  Uint16Array: "u32",
  Uint32Array: "u32",
  BigUint64Array: "u32",
};

/** Converts data to the format of the upload. */
export function encode(data: unknown, wantedShape: unknown, wanted: unknown): Elements {
  if (wanted !== undefined && !(typeof wanted === "string" && Object.hasOwn(types, wanted))) {
    throw refused("tensor", "dtype", `one of ${Object.keys(types).join(", ")}`, wanted);
  }
  const { list, own, type } = flat(data, wanted as DType | undefined);
  const dtype = (wanted as DType | undefined) ?? type;
  const stored = dtype === "f16" ? "f32" : dtype;
  const shape = wantedShape === undefined ? own : resolve(wantedShape, list.length);
  return { bytes: store(list, stored), stored, dtype, shape };
}

/** Returns the elements as a flat list, with the shape and the default type of the data. */
function flat(data: unknown, wanted: DType | undefined): { list: ArrayLike<unknown>; own: number[]; type: DType } {
  if (isGivenAway(data)) throw argumentError("tensor: the buffer must not be detached, got one that was transferred");
  if (isBuffer(data)) {
    const list = ofBuffer(data, wanted);
    return { list, own: [list.length], type: wanted! };
  }
  if (ArrayBuffer.isView(data)) {
    const type = natural[name(data)];
    if (type === undefined) throw argumentError(`tensor: the data must be numbers, got ${name(data)}`);
    const list = data as unknown as ArrayLike<unknown>;
    return { list, own: [list.length], type };
  }
  const own = nesting(data);
  const list = own.length === 0 ? [data] : own.length === 1 ? (data as unknown[]) : flatten(data as unknown[], own);
  const first = typeof list[0];
  return { list, own, type: first === "boolean" ? "bool" : first === "bigint" ? "i32" : "f32" };
}

const name = (data: object) => Object.prototype.toString.call(data).slice("[object ".length, -1);

const isBuffer = (data: unknown): data is ArrayBuffer =>
  typeof data === "object" && data !== null && /^(Shared)?ArrayBuffer$/.test(name(data));

/** Whether data is a buffer, or an array in one, that was transferred and is therefore empty. */
export function isGivenAway(data: unknown): boolean {
  const buffer = ArrayBuffer.isView(data) ? data.buffer : data;
  return isBuffer(buffer) && buffer.byteLength === 0 && look(() => new Uint8Array(buffer)) === undefined;
}

/** Returns the elements in a buffer, whose type must be given. */
function ofBuffer(buffer: ArrayBuffer, dtype: DType | undefined): ArrayLike<unknown> {
  if (dtype === undefined) throw argumentError("tensor: dtype must be given for an ArrayBuffer, got none");
  const size = dtype === "f16" ? 2 : dtype === "bool" ? 1 : types[dtype].Store.BYTES_PER_ELEMENT;
  if (buffer.byteLength % size !== 0) {
    throw shapeError(`tensor: the bytes must be a multiple of those of ${dtype}, got ${buffer.byteLength}`);
  }
  if (dtype === "bool") return new Uint8Array(buffer);
  return dtype === "f16" ? Float32Array.from(new Uint16Array(buffer), half) : new types[dtype].Store(buffer);
}

/** Decodes an IEEE 754 half-precision number. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

/** Returns the bytes of the elements in the device's format. */
function store(list: ArrayLike<unknown>, dtype: Exclude<DType, "f16">): Uint8Array {
  const { Store } = types[dtype];
  // The array already has the device's format.
  if (list instanceof Store && dtype !== "bool") return new Uint8Array(list.buffer, list.byteOffset, list.byteLength);
  const words = look(() => new Store(list.length));
  if (!words) throw new WarpweftError("Memory", `tensor: the elements must fit into memory, got ${list.length}`);
  const put = ArrayBuffer.isView(list) && dtype === "f32" && !name(list).startsWith("Big");
  if (put) words.set(list as unknown as ArrayLike<number>);
  else for (let i = 0; i < list.length; i++) words[i] = element(dtype, list[i]);
  return new Uint8Array(words.buffer);
}

/** Converts a value to an element of a type. Integers and `bool` refuse values that they cannot hold. */
function element(dtype: DType, value: unknown): number {
  const kind = typeof value;
  if (kind !== "number" && kind !== "boolean" && kind !== "bigint") {
    throw refused("tensor", "an element", "a number", value);
  }
  const real = Number(value);
  const { low, high } = types[dtype] as { low?: number; high?: number };
  if (low !== undefined && high !== undefined && !(Number.isInteger(real) && low <= real && real <= high)) {
    throw new WarpweftError("DType", `tensor: an element must be a value of dtype ${dtype}, got ${String(value)}`);
  }
  return real;
}

/** Replaces a size of -1 by the size that makes `size` elements. The core checks other sizes. */
function resolve(shape: unknown, size: number): number[] {
  const given: unknown = typeof shape === "number" ? [shape] : shape;
  needShort("tensor", "shape", given);
  if (!Array.isArray(given) || !given.every((extent) => typeof extent === "number")) {
    throw refused("tensor", "shape", "a list of numbers", shape);
  }
  const extents = given as number[];
  const open = extents.indexOf(-1);
  if (open < 0) return extents;
  const known = extents.reduce((product, extent, i) => (i === open ? product : product * extent), 1);
  const missing = size / known;
  if (extents.indexOf(-1, open + 1) >= 0 || !Number.isInteger(missing) || missing < 0) {
    throw shapeError(`tensor: the known extents must divide the ${size} elements, got [${extents.join(", ")}]`);
  }
  return extents.map((extent) => (extent === -1 ? missing : extent));
}

/** Returns the shape of nested arrays, judged by their first elements. */
function nesting(data: unknown): number[] {
  const shape = [];
  for (let inner = data; Array.isArray(inner); inner = inner[0]) {
    shape.push(inner.length);
    // Arrays may contain themselves.
    if (shape.length > 8) throw shapeError("tensor: arrays must be nested at most 8 deep, got more");
  }
  return shape;
}

function flatten(data: readonly unknown[], shape: readonly number[]): unknown[] {
  const flat: unknown[] = [];
  const visit = (value: unknown, depth: number) => {
    const extent = shape[depth];
    if (extent === undefined) {
      if (Array.isArray(value)) throw shapeError("tensor: arrays must be nested equally deep, got an array among numbers");
      flat.push(value);
      return;
    }
    if (!Array.isArray(value)) throw refused("tensor", "arrays", "nested equally deep", value);
    if (value.length !== extent) {
      throw shapeError(`tensor: arrays along an axis must have one length, got ${extent} and ${value.length}`);
    }
    for (const inner of value) visit(inner, depth + 1);
  };
  visit(data, 0);
  return flat;
}

/** Converts row-major elements to nested arrays. */
export function nest(list: readonly number[], shape: readonly number[]): number | NestedArray {
  if (shape.length === 0) return list[0]!;
  const [extent, ...rest] = shape;
  const size = rest.reduce((product, inner) => product * inner, 1);
  return Array.from({ length: extent! }, (_, i) => nest(list.slice(i * size, (i + 1) * size), rest));
}
