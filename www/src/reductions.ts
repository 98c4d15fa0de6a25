// Reductions over axes, softmax and the normalisations.

import { axesList, options } from "./arguments.js";
import { Code } from "./codes.js";
import { Pointwise } from "./pointwise.js";
import type { Tensor } from "./tensor.js";

/** One axis, several, or (left out) all. Negative ones count from the end, -1 being the last. */
export type Axes = number | readonly number[];

/** What to reduce over, beside the axes. */
export interface SpreadOptions {
  /** What the count is lessened by before dividing: 1 for the unbiased estimate (usual), 0 for the population's. */
  correction?: number;
  /** Keep the reduced axes, with extent 1. Usually false. */
  keepDims?: boolean;
}

/** The parameters of {@link Reductions.layerNorm}. */
export interface LayerNormOptions {
  /** The axes to normalise over; usually the last. */
  axes?: Axes;
  /** What the result is multiplied with; broadcasts to this tensor. */
  weight?: Tensor;
  /** What is added then; broadcasts to this tensor. */
  bias?: Tensor;
  /** What is added to the variance; usually 1e-5. */
  epsilon?: number;
}

/** The parameters of {@link Reductions.rmsNorm}. */
export interface RmsNormOptions {
  /** The axes to normalise over; usually the last. */
  axes?: Axes;
  /** What the result is multiplied with; broadcasts to this tensor. */
  weight?: Tensor;
  /** What is added to the mean square; usually 1e-6. */
  epsilon?: number;
}

/** The parameters of {@link Reductions.batchNorm}, {@link Reductions.groupNorm} and {@link Reductions.instanceNorm}. */
export interface ChannelNormOptions {
  /** One number for each channel, which the result is multiplied with. */
  weight?: Tensor;
  /** One number for each channel, which is added then. */
  bias?: Tensor;
  /** What is added to the variance; usually 1e-5. */
  epsilon?: number;
}

/** The operations that combine elements along axes. */
export abstract class Reductions extends Pointwise {
  #reduce(code: Code, name: string, axes: Axes | undefined, keepDims: boolean): Tensor {
    return this.op(code, name, [keepDims, ...axesList(name, axes)]);
  }

  /** The sum over these axes; 0 over nothing. Takes every type but `bool`. With `keepDims` the axes stay, of extent 1. */
  sum(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.sum, "sum", axes, keepDims);
  }

  /** The product over these axes; 1 over nothing. Takes every type but `bool`. */
  prod(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.prod, "prod", axes, keepDims);
  }

  /** The largest element over these axes; NaN if there is one, -Infinity over nothing. Takes every type but `bool`. */
  max(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.max, "max", axes, keepDims);
  }

  /** The smallest element over these axes; NaN if there is one, Infinity over nothing. Takes every type but `bool`. */
  min(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.min, "min", axes, keepDims);
  }

  /** Whether any element over these axes is true, as `bool`; false over nothing. Takes `bool`. */
  any(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.any, "any", axes, keepDims);
  }

  /** Whether every element over these axes is true, as `bool`; true over nothing. Takes `bool`. */
  all(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.all, "all", axes, keepDims);
  }

  /** The arithmetic mean over these axes; NaN over nothing. Takes `f32` and `f16`. */
  mean(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.mean, "mean", axes, keepDims);
  }

  /**
   * The variance over these axes: the squared distances from the mean, summed and divided by the count less
   * `correction`. Takes `f32` and `f16`.
   */
  var(axes?: Axes, settings?: SpreadOptions): Tensor {
    return this.#spread(Code.var, "var", axes, settings);
  }

  /** The standard deviation over these axes: the square root of {@link Reductions.var}. Takes `f32` and `f16`. */
  std(axes?: Axes, settings?: SpreadOptions): Tensor {
    return this.#spread(Code.std, "std", axes, settings);
  }

  #spread(code: Code, name: string, axes: Axes | undefined, settings: SpreadOptions | undefined): Tensor {
    const { correction = 1, keepDims = false } = options(name, settings);
    return this.op(code, name, [keepDims, correction, ...axesList(name, axes)]);
  }

  #position(code: Code, name: string, axis: number, keepDims: boolean): Tensor {
    const found = this.op(code, name, [axis]);
    if (!keepDims) return found;
    const kept = found.unsqueeze((axis + this.rank) % this.rank);
    found.dispose();
    return kept;
  }

  /**
   * The position along `axis` of the largest element, as `i32`; of equal ones the first, and the first NaN if there is
   * one. Takes every type but `bool`.
   */
  argmax(axis: number, keepDims = false): Tensor {
    return this.#position(Code.argmax, "argmax", axis, keepDims);
  }

  /** The position along `axis` of the smallest element, as {@link Reductions.argmax}. */
  argmin(axis: number, keepDims = false): Tensor {
    return this.#position(Code.argmin, "argmin", axis, keepDims);
  }

  /** `log(sum(exp(x)))` over these axes, without overflow. Takes `f32` and `f16`. */
  logsumexp(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.logsumexp, "logsumexp", axes, keepDims);
  }

  /** The sum of absolute values over these axes. Takes `f32` and `f16`. */
  normL1(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.normL1, "normL1", axes, keepDims);
  }

  /** The square root of the sum of squares over these axes. Takes `f32` and `f16`. */
  normL2(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.normL2, "normL2", axes, keepDims);
  }

  /** The largest absolute value over these axes. Takes `f32` and `f16`. */
  normLinf(axes?: Axes, keepDims = false): Tensor {
    return this.#reduce(Code.normLinf, "normLinf", axes, keepDims);
  }

  /** `exp(x) / sum(exp(x))` along `axis`, without overflow. Takes `f32` and `f16`. */
  softmax(axis = -1): Tensor {
    return this.op(Code.softmax, "softmax", [axis]);
  }

  /** The logarithm of {@link Reductions.softmax}, accurate where that is nearly 0. Takes `f32` and `f16`. */
  logSoftmax(axis = -1): Tensor {
    return this.op(Code.logSoftmax, "logSoftmax", [axis]);
  }

  /** `(x - mean) / sqrt(variance + epsilon) * weight + bias` over the axes (Ba et al. 2016). Takes `f32` and `f16`. */
  layerNorm(settings?: LayerNormOptions): Tensor {
    const name = "layerNorm";
    const { axes = -1, weight, bias, epsilon = 1e-5 } = options(name, settings);
    return this.op(Code.layerNorm, name, [epsilon, ...axesList(name, axes)], [weight, bias]);
  }

  /** `x / sqrt(mean(x^2) + epsilon) * weight` over the axes (Zhang and Sennrich 2019). Takes `f32` and `f16`. */
  rmsNorm(settings?: RmsNormOptions): Tensor {
    const name = "rmsNorm";
    const { axes = -1, weight, epsilon = 1e-6 } = options(name, settings);
    return this.op(Code.rmsNorm, name, [epsilon, ...axesList(name, axes)], [weight]);
  }

  /**
   * `(x - mean) / sqrt(variance + epsilon) * weight + bias` with one number of each for each channel, which are the
   * second axis (Ioffe and Szegedy 2015). Takes `f32` and `f16`.
   */
  batchNorm(mean: Tensor, variance: Tensor, settings?: ChannelNormOptions): Tensor {
    const name = "batchNorm";
    const { weight, bias, epsilon = 1e-5 } = options(name, settings);
    return this.op(Code.batchNorm, name, [epsilon], [mean, variance, weight, bias]);
  }

  /**
   * Layer norm of each of `groups` groups of channels (the second axis) of each element of the batch (Wu and He 2018).
   * Takes `f32` and `f16`.
   */
  groupNorm(groups: number, settings?: ChannelNormOptions): Tensor {
    const name = "groupNorm";
    const { weight, bias, epsilon = 1e-5 } = options(name, settings);
    return this.op(Code.groupNorm, name, [groups, epsilon], [weight, bias]);
  }

  /** {@link Reductions.groupNorm} with a group for each channel (Ulyanov et al. 2016). Takes `f32` and `f16`. */
  instanceNorm(settings?: ChannelNormOptions): Tensor {
    const name = "instanceNorm";
    const { weight, bias, epsilon = 1e-5 } = options(name, settings);
    return this.op(Code.instanceNorm, name, [epsilon], [weight, bias]);
  }
}
