// Moving elements: reshaping, transposing, slicing, choosing. Most of it is a view and costs nothing until a kernel
// reads through it.

import { axesList, describe, dtypeCode, number, numbers, resolve, seedOf, type DType, type Shape } from "./arguments.js";
import { Code } from "./codes.js";
import { dataError, shapeError } from "./errors.js";
import { Reductions, type Axes } from "./reductions.js";
import type { Tensor } from "./tensor.js";

/** What {@link Movement.padWith} pads with, in the order that WebAssembly numbers them. */
const padModes = ["reflect", "edge", "wrap", "symmetric"] as const;

/** What {@link Movement.padWith} pads with. */
export type PadMode = (typeof padModes)[number];

/** The operations that move elements without computing. */
export abstract class Movement extends Reductions {
  /**
   * Converts the elements: floats to integers truncate towards 0 and saturate, NaN becomes 0; to `bool`, what is not 0
   * is true.
   */
  cast(dtype: DType): Tensor {
    return this.op(Code.cast, "cast", [dtypeCode("cast", dtype)]);
  }

  /** The same elements, row-major in another shape. One extent may be -1: the one that makes the sizes equal. */
  reshape(shape: Shape): Tensor {
    return this.op(Code.reshape, "reshape", resolve("reshape", shape, this.size));
  }

  /** All elements along one axis: `[...] -> [size]`. */
  flatten(): Tensor {
    return this.op(Code.reshape, "flatten", [this.size]);
  }

  /** Axis i of the result is axis `order[i]` of this. */
  permute(order: readonly number[]): Tensor {
    return this.op(Code.permute, "permute", numbers("permute", order));
  }

  /** With two axes exchanged; usually the last two, which transposes matrices. */
  transpose(a = -2, b = -1): Tensor {
    return this.op(Code.transpose, "transpose", [a, b]);
  }

  /** Broadcast to a shape by NumPy's rule: axes of extent 1 are repeated, axes are added in front. */
  expand(shape: Shape): Tensor {
    return this.op(Code.expand, "expand", numbers("expand", shape));
  }

  /** With a new axis of extent 1 at `axis`; -1 puts it last. */
  unsqueeze(axis: number): Tensor {
    return this.op(Code.unsqueeze, "unsqueeze", [axis]);
  }

  /** Without an axis of extent 1. */
  squeeze(axis: number): Tensor {
    return this.op(Code.squeeze, "squeeze", [axis]);
  }

  /**
   * Every `step`-th element along `axis` from `start` up to but not including `end` (usually the axis's end). Negative
   * positions count from the end; `step` is at least 1.
   */
  slice(axis: number, start: number, end?: number, step = 1): Tensor {
    const name = "slice";
    // An axis that does not exist is told of by WebAssembly.
    const stop = end === undefined ? (this.shape.at(number(name, axis)) ?? 0) : end;
    return this.op(Code.slice, name, [axis, start, stop, step]);
  }

  /** The elements along each of `axes` in reverse order. */
  flip(axes: Axes): Tensor {
    return this.op(Code.flip, "flip", axesList("flip", axes));
  }

  /** `value` before and after the elements: `amounts[axis]` is how many before and after along that axis. */
  pad(amounts: readonly (readonly [before: number, after: number])[], value: number | boolean = 0): Tensor {
    const name = "pad";
    return this.op(Code.pad, name, [value, ...pairs(name, amounts)]);
  }

  /**
   * Padded with its own elements: `amounts[axis]` is how many before and after along that axis. `"reflect"` shows the
   * mirror image without the outermost element again, `"symmetric"` with it, `"edge"` the outermost element, `"wrap"` the
   * other end.
   */
  padWith(amounts: readonly (readonly [before: number, after: number])[], mode: PadMode): Tensor {
    const name = "padWith";
    const code = padModes.indexOf(mode);
    if (code < 0) throw dataError(`${name}: there is no mode ${describe(mode)}`);
    return this.op(Code.padWith, name, [code, ...pairs(name, amounts)]);
  }

  /**
   * The windows over an axis, in its place, their elements along a new last axis: `size` of them, `dilation` apart, from
   * every `step`-th position on, as far as they fit.
   */
  unfold(axis: number, size: number, step = 1, dilation = 1): Tensor {
    return this.op(Code.unfold, "unfold", [axis, size, step, dilation]);
  }

  /**
   * The fields of `bits` bits (1, 2, 4, 8 or 16) that the words along the last axis hold, lowest first, as `i32`:
   * `u32 [.., n] -> i32 [.., 32 n / bits]`. `signed` ones are in two's complement. Bytes are the fields of 8 bits of their
   * words, in order. Nothing is stored until a kernel reads it: a matrix product reads the words.
   */
  unpack(bits: number, signed = false): Tensor {
    return this.op(Code.unpack, "unpack", [bits, signed]);
  }

  /**
   * The `bf16` numbers that the words along the last axis hold, the lower half first, exactly:
   * `u32 [.., n] -> f32 [.., 2 n]`.
   */
  unpackBf16(): Tensor {
    return this.op(Code.unpackBf16, "unpackBf16", []);
  }

  /**
   * The real numbers that integers (`i32`) stand for: `(x - zeroPoint) * scale`, of the scale's type. Both have one shape,
   * as many axes as this or fewer, counted from the last; each extent divides this one's and is spread over that many
   * neighbours: `[n, 1]` is one per row, `[n, k / 32]` one for each 32 along the rows of `[n, k]`.
   */
  dequantize(scale: Tensor, zeroPoint?: Tensor): Tensor {
    return this.op(Code.dequantize, "dequantize", [], [scale, zeroPoint]);
  }

  /** Cut along an axis into pieces of these lengths, which must add up to its extent. */
  split(lengths: readonly number[], axis: number): Tensor[] {
    const name = "split";
    const list = numbers(name, lengths);
    const extent = this.shape.at(number(name, axis));
    const total = list.reduce((sum, length) => sum + length, 0);
    if (extent === undefined || total !== extent || list.some((length) => !Number.isInteger(length) || length < 0)) {
      const shape = `[${this.shape.join(", ")}]`;
      throw shapeError(`${name}: lengths [${list.join(", ")}] along axis ${axis} of shape ${shape}`);
    }
    let start = 0;
    return list.map((length) => this.slice(axis, start, (start += length)));
  }

  /**
   * Cut along an axis into `count` pieces: of equal length but for the last, which is shorter where they do not come out
   * even. They may be fewer.
   */
  chunk(count: number, axis: number): Tensor[] {
    const extent = this.shape.at(number("chunk", axis)) ?? 0;
    if (!(Number.isInteger(count) && count > 0)) throw shapeError(`chunk: ${describe(count)} is no number of pieces`);
    const length = Math.max(Math.ceil(extent / count), 1);
    const pieces = Math.max(Math.ceil(extent / length), 1);
    return Array.from({ length: pieces }, (_, i) => this.slice(axis, i * length, Math.min((i + 1) * length, extent)));
  }

  /** Moved by `shift` along `axis`, to the end where it is positive; what leaves it there comes in at the other side. */
  roll(shift: number, axis: number): Tensor {
    return this.op(Code.roll, "roll", [shift, axis]);
  }

  /**
   * The elements along `axis` at the positions in `index` (`i32` or `u32`); the index's axes take that axis's place.
   * Positions outside give 0.
   */
  indexSelect(axis: number, index: Tensor): Tensor {
    return this.op(Code.indexSelect, "indexSelect", [axis], [index]);
  }

  /** The matrices of the last two axes with 0 above a diagonal; positive ones lie to the right of the main one. */
  tril(diagonal = 0): Tensor {
    return this.op(Code.tril, "tril", [diagonal]);
  }

  /** The matrices of the last two axes with 0 below a diagonal; positive ones lie to the right of the main one. */
  triu(diagonal = 0): Tensor {
    return this.op(Code.triu, "triu", [diagonal]);
  }

  /** 1 where a new last axis of extent `classes` equals the element, else 0, as `f32`. Takes `i32` and `u32`. */
  oneHot(classes: number): Tensor {
    return this.op(Code.oneHot, "oneHot", [classes]);
  }

  /** Repeated `repeats[axis]` times along each axis. */
  tile(repeats: readonly number[]): Tensor {
    return this.op(Code.tile, "tile", numbers("tile", repeats));
  }

  /**
   * Each element is 0 with probability `p`, and divided by `1 - p` otherwise. The same seed drops the same elements;
   * without one it is random. Takes `f32` and `f16`.
   */
  dropout(p: number, seed?: number): Tensor {
    return this.op(Code.dropout, "dropout", [p, seedOf("dropout", seed)]);
  }
}

/** A pair for each axis, in one list. */
function pairs(name: string, amounts: unknown): number[] {
  if (!Array.isArray(amounts) || amounts.some((pair) => !Array.isArray(pair) || pair.length !== 2)) {
    throw dataError(`${name}: ${describe(amounts)} is not a list of [before, after], one for each axis`);
  }
  return numbers(name, amounts.flat());
}
