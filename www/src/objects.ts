// Functions for all classes: the core of an object, and its display in consoles.

import { Brand, type CoreClass, type Owner } from "./brand.js";
import { mark, own } from "./entry.js";
import { argumentError, stateError } from "./errors.js";
import { look, needShort, refused, type Host } from "./host.js";

/** Returns the core of an object. Other values are refused with an error that names `op`. */
export function hostOf(object: unknown, op: string): Host {
  const host = Brand.owner(object);
  if (host === undefined) throw refused(op, "the object", "one of this package", object);
  return host as Host;
}

/** Returns the core of an object that was not disposed of. */
export function aliveOn(object: object, op: string): Host {
  const host = hostOf(object, op);
  if (isGone(object)) throw stateError(`${op}: the object must not be disposed, got one after dispose() or its scope()`);
  return host;
}

/** Returns the core of the first object among some arguments, or in lists of them. Undefined if there is none. */
export function ownerOf(values: readonly unknown[]): Owner | undefined {
  for (const value of values) {
    const found = Array.isArray(value) ? look(() => value.find(Brand.owner) as unknown) : value;
    const owner = Brand.owner(found);
    if (owner) return owner;
  }
  return undefined;
}

/**
 * Returns the class of the core that the first object among the arguments belongs to. Without one, the first argument is
 * refused.
 */
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

/** The base of all classes. Consoles, also those of Node and Deno, show the result of `toString`. */
export abstract class Shown {
  constructor(how = "objects must be made by a method, got a call of the constructor") {
    throw argumentError(`${new.target.name}: ${how}`);
  }

  get [mark](): true {
    return true;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return String(this);
  }

  [Symbol.for("Deno.customInspect")](): string {
    return String(this);
  }
}

own(Shown, "an object of another kind");

/** A custom formatter that shows objects by `toString` in Chromium's developer tools, if custom formatters are enabled. */
const formatter = {
  header: (object: unknown) => (object instanceof Shown && Brand.owner(object) ? ["span", {}, String(object)] : null),
  hasBody: () => false,
};

/** Registers the formatter for the developer tools. */
export function explain(): void {
  const tools = globalThis as { devtoolsFormatters?: unknown[] };
  tools.devtoolsFormatters ??= [];
  if (!tools.devtoolsFormatters.includes(formatter)) tools.devtoolsFormatters.push(formatter);
}

/** Whether an object was disposed of, or does not belong to a core. */
export const isGone = (object: object) => !Brand.owner(object) || (object as { disposed: boolean }).disposed;
