// Protection from a core that has trapped. After a trap, every call throws the same error, pending promises are rejected, and
// objects are freed without errors.

import { inUse, type Exports } from "./brand.js";
import { argumentError, stateError, WarpweftError } from "./errors.js";
import type { Host } from "./host.js";

/** Whether an error is a trap. WebAssembly was then interrupted, and its memory cannot be trusted any more. */
const isTrap = (thrown: unknown) =>
  thrown instanceof WebAssembly.RuntimeError ||
  // A stack overflow.
  thrown instanceof RangeError ||
  (thrown instanceof Error && thrown.name === "InternalError");

type Call = (...values: unknown[]) => unknown;

/** The result of an event after a trap. wasm-bindgen looks for an error in the result, and finds none. */
const nothing: readonly unknown[] = [];

/** Exports whose errors have no caller to receive them, by wasm-bindgen's naming, and `unpin`. */
const silent = /^(_*w(bg|asm_?bindgen|bindgen)_|unpin$)/;

/** Wraps the exports of a core, which wasm-bindgen's code then calls instead. */
export function guarded(exports: WebAssembly.Exports, host: Host): WebAssembly.Exports {
  let lost: WarpweftError | undefined;
  /** Returns the error to throw for an error of WebAssembly. */
  const thrown = (error: unknown): unknown => {
    if (isTrap(error)) {
      lost ??= host.lose(error);
      return lost;
    }
    // Messages of wasm-bindgen for invalid objects, and for objects in use.
    const text = error instanceof Error ? error.message : "";
    if (text.startsWith("null pointer")) return argumentError(`${host.name}: the object must be of this core, got: ${text}`);
    if (/^(recursive use|attempted to take)/.test(text)) return stateError(`${host.name}: ${inUse}`);
    return error;
  };
  /** Wraps a method. WebAssembly ignores surplus arguments, so a fixed number is passed, which is faster than a list. */
  const method = (call: Call): Call => {
    const few: Call = (a, b, c, d, e, f, g, h) => {
      if (lost) throw new WarpweftError(lost.code, lost.message, { cause: lost.cause });
      host.active.push(a);
      try {
        return call(a, b, c, d, e, f, g, h);
      } catch (error) {
        throw thrown(error);
      } finally {
        host.active.pop();
      }
    };
    return call.length <= few.length ? few : (...values) => method(() => call(...values))(values[0]);
  };
  /** Wraps a function without a caller that could catch errors: a garbage collector callback or a promise callback. */
  const event = (call: Call): Call => (a, b, c, d) => {
    if (lost) return nothing;
    try {
      return call(a, b, c, d);
    } catch (error) {
      const known = thrown(error);
      if (lost) return nothing;
      throw known;
    }
  };
  const made = Object.entries(exports).map(([name, value]) => {
    if (typeof value !== "function") return [name, value];
    return [name, (silent.test(name) ? event : method)(value as Call)];
  });
  host.exports = Object.fromEntries(made) as Exports;
  return host.exports as unknown as WebAssembly.Exports;
}
