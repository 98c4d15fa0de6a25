// A core that has trapped: from then on every call throws one error, pending promises are rejected, and objects are freed
// without errors.

import { inUse, type Exports } from "./brand.js";
import { dataError, WarpweftError } from "./errors.js";
import type { Host } from "./host.js";

/** Whether WebAssembly ended in the middle of something, so that what it holds can not be trusted any more. */
const isTrap = (thrown: unknown) =>
  thrown instanceof WebAssembly.RuntimeError ||
  // No room left on the stack.
  thrown instanceof RangeError ||
  (thrown instanceof Error && thrown.name === "InternalError");

type Call = (...values: unknown[]) => unknown;

/** What an event gives that came too late: wasm-bindgen looks into answers for something to throw, and finds nothing. */
const nothing: readonly unknown[] = [];

/** What there is nobody to throw at for, as wasm-bindgen names it; and letting a buffer go. */
const silent = /^(_*w(bg|asm_?bindgen|bindgen)_|unpin$)/;

/** What a core exports, made safe: wasm-bindgen's code calls it by these. */
export function guarded(exports: WebAssembly.Exports, host: Host): WebAssembly.Exports {
  let lost: WarpweftError | undefined;
  /** What is to be thrown for what WebAssembly threw. */
  const thrown = (error: unknown): unknown => {
    if (isTrap(error)) {
      lost ??= host.lose(error);
      return lost;
    }
    // What wasm-bindgen says of objects that are none, or are at work.
    const said = error instanceof Error ? error.message : "";
    if (said.startsWith("null pointer")) return dataError(`${host.name}: the object must be of this core, got: ${said}`);
    if (/^(recursive use|attempted to take)/.test(said)) return dataError(`${host.name}: ${inUse}`);
    return error;
  };
  /** A method of a class. WebAssembly takes no notice of more arguments than it has; lists of them would cost time. */
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
  /** What nobody called: the garbage collector's finding, an answer that comes. There is nobody to throw at. */
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
