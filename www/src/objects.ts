// What the classes have in common: the core that an object lives on, and how it shows itself.

import { Brand, type CoreClass, type Owner } from "./brand.js";
import { entry, mark, own } from "./entry.js";
import { dataError } from "./errors.js";
import { look, needShort, refused, type Host } from "./host.js";

/** The core that an object lives on; what is no object of a core is refused in the name of an operation. */
export function hostOf(object: unknown, op: string): Host {
  const host = Brand.owner(object);
  if (host === undefined) throw refused(op, "the object", "one of this package", object);
  return host as Host;
}

/** The same of an object that was not disposed. */
export function aliveOn(object: object, op: string): Host {
  const host = hostOf(object, op);
  if (isGone(object)) throw dataError(`${op}: used after dispose(), or after the scope() that made it`);
  return host;
}

/** The core that the first object among some arguments, or in lists of them, lives on; undefined if there is none. */
export function ownerOf(values: readonly unknown[]): Owner | undefined {
  for (const value of values) {
    const found = Array.isArray(value) ? look(() => value.find(Brand.owner) as unknown) : value;
    const owner = Brand.owner(found);
    if (owner) return owner;
  }
  return undefined;
}

/** The class of the core that the first object among some arguments lives on; without one the first is not what is wanted. */
export function classOf(
  kind: string,
  op: string,
  values: readonly unknown[],
  wanted = "a tensor",
): CoreClass & Record<string, Function> {
  for (const value of values) needShort(op, "an argument", value);
  const owner = ownerOf(values);
  if (owner === undefined) throw refused(op, "the argument", wanted, values.flat()[0]);
  return (owner as Host).classes[kind] as CoreClass & Record<string, Function>;
}

/** What says of itself what it is, in the consoles of Node and Deno, too. */
export abstract class Shown {
  constructor(how = "objects must be made by a method, got a call of the constructor") {
    throw dataError(`${new.target.name}: ${how}`);
  }

  get [mark](): string {
    return entry();
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return String(this);
  }

  [Symbol.for("Deno.customInspect")](): string {
    return String(this);
  }
}

own(Shown, "an object of another kind");

/** Shows objects as what they say they are in Chromium's developer tools, where people turned custom formatters on. */
const formatter = {
  header: (object: unknown) => (object instanceof Shown && Brand.owner(object) ? ["span", {}, String(object)] : null),
  hasBody: () => false,
};

/** Puts the formatter where the developer tools look for it. */
export function explain(): void {
  const tools = globalThis as { devtoolsFormatters?: unknown[] };
  tools.devtoolsFormatters ??= [];
  if (!tools.devtoolsFormatters.includes(formatter)) tools.devtoolsFormatters.push(formatter);
}

/** Whether an object was disposed, or is none of a core's. */
export const isGone = (object: object) => !Brand.owner(object) || (object as { disposed: boolean }).disposed;
