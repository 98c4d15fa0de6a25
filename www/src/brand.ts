// Which core an object is of, and where it stands there: in private fields, so that nobody else can say so.

import { dataError } from "./errors.js";

/** What a core's classes have that is not for users. */
export interface Exports {
  /** Whether an object of JavaScript is being made just now. */
  unclaimed(): boolean;
  [name: string]: (...values: never[]) => unknown;
}

/** A core as far as its objects need it. */
export interface Owner {
  /** `gpu` or `cpu`. */
  readonly name: string;
  /** What WebAssembly exports. */
  exports: Exports;
  /** What stands for disposed objects: kept, or the collector would have the core free it. */
  readonly gone: object[];
  /** What the calls under way were given first: the pointers of the objects whose methods they are. */
  readonly active: readonly unknown[];
  /** Whether the core has trapped. */
  readonly isLost: boolean;
  /** Is told of each tensor that is made. */
  made(tensor: object): void;
}

/** Why an object is not disposed of by what it calls itself: the function that it builds a program of, above all. */
export const inUse = "the object must not be in use, got one whose method calls this";

/** A class of a core. */
interface Kind {
  readonly name: string;
  readonly owner: Owner;
  /** Gives the number of the place that an object at a pointer has. */
  readonly claim: (pointer: number) => number;
}

/** A class as wasm-bindgen wrote it. */
export interface CoreClass {
  readonly prototype: { free(): void; end?(): void };
  gone(): object;
}

/** Gives back what it is given: what extends it puts its private fields there. */
class Given {
  constructor(object: object) {
    return object;
  }
}

/** The private fields of an object of a core. */
export class Brand extends Given {
  readonly #owner: Owner;
  /** The class. */
  readonly #kind: string;
  #pointer: number;
  #handle: number;
  /** What a getter gave, which it gives each time. */
  #facts: Record<string, unknown> | undefined;

  private constructor(object: object, { name, owner }: Kind, pointer: number, handle: number) {
    super(object);
    this.#owner = owner;
    this.#kind = name;
    this.#pointer = pointer;
    this.#handle = handle;
  }

  /** What wasm-bindgen's code sets: the pointer of an object that it has just made, or 0 when it gives it up. */
  static set(object: object, kind: Kind, pointer: number): void {
    const { name, owner, claim } = kind;
    if (#owner in object) {
      if (pointer !== 0 || object.#owner !== owner) {
        throw dataError(`${name}: the pointer must be set by the core, got another caller`);
      }
      object.#pointer = object.#handle = 0;
      return;
    }
    if (!owner.exports.unclaimed()) throw dataError(`${name}: objects must be made by the core, got another`);
    new Brand(object, kind, pointer, claim(pointer));
    if (name === "Tensor") owner.made(object);
  }

  /** The pointer that wasm-bindgen's code asks for; 0 if it was given up. */
  static pointer(object: object, { name, owner }: Kind): number {
    if (#owner in object && object.#owner === owner) return object.#pointer;
    throw dataError(`${name}: the object must be a ${name} of the ${owner.name} core, got another`);
  }

  /** The number of an object's place; 0 if it was disposed, -2 if it is none, -3 if it is another core's. */
  static handle(object: object, owner: Owner): number {
    if (!(#owner in object)) return -2;
    return object.#owner === owner ? object.#handle : -3;
  }

  /** The core that an object is of; undefined if it is none's. */
  static owner(object: unknown): Owner | undefined {
    return typeof object === "object" && object !== null && #owner in object ? object.#owner : undefined;
  }

  /** The class that an object of a core is of; undefined if it is none's. */
  static kind(object: object): string | undefined {
    return #owner in object ? object.#kind : undefined;
  }

  /** What a property is, which is asked for once. */
  static fact(object: object, name: string, ask: () => unknown): unknown {
    if (!(#owner in object) || object.#handle === 0) return ask();
    const facts = (object.#facts ??= {});
    return name in facts ? facts[name] : (facts[name] = ask());
  }
}

/** Refuses calls with more arguments than a method takes: the core would not see them. */
function refuseSurplus(proto: object): void {
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(proto))) {
    // What takes any number of arguments says so.
    if (typeof value !== "function" || name === "constructor" || /^\w+\(\.\.\./.test(String(value))) continue;
    const method = value as (this: object, ...values: unknown[]) => unknown;
    const most = method.length;
    const strict = function (this: object, ...values: unknown[]): unknown {
      if (values.length > most) needFew(name, most, values);
      return method.apply(this, values);
    };
    Object.defineProperty(proto, name, { value: strict, configurable: true, writable: true });
  }
}

function needFew(name: string, most: number, values: readonly unknown[]): void {
  let count = values.length;
  while (count > most && values[count - 1] === undefined) count -= 1;
  if (count <= most) return;
  const list = values.every((value) => typeof value === "number") ? `; for a list: ${name}([${values.join(", ")}])` : "";
  throw dataError(`${name}: there must be at most ${most} argument${most === 1 ? "" : "s"}, got ${count}${list}`);
}

/**
 * Makes a core's class one of the user's: `root` has what all cores share, pointers are private, and what was disposed is
 * known to the core as that.
 */
export function adopt(name: string, core: CoreClass, root: { prototype: object }, owner: Owner): void {
  const proto = core.prototype;
  const { free } = proto;
  const claim = owner.exports[`${name.toLowerCase()}_claim`] as Kind["claim"];
  const kind: Kind = { name, owner, claim };
  let gone = 0;
  Object.setPrototypeOf(proto, root.prototype);
  Object.defineProperty(proto, "constructor", { value: root, configurable: true });
  Object.defineProperty(proto, `__${owner.name}_ptr`, {
    get(this: object) {
      return Brand.pointer(this, kind) || gone;
    },
    set(this: object, pointer: number) {
      Brand.set(this, kind, pointer);
    },
  });
  Reflect.deleteProperty(proto, "free");
  refuseSurplus(proto);
  const dispose = function (this: typeof proto): void {
    if (Brand.handle(this, owner) <= 0) return;
    // A core that has trapped has nothing to give back. The error to see is the first one, so cleaning up throws none.
    const { isLost } = owner;
    if (!isLost && owner.active.includes(Brand.pointer(this, kind))) {
      throw dataError(`dispose: ${inUse}`);
    }
    try {
      this.end?.();
    } catch (error) {
      if (!isLost) throw error;
    }
    free.call(this);
  };
  Object.defineProperty(proto, "dispose", { value: dispose });
  if (Symbol.dispose) Object.defineProperty(proto, Symbol.dispose, { value: dispose });
  const { get: disposed } = Object.getOwnPropertyDescriptor(proto, "disposed")!;
  const isDisposed = function (this: object) {
    return owner.isLost ? Brand.handle(this, owner) <= 0 : (disposed!.call(this) as boolean);
  };
  Object.defineProperty(proto, "disposed", { get: isDisposed, configurable: true });
  const text = function (this: object): string {
    // A core that has trapped can not be asked what it holds.
    return owner.isLost && Brand.handle(this, owner) > 0 ? `${name}(lost)` : String(root.prototype.toString.call(this));
  };
  Object.defineProperty(proto, "toString", { value: text, configurable: true, writable: true });
  const stand = core.gone();
  owner.gone.push(stand);
  gone = Brand.pointer(stand, kind);
  for (const fact of ["device", "dtype"]) {
    const { get } = Object.getOwnPropertyDescriptor(proto, fact) ?? {};
    const kept = function (this: object) {
      return Brand.fact(this, fact, get!.bind(this));
    };
    if (get) Object.defineProperty(proto, fact, { get: kept });
  }
}
