// Data from JavaScript into the bytes that devices store, and back.

import { describe, element, type DType } from "./arguments.js";
import { dataError, shapeError } from "./errors.js";

/** Numbers or booleans, nested as deep as the tensor has axes. */
export type NestedArray = readonly (number | boolean | NestedArray)[];

/**
 * What a tensor can be made from. `Float32Array` is `f32`, `Int32Array` is `i32`, `Uint32Array` is `u32`, `Uint8Array`
 * is `bool`; of plain values, booleans are `bool` and numbers `f32`.
 */
export type TensorSource =
  | number
  | boolean
  | NestedArray
  | Float32Array
  | Float64Array
  | Int32Array
  | Uint32Array
  | Uint8Array;

/** What a tensor is read into: `f32` and `f16` into a `Float32Array`, `bool` into a `Uint8Array` of 0 and 1. */
export type TensorData = Float32Array | Int32Array | Uint32Array | Uint8Array;

/** Elements as a device stores them, their type, and the shape they came in. */
export interface Elements {
  bytes: Uint8Array;
  dtype: DType;
  shape: readonly number[];
}

/** Brings data into a device's form. `f16` stays `f32` here: the device rounds it. */
export function encode(data: unknown, wanted: DType | undefined): Elements {
  if (ArrayBuffer.isView(data)) return encodeTyped(data, wanted);
  if (!Array.isArray(data)) {
    const dtype = wanted ?? (typeof data === "boolean" ? "bool" : "f32");
    return { bytes: store([data], dtype), dtype, shape: [] };
  }
  const shape = nesting(data);
  const flat = shape.length > 1 ? flatten(data, shape) : data;
  const dtype = wanted ?? (typeof flat[0] === "boolean" ? "bool" : "f32");
  return { bytes: store(flat, dtype), dtype, shape };
}

function encodeTyped(data: ArrayBufferView, wanted: DType | undefined): Elements {
  const natural = naturalType(data);
  const dtype = wanted ?? natural;
  const list = data as unknown as ArrayLike<number>;
  const same = natural === dtype || (natural === "f32" && dtype === "f16");
  // These lie in memory as the device wants them.
  const plain = !(data instanceof Float64Array) && natural !== "bool";
  const bytes = same && plain ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : store(list, dtype, natural);
  return { bytes, dtype, shape: [list.length] };
}

function naturalType(data: ArrayBufferView): DType {
  if (data instanceof Float32Array || data instanceof Float64Array) return "f32";
  if (data instanceof Int32Array) return "i32";
  if (data instanceof Uint32Array) return "u32";
  if (data instanceof Uint8Array) return "bool";
  throw dataError("tensor: no tensor is made from such an array; use Float32Array, Int32Array, Uint32Array or Uint8Array");
}

/** The elements one by one; in a `Uint8Array` that is to be `bool` everything but 0 is true. */
function store(list: ArrayLike<unknown>, dtype: DType, natural?: DType): Uint8Array {
  const Store = { f32: Float32Array, f16: Float32Array, i32: Int32Array, u32: Uint32Array, bool: Uint32Array }[dtype];
  const words = new Store(list.length);
  const truths = natural === "bool" && dtype === "bool";
  for (let i = 0; i < list.length; i++) words[i] = truths ? Number(list[i] !== 0) : element("tensor", dtype, list[i]);
  return new Uint8Array(words.buffer);
}

/** The extents of nested arrays, by their first elements. */
function nesting(data: unknown): number[] {
  const shape = [];
  for (let inner = data; Array.isArray(inner); inner = inner[0]) {
    shape.push(inner.length);
    // Arrays may contain themselves.
    if (shape.length > 8) throw shapeError("tensor: the arrays are nested more than 8 deep");
  }
  return shape;
}

function flatten(data: readonly unknown[], shape: readonly number[]): unknown[] {
  const flat: unknown[] = [];
  const visit = (value: unknown, depth: number) => {
    const extent = shape[depth];
    if (extent === undefined) {
      if (Array.isArray(value)) throw shapeError("tensor: the arrays are not nested equally deep");
      flat.push(value);
      return;
    }
    if (!Array.isArray(value)) throw dataError(`tensor: ${describe(value)} stands among arrays`);
    if (value.length !== extent) {
      throw shapeError(`tensor: arrays of ${extent} and ${value.length} elements stand along one axis`);
    }
    for (const inner of value) visit(inner, depth + 1);
  };
  visit(data, 0);
  return flat;
}

/** A device's bytes as what a tensor is read into. */
export function decode(bytes: Uint8Array, dtype: DType): TensorData {
  const { buffer, byteOffset, byteLength } = bytes;
  switch (dtype) {
    case "f32":
      return new Float32Array(buffer, byteOffset, byteLength / 4);
    case "i32":
      return new Int32Array(buffer, byteOffset, byteLength / 4);
    case "u32":
      return new Uint32Array(buffer, byteOffset, byteLength / 4);
    case "bool":
      return Uint8Array.from(new Uint32Array(buffer, byteOffset, byteLength / 4));
    case "f16":
      return Float32Array.from(new Uint16Array(buffer, byteOffset, byteLength / 2), half);
  }
}

/** An IEEE 754 half's value. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

/** Elements, row-major in a shape, as arrays of arrays. */
export function nest(list: readonly number[], shape: readonly number[]): number | NestedArray {
  if (shape.length === 0) return list[0]!;
  const [extent, ...rest] = shape;
  const size = rest.reduce((product, inner) => product * inner, 1);
  return Array.from({ length: extent! }, (_, i) => nest(list.slice(i * size, (i + 1) * size), rest));
}
