// The device: opening one, creating tensors on it, its counters and memory.

import { dtypeCode, element, numbers, options, resolve, seedOf } from "./arguments.js";
import type { DType, Shape } from "./arguments.js";
import { discover, isAvailable, type DeviceInfo, type Found } from "./choose.js";
import { Ask, Code, Later, Words } from "./codes.js";
import { ask, callAsync, call, type Numbers, record } from "./core.js";
import { encode, type TensorSource } from "./data.js";
import { dataError, WarpweftError } from "./errors.js";
import type { DeviceLimits, Stats } from "./figures.js";
import { Handle } from "./handle.js";
import type { Core } from "./load.js";
import { type DeviceOptions, handing, open } from "./open.js";
import { Batch, planned, Program, resultList, type Plan } from "./plan.js";
import { Tensor } from "./tensor.js";
import { tune, type Tuned, type TuneOptions } from "./tune.js";

/** The parameters of {@link Device.uniform}. */
export interface UniformOptions {
  /** The least value; usually 0. */
  low?: number;
  /** What all values are below; usually 1. */
  high?: number;
  /** The same seed gives the same numbers on every device; without one they are random. */
  seed?: number;
}

/** The parameters of {@link Device.normal}. */
export interface NormalOptions {
  /** Usually 0. */
  mean?: number;
  /** The standard deviation; usually 1. */
  deviation?: number;
  /** The same seed gives the same numbers on every device; without one they are random. */
  seed?: number;
}

/** An input of a program. */
export interface InputSpec {
  shape: Shape;
  /** Usually `f32`. */
  dtype?: DType;
}

/** A machine that tensors live on. */
export class Device extends Handle {
  /** What it is. */
  readonly info: DeviceInfo;
  /** What it can do. */
  readonly limits: DeviceLimits;
  /** Why it is the CPU, where a GPU was to be expected. */
  readonly fallback: string | undefined;
  /** What was made in each scope that is open, the innermost last. */
  readonly #scopes: Tensor[][] = [];

  private constructor(core: Core, handle: number, fallback: string | undefined) {
    super({ core, gone: false }, handle);
    const words = call(() => core.words(Words.device, handle, 0));
    const [backend = "", name = "", vendor = "", kind, driver = ""] = words.split("\0");
    this.info = { backend, name, vendor, kind: kind as DeviceInfo["kind"], driver };
    this.fallback = fallback;
    const [buffersPerKernel, bindingBytes, workgroups, workgroupSize, workgroupBytes, f16] = this.#figures();
    this.limits = {
      buffersPerKernel: buffersPerKernel!,
      bindingBytes: bindingBytes!,
      workgroups: workgroups!,
      workgroupSize: workgroupSize!,
      workgroupBytes: workgroupBytes!,
      f16: f16 === 1,
    };
  }

  /**
   * Opens a device.
   *
   * ```ts
   * const device = await Device.new();
   * if (device.fallback) console.warn(device.fallback);
   * ```
   */
  static new(settings?: DeviceOptions): Promise<Device> {
    return open(settings, async ({ core, choice: { adapter, lowPower = false, fallback } }) => {
      const opened = () => callAsync<number>((settle) => core.later(Later.open, Number(lowPower), 0, 0, settle));
      return new Device(core, await handing(adapter, opened), fallback);
    });
  }

  /** Every device there is, the recommended one first. Opens and loads nothing. */
  static discover(): Promise<Found[]> {
    return discover();
  }

  /** Whether there is a GPU. Opens and loads nothing. */
  static isAvailable(): Promise<boolean> {
    return isAvailable();
  }

  #figures(): Float64Array {
    const handle = this.use("device");
    return ask(this.owner.core, Ask.figures, [handle]);
  }

  /** Counters and memory. */
  stats(): Stats {
    const figures = this.#figures();
    const at = (n: number) => figures[n]!;
    return {
      plans: at(6),
      pipelines: at(7),
      buffers: at(8),
      bindGroups: at(9),
      submits: at(10),
      kernels: at(11),
      bytes: at(12),
      usedBytes: at(13),
      pooledBytes: at(14),
      peakBytes: at(15),
      nodes: at(16),
    };
  }

  /** Gives memory that is kept for reuse back to the system. */
  trim(): void {
    const handle = this.use("trim");
    ask(this.owner.core, Ask.trim, [handle]);
  }

  /**
   * Has the device run the kernels that are fastest on it, where there are several for the same work: as an earlier visit
   * measured them in this browser (they are kept in IndexedDB), or else, and if `again`, by measuring. That took 45
   * seconds where a CPU plays the GPU; nobody has timed it on a real one. Programs that were compiled before keep their
   * kernels.
   *
   * ```ts
   * const { variants, measured } = await device.tune();
   * console.log(measured ? "measured" : "known", variants);
   * ```
   */
  tune(settings?: TuneOptions): Promise<Tuned> {
    return tune(this.owner.core, () => this.use("tune"), this.info, settings);
  }

  /** Submits everything recorded since the last time that a tensor holds and nothing else uses, and the values of variables. */
  flush(): void {
    const handle = this.use("flush");
    ask(this.owner.core, Ask.flush, [handle]);
  }

  /** Resolves when all work submitted so far is done; rejects with what went wrong with it. */
  async sync(): Promise<void> {
    const handle = this.use("sync");
    await callAsync<void>((settle) => this.owner.core.later(Later.sync, handle, 0, 0, settle));
  }

  /** Frees the device and everything on it: tensors, programs, plans. */
  override dispose(): void {
    super.dispose();
    this.owner.gone = true;
  }

  /** A tensor for a handle that WebAssembly gave. @internal */
  adopt(handle: number): Tensor {
    const tensor = new Tensor(this, handle);
    this.#scopes.at(-1)?.push(tensor);
    return tensor;
  }

  /**
   * Runs `work`, then frees every tensor that was made in it but those it returns (one, a list, or an object of them).
   * Intermediate results of long chains hold the memory of what they were made from until the garbage collector comes
   * by: a loop that runs for long does its steps in scopes. `work` must not be async.
   *
   * ```ts
   * weight = device.scope(() => weight.sub(gradient.mul(rate)));
   * ```
   */
  scope<T>(work: () => T): T {
    const made: Tensor[] = [];
    this.#scopes.push(made);
    const kept = new Set<unknown>();
    try {
      const result = work();
      if (result instanceof Promise) throw dataError("scope: the function must not be async");
      if (typeof result === "object" && result !== null) [result, ...Object.values(result)].forEach((x) => kept.add(x));
      return result;
    } finally {
      this.#scopes.pop();
      for (const tensor of made) {
        if (kept.has(tensor)) this.#scopes.at(-1)?.push(tensor);
        else tensor.dispose();
      }
    }
  }

  /** Has {@link Device.flush} compute a tensor, and takes it out of the scopes it was made in. @internal */
  keep(tensor: Tensor): void {
    ask(this.owner.core, Ask.keep, [tensor.use("variable")]);
    this.release(tensor);
  }

  /** Takes a tensor out of the scopes it was made in. @internal */
  release(tensor: Tensor): void {
    for (const made of this.#scopes) if (made.includes(tensor)) made.splice(made.indexOf(tensor), 1);
  }

  /** The handle of what should be a tensor of this device. @internal */
  check(name: string, tensor: unknown): number {
    if (!(tensor instanceof Tensor)) throw dataError(`${name}: an operand is not a tensor`);
    if (tensor.device !== this) throw dataError(`${name}: the tensor lives on another device; move it with to()`);
    return tensor.use(name);
  }

  /** A tensor of elements as devices store them. @internal */
  upload(bytes: Uint8Array, dtype: DType, shape: Shape): Tensor {
    const handle = this.use("tensor");
    // Looked at before WebAssembly's memory grows for it.
    if (bytes.length > this.limits.bindingBytes) {
      const most = this.limits.bindingBytes;
      throw new WarpweftError("Limit", `tensor: ${bytes.length} bytes, more than the ${most} a kernel can use on this device`);
    }
    const numbers = Float64Array.of(dtypeCode("tensor", dtype), ...shape);
    return this.adopt(call(() => this.owner.core.upload(handle, bytes, numbers)));
  }

  /**
   * A tensor of this data, row-major. The shape is usually that of the data: none for a number, the nesting of arrays,
   * the length of a typed array. One extent of a given shape may be -1. The type is usually that of the data, too.
   *
   * ```ts
   * device.tensor([[1, 2, 3], [4, 5, 6]]);                   // f32 [2, 3]
   * device.tensor(new Int32Array([1, 2, 3, 4]), [2, 2]);     // i32 [2, 2]
   * device.tensor([1, 0, 1], [3], "bool");
   * ```
   */
  tensor(data: TensorSource, shape?: Shape, dtype?: DType): Tensor {
    if (dtype !== undefined) dtypeCode("tensor", dtype);
    const elements = encode(data, dtype);
    const count = elements.bytes.length / 4;
    const extents = shape === undefined ? elements.shape : resolve("tensor", shape, count);
    if (elements.dtype !== "f16") return this.upload(elements.bytes, elements.dtype, extents);
    const wide = this.upload(elements.bytes, "f32", extents);
    try {
      return wide.cast("f16");
    } finally {
      wide.dispose();
    }
  }

  #create(code: Code, name: string, numbers: Numbers): Tensor {
    const handle = this.use(name);
    return this.adopt(record(this.owner.core, code, name, [handle], numbers));
  }

  /** Zeros of type `f32`. */
  zeros(shape: Shape): Tensor {
    return this.full(shape, 0);
  }

  /** Ones of type `f32`. */
  ones(shape: Shape): Tensor {
    return this.full(shape, 1);
  }

  /** `value` everywhere; the type is usually `f32`, or `bool` for a boolean. */
  full(shape: Shape, value: number | boolean, dtype: DType = typeof value === "boolean" ? "bool" : "f32"): Tensor {
    const code = dtypeCode("full", dtype);
    return this.#create(Code.full, "full", [code, element("full", dtype, value), ...numbers("full", shape)]);
  }

  /** The coordinate along `axis`, as `i32`, everywhere in `shape`. */
  iota(shape: Shape, axis: number): Tensor {
    return this.#create(Code.iota, "iota", [axis, ...numbers("iota", shape)]);
  }

  /** `start + i * step` for i from 0 to below `count`, as `f32`. */
  arange(start: number, step: number, count: number): Tensor {
    return this.#create(Code.arange, "arange", [start, step, count]);
  }

  /** `count` evenly spaced `f32` values from `start` to `stop`, both included. */
  linspace(start: number, stop: number, count: number): Tensor {
    return this.#create(Code.linspace, "linspace", [start, stop, count]);
  }

  /** The `n` by `n` identity matrix, `f32`. */
  eye(n: number): Tensor {
    return this.#create(Code.eye, "eye", [n]);
  }

  /** Uniformly distributed in `[low, high)`, `f32`. */
  uniform(shape: Shape, settings?: UniformOptions): Tensor {
    const { low = 0, high = 1, seed } = options("uniform", settings);
    const parameters = [low, high, seedOf("uniform", seed)];
    return this.#create(Code.uniform, "uniform", [...parameters, ...numbers("uniform", shape)]);
  }

  /** Normally distributed, `f32`. */
  normal(shape: Shape, settings?: NormalOptions): Tensor {
    const { mean = 0, deviation = 1, seed } = options("normal", settings);
    const parameters = [mean, deviation, seedOf("normal", seed)];
    return this.#create(Code.normal, "normal", [...parameters, ...numbers("normal", shape)]);
  }

  /** 1 with probability `p`, else 0, `f32`. */
  bernoulli(shape: Shape, p: number, seed?: number): Tensor {
    const parameters = [p, seedOf("bernoulli", seed)];
    return this.#create(Code.bernoulli, "bernoulli", [...parameters, ...numbers("bernoulli", shape)]);
  }

  /** An empty batch: tensors that are to be computed together. */
  batch(): Batch {
    return new Batch(this);
  }

  /**
   * Compiles a program. `build` is called once, with tensors that stand for the inputs, and returns the result or a list
   * of results. Other tensors that it uses are kept by the program as they are; those made in it are the program's, and
   * disposed of for others.
   */
  compile(inputs: readonly InputSpec[], build: (...inputs: Tensor[]) => Tensor | readonly Tensor[]): Program {
    const name = "compile";
    if (!Array.isArray(inputs)) throw dataError(`${name}: the inputs are not a list of { shape, dtype }`);
    if (typeof build !== "function") throw dataError(`${name}: there is no function to compile`);
    const specs = inputs.flatMap((input: InputSpec) => {
      const { shape, dtype = "f32" } = options(name, input);
      const extents = numbers(name, shape);
      return [extents.length, dtypeCode(name, dtype), ...extents];
    });
    const handle = this.use(name);
    const built = (handles: Float64Array) => {
      const results = build(...Array.from(handles, (input) => this.adopt(input)));
      return Uint32Array.from(resultList(results), (result) => this.check(name, result));
    };
    const { core } = this.owner;
    const program = this.scope(() => call(() => core.compile(handle, Float64Array.from(specs), built)));
    return new Program(this, program);
  }

  /** What the last submission was planned as; undefined before the first. */
  lastPlan(): Plan | undefined {
    const device = this.use("lastPlan");
    return planned(this, Ask.lastPlan, [device]);
  }
}
