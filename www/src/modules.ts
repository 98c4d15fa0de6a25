// Modules: users' classes, whose properties are walked, and the core's layers.

import type { Device, Tensor, Variable } from "./classes.js";
import { Brand } from "./brand.js";
import { argumentError, stateError } from "./errors.js";
import { mark, own } from "./entry.js";
import { needShort, needSync, refused, tooLong, type Host } from "./host.js";
import type { FileOptions, FileSource } from "./files.js";
import { entries, record, type Named } from "./named.js";
import { readStored, writeStored } from "./opfs.js";
import { classOf, isGone, ownerOf, Shown } from "./objects.js";

/** The operations of the core on the parts of a module. */
type Question = "Parameters" | "State" | "Load" | "Summary" | "Count";

/** Returns the named members of a module or of a group of parts (an array, a plain object, a `Map`). Other values have none. */
function members(value: object): Iterable<[unknown, unknown]> {
  if (value instanceof Map) return value as Map<unknown, unknown>;
  const prototype: unknown = Object.getPrototypeOf(value);
  const groups = value instanceof Module || Array.isArray(value) || prototype === Object.prototype || prototype === null;
  return groups ? Object.entries(value) : [];
}

/** Yields the variables and layers of a module with their paths. */
export function* parts(value: unknown, path: string, seen: Set<unknown>): Iterable<[string, object]> {
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  const kind = Brand.kind(value);
  if (kind === "Layer" || kind === "Variable") {
    yield [path, value];
    return;
  }
  seen.add(value);
  for (const [key, part] of members(value)) {
    const name = String(key);
    for (const found of parts(part, path ? `${path}.${name}` : name, seen)) {
      // Two parts could otherwise have the same path, and a path would be ambiguous.
      if (name === "" || name.includes(".")) {
        throw argumentError(`module: the name of a property must not be empty or contain a dot, got "${name}"`);
      }
      yield found;
    }
  }
  seen.delete(value);
}

/** The error for a module without layers and variables. */
export const noParts = (op: string, what: string) =>
  argumentError(`${op}: the ${what} must have layers or variables as public properties, got none`);

/** Calls an operation of the core on the parts of a module. */
function ask(module: Module, question: Question, op: string, ...more: unknown[]): unknown {
  const found = [...parts(module, "", new Set())];
  const [paths, objects] = [found.map(([path]) => path), found.map(([, part]) => part)];
  needShort(op, "the module", objects);
  if (objects.length === 0) throw noParts(op, "module");
  return classOf("Layer", op, objects)[`module${question}`]!(paths, objects, ...more);
}

/** Returns the state of a module, and its device. */
function values(module: Module, op: string): [Record<string, Tensor>, Device] {
  const state = module.stateDict();
  const [first] = Object.values(state);
  if (first === undefined) throw argumentError(`${op}: the module must have parameters or buffers, got none`);
  return [state, first.device];
}

/** The mode of each module that was switched: whether it trains. */
const modes = new WeakMap<object, boolean>();

/** The modules that are being switched, because a module may contain itself. */
const changing = new Set<object>();

/** Switches a module or a list, and its parts, to training or evaluation. */
function change(module: object, on: boolean): void {
  if (changing.has(module)) return;
  changing.add(module);
  try {
    if (module instanceof Module) Reflect.set(module, "training", on);
    const layers = Brand.kind(module) === "Layer" ? [module] : [];
    changeParts(module, on, layers, new Set());
    needShort(on ? "train" : "eval", "the module", layers);
    if (layers.length === 0) return;
    for (const layer of layers) modes.set(layer, on);
    classOf("Layer", on ? "train" : "eval", layers).moduleMode!(layers.map(() => ""), layers, on);
  } finally {
    changing.delete(module);
  }
}

/** Switches the modules among the properties, through their `train` and `eval`. Adds the core's layers to `layers`. */
function changeParts(value: object, on: boolean, layers: object[], seen: Set<object>): void {
  seen.add(value);
  for (const [, part] of members(value)) {
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    if (Brand.kind(part) === "Layer") layers.push(part);
    else if (part instanceof Module) setMode(part, on);
    else changeParts(part, on, layers, seen);
  }
}

/** Switches a model or a group of models to training or evaluation, through `train` and `eval` of its class. */
export function setMode(model: object, on: boolean): void {
  if (!(model instanceof Module)) return change(model, on);
  // A class may use these names for other properties, such as its data.
  const own: unknown = on ? model.train : model.eval;
  if (typeof own === "function") own.call(model);
  else change(model, on);
}

export abstract class Module {
  get [mark](): true {
    return true;
  }

  namedParameters(): [string, Variable][] {
    const { names, values } = ask(this, "Parameters", "namedParameters") as Named<Variable>;
    // A variable of the user is returned as the same object.
    const own = new Map(parts(this, "", new Set()));
    const object = (name: string) => own.get(name) as Variable | undefined;
    return names.map((name, at) => [name, object(name) ?? values[at]!]);
  }

  parameters(): Variable[] {
    return this.namedParameters().map(([, variable]) => variable);
  }

  get parameterCount(): number {
    return ask(this, "Count", "parameterCount") as number;
  }

  stateDict(): Record<string, Tensor> {
    return record(ask(this, "State", "stateDict") as Named<Tensor>);
  }

  loadStateDict(state: Record<string, Tensor>): void {
    ask(this, "Load", "loadStateDict", ...entries("loadStateDict", state));
  }

  async save(notes: unknown = {}): Promise<Uint8Array> {
    const [state, device] = values(this, "save");
    // `load` leaves this note out.
    if (Object.hasOwn(Object(notes) as object, "trainer")) {
      throw argumentError("save: names of notes must not be reserved for the trainer, got `trainer`");
    }
    return device.saveSafetensors(state, notes as Record<string, string>);
  }

  async load(source: unknown, options?: FileOptions): Promise<Record<string, string>> {
    const [, device] = values(this, "load");
    const { tensors, metadata } = await device.loadSafetensors(source as FileSource, options);
    this.loadStateDict(tensors);
    // The note `trainer` belongs to the trainer.
    const { trainer: _, ...notes } = metadata;
    return notes;
  }

  async saveTo(name: unknown, notes: unknown = {}): Promise<void> {
    await writeStored("saveTo", name, () => this.save(notes));
  }

  async loadFrom(name: unknown): Promise<Record<string, string> | undefined> {
    const file = await readStored("loadFrom", name);
    return file && this.load(file);
  }

  get training(): boolean {
    return modes.get(this) ?? true;
  }

  // A subclass may have a field with this name.
  set training(on: boolean) {
    modes.set(this, on);
  }

  train(): this {
    change(this, true);
    return this;
  }

  eval(): this {
    change(this, false);
    return this;
  }

  summary(): string {
    return ask(this, "Summary", "summary") as string;
  }
}

own(Module, "a module");

/** A module, or a function from one tensor to another. */
type Step = { forward(x: Tensor): Tensor } | ((x: Tensor) => Tensor);

/**
 * Returns the tensor of `work` as a new object. If `work` returns an object that it did not make, such as its argument, the
 * result is another object for the same tensor. Disposing of one then leaves the other alone.
 */
function ownResult(host: Host, work: () => Tensor): Tensor {
  const made = new Set<object>();
  host.scopes.push(made);
  try {
    const result = work();
    return made.has(result) || Brand.kind(result) !== "Tensor" ? result : result.twin();
  } finally {
    host.scopes.pop();
    // The tensors belong to the enclosing scope, if there is one.
    for (const tensor of made) host.scopes.at(-1)?.add(tensor);
  }
}

const apply = (step: Step, x: Tensor) => (typeof step === "function" ? step(x) : step.forward(x));

function checkStep(op: string, what: string, step: unknown): Step {
  const { forward } = Object(step) as { forward?: unknown };
  if (typeof step === "function" || typeof forward === "function") return step as Step;
  if (step instanceof Module) throw argumentError(`${op}: ${what} must have \`forward\`, got a module without it`);
  throw refused(op, what, "a module or a function", step);
}

export class Sequential extends Module {
  [index: number]: Step;

  constructor(...steps: Step[]) {
    super();
    steps.forEach((step, at) => (this[at] = checkStep("sequential", `part ${at}`, step)));
  }

  forward(x: Tensor): Tensor {
    const host = Brand.owner(x) as Host | undefined;
    return host ? ownResult(host, () => this.#run(x)) : this.#run(x);
  }

  #run(x: Tensor): Tensor {
    // All numbered properties are parts, so all are run. JavaScript lists numeric keys first, in ascending order.
    for (const at of Object.keys(this)) {
      if (!/^\d+$/.test(at)) break;
      x = apply(checkStep("forward", `part ${at}`, this[Number(at)]), x);
      needSync("forward", `part ${at}`, x);
      if (typeof x !== "object" || x === null) throw refused("forward", `the result of part ${at}`, "a tensor", x);
    }
    return x;
  }
}

export class Residual extends Module {
  readonly layer: Step;

  constructor(layer: Step) {
    super();
    this.layer = checkStep("residual", "layer", layer);
  }

  forward(x: Tensor): Tensor {
    if (Brand.kind(Object(x) as object) !== "Tensor") throw refused("forward", "x", "a tensor", x);
    const made = apply(this.layer, x);
    needSync("forward", "the layer", made);
    return x.add(made);
  }
}

export class Layer extends Module {
  declare forward: (x: Tensor | readonly Tensor[], options?: object) => Tensor;

  constructor() {
    super();
    throw argumentError("Layer: layers must be made by its static methods, got a call of the constructor");
  }

  override toString(): string {
    return isGone(this) ? "Layer(disposed)" : this.summary();
  }
}

export class Generator extends Shown {
  // @ts-expect-error: the constructor returns the core's object instead.
  constructor(device: Device, seed: number) {
    const core = classOf("Generator", "generator", [device], "a device") as unknown as new (...values: unknown[]) => Generator;
    return new core(device, seed);
  }

  override toString(): string {
    return "Generator";
  }
}

export class Optimizer extends Shown {
  declare state: () => Named<Tensor>;
  declare load: (names: string[], values: unknown[]) => Promise<void>;

  stateDict(): Record<string, Tensor> {
    return record(this.state());
  }

  loadStateDict(state: Record<string, Tensor>): Promise<void> {
    return this.load(...entries("loadStateDict", state));
  }

  override toString(): string {
    return isGone(this) ? "Optimizer(disposed)" : "Optimizer";
  }
}

export class WeightAverage extends Shown {
  override toString(): string {
    return "WeightAverage";
  }
}

export class Schedule extends Shown {
  override toString(): string {
    return "Schedule";
  }
}

/** The calls that made schedules. Schedules are only numbers, so another core can make equal ones. */
const recipes = new WeakMap<object, readonly [name: string, values: readonly unknown[]]>();

/** Returns a copy of a list or an options object. */
function copied(value: unknown): unknown {
  if (Array.isArray(value)) return [...(value as unknown[])];
  return typeof value === "object" && value !== null ? { ...value } : value;
}

/** Returns a schedule for a core. If it belongs to another core, an equal schedule is made. */
export function scheduleIn(host: Host, schedule: unknown): unknown {
  const recipe = recipes.get(Object(schedule) as object);
  if (!recipe || Brand.owner(schedule) === host || isGone(schedule as object)) return schedule;
  const [name, values] = recipe;
  return (host.classes.Schedule as Record<string, Function>)[name]!(...values);
}

const made = { Layer, Optimizer, Schedule };
const running: Host[] = [];

/** Registers a running core, which can make objects from then on. */
export function makeIn(host: Host): void {
  running.push(host);
}

/**
 * Adds the static methods of a core's classes to the public classes. The first argument that belongs to a core selects the
 * core. If all arguments are plain, any running core is used.
 */
export function makeAs(classes: Record<string, object>): void {
  for (const [kind, root] of Object.entries(made)) {
    for (const name of Object.getOwnPropertyNames(classes[kind])) {
      if (name in root || /^(module|gone|__)/.test(name)) continue;
      const make = (...values: unknown[]) => {
        const given = values.map((value) => (value instanceof Module ? value.parameters() : value));
        const short = given.filter((value) => !tooLong(value));
        const host = (ownerOf(short) as Host | undefined) ?? running.find(({ isLost }) => !isLost) ?? running[0];
        if (!host) throw stateError(`${name}: there must be a device, got none; call \`await Device.new()\` first`);
        const object = (host.classes[kind] as Record<string, Function>)[name]!(...given) as object;
        if (kind === "Schedule") recipes.set(object, [name, given.map(copied)]);
        return object;
      };
      Object.defineProperty(root, name, { value: make, configurable: true });
    }
  }
}
