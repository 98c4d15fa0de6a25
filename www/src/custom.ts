// Custom kernels: elementwise functions and compute shaders.

import type { Tensor } from "./classes.js";
import { checked, needShort, refused } from "./host.js";
import { entries } from "./named.js";
import { hostOf, isGone, Shown } from "./objects.js";

export class ElementFunction extends Shown {
  declare readonly name: string;

  override toString(): string {
    return isGone(this) ? "ElementFunction(disposed)" : `ElementFunction(${this.name})`;
  }
}

/** Tensors by their names in a shader. */
export type Tensors = Record<string, Tensor>;

/** The arguments of one run of a shader. */
interface ShaderRun {
  inputs: Tensors;
  /** The shapes of the outputs. */
  outputs: Record<string, readonly number[]>;
  /** The number of workgroups along each dimension. */
  workgroups: readonly number[];
  params?: Record<string, number>;
}

export class Shader extends Shown {
  declare names: () => { inputs: string[]; outputs: string[]; params: string[] };
  declare launch: (...values: unknown[]) => Tensor[];

  run(run: ShaderRun): Tensors {
    const name = "shader";
    hostOf(this, name);
    const given = checked(name, run, ["inputs", "outputs", "workgroups", "params"]);
    const { inputs, outputs, params = {}, workgroups } = given;
    const parts = [inputs, outputs, params].map((part, at) => {
      if (typeof part !== "object" || part === null) {
        throw refused(name, ["inputs", "outputs", "params"][at]!, "an object by name", part);
      }
      return entries(name, part);
    });
    needShort(name, "workgroups", workgroups);
    if (!Array.isArray(workgroups)) throw refused(name, "workgroups", "a list of numbers", workgroups);
    const [[a, tensors], [b, shapes], [c, numbers]] = parts as unknown as [Part, Part, Part];
    const made = this.launch(a, tensors, b, shapes, workgroups, c, numbers);
    return Object.fromEntries(this.names().outputs.map((key, at) => [key, made[at]!]));
  }

  override toString(): string {
    return isGone(this) ? "Shader(disposed)" : `Shader(${this.names().outputs.join(", ")})`;
  }
}

/** A list of names, and a list of their values. */
type Part = readonly [string[], unknown[]];

/** The options of an element function. */
export interface ElementFunctionOptions {
  /** The derivative by each operand. */
  gradients?: readonly ElementFunction[];
  /** Computes the same result with tensor operations, on the CPU. Gradients are then those of these operations. */
  fallback?: (...operands: Tensor[]) => Tensor;
}

/** The options of a shader. */
export interface ShaderOptions {
  /** Returns the gradients of the inputs. */
  gradient?: (inputs: Tensors, outputs: Tensors, gradients: Tensors) => Tensors;
  /** Computes the same results with tensor operations, on the CPU. Gradients are then those of these operations. */
  fallback?: (inputs: Tensors, params: Record<string, number>) => Tensors;
}

/** Checks that a source is a text. */
export function text(op: string, source: unknown): string {
  if (typeof source !== "string") throw refused(op, "source", "a string", source);
  return source;
}
