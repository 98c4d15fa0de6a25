// Running sums, sorting, and elements taken from and brought to where indices say.

import { describe, options } from "./arguments.js";
import { Code } from "./codes.js";
import { dataError } from "./errors.js";
import { Movement } from "./movement.js";
import type { Tensor } from "./tensor.js";

/** The parameters of {@link Ordering.cumsum} and its like. */
export interface ScanOptions {
  /** Each result is over the elements before its own, without that. Usually false. */
  exclusive?: boolean;
  /** From the end to the start. Usually false. */
  reverse?: boolean;
}

/** The parameters of {@link Ordering.sort}. */
export interface SortOptions {
  /** The largest first. Usually false. */
  descending?: boolean;
}

/** The parameters of {@link Ordering.topK}. */
export interface TopKOptions {
  /** The axis along which; usually the last. */
  axis?: number;
  /** The largest elements, the largest first; or the smallest, the smallest first. Usually true. */
  largest?: boolean;
}

/** Elements, and the positions along the axis that they were at, as `i32`. */
export interface Ordered {
  values: Tensor;
  indices: Tensor;
}

/** What {@link Ordering.eigh} gives. */
export interface Eigen {
  values: Tensor;
  vectors: Tensor;
}

const reductions = ["sum", "prod", "max", "min", "any", "all"] as const;

/** How elements that come to one place are combined with what is there; `any` and `all` are for `bool`. */
export type Combination = (typeof reductions)[number];

function combination(name: string, reduction: unknown): number {
  const code = reductions.indexOf(reduction as Combination);
  if (code < 0) throw dataError(`${name}: ${describe(reduction)} is none of ${reductions.join(", ")}`);
  return code;
}

/** The operations along an axis whose order matters. */
export abstract class Ordering extends Movement {
  #scan(code: Code, name: string, axis: number, settings: ScanOptions | undefined): Tensor {
    const { exclusive = false, reverse = false } = options(name, settings);
    return this.op(code, name, [axis, exclusive, reverse]);
  }

  /**
   * The sum of the elements along `axis` up to each one. Integers wrap. Takes every type but `bool`. The same device
   * gives the same bits again.
   */
  cumsum(axis: number, settings?: ScanOptions): Tensor {
    return this.#scan(Code.cumsum, "cumsum", axis, settings);
  }

  /** The product of the elements along `axis` up to each one, as {@link Ordering.cumsum}. */
  cumprod(axis: number, settings?: ScanOptions): Tensor {
    return this.#scan(Code.cumprod, "cumprod", axis, settings);
  }

  /** The largest of the elements along `axis` up to each one; NaN from the first NaN on. Takes every type but `bool`. */
  cummax(axis: number, settings?: ScanOptions): Tensor {
    return this.#scan(Code.cummax, "cummax", axis, settings);
  }

  /** The smallest of the elements along `axis` up to each one; NaN from the first NaN on. Takes every type but `bool`. */
  cummin(axis: number, settings?: ScanOptions): Tensor {
    return this.#scan(Code.cummin, "cummin", axis, settings);
  }

  /**
   * The elements along `axis` in order, and the positions they were at. Equal ones stay in the order they were in, and
   * NaN comes last, whether ascending or descending. Read both in one batch, or all is computed twice.
   *
   * ```ts
   * const { values, indices } = device.tensor([3, 1, 2]).sort();
   * console.log(await values.read(), await indices.read()); // Float32Array [1, 2, 3], Int32Array [1, 2, 0]
   * ```
   */
  sort(axis = -1, settings?: SortOptions): Ordered {
    const { descending = false } = options("sort", settings);
    const indices = this.#order("sort", axis, descending);
    return { values: this.takeAlong(axis, indices), indices };
  }

  /** The positions, as `i32`, of the elements along `axis` in order, as {@link Ordering.sort}. */
  argsort(axis = -1, settings?: SortOptions): Tensor {
    const { descending = false } = options("argsort", settings);
    return this.#order("argsort", axis, descending);
  }

  #order(name: string, axis: number, descending: boolean): Tensor {
    return this.op(Code.argsort, name, [axis, descending]);
  }

  /**
   * The `k` largest elements along an axis, the largest first, or the smallest, the smallest first; and their positions.
   * Of equal ones those that stand first are taken, and NaN only where nothing else is left.
   */
  topK(k: number, settings?: TopKOptions): Ordered {
    const { axis = -1, largest = true } = options("topK", settings);
    const numbers = [axis, k, largest];
    const indices = this.op(Code.topK, "topK", numbers);
    return { values: this.takeAlong(axis, indices), indices };
  }

  /**
   * The elements along `axis` at the positions in `index` (`i32` or `u32`), which has the shape of the result: that of
   * this, but for the axis. Positions outside give 0.
   */
  takeAlong(axis: number, index: Tensor): Tensor {
    return this.op(Code.takeAlong, "takeAlong", [axis], [index]);
  }

  /**
   * This, but for the elements along `axis` at the positions in `index` (`i32` or `u32`), which are those of `source`.
   * Index and source have one shape, that of this but for the axis. Where several come to one place the last one stays;
   * positions outside are left out.
   */
  scatter(axis: number, index: Tensor, source: Tensor): Tensor {
    return this.op(Code.scatter, "scatter", [axis], [index, source]);
  }

  /** As {@link Ordering.scatter}, but all elements of the source are added to what is there. Takes every type but `bool`. */
  scatterAdd(axis: number, index: Tensor, source: Tensor): Tensor {
    return this.op(Code.scatterAdd, "scatterAdd", [axis], [index, source]);
  }

  /** As {@link Ordering.scatter}, but what comes to one place is combined with what is there. */
  scatterReduce(axis: number, index: Tensor, source: Tensor, reduction: Combination): Tensor {
    const name = "scatterReduce";
    return this.op(Code.scatterReduce, name, [axis, combination(name, reduction)], [index, source]);
  }

  /** With the slices of `source` along `axis` added to those at the positions in `index`, which has one axis. */
  indexAdd(axis: number, index: Tensor, source: Tensor): Tensor {
    return this.op(Code.indexAdd, "indexAdd", [axis], [index, source]);
  }

  /**
   * The elements at the positions that the last axis of `index` says along the first axes of this: an index of
   * `[..., q]` gives `[..., the axes after the q-th]`. Positions outside give 0.
   */
  gatherNd(index: Tensor): Tensor {
    return this.op(Code.gatherNd, "gatherNd", [], [index]);
  }

  /**
   * This, but for the elements at the positions that the last axis of `index` says, which are those of `source`, of the
   * shape {@link Ordering.gatherNd} would give; or combined with them. Where several come to one place the last one
   * stays; positions outside are left out.
   */
  scatterNd(index: Tensor, source: Tensor, reduction?: Combination): Tensor {
    const name = "scatterNd";
    const how = reduction === undefined ? [0] : [1, combination(name, reduction)];
    return this.op(Code.scatterNd, name, how, [index, source]);
  }

  /**
   * The eigenvalues, ascending, and the eigenvectors of symmetric matrices of up to 128 rows: `[..., n, n]` gives values
   * `[..., n]` and vectors `[..., n, n]`, whose column i belongs to value i. The vectors are orthonormal, and their signs
   * are arbitrary. Of a matrix that is not symmetric the mean with its transpose is taken. Read both in one batch, or all
   * is computed twice. Takes `f32` and `f16`.
   */
  eigh(): Eigen {
    const both = this.op(Code.eigh, "eigh", []);
    const rows = this.shape.at(-1)!;
    const column = both.slice(-1, rows);
    const eigen = { values: column.squeeze(-1), vectors: both.slice(-1, 0, rows) };
    column.dispose();
    both.dispose();
    return eigen;
  }

  /** `value` where `mask`, which is `bool` and broadcasts to this, is true. */
  maskedFill(mask: Tensor, value: number | boolean): Tensor {
    return this.op(Code.maskedFill, "maskedFill", [value], [mask]);
  }
}
