// Names and what has them: states and files, as the core takes and gives them.

import { needShort, refused } from "./host.js";

/** Names, and what has them. */
export interface Named<T> {
  names: string[];
  values: T[];
}

/** A state of JavaScript's as lists. */
export function entries(op: string, state: unknown): [string[], unknown[]] {
  if (typeof state !== "object" || state === null) throw refused(op, "the state", "an object of tensors by name", state);
  const names = Object.keys(state);
  needShort(op, "the state", names);
  return [names, Object.values(state)];
}

/** Lists of names and values as an object. */
export const record = <T>({ names, values }: Named<T>) => Object.fromEntries(names.map((name, at) => [name, values[at]!]));
