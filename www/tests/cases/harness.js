// Named tests inside a page, and their assertions.

const tests = [];

/** Declares a test. Its function gets the context of {@link runAll}. */
export function test(name, body) {
  tests.push({ name, body });
}

/**
 * Runs all declared tests one after the other. A test that ends the core fails. The following tests run with the result of
 * `renew`: another copy of the package with a separate core.
 */
export async function runAll(context, renew) {
  const results = [];
  for (const { name, body } of tests) {
    try {
      await body(context);
      results.push({ name });
    } catch (error) {
      // Not every browser's stack begins with the message.
      results.push({ name, error: `${error}\n${error?.stack}` });
      if (error?.code === "DeviceLost" && renew) context = { ...context, ...(await renew()) };
    }
  }
  return results;
}

/** Throws unless a condition holds. */
export function check(holds, message) {
  if (!holds) throw new Error(message);
}

/** Sorts the keys of objects: those that come from Firefox's pages have another order. */
const sorted = (_, value) =>
  Object.prototype.toString.call(value) === "[object Object]" ? Object.fromEntries(Object.entries(value).sort()) : value;

/** Checks that two values are equal as JSON. The order of keys does not matter. */
export function same(actual, expected, what = "value") {
  const [have, want] = [actual, expected].map((it) => JSON.stringify(it, sorted));
  check(have === want, `${what}: ${have} instead of ${want}`);
}

/** Checks that two lists agree within `tolerance`, relative to values above 1. NaN equals NaN. */
export function close(actual, expected, tolerance = 1e-5, what = "element") {
  check(actual.length === expected.length, `${what}: ${actual.length} elements instead of ${expected.length}`);
  for (let i = 0; i < actual.length; i++) {
    const [have, want] = [Number(actual[i]), Number(expected[i])];
    const near = Math.abs(have - want) <= tolerance * Math.max(1, Math.abs(want));
    check(Object.is(have, want) || have === want || near, `${what} ${i}: ${have} instead of ${want}`);
  }
}

/** Checks that `work` throws a WarpweftError with this code, whose message begins with `start`. */
export function refuses(code, start, work) {
  try {
    work();
  } catch (error) {
    checkError(error, code, start);
    return;
  }
  throw new Error(`${start}: was not refused with ${code}`);
}

/** Checks that `work` rejects with a WarpweftError with this code. */
export async function rejects(code, start, work) {
  try {
    await work();
  } catch (error) {
    checkError(error, code, start);
    return;
  }
  throw new Error(`${start}: was not refused with ${code}`);
}

function checkError(error, code, start) {
  check(error?.name === "WarpweftError", `${start}: not a WarpweftError: ${error?.stack ?? error}`);
  check(error.code === code, `${start}: code ${error.code} instead of ${code}: ${error.message}`);
  check(error.message.startsWith(start), `the message does not begin with "${start}": ${error.message}`);
}

/** Returns reproducible numbers from -1 to 1. */
export function randoms(count, seed = 1) {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.fround((state / 2 ** 31 - 1) * 0.999);
  });
}
