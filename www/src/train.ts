// Training. The core has the trainer. This file provides its batches, and stores its checkpoints.

import type { Tensor } from "./classes.js";
import { Brand } from "./brand.js";
import { argumentError, stateError } from "./errors.js";
import { bytesOf, type FileOptions } from "./files.js";
import { checked, needShort, needSync, refused, type Host } from "./host.js";
import { noParts, parts, scheduleIn, setMode } from "./modules.js";
import { entries, record, type Named } from "./named.js";
import { classOf, isGone, Shown } from "./objects.js";
import { readStored, writeStored } from "./opfs.js";
import type { PlatformSignal } from "./platform.js";

/** Features and targets. */
type Batch = readonly [x: Tensor, y: Tensor];

type Batches = Iterable<Batch> | AsyncIterable<Batch>;

/** The training data: see {@link Trainer}. */
export type TrainingData = Batch | Batches | ((epoch: number) => Batches | Promise<Batches>);

/** Computes the loss of a batch, or the loss and the predictions. */
export type Forward = (x: Tensor, y: Tensor) => Tensor | readonly [loss: Tensor, prediction: Tensor];

/** The result of a step, as the core returns it. */
interface Step {
  readonly loss: Tensor;
}

/** The options of {@link Trainer.fit}. */
export interface FitOptions {
  /**
   * Aborts the training between two steps. The promise rejects with the signal's reason, and the training can continue later.
   */
  signal?: PlatformSignal;
}

/** The numbers of the queues that batches are added to. */
const [epochs, validation, evaluated] = [0, 1, 2];

const isPair = (data: unknown): data is Batch =>
  Array.isArray(data) && data.length === 2 && data.every((part) => Object(part) === part && Brand.kind(part) === "Tensor");

/** Returns an iterator over the batches of an epoch. */
async function opened(data: unknown, epoch: number): Promise<Iterator<unknown> | AsyncIterator<unknown>> {
  const found: unknown = typeof data === "function" ? await data(epoch) : data;
  const list = Object(found) as Partial<Iterable<unknown> & AsyncIterable<unknown>>;
  if (typeof list[Symbol.asyncIterator] === "function") return list[Symbol.asyncIterator]!();
  if (typeof list[Symbol.iterator] === "function") return list[Symbol.iterator]!();
  throw refused("train", "data", "[x, y] or batches", found);
}

function batchOf(value: unknown): unknown[] {
  if (Array.isArray(value) && value.length === 2) return value;
  throw refused("train", "a batch", "[x, y]", value);
}

/** Passes all batches to the core. Closes the iterator if the core refuses a batch. */
async function gather(trainer: Trainer, data: unknown, queue: number): Promise<void> {
  trainer.bring(queue, []);
  const batches = (await opened(data, 0)) as AsyncIterator<unknown>;
  for await (const batch of { [Symbol.asyncIterator]: () => batches }) trainer.bring(queue, batchOf(batch));
}

/** Passes the batches of an epoch to the core, two ahead, so that the core recognizes the last one. */
class Feed {
  readonly #data: unknown;
  #batches: Iterator<unknown> | AsyncIterator<unknown> | undefined;
  #epoch = 0;
  #isDone = false;

  constructor(data: unknown) {
    this.#data = data;
  }

  /**
   * Passes batches until two are queued. Returns whether all batches of the epoch were taken, so that the epoch must be ended
   * before the next step. After an error of the data, the next call opens them again.
   */
  async fill(trainer: Trainer): Promise<boolean> {
    try {
      return await this.#fill(trainer);
    } catch (error) {
      // An error of closing the data is ignored, because it is not the cause.
      await this.reset().catch(() => {});
      throw error;
    }
  }

  async #fill(trainer: Trainer): Promise<boolean> {
    if (trainer.isOver) return false;
    const [epoch, taken, , hasUnreportedStep] = trainer.place() as [number, number, number, number];
    const isNew = !this.#batches || this.#epoch !== epoch;
    if (isNew) {
      await this.reset();
      trainer.bring(epochs, []);
      this.#batches = await opened(this.#data, epoch);
      [this.#epoch, this.#isDone] = [epoch, false];
      for (let n = 0; n < taken && !this.#isDone; n++) await this.#next();
    }
    while (!this.#isDone && trainer.place()[2]! < 2) {
      const value = await this.#next();
      if (!this.#isDone) trainer.bring(epochs, batchOf(value));
    }
    const isEmpty = isNew && trainer.place()[2] === 0;
    // An epoch without batches is an error. The next call looks for batches again.
    if (isEmpty) this.#batches = undefined;
    return isEmpty && taken > 0 && !hasUnreportedStep;
  }

  async #next(): Promise<unknown> {
    const batches = this.#batches;
    if (!batches) throw stateError("train: the trainer must not be disposed, got one after dispose()");
    const { done, value } = await batches.next();
    this.#isDone = done === true;
    return value;
  }

  /** Drops the iterator, so that the next step opens the data at the trainer's position. */
  async reset(): Promise<void> {
    const batches = this.#batches;
    this.#batches = undefined;
    if (!this.#isDone) await batches?.return?.();
  }
}

/** The user's function in the core's form, and the switch between training and evaluation. */
interface Run {
  (tensors: Tensor[]): unknown[];
  readonly mode: (on: boolean) => void;
}

/** The state of a trainer on the JavaScript side. */
interface Loop {
  readonly forward: Run;
  readonly batchSize: unknown;
  readonly feed: Feed | undefined;
  /** Batches of the validation that were not passed to the core yet. */
  validation: unknown;
  /** The loss of the last step, which is disposed of at the next step. */
  loss: Tensor | undefined;
  isBusy: boolean;
  isFitting: boolean;
}

const loops = new WeakMap<object, Loop>();

/** The error text for a call during another call. */
const busy = "the trainer must be idle, got a call while it is at work; await the earlier call";

function loopOf(trainer: unknown, op: string): Loop {
  const loop = loops.get(Object(trainer) as object);
  if (loop === undefined) throw refused(op, "the object", "a trainer", trainer);
  return loop;
}

/** Runs `work` exclusively: other calls of the trainer are refused meanwhile. */
async function alone<T>(trainer: Trainer, op: string, work: (loop: Loop) => Promise<T>): Promise<T> {
  const loop = loopOf(trainer, op);
  if (loop.isBusy) throw stateError(`${op}: ${busy}`);
  loop.isBusy = true;
  try {
    return await work(loop);
  } finally {
    loop.isBusy = false;
  }
}

/** Passes the batches of the validation to the core, once. */
async function validated(trainer: Trainer, loop: Loop): Promise<void> {
  if (loop.validation !== undefined) await gather(trainer, loop.validation, validation);
  loop.validation = undefined;
}

/** Replaces and disposes of the loss of the last step. */
function keepLoss(loop: Loop, loss: Tensor | undefined): void {
  loop.loss?.dispose();
  loop.loss = loss;
}

/** Passes batches of the validation if needed, takes a step, and keeps its loss. */
async function taken<T extends Step | undefined>(trainer: Trainer, loop: Loop, take: () => Promise<T>): Promise<T> {
  await validated(trainer, loop);
  const step = await take();
  if (step) keepLoss(loop, step.loss);
  return step;
}

async function ended(trainer: Trainer, loop: Loop): Promise<object> {
  await validated(trainer, loop);
  return trainer.close(loop.forward);
}

function wrapped(forward: unknown, model: unknown): Run {
  const run = (tensors: Tensor[]) => {
    const made: unknown = (forward as (...tensors: Tensor[]) => unknown)(...tensors);
    needSync("train", "the function", made);
    const list = Array.isArray(made) ? made : [made];
    if (list.length === 1 || list.length === 2) return list;
    throw argumentError(`train: the function must return a loss or [loss, prediction], got ${list.length} values`);
  };
  return Object.assign(run, { mode: (on: boolean) => setMode(model as object, on) });
}

export class Trainer extends Shown {
  declare readonly isOver: boolean;
  declare readonly history: readonly object[];
  declare place: () => number[];
  declare bring: (queue: number, batch: readonly unknown[]) => void;
  declare advance: (forward: Run) => Promise<Step | undefined>;
  declare learn: (forward: Run, batch: readonly unknown[]) => Promise<Step>;
  declare close: (forward: Run) => Promise<object>;
  declare score: (forward: Run, data: readonly unknown[], size: unknown) => Promise<object>;
  declare toFile: (notes: string[], texts: unknown[]) => Promise<Uint8Array>;
  declare resume: (bytes: Uint8Array) => Promise<Named<string>>;

  // @ts-expect-error: the constructor returns the core's object instead.
  constructor(model: unknown, optimizer: unknown, data: unknown, forward: unknown, options?: unknown) {
    const found = [...parts(model, "", new Set())];
    if (found.length === 0) throw noParts("train", "model");
    const [paths, objects] = [found.map(([path]) => path), found.map(([, part]) => part)];
    needShort("train", "the model", objects);
    const core = classOf("Trainer", "train", objects) as unknown as new (...values: unknown[]) => Trainer;
    const known = typeof options === "object" && options !== null ? (options as Record<string, unknown>) : {};
    const later = known.validation === undefined || isPair(known.validation) ? undefined : known.validation;
    const changed: Record<string, unknown> = later === undefined ? {} : { validation: [] };
    const host = Brand.owner(objects[0]) as Host;
    for (const name of ["schedule", "scheduleByEpoch", "reduceOnPlateau"]) {
      const own = scheduleIn(host, known[name]);
      if (own !== known[name]) changed[name] = own;
    }
    const merged = Object.keys(changed).length === 0 ? options : { ...known, ...changed };
    const trainer = new core([paths, objects], optimizer, isPair(data) ? data : [], forward, merged);
    setMode(model as object, true);
    const feed = isPair(data) ? undefined : new Feed(data);
    const rest = { loss: undefined, isBusy: false, isFitting: false };
    loops.set(trainer, { forward: wrapped(forward, model), batchSize: known.batchSize, feed, validation: later, ...rest });
    return trainer;
  }

  static split(data: unknown, fraction: number, seed: number): [Batch, Batch] {
    if (!isPair(data)) throw refused("split", "data", "[x, y]", data);
    const [x, y, x2, y2] = classOf("Trainer", "split", data).parted!(data, fraction, seed) as Tensor[];
    return [[x!, y!], [x2!, y2!]];
  }

  nextStep(): Promise<Step | undefined> {
    return alone(this, "nextStep", async (loop) => {
      // A checkpoint may be from the end of an epoch.
      while (await loop.feed?.fill(this)) await ended(this, loop);
      return taken(this, loop, () => this.advance(loop.forward));
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Step, void, undefined> {
    for (let step; (step = await this.nextStep()); ) yield step;
  }

  async fit(onStep?: (step: Step) => unknown, options?: FitOptions): Promise<readonly object[]> {
    const op = "fit";
    const loop = loopOf(this, op);
    const { signal } = checked(op, options, ["signal"]);
    if (onStep !== undefined && typeof onStep !== "function") throw refused(op, "onStep", "a function", onStep);
    if (signal !== undefined && typeof Object(signal).throwIfAborted !== "function") {
      throw refused(op, "signal", "an AbortSignal", signal);
    }
    if (loop.isFitting) throw stateError(`${op}: ${busy}`);
    loop.isFitting = true;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const step = await this.nextStep();
        if (step === undefined) return this.history;
        await onStep?.(step);
      }
    } finally {
      loop.isFitting = false;
    }
  }

  step(x: unknown, y: unknown): Promise<Step> {
    return alone(this, "step", (loop) => taken(this, loop, () => this.learn(loop.forward, [x, y])));
  }

  endEpoch(): Promise<object> {
    return alone(this, "endEpoch", (loop) => ended(this, loop));
  }

  evaluate(data: unknown): Promise<object> {
    return alone(this, "evaluate", async (loop) => {
      if (isPair(data)) return this.score(loop.forward, data, loop.batchSize);
      await gather(this, data, evaluated);
      try {
        return await this.score(loop.forward, [], undefined);
      } finally {
        this.bring(evaluated, []);
      }
    });
  }

  async save(notes: unknown = {}): Promise<Uint8Array> {
    const given = entries("save", notes);
    return alone(this, "save", () => this.toFile(...given));
  }

  load(source: unknown, options?: FileOptions): Promise<Record<string, string>> {
    return alone(this, "load", async (loop) => {
      const notes = await this.resume(await bytesOf("load", source, options));
      await loop.feed?.reset();
      keepLoss(loop, undefined);
      return record(notes);
    });
  }

  async saveTo(name: unknown, notes: unknown = {}): Promise<void> {
    await writeStored("saveTo", name, () => this.save(notes));
  }

  async loadFrom(name: unknown): Promise<Record<string, string> | undefined> {
    const file = await readStored("loadFrom", name);
    return file && this.load(file);
  }

  /** Called before the trainer is disposed of. */
  end(): void {
    const loop = loops.get(this);
    if (loop === undefined) return;
    keepLoss(loop, undefined);
    // Errors of closing the data are ignored, because no caller can receive them.
    void loop.feed?.reset().catch(() => {});
  }

  override toString(): string {
    return isGone(this) ? "Trainer(disposed)" : "Trainer";
  }
}
