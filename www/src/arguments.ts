// Arguments as callers may pass them, checked and brought into the lists that WebAssembly takes. Whether a number is a
// sensible extent or axis is checked there.

import { dtypes } from "./codes.js";
import { dataError, shapeError, WarpweftError } from "./errors.js";

/**
 * The type of a tensor's elements: 32-bit float; 16-bit float, which is a storage type and computed as `f32`; 32-bit
 * integers, which wrap on overflow; and `bool`.
 */
export type DType = (typeof dtypes)[number];

/** Extents, outermost first; at most eight. */
export type Shape = readonly number[];

/** A type's number. */
export function dtypeCode(name: string, dtype: unknown): number {
  const code = dtypes.indexOf(dtype as DType);
  if (code < 0) throw dataError(`${name}: there is no element type ${describe(dtype)}`);
  return code;
}

/** A number, whatever its value; booleans are 1 and 0. */
export function number(name: string, value: unknown): number {
  if (typeof value === "boolean") return Number(value);
  if (typeof value !== "number") throw dataError(`${name}: ${describe(value)} is not a number`);
  return value;
}

/** A list of numbers. */
export function numbers(name: string, list: unknown): number[] {
  const isList = Array.isArray(list) || (ArrayBuffer.isView(list) && !(list instanceof DataView));
  if (!isList) throw dataError(`${name}: ${describe(list)} is not a list of numbers`);
  return Array.from(list as ArrayLike<unknown>, (value) => number(name, value));
}

/** Axes: one, a list, or none for all of them. */
export function axesList(name: string, axes: unknown): number[] {
  if (axes === undefined) return [];
  return typeof axes === "number" ? [axes] : numbers(name, axes);
}

/** An object with options; none at all is the empty one. */
export function options<T extends object>(name: string, value: T | undefined): Partial<T> {
  if (value === undefined) return {};
  if (typeof value !== "object" || value === null) throw dataError(`${name}: ${describe(value)} is not an object of options`);
  return value;
}

/** A seed; a random one where none is given. */
export function seedOf(name: string, seed: unknown): number {
  return seed === undefined ? Math.floor(Math.random() * 2 ** 32) : number(name, seed);
}

/** A shape in which one extent may be -1: what makes `size` elements of it. */
export function resolve(name: string, shape: unknown, size: number): number[] {
  const extents = numbers(name, shape);
  const open = extents.indexOf(-1);
  if (open < 0) return extents;
  const known = extents.reduce((product, extent, i) => (i === open ? product : product * extent), 1);
  const missing = size / known;
  if (extents.indexOf(-1, open + 1) >= 0 || !Number.isInteger(missing) || missing < 0) {
    throw shapeError(`${name}: ${size} elements do not make a shape of [${extents.join(", ")}]`);
  }
  return extents.map((extent) => (extent === -1 ? missing : extent));
}

/** A value in a few words, for messages. */
export function describe(value: unknown): string {
  if (value === null || typeof value === "undefined" || typeof value === "bigint") return String(value);
  if (typeof value === "string") return JSON.stringify(value.slice(0, 40));
  return Array.isArray(value) ? "an array" : `a value of type ${typeof value}`;
}

/** A number as an element of a type; integers and `bool` refuse what they cannot hold. */
export function element(name: string, dtype: DType, value: unknown): number {
  const real = number(name, value);
  const [low, high] = { f32: [], f16: [], i32: [-(2 ** 31), 2 ** 31 - 1], u32: [0, 2 ** 32 - 1], bool: [0, 1] }[dtype];
  if (low !== undefined && high !== undefined && !(Number.isInteger(real) && low <= real && real <= high)) {
    throw new WarpweftError("DType", `${name}: ${real} is not a value of type ${dtype}`);
  }
  return real;
}
