// The functions that a core calls in JavaScript (`src/js/host.rs`). All values that a user passed are inspected here. Getters
// and proxies may throw, and an exception must not unwind through WebAssembly.

import { Brand, type Exports, type Owner } from "./brand.js";
import { addFile, calledOwn, isOwnFrame, mark } from "./entry.js";
import { argumentError, limitError, WarpweftError, type ErrorCode } from "./errors.js";

/** Returns the result of `work`, or undefined if it throws. */
export function look<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/** Describes a value in a few words, for messages. */
export function describe(value: unknown): string {
  if (value === null || value === undefined || typeof value === "bigint" || typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value.slice(0, 40));
  if (look(() => Array.isArray(value))) return "an array";
  const kind = Brand.owner(value) && Brand.kind(value as object);
  if (kind !== undefined) return `${/^[AEIOU]/.test(kind) ? "an" : "a"} ${kind}`;
  const called = look(() => calledOwn(value));
  if (called !== undefined) return called;
  if (look(() => (value as { [mark]?: unknown })[mark])) return "an object of another copy of the package \"warpweft\"";
  return `a value of type ${typeof value}`;
}

/** Makes the error for an invalid value: `add: y must be a number, got "1"`. */
export const refused = (op: string, what: string, wanted: string, value: unknown) =>
  argumentError(`${op}: ${what} must be ${wanted}, got ${describe(value)}`);

/** Whether a value is an array or a typed array. */
const isList = (value: unknown): value is ArrayLike<unknown> =>
  Boolean(look(() => Array.isArray(value))) || (ArrayBuffer.isView(value) && !(value instanceof DataView));

/** The most items of a list. A core is lost when its table of JavaScript values overflows. */
const MOST = 2 ** 16;

/** Returns the error text for a list that is too long, and undefined for other values. */
export function tooLong(value: unknown): string | undefined {
  const length = isList(value) ? (look(() => value.length) ?? 0) : 0;
  return length > MOST ? `must have at most ${MOST} items, got ${length}` : undefined;
}

/**
 * Refuses the result of an async function. The promise has no other handler, so it is handled here, because an unhandled
 * rejection ends a Node process.
 */
export function needSync(op: string, what: string, returned: unknown): void {
  const isThenable = look(() => typeof (Object(returned) as { then?: unknown }).then === "function");
  if (!isThenable) return;
  look(() => Promise.resolve(returned).catch(() => {}));
  throw argumentError(`${op}: ${what} must not be async, got a promise`);
}

/** Refuses a list that is too long, before its items are read. */
export function needShort(op: string, what: string, value: unknown): void {
  const why = tooLong(value);
  if (why !== undefined) throw limitError(`${op}: ${what} ${why}`);
}

/**
 * Returns the value of a browser's getter for an object, or undefined if the object is not of this kind. Objects cannot forge
 * it.
 */
export function getterValue(kind: "GPUDevice" | "GPUBuffer", name: string, object: unknown): unknown {
  const { prototype } = (globalThis as unknown as { [kind: string]: { prototype?: object } | undefined })[kind] ?? {};
  const { get } = (prototype && Object.getOwnPropertyDescriptor(prototype, name)) ?? {};
  try {
    return get?.call(object);
  } catch {
    return undefined;
  }
}

/** Returns the number of letters to change between two words (Levenshtein 1966). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + Number(a[i - 1] !== b[j - 1]));
    }
    row = next;
  }
  return row[b.length]!;
}

/** Returns the error text for an unknown option, with the most similar known one. */
function unknownOption(key: string, known: readonly string[]): string {
  const word = key.slice(0, 40);
  const near = [...known].sort((a, b) => distance(a, word) - distance(b, word))[0];
  const meant = near !== undefined && distance(near, word) <= Math.max(2, word.length / 3);
  return `options must be known, got "${word}"; ${meant ? `did you mean "${near}"?` : `the options are ${known.join(", ")}`}`;
}

/** Whether a value can be an options object. Lists are excluded, because they may have very many keys. */
const isOptions = (value: unknown): value is object => typeof value === "object" && value !== null && !isList(value);

/** Checks the options object of a hand-written method. Undefined is an empty object. */
export function checked<T extends object>(op: string, given: T | undefined, known: readonly (keyof T & string)[]): Partial<T> {
  if (given === undefined) return {};
  if (!isOptions(given)) throw refused(op, "options", "an object", given);
  const odd = Object.keys(given).find((key) => !(known as readonly string[]).includes(key));
  if (odd !== undefined) throw argumentError(`${op}: ${unknownOption(odd, known)}`);
  return given;
}

/** The size in bytes of an allocation that makes the garbage collector run. */
const MUCH = 2 ** 28;

/** The milliseconds after which a page without a turn gets one. */
const PATIENCE = 8;

/** Lists of option names, split once. */
const lists = new Map<string, readonly string[]>();

function names(known: string): readonly string[] {
  let list = lists.get(known);
  if (!list) lists.set(known, (list = known.split(" ")));
  return list;
}

/** The getter of a typed array's length in bytes. A property of the same name may hide it. */
const byteLength = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), "byteLength")!.get!;

addFile(new Error());

/** The host object of a core. */
export class Host implements Owner {
  readonly name: string;
  /** The core's classes. */
  readonly classes: Record<string, unknown>;
  exports!: Exports;
  readonly gone: object[] = [];
  /** The tensors made in each open scope, the innermost last. */
  readonly scopes: Set<object>[] = [];
  readonly active: unknown[] = [];
  isLost = false;
  /** The objects of devices and of layers' variables, by their addresses in the core's memory. */
  readonly #objects = new Map<number, WeakRef<object>>();
  /** The tensors that variables own. */
  readonly #owned = new WeakSet<object>();
  /** The time of the page's last turn. */
  #turned = performance.now();
  /** The message of the last panic. */
  #panic = "";
  /** The reject functions of pending promises. */
  readonly #rejects = new Set<(error: Error) => void>();

  constructor(name: string, classes: Host["classes"]) {
    this.name = name;
    this.classes = classes;
  }

  made(tensor: object): void {
    if (this.scopes.length > 0) this.scopes.at(-1)!.add(tensor);
  }

  handle(value: unknown): number {
    if (typeof value === "number" || typeof value === "boolean") return -1;
    return typeof value === "object" && value !== null ? Brand.handle(value, this) : -2;
  }

  number(value: unknown): number {
    return typeof value === "number" || typeof value === "boolean" ? Number(value) : NaN;
  }

  numbers(value: unknown): Float64Array | undefined {
    const list = this.items(value);
    return list?.every((item) => typeof item === "number") ? Float64Array.from(list as number[]) : undefined;
  }

  items(value: unknown): unknown[] | undefined {
    return isList(value) && !tooLong(value) ? look(() => Array.from(value)) : undefined;
  }

  tooLong(value: unknown): string | undefined {
    return tooLong(value);
  }

  fields(value: unknown, known: string): unknown[] | undefined {
    if (!isOptions(value)) return undefined;
    const list = names(known);
    return look(() => {
      // As in `checked`, inherited fields need not be known.
      if (Object.keys(value).some((key) => !list.includes(key))) return undefined;
      return list.map((name) => (value as Record<string, unknown>)[name]);
    });
  }

  oddFields(value: unknown, known: string): string {
    if (!isOptions(value)) return `options must be an object, got ${describe(value)}`;
    const list = names(known);
    const key = look(() => Object.keys(value).find((key) => !list.includes(key)));
    return key === undefined ? "options must be readable, got an object that throws" : unknownOption(key, list);
  }

  /** Returns the names and values of an object, one after the other. Undefined if it cannot be read or has too many. */
  entries(value: unknown): unknown[] | undefined {
    if (typeof value !== "object" || value === null) return undefined;
    const found = look(() => Object.entries(value).flat(1));
    return found && found.length <= MOST ? found : undefined;
  }

  describe(value: unknown): string {
    return describe(value);
  }

  /** Returns the size in bytes and the usages of a `GPUBuffer`, or undefined for other values. */
  buffer(value: unknown): Float64Array | undefined {
    const facts = ["size", "usage"].map((name) => getterValue("GPUBuffer", name, value));
    return facts.every((fact) => typeof fact === "number") ? Float64Array.from(facts as number[]) : undefined;
  }

  error(code: string, message: string): Error {
    // Memory may still be held by unused objects. This makes the collector run, so that a second try can succeed.
    if (code === "Memory" || code === "Limit") this.grown(MUCH);
    return new WarpweftError(code as ErrorCode, message);
  }

  object(known: string, values: unknown[]): object {
    return Object.fromEntries(names(known).map((name, at) => [name, values[at]]));
  }

  byteLength(bytes: Uint8Array): number {
    return byteLength.call(bytes) as number;
  }

  copy(bytes: Uint8Array, memory: Uint8Array): void {
    memory.set(bytes);
  }

  room(bytes: number): Uint8Array | undefined {
    return look(() => new Uint8Array(bytes));
  }

  /** Notifies the collector of memory that it does not see. The only way is to allocate as much memory that it sees. */
  grown(bytes: number): void {
    look(() => new ArrayBuffer(Math.min(bytes, MUCH)));
  }

  /**
   * Returns a promise of the page's next turn if it is due. The CPU core computes before its promises resolve, so a loop of
   * awaits would never let the page have a turn.
   */
  turn(): Promise<void> | undefined {
    if (this.name !== "cpu" || performance.now() - this.#turned < PATIENCE) return undefined;
    return new Promise((resolve) => {
      const turned = () => {
        this.#turned = performance.now();
        resolve();
      };
      // Jest's jsdom has no `MessageChannel`.
      if (typeof MessageChannel === "undefined") {
        setTimeout(turned);
        return;
      }
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        turned();
      };
      port2.postMessage(undefined);
    });
  }

  known(address: number): object | undefined {
    const object = this.#objects.get(address)?.deref() as { readonly disposed: boolean } | undefined;
    // An object that was disposed of, or whose device was, may have left its address to another object.
    return object && Brand.handle(object, this) > 0 && !object.disposed ? object : undefined;
  }

  remember(address: number, object: object & { facts?(): object }): void {
    for (const [name, value] of Object.entries(object.facts?.() ?? {})) {
      Object.defineProperty(object, name, { value: Object.freeze(value), enumerable: true });
    }
    this.#objects.set(address, new WeakRef(object));
  }

  /** Passes ownership of a tensor to a variable, so that scopes no longer dispose of it. False if another variable owns it. */
  own(tensor: object): boolean {
    for (const made of this.scopes) made.delete(tensor);
    if (this.#owned.has(tensor)) return false;
    this.#owned.add(tensor);
    return true;
  }

  openScope(): void {
    this.scopes.push(new Set());
  }

  closeScope(): void {
    for (const tensor of this.scopes.pop() ?? []) this.dispose(tensor as { dispose(): void });
  }

  dispose(object: { dispose(): void }): void {
    object.dispose();
  }

  build(build: (inputs: object[]) => object[], inputs: object[]): object[] {
    return build(inputs);
  }

  mode(forward: { mode(on: boolean): void }, on: boolean): void {
    forward.mode(on);
  }

  print(text: string): void {
    console.log(text);
  }

  /**
   * Returns the place in the page's code that called the core: the first stack frame behind WebAssembly's that is not in this
   * package.
   */
  place(): string {
    // WebAssembly may have more frames than the ten that V8 keeps.
    const errors = Error as { stackTraceLimit?: number };
    const { stackTraceLimit } = errors;
    errors.stackTraceLimit = 50;
    const { stack = "" } = new Error();
    errors.stackTraceLimit = stackTraceLimit;
    const frames = stack.split("\n").filter((line) => /:\d+/.test(line));
    const isWasm = (line: string) => /wasm/.test(line) && !line.includes(".js:");
    const first = frames.findIndex(isWasm);
    const behind = frames.slice(first).findIndex((line) => !isWasm(line));
    const rest = frames.slice(first + behind);
    // A bundle may have the page's code and this package in one file. Two frames are then this package's.
    const found = rest.find((line) => !isOwnFrame(line)) ?? rest[Math.min(2, rest.length - 1)];
    return (found ?? "").trim().replace(/^at /, "");
  }

  panicked(message: string): void {
    this.#panic = message;
  }

  /** Wraps a promise so that it is also rejected when the core is lost. */
  waiting<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#rejects.add(reject);
      const done = (finish: () => void) => {
        this.#rejects.delete(reject);
        finish();
      };
      promise.then(
        (value) => done(() => resolve(value)),
        (error: unknown) => done(() => reject(error as Error)),
      );
    });
  }

  /** Marks the core as trapped, and rejects all pending promises. */
  lose(cause: unknown): WarpweftError {
    this.isLost = true;
    const why = this.#panic || String(cause);
    const message = `device: the ${this.name} core failed, and its tensors are lost; reload the page: ${why}`;
    const error = new WarpweftError("DeviceLost", message, { cause });
    for (const reject of this.#rejects) reject(error);
    this.#rejects.clear();
    return error;
  }
}
