// The tokens and messages that a user passes to a language model.

import { argumentError } from "./errors.js";
import { look } from "./host.js";

/** Whether a value can be the id of a token, or a number of tokens. */
export const isToken = (id: unknown): id is number => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;

/** Returns the ids in an array, a typed array or an array-like object. Undefined if the value is not a list of ids. */
export function tokensOf(value: unknown): Uint32Array | undefined {
  return look(() => {
    if (value instanceof Uint32Array) return new Uint32Array(value);
    const { length } = value as ArrayLike<unknown>;
    if (typeof value !== "object" || !isToken(length)) return undefined;
    // All ids are checked before memory is allocated, because the length of an object can be any number.
    for (let at = 0; at < length; at++) if (!isToken((value as ArrayLike<unknown>)[at])) return undefined;
    return Uint32Array.from(value as ArrayLike<number>);
  });
}

/**
 * Returns messages as JSON. Half of a surrogate pair becomes U+FFFD, as `TextEncoder` writes it. A text that was cut in the
 * middle of an emoji has one.
 */
export function jsonOf(op: string, messages: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(messages);
  } catch (cause) {
    throw argumentError(`${op}: messages must be plain data, got ${String(cause)}`);
  }
  if (typeof text !== "string") throw argumentError(`${op}: messages must be plain data, got no JSON`);
  // JSON escapes only such halves with a code from d800 to dfff. The second alternative skips other escapes, such as that of a
  // backslash.
  return text.replace(/\\(ud[89a-f][0-9a-f]{2}|[^])/g, (escape, code: string) => (code.length > 1 ? "\\ufffd" : escape));
}
