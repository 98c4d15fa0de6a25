// A core that has trapped: from then on every call is one and the same error, and what is let go is let go in silence.

import type { Exports } from "./brand.js";
import { dataError, WarpweftError } from "./errors.js";
import type { Host } from "./host.js";

/** Whether WebAssembly ended in the middle of something, so that what it holds can not be trusted any more. */
const isTrap = (thrown: unknown) =>
  thrown instanceof WebAssembly.RuntimeError ||
  // No room left on the stack.
  thrown instanceof RangeError ||
  (thrown instanceof Error && thrown.name === "InternalError");

type Call = (...values: unknown[]) => unknown;

/** What a core exports, made safe: wasm-bindgen's code calls it by these. */
export function guarded(exports: WebAssembly.Exports, host: Host): WebAssembly.Exports {
  let lost: WarpweftError | undefined;
  const thrown = (error: unknown): unknown => {
    if (isTrap(error)) return (lost ??= failure(host, error));
    // What wasm-bindgen itself says, of objects that are none.
    if (error instanceof Error && !(error instanceof WarpweftError) && /null pointer|recursive use/.test(error.message)) {
      return dataError(`${host.name}: this is none of its objects: ${error.message}`);
    }
    return error;
  };
  const again = () => new WarpweftError(lost!.code, lost!.message, { cause: lost!.cause });
  // WebAssembly takes no notice of arguments beyond its own; lists of them would take longer than most calls.
  const safe = (call: Call): Call => (a, b, c, d, e, f, g, h) => {
    if (lost) throw again();
    try {
      return call(a, b, c, d, e, f, g, h);
    } catch (error) {
      throw thrown(error);
    }
  };
  const silent = (call: Call): Call => (...values) => {
    if (lost) return undefined;
    try {
      return call(...values);
    } catch (error) {
      thrown(error);
      return undefined;
    }
  };
  const made = Object.entries(exports).map(([name, value]) => {
    if (typeof value !== "function") return [name, value];
    return [name, (/^__wbg_\w+_free$/.test(name) ? silent : safe)(value as Call)];
  });
  host.exports = Object.fromEntries(made) as Exports;
  return host.exports as unknown as WebAssembly.Exports;
}

function failure(host: Host, cause: unknown): WarpweftError {
  const why = host.panic || String(cause);
  const message = `device: the ${host.name} core failed, and what was on it is lost: ${why}; reload the page`;
  return new WarpweftError("DeviceLost", message, { cause });
}
