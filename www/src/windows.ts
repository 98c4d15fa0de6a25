// What looks through a window that moves over the last axes: convolutions and pooling; and resizing those axes.

import { describe, numbers, options } from "./arguments.js";
import { Code } from "./codes.js";
import { dataError } from "./errors.js";
import { Ordering } from "./ordering.js";
import type { Tensor } from "./tensor.js";

/** A number for every axis that the window moves over, or one for each. */
export type PerAxis = number | readonly number[];

/**
 * How far the input is extended: as many elements on each side of every axis, of each axis, or before and after each
 * axis; `"valid"` for none; `"same"` for as many as give the input's extents divided by the stride, an odd one going to
 * the end.
 */
export type Padding = PerAxis | readonly (readonly [before: number, after: number])[] | "same" | "valid";

/** The parameters of {@link Windows.conv2d} and its kin. */
export interface ConvOptions {
  /** One number for each output channel, added to it. */
  bias?: Tensor;
  /** How far the window moves; usually 1. */
  stride?: PerAxis;
  /** The zeros around the input; usually `"valid"`, none. */
  padding?: Padding;
  /** The distance of the window's elements; usually 1. */
  dilation?: PerAxis;
  /** Into how many groups the channels are cut that do not see each other; usually 1. */
  groups?: number;
}

/** The parameters of {@link Windows.conv2d}. */
export type Conv2dOptions = ConvOptions;

/** The parameters of {@link Windows.convTranspose2d} and its kin: those of the convolution it is the transpose of. */
export interface ConvTransposeOptions extends ConvOptions {
  /** What is cut off on the sides of the result; usually `"valid"`, nothing. Not `"same"`. */
  padding?: Exclude<Padding, "same">;
  /** How much more there is at the end of each axis of the result; usually 0. */
  outputPadding?: PerAxis;
}

/** The parameters of {@link Windows.maxPool} and {@link Windows.l2Pool}. */
export interface PoolOptions {
  /** The extents of a window. */
  size: PerAxis;
  /** How far the window moves; usually its size. */
  stride?: PerAxis;
  /** What is outside counts for nothing; usually `"valid"`, nothing is looked at there. */
  padding?: Padding;
  /** The distance of the window's elements; usually 1. */
  dilation?: PerAxis;
  /** Whether a last window that reaches beyond the end is taken, too, if it begins before it. Usually false. */
  ceil?: boolean;
}

/** The parameters of {@link Windows.avgPool}. */
export interface AvgPoolOptions extends PoolOptions {
  /** Whether padding counts as zeros; usually the mean is of what is inside. */
  countPadding?: boolean;
}

/** How {@link Windows.resize} makes elements, in the order that WebAssembly numbers them. */
const resizeModes = [
  "nearest",
  "nearest-exact",
  "linear",
  "linear-corners",
  "cubic",
  "cubic-corners",
  "linear-antialias",
  "cubic-antialias",
] as const;

/**
 * Which elements a resized axis is made of: `"nearest"`, the one at `floor(i * extent / size)`; `"nearest-exact"`, the
 * one under the new one's centre; `"linear"`, between the two whose centres lie around the new one's; `"cubic"`, the four
 * around it, by Keys's cubic convolution with -0.75; or these with `"-corners"`, with the first and last elements staying
 * where they are, or with `"-antialias"`, where an axis that becomes shorter is looked at through a filter that is as much
 * wider (then the cubic one has -0.5).
 */
export type ResizeMode = (typeof resizeModes)[number];

/** What {@link Windows.resample} makes of the elements around a place, in the order that WebAssembly numbers them. */
const filters = ["floor", "ceil", "half-down", "half-up", "linear", "cubic"] as const;

/**
 * What is made of the elements around a place: the one before or after it, the nearest one (of two the one before or
 * after), the two around it, or the four.
 */
export type Filter = (typeof filters)[number];

/** The parameters of {@link Windows.resample}. */
export interface ResampleOptions {
  /** The place of the first element of the result; usually 0. */
  first?: number;
  /** How far it is from there to the next one's; usually 1. */
  step?: number;
  /** Usually `"linear"`. */
  filter?: Filter;
  /** Of the cubic filter, its slope at distance 1; usually -0.75. */
  sharpness?: number;
  /** Whether a filter is as much wider as a step is more than 1; usually not. */
  antialias?: boolean;
  /** Whether what is beyond the edges counts for nothing; usually the outermost elements go on. */
  inside?: boolean;
}

/** The operations on windows. */
export abstract class Windows extends Ordering {
  /**
   * A 1-D convolution (cross-correlation, as in all neural-network libraries). This is `[batch, in, length]`, the weight
   * `[out, in / groups, kernel length]`, the result `[batch, out, out length]`. Takes `f32` and `f16`.
   */
  conv1d(weight: Tensor, settings?: ConvOptions): Tensor {
    return this.#convolve(Code.conv1d, "conv1d", 1, weight, settings);
  }

  /**
   * A 2-D convolution (cross-correlation, as in all neural-network libraries). This is `[batch, in, height, width]`, the
   * weight `[out, in / groups, kernel height, kernel width]`, the result `[batch, out, out height, out width]`. Takes
   * `f32` and `f16`.
   */
  conv2d(weight: Tensor, settings?: ConvOptions): Tensor {
    return this.#convolve(Code.conv2d, "conv2d", 2, weight, settings);
  }

  /**
   * A 3-D convolution: this is `[batch, in, depth, height, width]`, the weight `[out, in / groups, kernel depth, kernel
   * height, kernel width]`. Takes `f32` and `f16`.
   */
  conv3d(weight: Tensor, settings?: ConvOptions): Tensor {
    return this.#convolve(Code.conv3d, "conv3d", 3, weight, settings);
  }

  /**
   * The transpose of a 1-D convolution: this is `[batch, in, length]`, the weight `[in, out / groups, kernel length]`.
   * An axis of the result is `(extent - 1) * stride + dilation * (kernel - 1) + 1 + outputPadding` long, less the
   * padding. Takes `f32` and `f16`.
   */
  convTranspose1d(weight: Tensor, settings?: ConvTransposeOptions): Tensor {
    return this.#transposed(Code.convTranspose1d, "convTranspose1d", 1, weight, settings);
  }

  /**
   * The transpose of a 2-D convolution: this is `[batch, in, height, width]`, the weight `[in, out / groups, kernel
   * height, kernel width]`; see {@link Windows.convTranspose1d}. Takes `f32` and `f16`.
   */
  convTranspose2d(weight: Tensor, settings?: ConvTransposeOptions): Tensor {
    return this.#transposed(Code.convTranspose2d, "convTranspose2d", 2, weight, settings);
  }

  /** The transpose of a 3-D convolution; see {@link Windows.convTranspose1d}. Takes `f32` and `f16`. */
  convTranspose3d(weight: Tensor, settings?: ConvTransposeOptions): Tensor {
    return this.#transposed(Code.convTranspose3d, "convTranspose3d", 3, weight, settings);
  }

  /**
   * The largest element of each window over the axes after batch and channels, of which there are one to three; NaN if
   * there is one. Takes every type but `bool`.
   */
  maxPool(settings: PoolOptions): Tensor {
    return this.#pool(Code.maxPool, "maxPool", settings);
  }

  /**
   * Where the largest element of each window stands, counted row-major within its channel, as `i32`; of several the first.
   * Goes with {@link Windows.maxPool}.
   */
  maxPoolIndices(settings: PoolOptions): Tensor {
    return this.#pool(Code.maxPoolIndices, "maxPoolIndices", settings);
  }

  /** The mean of each window over the axes after batch and channels, as {@link Windows.maxPool}. Takes `f32` and `f16`. */
  avgPool(settings: AvgPoolOptions): Tensor {
    return this.#pool(Code.avgPool, "avgPool", settings);
  }

  /** The square root of each window's sum of squares, as {@link Windows.maxPool}. Takes `f32` and `f16`. */
  l2Pool(settings: PoolOptions): Tensor {
    return this.#pool(Code.l2Pool, "l2Pool", settings);
  }

  /**
   * The mean of each of `sizes` parts of the last axes, which overlap where they do not divide: the i-th of n is from
   * `floor(i * extent / n)` to `ceil((i + 1) * extent / n)`. Takes `f32` and `f16`.
   */
  adaptiveAvgPool(sizes: readonly number[]): Tensor {
    return this.op(Code.adaptiveAvgPool, "adaptiveAvgPool", numbers("adaptiveAvgPool", sizes));
  }

  /**
   * The last axes with the extents `sizes`: of a picture `[batch, channels, height, width]`,
   * `resize([2 * height, 2 * width])` is twice as large. Takes `f32` and `f16`.
   */
  resize(sizes: readonly number[], mode: ResizeMode = "linear"): Tensor {
    const name = "resize";
    const code = resizeModes.indexOf(mode);
    if (code < 0) throw dataError(`${name}: there is no mode ${describe(mode)}`);
    return this.op(Code.resize, name, [code, ...numbers(name, sizes)]);
  }

  /**
   * An axis with `size` elements, the i-th made of those around the place `first + i * step` of this one's. Takes `f32`
   * and `f16`.
   */
  resample(axis: number, size: number, settings?: ResampleOptions): Tensor {
    const name = "resample";
    const given = options(name, settings);
    const { first = 0, step = 1, filter = "linear", sharpness = -0.75, antialias = false, inside = false } = given;
    const code = filters.indexOf(filter);
    if (code < 0) throw dataError(`${name}: there is no filter ${describe(filter)}`);
    return this.op(Code.resample, name, [axis, size, first, step, code, sharpness, antialias, inside]);
  }

  #convolve(code: Code, name: string, axes: number, weight: Tensor, settings: ConvOptions | undefined): Tensor {
    const given = options(name, settings);
    return this.op(code, name, window(name, axes, given), [weight, given.bias]);
  }

  #transposed(code: Code, name: string, axes: number, weight: Tensor, settings: ConvTransposeOptions | undefined): Tensor {
    const given = options(name, settings);
    if ((given.padding as unknown) === "same") throw dataError(`${name}: the padding can not be "same"`);
    const more = perAxis(name, axes, given.outputPadding ?? 0);
    return this.op(code, name, [...window(name, axes, given), ...more], [weight, given.bias]);
  }

  #pool(code: Code, name: string, settings: AvgPoolOptions): Tensor {
    const { size, stride = size, padding, dilation, ceil = false, countPadding = false } = options(name, settings);
    const axes = Math.max(this.rank - 2, 0);
    const sizes = perAxis(name, axes, size);
    const lists = moving(name, axes, stride, dilation, padding);
    return this.op(code, name, [countPadding, ceil, ...sizes, ...lists]);
  }
}

/** A convolution's numbers: groups, then how the window moves. */
function window(name: string, axes: number, { stride, dilation, padding, groups = 1 }: ConvOptions): number[] {
  return [groups, ...moving(name, axes, stride, dilation, padding)];
}

/** Strides, dilations, and the padding: 1 for `"same"`, else 0 and pairs. */
function moving(name: string, axes: number, stride: unknown = 1, dilation: unknown = 1, padding: unknown = "valid"): number[] {
  const lists = [...perAxis(name, axes, stride), ...perAxis(name, axes, dilation)];
  if (padding === "same") return [...lists, 1];
  if (Array.isArray(padding) && Array.isArray(padding[0])) {
    const pairs = padding.map((pair) => perAxis(name, 2, pair));
    if (pairs.length !== axes) throw dataError(`${name}: ${pairs.length} pairs of padding for ${axes} axes`);
    return [...lists, 0, ...pairs.flat()];
  }
  const sides = perAxis(name, axes, padding === "valid" ? 0 : padding);
  return [...lists, 0, ...sides.flatMap((side) => [side, side])];
}

/** A number for each axis. */
function perAxis(name: string, axes: number, value: unknown): number[] {
  if (typeof value === "number") return Array<number>(axes).fill(value);
  const list = numbers(name, value);
  if (list.length !== axes) throw dataError(`${name}: ${list.length} numbers for ${axes} axes`);
  return list;
}
