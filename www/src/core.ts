// Calls into a core.

import { number } from "./arguments.js";
import type { Ask, Code } from "./codes.js";
import { translate } from "./errors.js";
import type { Core } from "./load.js";

/** Asks a core for something that is there at once; the first handle is what is asked. */
export function ask(core: Core, what: Ask, handles: readonly number[]): Float64Array {
  return call(() => core.ask(what, Uint32Array.from(handles)));
}

/** Numbers that are passed to an operation, as callers gave them. */
export type Numbers = readonly (number | boolean)[];

/** Records an operation other than the table's rows; gives the handle of its result. */
export function record(core: Core, code: Code, name: string, handles: readonly number[], given: Numbers): number {
  const numbers = Float64Array.from(given as readonly unknown[], (value) => number(name, value));
  return call(() => core.apply(code, Uint32Array.from(handles), numbers));
}

/** Runs a call into WebAssembly; what it throws comes out as an error. */
export function call<T>(work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw translate(thrown);
  }
}

/** The same for a call that answers later: it is given a function that it calls once. */
export function callAsync<T>(work: (settle: (failed: boolean, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call(() => work((failed, value) => (failed ? reject(translate(value)) : resolve(value))));
  });
}
