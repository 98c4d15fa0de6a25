// State dictionaries and files as parallel lists of names and values, the form that the core passes.

import { needShort, refused } from "./host.js";

/** A list of names, and a list of their values. */
export interface Named<T> {
  names: string[];
  values: T[];
}

/** Converts a state dictionary to lists. */
export function entries(op: string, state: unknown): [string[], unknown[]] {
  if (typeof state !== "object" || state === null) throw refused(op, "the state", "an object of tensors by name", state);
  const names = Object.keys(state);
  needShort(op, "the state", names);
  return [names, Object.values(state)];
}

/** Converts lists of names and values to an object. */
export const record = <T>({ names, values }: Named<T>) => Object.fromEntries(names.map((name, at) => [name, values[at]!]));
