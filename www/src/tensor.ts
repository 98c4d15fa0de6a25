// The tensor: products, attention, and what leads out of the device.

import { describe, number, options } from "./arguments.js";
import { Ask, Code, Later } from "./codes.js";
import { ask, callAsync } from "./core.js";
import { decode, nest, type NestedArray, type TensorData } from "./data.js";
import type { Device } from "./device.js";
import { dataError, shapeError } from "./errors.js";
import type { Variable } from "./variable.js";
import { Windows } from "./windows.js";

/** An operand: a tensor of the same device, or a number that takes the tensors' type (booleans are 1 and 0). */
export type Operand = Tensor | number | boolean;

/** The parameters of {@link Tensor.attention}. */
export interface AttentionOptions {
  /** Whether the i-th query sees only keys up to `i + keys - queries`. Usually false. */
  causal?: boolean;
  /** The i-th query sees only keys less than this far from its own place, `i + keys - queries`; usually any distance. */
  window?: number;
  /** Broadcast to `[batch, heads, queries, keys]`: `bool` (true sees), or floats added to the scores. */
  mask?: Tensor;
  /** What the scores are multiplied with; usually `1 / sqrt(size)`. */
  scale?: number;
}

/** So many elements are read in one piece: WebAssembly's memory grows by a piece, and never shrinks. */
const PIECE = 1 << 24;

/**
 * An n-dimensional array on a device. Immutable. Operations only record what is to be done: reading runs it, all that is
 * needed as one submission.
 *
 * ```ts
 * import { Device } from "warpweft";
 *
 * const device = await Device.new();
 * const x = device.tensor([[1, -2], [3, 4]]);
 * const y = x.matmul(x).add(1).relu();
 * console.log(y.shape, await y.read()); // [2, 2] Float32Array [0, 0, 16, 11]
 * y.dispose(); // or `using y = ...`; or left to the garbage collector
 * ```
 *
 * Methods throw a `WarpweftError`, whose `code` says what kind it is: `Shape` where extents or axes do not fit, `DType`
 * where types do not, `Data` where an argument is not what it should be or a tensor was disposed.
 */
export class Tensor extends Windows {
  /**
   * The matrix product over the last two axes; leading axes broadcast: `[..., m, k] x [..., k, n] -> [..., m, n]`. A
   * vector on the left is a row, one on the right a column, and its axis is dropped from the result. Sums are taken in
   * `f32`. Takes `f32` and `f16`.
   */
  matmul(other: Tensor): Tensor {
    return this.op(Code.matmul, "matmul", [], [other]);
  }

  /**
   * The gradients of this number by each of `wrt`, each of the shape and type of what it is by; zeros by what does not
   * go into it. They are tensors like any others: computed when read, best together in a batch or program, and
   * differentiable again. With a `seed` of this tensor's shape it need not be one number: the gradients of the sum of
   * the products with it.
   *
   * ```ts
   * const w = device.tensor([1, -2, 3]);
   * const [gradient] = w.square().sum().grad([w]);
   * console.log(await gradient.read()); // Float32Array [2, -4, 6]
   * ```
   *
   * Equal largest or smallest elements share the gradient; `abs` and `relu` have 0 at 0; what rounds, compares or
   * chooses has 0. All must be of floats (`DType`). An error of code `Data` says that a tensor on the way was computed
   * and what it was computed from was disposed, or that a program made it: {@link Tensor.detach} it, if that is meant.
   */
  grad(wrt: readonly Tensor[], seed?: Tensor): Tensor[] {
    const name = seed === undefined ? "grad" : "vjp";
    const handle = this.use(name);
    if (!Array.isArray(wrt)) throw dataError(`${name}: ${describe(wrt)} is not a list of tensors`);
    const handles = wrt.map((tensor) => this.operand(name, tensor));
    const weight = seed === undefined ? 0 : this.operand(name, seed);
    const gradients = ask(this.owner.core, Ask.grad, [handle, weight, ...handles]);
    return Array.from(gradients, (gradient) => this.device.adopt(gradient));
  }

  /**
   * Leaves the gradients of this number by the values of `variables` with them, for {@link Variable.takeGradient}; what is
   * there already is added to. Errors as {@link Tensor.grad}.
   */
  backward(variables: readonly Variable[]): void {
    const name = "backward";
    if (!Array.isArray(variables) || variables.some((one) => typeof one?.gather !== "function")) {
      throw dataError(`${name}: ${describe(variables)} is not a list of variables`);
    }
    const gradients = this.grad(variables.map(({ value }) => value));
    gradients.forEach((gradient, i) => variables[i]!.gather(gradient));
  }

  /** The same values, that gradients do not pass: a constant to whatever is made of it. */
  detach(): Tensor {
    return this.op(Code.detach, "detach", []);
  }

  /** The product of every element of one vector with every element of another: `[m] x [n] -> [m, n]`. */
  outer(other: Tensor): Tensor {
    return this.op(Code.outer, "outer", [], [other]);
  }

  /** The sum of the products of two vectors: `[n] x [n] -> []`. */
  dot(other: Tensor): Tensor {
    return this.op(Code.dot, "dot", [], [other]);
  }

  /**
   * Rotary position embedding (Su et al. 2021): pairs of elements of the last axis are turned, by angles whose cosines
   * and sines are given. They have half as many elements along the last axis as are turned (the rest of it stays), and
   * broadcast along the others. A pair is an element of the first half and the one as far into the second (as in Llama
   * and GPT-NeoX), or two neighbours if `interleaved` (as in GPT-J). Takes `f32` and `f16`.
   */
  rotary(cos: Tensor, sin: Tensor, interleaved = false): Tensor {
    return this.op(Code.rotary, "rotary", [interleaved], [cos, sin]);
  }

  /**
   * Scaled dot-product attention, `softmax(q k^T * scale + mask) v`, without the matrix of scores in memory. This is q,
   * `[batch, heads, queries, size]`; k is `[batch, kv heads, keys, size]`, v `[batch, kv heads, keys, value size]`; each
   * kv head serves `heads / kv heads` heads. The result is `[batch, heads, queries, value size]`. A query that sees no
   * key gives zeros. Takes `f32` and `f16`.
   */
  attention(k: Tensor, v: Tensor, settings?: AttentionOptions): Tensor {
    const name = "attention";
    const { causal = false, window, mask, scale } = options(name, settings);
    const given = (value: number | undefined) => (value === undefined ? [0] : [1, value]);
    const numbers = [causal, ...given(window), ...given(scale)];
    return this.op(Code.attention, name, numbers, mask ? [k, v, mask] : [k, v]);
  }

  /** Joins tensors along an axis that they have; along the others their extents are equal. */
  static concat(tensors: readonly Tensor[], axis: number): Tensor {
    return join(tensors, "concat", (first, others) => first.op(Code.concat, "concat", [axis], others));
  }

  /** Joins tensors of one shape along a new axis. */
  static stack(tensors: readonly Tensor[], axis: number): Tensor {
    return join(tensors, "stack", (first, others) => first.op(Code.stack, "stack", [axis], others));
  }

  /**
   * All elements, row-major. Everything it needs is submitted before this returns, as one batch; the promise waits for
   * it. `f32` and `f16` come as a `Float32Array`, `bool` as a `Uint8Array` of 0 and 1.
   */
  read(): Promise<TensorData> {
    return this.readRange(0, this.size);
  }

  /** The `length` elements from the `start`-th on, row-major. */
  async readRange(start: number, length: number): Promise<TensorData> {
    return decode(await this.bytes(number("read", start), number("read", length)), this.dtype);
  }

  /** All elements, nested as deep as there are axes: what `device.tensor` takes. A number where there are none. */
  async readNested(): Promise<number | NestedArray> {
    return nest([...(await this.read())], this.shape);
  }

  /** The only element of a tensor that has one, as a number; `bool` gives 0 or 1. */
  async item(): Promise<number> {
    if (this.size !== 1) throw shapeError(`item: shape [${this.shape.join(", ")}] does not have one element`);
    return (await this.read())[0]!;
  }

  /** Elements as the device stores them. @internal */
  async bytes(start: number, length: number): Promise<Uint8Array> {
    const handle = this.use("read");
    const { core } = this.owner;
    const piece = (from: number, count: number) =>
      callAsync<Uint8Array>((settle) => core.later(Later.read, handle, from, count, settle));
    if (!(length > PIECE) || start + length > this.size) return piece(start, length);
    // All asked for at once, so that the tensor may be disposed of meanwhile.
    const pieces = [];
    for (let done = 0; done < length; done += PIECE) pieces.push(piece(start + done, Math.min(PIECE, length - done)));
    const parts = await Promise.all(pieces);
    const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /** Submits what it needs, without waiting. */
  run(): void {
    const handle = this.use("run");
    ask(this.owner.core, Ask.run, [handle]);
  }

  /** The same values on another device: read from this one, and written to that. */
  async to(device: Device): Promise<Tensor> {
    const { dtype, shape } = this;
    return device.upload(await this.bytes(0, this.size), dtype, shape);
  }

  /** `Tensor(f32 [2, 3] on webgpu)`. */
  override toString(): string {
    if (this.disposed) return "Tensor(disposed)";
    return `Tensor(${this.dtype} [${this.shape.join(", ")}] on ${this.device.info.backend})`;
  }
}

function join(tensors: unknown, name: string, apply: (first: Tensor, others: Tensor[]) => Tensor): Tensor {
  if (!Array.isArray(tensors)) throw dataError(`${name}: ${describe(tensors)} is not a list of tensors`);
  const [first, ...others] = tensors;
  if (!(first instanceof Tensor)) throw dataError(`${name}: there is no tensor to begin with`);
  if (others.includes(undefined)) throw dataError(`${name}: an operand is not a tensor`);
  return apply(first, others);
}
