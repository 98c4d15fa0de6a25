// The public classes, with the parts that both cores share. The classes of each core inherit from them and add the other
// methods (`brand.ts`). wasm-bindgen writes their declarations (`www/tools/build.mjs`).

import { Brand } from "./brand.js";
import { discover, isAvailable, type DeviceInfo, type Found } from "./choose.js";
import { encode, nest, type DType, type NestedArray } from "./data.js";
import { ElementFunction, Shader, text, type ElementFunctionOptions, type ShaderOptions, type Tensors } from "./custom.js";
import { argumentError } from "./errors.js";
import { bytesOf, loadNpz, loadSafetensors, saveSafetensors, type FileOptions, type Files, type Safetensors } from "./files.js";
import { checked, look, needShort, needSync, refused } from "./host.js";
import { shareClasses } from "./load.js";
import { entries } from "./named.js";
import { aliveOn, classOf, explain, hostOf, isGone, Shown } from "./objects.js";
import { handing, open, type DeviceOptions } from "./open.js";
import { profile, Profile } from "./profile.js";
import { borrow, share, SharedBuffer, type BufferSpec, type Pinned, type ShareOptions } from "./share.js";
import { show, type TextOptions } from "./text.js";
import { tune, type Tuned, type TuneOptions } from "./tune.js";

export { ElementFunction, Profile, Shader };

export class Tensor extends Shown {
  declare readonly device: Device;
  declare readonly dtype: DType;
  declare readonly size: number;
  declare read: () => Promise<ArrayLike<number>>;
  declare bytes: () => Promise<Uint8Array>;
  declare extents: () => number[];
  declare cast: (dtype: DType) => Tensor;
  declare add: (other: Tensor) => Tensor;
  declare dispose: () => void;
  declare pin: (() => Pinned) | undefined;
  declare checkpointed: (since: number) => Tensor;
  declare twin: () => Tensor;

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
    aliveOn(this, "readNested");
    const { shape } = this;
    return nest(Array.from(await this.read()), shape);
  }

  async to(device: Device): Promise<Tensor> {
    const op = "to";
    aliveOn(this, op);
    if (Brand.kind(Object(device) as object) !== "Device") throw refused(op, "device", "a device", device);
    const { dtype, shape } = this;
    return device.upload(await this.bytes(), dtype, shape);
  }

  checkpoint(work: (x: Tensor) => Tensor): Tensor {
    const name = "checkpoint";
    aliveOn(this, name);
    if (typeof work !== "function") throw refused(name, "work", "a function", work);
    const { device } = this;
    const since = device.recorded();
    return device.scope(() => {
      const list = results(work(this), name) as Tensor[];
      if (list.length !== 1) throw argumentError(`${name}: the function must return one tensor, got ${list.length}`);
      if (list[0]!.device !== device) {
        throw argumentError(`${name}: the result must be on the device of the others, got one of another`);
      }
      // The function may return its argument, or a tensor that other code owns. The result is therefore a new object.
      return list[0]!.checkpointed(since);
    });
  }

  gpuBuffer(): SharedBuffer {
    const { exports } = hostOf(this, "gpuBuffer");
    return new SharedBuffer(this.pin?.(), (slot) => exports.unpin!(slot as never));
  }

  async text(options?: TextOptions): Promise<string> {
    aliveOn(this, "text");
    const { dtype, shape } = this;
    return show(await this.read(), shape, dtype, options);
  }

  async print(options?: TextOptions): Promise<void> {
    aliveOn(this, "print");
    console.log(await this.text(options));
  }

  override toString(): string {
    if (isGone(this)) return "Tensor(disposed)";
    return `Tensor(${this.dtype} [${this.shape.join(", ")}] on ${this.device.info.backend})`;
  }
}

/** Checks the result of a function that records tensors, and returns it as a list. */
function results(given: unknown, op = "compile"): unknown[] {
  needShort(op, "the result of the function", given);
  const list = Array.isArray(given) ? given : [given];
  for (const result of list) needSync(op, "the function", result);
  const odd = list.findIndex((result) => !(result instanceof Tensor));
  if (odd < 0) return list;
  throw refused(op, "the result of the function", "a tensor", list[odd]);
}

/** Wraps a user's function of tensors for the core: runs it in a scope, and checks its result. */
function wrapped(device: Device, name: string, work: unknown): ((tensors: Tensor[]) => unknown[]) | undefined {
  if (work === undefined) return undefined;
  if (typeof work !== "function") throw refused(name, "work", "a function", work);
  return (tensors) => device.scope(() => results((work as (...tensors: Tensor[]) => unknown)(...tensors), name));
}

/** The device with its internal methods for files. */
const filing = (device: unknown) => device as Device & Files;

export class Device extends Shown {
  declare readonly info: DeviceInfo;
  declare readonly disposed: boolean;
  declare upload: (bytes: Uint8Array, dtype: DType, shape: readonly number[]) => Tensor;
  declare compiled: (shapes: unknown[], dtypes: unknown[], build: (inputs: Tensor[]) => unknown[]) => Program;
  declare madeElement: (source: string, gradients: readonly ElementFunction[], fallback: unknown) => Promise<ElementFunction>;
  declare madeShader: (source: string, gradient: unknown, fallback: unknown) => Promise<Shader>;
  declare measure: () => Promise<number>;
  declare choose: (number: number) => string;
  declare recorded: () => number;
  declare version: () => string;
  declare beginProfile: () => Promise<void>;
  declare endProfile: () => Promise<Profile>;
  declare stopProfile: () => void;
  declare borrow: Parameters<typeof borrow>[0];

  constructor() {
    super("devices must be opened by `await Device.new()`, got a call of the constructor");
  }

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
    needShort(name, "inputs", inputs);
    if (!Array.isArray(inputs)) throw refused(name, "inputs", "a list of { shape, dtype }", inputs);
    if (typeof build !== "function") throw refused(name, "build", "a function", build);
    const specs = inputs.map((input: { shape?: unknown; dtype?: unknown }) => checked(name, input, ["shape", "dtype"]));
    const shapes = specs.map(({ shape }) => shape);
    const dtypes = specs.map(({ dtype = "f32" }) => dtype);
    const scoped = (tensors: Tensor[]) => this.scope(() => results(build(...tensors)));
    return this.scope(() => this.compiled(shapes, dtypes, scoped));
  }

  async elementFunction(source: unknown, options?: ElementFunctionOptions): Promise<ElementFunction> {
    const name = "elementFunction";
    hostOf(this, name);
    const { gradients = [], fallback } = checked(name, options, ["gradients", "fallback"]);
    needShort(name, "gradients", gradients);
    if (!Array.isArray(gradients) || gradients.some((other) => !(other instanceof ElementFunction))) {
      throw refused(name, "gradients", "a list of element functions", gradients);
    }
    return this.madeElement(text(name, source), gradients, wrapped(this, name, fallback));
  }

  async shader(source: unknown, options?: ShaderOptions): Promise<Shader> {
    const name = "shader";
    hostOf(this, name);
    const { gradient, fallback } = checked(name, options, ["gradient", "fallback"]);
    for (const work of [gradient, fallback]) {
      if (work !== undefined && typeof work !== "function") throw refused(name, "gradient and fallback", "functions", work);
    }
    // The functions below must not capture the shader, because the shader holds them and would never be collected.
    let names: ReturnType<Shader["names"]>;
    const by = (names: readonly string[], tensors: readonly unknown[]) =>
      Object.fromEntries(names.map((key, at) => [key, tensors[at]]));
    const of = (names: readonly string[], given: unknown) => {
      needSync(name, "the function", given);
      if (typeof given !== "object" || given === null) {
        throw refused(name, "the result of the function", "an object of tensors by name", given);
      }
      return results(names.map((key) => (given as Record<string, unknown>)[key]), name);
    };
    const pulled = (tensors: Tensor[]) =>
      this.scope(() => {
        const { inputs, outputs } = names;
        const [a, b] = [inputs.length, inputs.length + outputs.length];
        const parts = [by(inputs, tensors.slice(0, a)), by(outputs, tensors.slice(a, b)), by(outputs, tensors.slice(b))];
        return of(inputs, gradient!(...(parts as [Tensors, Tensors, Tensors])));
      });
    const instead = (numbers: readonly number[], tensors: Tensor[]) =>
      this.scope(() => {
        const { inputs, outputs, params } = names;
        return of(outputs, fallback!(by(inputs, tensors) as Tensors, by(params, numbers) as Record<string, number>));
      });
    const made = await this.madeShader(text(name, source), gradient && pulled, fallback && instead);
    names = made.names();
    return made;
  }

  scope<T>(work: () => T): T {
    const host = hostOf(this, "scope");
    const { scopes } = host;
    if (typeof work !== "function") throw refused("scope", "work", "a function", work);
    const made = new Set<object>();
    scopes.push(made);
    const kept = new Set<unknown>();
    try {
      const result: unknown = work();
      needSync("scope", "the function", result);
      if (typeof result === "object" && result !== null) [result, ...Object.values(result)].forEach((x) => kept.add(x));
      return result as T;
    } finally {
      scopes.pop();
      for (const tensor of made as Set<Tensor>) {
        // Tensors of other devices belong to the enclosing scope. A trapped core cannot say which tensors these are.
        const isOther = () => !host.isLost && !isGone(tensor) && tensor.device !== this;
        if (kept.has(tensor) || isOther()) scopes.at(-1)?.add(tensor);
        else tensor.dispose();
      }
    }
  }

  loadSafetensors(source: unknown, options?: FileOptions): Promise<Safetensors> {
    return loadSafetensors(filing(this), source, options);
  }

  async saveSafetensors(tensors: unknown, metadata?: unknown): Promise<Uint8Array> {
    return saveSafetensors(filing(this), tensors, metadata);
  }

  async loadNpy(source: unknown): Promise<Tensor> {
    const bytes = await bytesOf("loadNpy", source);
    return filing(this).fromNpy(bytes);
  }

  loadNpz(source: unknown): Promise<Record<string, Tensor>> {
    return loadNpz(filing(this), source);
  }

  async saveNpz(tensors: unknown, options?: { compressed?: boolean }): Promise<Uint8Array> {
    const { compressed = false } = checked("saveNpz", options, ["compressed"]);
    if (typeof compressed !== "boolean") throw refused("saveNpz", "compressed", "true or false", compressed);
    return filing(this).toNpz(...entries("saveNpz", tensors), compressed);
  }

  tune(options?: TuneOptions): Promise<Tuned> {
    return tune(this, options);
  }

  async profile<T>(work: () => T | Promise<T>): Promise<{ value: T; profile: Profile }> {
    hostOf(this, "profile");
    if (typeof work !== "function") throw refused("profile", "work", "a function", work);
    return profile(this, work);
  }

  override toString(): string {
    return Brand.owner(this) ? `Device(${this.info.backend}: ${this.info.name})` : "Device";
  }
}

export class Variable extends Shown {
  declare readonly value: Tensor;

  // @ts-expect-error: the constructor returns the core's object instead.
  constructor(value: unknown) {
    if (Array.isArray(value)) {
      throw argumentError("variable: value must be a tensor, got an array; device.tensor makes one of it");
    }
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
    // A program with named axes has its first plan after the first run.
    return isGone(this) ? "Program(disposed)" : `Program: ${look(() => this.plan) ?? "not planned yet"}`;
  }
}

export class Plan extends Shown {
  declare readonly text: string;

  override toString(): string {
    return isGone(this) ? "Plan(disposed)" : this.text;
  }
}

shareClasses({ Tensor, Device, Variable, Batch, Program, Plan, ElementFunction, Shader, Profile });
