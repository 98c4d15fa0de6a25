// Several results in one submission, programs that are compiled once, and what both are planned as.

import { describe } from "./arguments.js";
import { Ask, Words } from "./codes.js";
import { ask, call } from "./core.js";
import type { Device } from "./device.js";
import { dataError } from "./errors.js";
import { Handle } from "./handle.js";
import { Tensor } from "./tensor.js";

/** What a submission does, or would do. */
export class Plan extends Handle {
  /** How many recorded operations it stands for. */
  readonly operations: number;
  /** How many kernels it runs. */
  readonly kernels: number;
  /** How many buffers it writes: results and temporaries. */
  readonly buffers: number;
  /** The bytes of these. */
  readonly bytes: number;
  /** All of it for people: a line of sums, then two lines for each kernel. */
  readonly text: string;
  /** For each kernel the operations it stands for: `matmul[8,4]x[4,2] + add + relu`. */
  readonly labels: readonly string[];

  /** @internal */
  constructor(device: Device, handle: number) {
    super(device.owner, handle);
    const words = call(() => device.owner.core.words(Words.plan, handle, 0));
    const [operations, buffers, bytes, text, ...labels] = words.split("\0");
    this.operations = Number(operations);
    this.kernels = labels.length;
    this.buffers = Number(buffers);
    this.bytes = Number(bytes);
    this.text = text!;
    this.labels = labels;
  }

  /** For each kernel the text it is compiled from; undefined on the CPU, which compiles none. */
  sources(): (string | undefined)[] {
    const handle = this.use("sources");
    return this.labels.map((_, kernel) => call(() => this.owner.core.words(Words.source, handle, kernel)) || undefined);
  }

  /** {@link Plan.text}. */
  override toString(): string {
    return this.text;
  }
}

/**
 * Tensors that are to be computed together, as one submission. They can be read afterwards in any order.
 *
 * ```ts
 * const [sum, top] = [x.exp().sum(), x.max()];
 * const batch = device.batch().add(sum).add(top);
 * console.log(batch.plan().text);
 * batch.run();
 * console.log(await sum.item(), await top.item());
 * ```
 */
export class Batch {
  readonly #device: Device;
  readonly #results: Tensor[] = [];

  /** @internal */
  constructor(device: Device) {
    this.#device = device;
  }

  /** Adds a result. */
  add(tensor: Tensor): this {
    this.#device.check("batch", tensor);
    this.#results.push(tensor);
    return this;
  }

  /** What running it now would do. */
  plan(): Plan {
    return planned(this.#device, Ask.planBatch, this.#handles())!;
  }

  /** Submits it, without waiting. */
  run(): void {
    ask(this.#device.owner.core, Ask.runBatch, this.#handles());
  }

  #handles(): number[] {
    const device = this.#device.use("batch");
    return [device, ...this.#results.map((tensor) => tensor.use("batch"))];
  }
}

/**
 * A computation compiled once: running it plans, compiles and (once its earlier results are disposed) allocates nothing.
 *
 * ```ts
 * const program = device.compile([{ shape: [2] }], (x) => x.mul(2).relu());
 * const [y] = program.run(device.tensor([3, -1]));
 * console.log(await y.read()); // Float32Array [6, 0]
 * ```
 */
export class Program extends Handle {
  readonly #device: Device;
  #plan: Plan | undefined;

  /** @internal */
  constructor(device: Device, handle: number) {
    super(device.owner, handle);
    this.#device = device;
  }

  /** Submits it with these inputs, which have the shapes and types it was compiled for; the results, in order. */
  run(...inputs: Tensor[]): Tensor[] {
    const program = this.use("program");
    const handles = inputs.map((input) => this.#device.check("program", input));
    const results = ask(this.owner.core, Ask.runProgram, [program, ...handles]);
    return Array.from(results, (handle) => this.#device.adopt(handle));
  }

  /** What it does. */
  get plan(): Plan {
    const program = this.use("program");
    return (this.#plan ??= planned(this.#device, Ask.programPlan, [program])!);
  }
}

/** Asks for a plan; undefined where there is none. @internal */
export function planned(device: Device, what: Ask, handles: readonly number[]): Plan | undefined {
  const [plan] = ask(device.owner.core, what, handles);
  return plan === undefined ? undefined : new Plan(device, plan);
}

/** The results of a program's function as a list. */
export function resultList(results: unknown): Tensor[] {
  const list = Array.isArray(results) ? results : [results];
  const odd = list.find((result) => !(result instanceof Tensor));
  if (odd !== undefined || list.includes(undefined)) {
    const what = odd instanceof Promise ? "a promise: the function must not be async" : describe(odd);
    throw dataError(`compile: the function returned ${what}`);
  }
  return list;
}
