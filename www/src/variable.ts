// What is assigned to: parameters, caches.

import { describe } from "./arguments.js";
import { dataError, shapeError, WarpweftError } from "./errors.js";
import { Tensor } from "./tensor.js";

/**
 * A place for a tensor of one shape and type: what a model learns, or keeps between steps. It owns what is assigned to it
 * and disposes of that when the next value comes.
 *
 * Assigning runs nothing. {@link Device.flush} at the end of a step makes one submission of all that was recorded: the
 * step's loss, gradients and new values.
 *
 * ```ts
 * const w = new Variable(device.tensor([3]));
 * for (let step = 0; step < 50; step++) {
 *   w.value.sub(1).square().sum().backward([w]);
 *   w.assign(w.value.sub(w.takeGradient()!.mul(0.1)));
 *   device.flush();
 * }
 * console.log(await w.value.item()); // close to 1
 * ```
 */
export class Variable {
  #value: Tensor;
  #gradient: Tensor | undefined;

  /** A variable with this value, which it takes over. */
  constructor(value: Tensor) {
    if (!(value instanceof Tensor)) throw dataError(`variable: ${describe(value)} is not a tensor`);
    this.#value = value;
    value.device.keep(value);
  }

  /** What was assigned last. It belongs to the variable: {@link Tensor.detach} gives one that stays. */
  get value(): Tensor {
    return this.#value;
  }

  /** Takes this value from now on, and disposes of the one before. */
  assign(value: Tensor): void {
    const name = "assign";
    const before = this.#value;
    if (!(value instanceof Tensor)) throw dataError(`${name}: ${describe(value)} is not a tensor`);
    if (value === before) return;
    if (value.device !== before.device) throw dataError(`${name}: the value lives on another device; move it with to()`);
    if (value.dtype !== before.dtype) {
      throw new WarpweftError("DType", `${name}: ${value.dtype} to a variable of ${before.dtype}`);
    }
    const [had, has] = [before.shape.join(", "), value.shape.join(", ")];
    if (had !== has) throw shapeError(`${name}: shapes [${had}] and [${has}]: a variable keeps its shape`);
    this.#value = value;
    value.device.keep(value);
    before.dispose();
  }

  /** Adds to the gradient. @internal */
  gather(gradient: Tensor): void {
    const before = this.#gradient;
    this.#gradient = before === undefined ? gradient : before.add(gradient);
    this.#gradient.device.release(this.#gradient);
    before?.dispose();
  }

  /** What {@link Tensor.backward} has left, added up, until it is taken; undefined where there is nothing. */
  takeGradient(): Tensor | undefined {
    const gradient = this.#gradient;
    this.#gradient = undefined;
    return gradient;
  }

  /** Frees the value, and the gradient if it was not taken. */
  dispose(): void {
    this.#value.dispose();
    this.takeGradient()?.dispose();
  }

  /** {@link Variable.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
