// What all operations on tensors are made of: calls into WebAssembly with handles and numbers.

import { number, type DType, type Shape } from "./arguments.js";
import { Ask, dtypes, FIRST_ROW, type Code } from "./codes.js";
import { ask, call, record, type Numbers } from "./core.js";
import type { Device } from "./device.js";
import { dataError } from "./errors.js";
import { Handle } from "./handle.js";
import type { Operand, Tensor } from "./tensor.js";

const NONE = new Float64Array();

/** A tensor as the families of operations see it. */
export abstract class Recorded extends Handle {
  /** The device it lives on. */
  readonly device: Device;
  #facts: { dtype: DType; shape: Shape } | undefined;

  /** @internal */
  constructor(device: Device, handle: number) {
    super(device.owner, handle);
    this.device = device;
  }

  get #known(): { dtype: DType; shape: Shape } {
    if (!this.#facts) {
      const handle = this.use("tensor");
      const [code, ...shape] = ask(this.owner.core, Ask.describe, [handle]);
      this.#facts = { dtype: dtypes[code!]!, shape: Object.freeze(shape) };
    }
    return this.#facts;
  }

  /** Its extents, outermost first. */
  get shape(): Shape {
    return this.#known.shape;
  }

  /** The type of its elements. */
  get dtype(): DType {
    return this.#known.dtype;
  }

  /** The number of its axes. */
  get rank(): number {
    return this.shape.length;
  }

  /** The number of its elements. */
  get size(): number {
    return this.shape.reduce((product, extent) => product * extent, 1);
  }

  /** The handle of another operand, which must be a tensor of the same device. @internal */
  operand(name: string, other: unknown): number {
    const real = typeof other === "object" && other !== null && #facts in other;
    if (!real) throw dataError(`${name}: an operand is not a tensor`);
    if (other.device !== this.device) {
      const [here, there] = [this.device.info, other.device.info];
      const both = `${here.name} (${here.backend}) and ${there.name} (${there.backend})`;
      throw dataError(`${name}: operands on two devices, ${both}; move one with to()`);
    }
    return other.use(name);
  }

  /** Records a row of the pointwise table, of so many further operands, and numbers after them. @internal */
  protected row(row: number, name: string, given: readonly Operand[], count: number): Tensor {
    const handles = new Uint32Array(count + 1);
    handles[0] = this.use(name);
    let numbers = NONE;
    for (let i = 0; i < given.length; i++) {
      const operand = given[i];
      if (i < count && typeof operand === "object") handles[i + 1] = this.operand(name, operand);
      else numbers = Float64Array.of(...numbers, number(name, operand));
    }
    const { core } = this.owner;
    return this.device.adopt(call(() => core.apply(FIRST_ROW + row, handles, numbers)));
  }

  /** Records another operation; an operand that is left out has the handle 0. @internal */
  protected op(
    code: Code,
    name: string,
    numbers: Numbers,
    others: readonly (Tensor | undefined)[] = [],
  ): Tensor {
    const first = this.use(name);
    const rest = others.map((other) => (other === undefined ? 0 : this.operand(name, other)));
    return this.device.adopt(record(this.owner.core, code, name, [first, ...rest], numbers));
  }
}
