// Changes of the classes of language models when a core starts. JavaScript alone knows the signals of generations, and reads
// lists of tokens of any kind.

import { look, refused, type Host } from "./host.js";
import type { Generation, LanguageModel } from "./language.js";
import { tokensOf } from "./prompts.js";

/** The signals that abort generations between two tokens. */
export const signals = new WeakMap<object, AbortSignal>();

/** Replaces a method of a core's class by `make` of it. */
function replace<T extends object, Name extends keyof T>(kind: unknown, name: Name, make: (method: T[Name]) => T[Name]): void {
  const { prototype } = kind as { prototype: T };
  Object.defineProperty(prototype, name, { value: make(prototype[name]), configurable: true, writable: true });
}

/** Makes `nextToken` follow the signal of its generation, and makes `decode` take every list of tokens. */
export function prepareLanguage({ classes }: Host): void {
  replace<Generation, "nextToken">(classes.Generation, "nextToken", (next) =>
    function (this: Generation, ...surplus: []) {
      const signal = signals.get(this);
      // A text that is finished cannot be aborted any more, also if its last token came after the abort.
      const isOpen = look(() => this.finish === undefined); // Undefined for a disposed object, which `next` refuses.
      if (signal?.aborted && isOpen) return Promise.reject(signal.reason);
      return next.apply(this, surplus);
    });
  replace<LanguageModel, "decode">(classes.LanguageModel, "decode", (decode) =>
    function (this: LanguageModel, given: unknown, ...surplus: []) {
      const tokens = tokensOf(given);
      if (tokens === undefined) throw refused("decode", "tokens", "a list of tokens", given);
      return decode.call(this, tokens, ...surplus);
    });
}
