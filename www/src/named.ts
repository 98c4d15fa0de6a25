// Names and what has them: states and files, as the core takes and gives them.

import { dataError } from "./errors.js";
import { describe, needShort } from "./host.js";

/** Names, and what has them. */
export interface Named<T> {
  names: string[];
  values: T[];
}

/** A state of JavaScript's as lists. */
export function entries(op: string, state: unknown): [string[], unknown[]] {
  if (typeof state !== "object" || state === null) throw dataError(`${op}: ${describe(state)} is no object of tensors by name`);
  const names = Object.keys(state);
  needShort(op, "its names", names);
  return [names, Object.values(state)];
}

/** Lists of names and values as an object. */
export const record = <T>({ names, values }: Named<T>) => Object.fromEntries(names.map((name, at) => [name, values[at]!]));
