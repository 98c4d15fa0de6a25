// What the classes have in common: the core that an object lives on, and how it shows itself.

import { Brand, type CoreClass } from "./brand.js";
import { entry, mark } from "./entry.js";
import { dataError } from "./errors.js";
import { describe, type Host } from "./host.js";

/** The core that an object lives on; what is no object of a core is refused in the name of an operation. */
export function hostOf(object: unknown, op: string): Host {
  const host = Brand.owner(object);
  if (host === undefined) throw dataError(`${op}: ${describe(object)} is no object of this package`);
  return host as Host;
}

/** The class of the core that the first object among some arguments lives on. */
export function classOf(kind: string, op: string, values: readonly unknown[]): CoreClass & Record<string, Function> {
  const found = values.flat().find((value) => Brand.owner(value) !== undefined);
  if (found === undefined) throw dataError(`${op}: ${describe(values.flat()[0])} is not a tensor`);
  return hostOf(found, op).classes[kind] as CoreClass & Record<string, Function>;
}

/** What says of itself what it is, in the consoles of Node and Deno, too. */
export abstract class Shown {
  constructor() {
    throw dataError(`${new.target.name}: is made by its device`);
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

/** Whether an object was disposed. */
export const isGone = (object: object) => (object as { disposed: boolean }).disposed;
