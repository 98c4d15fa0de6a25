// The classes as users have them: what both cores share. The rest of their methods come from the core that an object lives
// on, whose classes inherit from these (`brand.ts`); the declarations are what wasm-bindgen wrote (`www/tools/build.mjs`).

import { Brand, type CoreClass } from "./brand.js";
import { discover, isAvailable, type DeviceInfo, type Found } from "./choose.js";
import { encode, nest, type DType, type NestedArray } from "./data.js";
import { dataError } from "./errors.js";
import { checked, describe, type Host } from "./host.js";
import { shareClasses } from "./load.js";
import { handing, open, type DeviceOptions } from "./open.js";
import { borrow, share, SharedBuffer, type BufferSpec, type Pinned, type ShareOptions } from "./share.js";
import { show, type TextOptions } from "./text.js";
import { tune, type Tuned, type TuneOptions } from "./tune.js";

/** The core that an object lives on; what is no object of a core is refused in the name of an operation. */
function hostOf(object: unknown, op: string): Host {
  const host = Brand.owner(object);
  if (host === undefined) throw dataError(`${op}: ${describe(object)} is no object of this package`);
  return host as Host;
}

/** The class of the core that the first object among some arguments lives on. */
function classOf(kind: string, op: string, values: readonly unknown[]): CoreClass & Record<string, Function> {
  const found = values.flat().find((value) => Brand.owner(value) !== undefined);
  if (found === undefined) throw dataError(`${op}: ${describe(values.flat()[0])} is not a tensor`);
  return hostOf(found, op).classes[kind] as CoreClass & Record<string, Function>;
}

/** What says of itself what it is, in the consoles of Node and Deno, too. */
abstract class Shown {
  constructor() {
    throw dataError(`${new.target.name}: is made by its device`);
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return String(this);
  }

  [Symbol.for("Deno.customInspect")](): string {
    return String(this);
  }
}

/** Shows objects as what they say they are in Chromium's developer tools, where people turned custom formatters on. */
const formatter = {
  header: (object: unknown) => (object instanceof Shown && Brand.owner(object) ? ["span", {}, String(object)] : null),
  hasBody: () => false,
};

function explain(): void {
  const tools = globalThis as { devtoolsFormatters?: unknown[] };
  tools.devtoolsFormatters ??= [];
  if (!tools.devtoolsFormatters.includes(formatter)) tools.devtoolsFormatters.push(formatter);
}

/** Whether an object was disposed. */
const isGone = (object: object) => (object as { disposed: boolean }).disposed;

export class Tensor extends Shown {
  declare readonly device: Device;
  declare readonly dtype: DType;
  declare readonly size: number;
  declare read: () => Promise<ArrayLike<number>>;
  declare bytes: () => Promise<Uint8Array>;
  declare extents: () => number[];
  declare cast: (dtype: DType) => Tensor;
  declare dispose: () => void;
  declare pin: (() => Pinned) | undefined;

  static concat(tensors: readonly Tensor[], axis?: number): Tensor {
    return classOf("Tensor", "concat", [tensors]).concat!(tensors, axis) as Tensor;
  }

  static stack(tensors: readonly Tensor[], axis?: number): Tensor {
    return classOf("Tensor", "stack", [tensors]).stack!(tensors, axis) as Tensor;
  }

  static einsum(equation: string, operands: readonly Tensor[]): Tensor {
    return classOf("Tensor", "einsum", [operands]).einsum!(equation, operands) as Tensor;
  }

  static meshgrid(tensors: readonly Tensor[]): Tensor[] {
    return classOf("Tensor", "meshgrid", [tensors]).meshgrid!(tensors) as Tensor[];
  }

  static vjp(results: readonly Tensor[], seeds: readonly Tensor[], wrt: readonly Tensor[]): Tensor[] {
    return classOf("Tensor", "vjp", [results]).vjp!(results, seeds, wrt) as Tensor[];
  }

  get shape(): readonly number[] {
    return Brand.fact(this, "shape", () => Object.freeze(this.extents())) as readonly number[];
  }

  async readNested(): Promise<number | NestedArray> {
    const { shape } = this;
    return nest(Array.from(await this.read()), shape);
  }

  async to(device: Device): Promise<Tensor> {
    hostOf(device, "to");
    const { dtype, shape } = this;
    return device.upload(await this.bytes(), dtype, shape);
  }

  gpuBuffer(): SharedBuffer {
    const { exports } = hostOf(this, "gpuBuffer");
    return new SharedBuffer(this.pin?.(), (place) => exports.unpin!(place as never));
  }

  async text(options?: TextOptions): Promise<string> {
    const { dtype, shape } = this;
    return show(await this.read(), shape, dtype, options);
  }

  async print(options?: TextOptions): Promise<void> {
    console.log(await this.text(options));
  }

  override toString(): string {
    if (isGone(this)) return "Tensor(disposed)";
    return `Tensor(${this.dtype} [${this.shape.join(", ")}] on ${this.device.info.backend})`;
  }
}

/** A list of tensors that a program's function gave. */
function results(given: unknown): unknown[] {
  const list = Array.isArray(given) ? given : [given];
  const odd = list.findIndex((result) => !(result instanceof Tensor));
  if (odd < 0) return list;
  const what = list[odd] instanceof Promise ? "a promise: the function must not be async" : describe(list[odd]);
  throw dataError(`compile: the function returned ${what}`);
}

export class Device extends Shown {
  declare readonly info: DeviceInfo;
  declare readonly disposed: boolean;
  declare upload: (bytes: Uint8Array, dtype: DType, shape: readonly number[]) => Tensor;
  declare compiled: (shapes: unknown[], dtypes: unknown[], build: (inputs: Tensor[]) => unknown[]) => Program;
  declare measure: () => Promise<number>;
  declare choose: (number: number) => string;
  declare version: () => string;
  declare borrow: Parameters<typeof borrow>[0];

  static new(options?: DeviceOptions): Promise<Device> {
    explain();
    const opened = open(options, ({ core, choice: { adapter, lowPower = false, fallback } }) =>
      handing(adapter, () => core.open(lowPower, fallback)),
    );
    return opened as Promise<Device>;
  }

  static from(device: unknown, options?: ShareOptions): Promise<Device> {
    explain();
    return share(device, options) as Promise<Device>;
  }

  static discover(): Promise<Found[]> {
    return discover();
  }

  static isAvailable(): Promise<boolean> {
    return isAvailable();
  }

  tensor(data: unknown, shape?: unknown, dtype?: DType): Tensor {
    const elements = encode(data, shape, dtype);
    const made = this.upload(elements.bytes, elements.stored, elements.shape);
    if (elements.stored === elements.dtype) return made;
    try {
      return made.cast(elements.dtype);
    } finally {
      made.dispose();
    }
  }

  tensorFromBuffer(buffer: unknown, spec: BufferSpec): Tensor {
    hostOf(this, "tensorFromBuffer");
    return borrow(this.borrow?.bind(this), buffer, spec) as Tensor;
  }

  compile(inputs: unknown, build: unknown): Program {
    const name = "compile";
    hostOf(this, name);
    if (!Array.isArray(inputs)) throw dataError(`${name}: the inputs are not a list of { shape, dtype }`);
    if (typeof build !== "function") throw dataError(`${name}: there is no function to compile`);
    const specs = inputs.map((input: { shape?: unknown; dtype?: unknown }) => checked(name, input, ["shape", "dtype"]));
    const shapes = specs.map(({ shape }) => shape);
    const dtypes = specs.map(({ dtype = "f32" }) => dtype);
    const scoped = (tensors: Tensor[]) => this.scope(() => results(build(...tensors)));
    return this.scope(() => this.compiled(shapes, dtypes, scoped));
  }

  scope<T>(work: () => T): T {
    const { scopes } = hostOf(this, "scope");
    if (typeof work !== "function") throw dataError(`scope: ${describe(work)} is not a function`);
    const made = new Set<object>();
    scopes.push(made);
    const kept = new Set<unknown>();
    try {
      const result: unknown = work();
      if (result instanceof Promise) throw dataError("scope: the function must not be async");
      if (typeof result === "object" && result !== null) [result, ...Object.values(result)].forEach((x) => kept.add(x));
      return result as T;
    } finally {
      scopes.pop();
      for (const tensor of made as Set<Tensor>) {
        // Those of another device belong to the scope around this one.
        if (kept.has(tensor) || (!isGone(tensor) && tensor.device !== this)) scopes.at(-1)?.add(tensor);
        else tensor.dispose();
      }
    }
  }

  tune(options?: TuneOptions): Promise<Tuned> {
    return tune(this, options);
  }

  override toString(): string {
    return `Device(${this.info.backend}: ${this.info.name})`;
  }
}

export class Variable extends Shown {
  declare readonly value: Tensor;

  // @ts-expect-error: the core's object stands for this one.
  constructor(value: unknown) {
    const core = classOf("Variable", "variable", [value]) as unknown as new (value: unknown) => Variable;
    return new core(value);
  }

  override toString(): string {
    return isGone(this) ? "Variable(disposed)" : `Variable(${this.value})`;
  }
}

export class Batch extends Shown {
  declare push: (tensor: Tensor) => void;

  add(tensor: Tensor): this {
    this.push(tensor);
    return this;
  }

  override toString(): string {
    return "Batch";
  }
}

export class Program extends Shown {
  declare readonly plan: Plan;

  override toString(): string {
    return isGone(this) ? "Program(disposed)" : `Program: ${this.plan}`;
  }
}

export class Plan extends Shown {
  declare readonly text: string;

  override toString(): string {
    return this.text;
  }
}

shareClasses({ Tensor, Device, Variable, Batch, Program, Plan });
