// Runs cases in all libraries, in turns: A B C D, A B C D, so that whatever else the machine does meets all alike.
//
// The page knows no libraries until `open` is called; `www/tools/bench.mjs` calls it and takes the results.

import { cases, dataOf } from "./cases.js";
import { checker } from "./reference.js";
import { adapter, limited, words } from "./support.js";

/** warpweft from a package: today's, or an earlier one that it is measured beside. */
async function warpweft(load) {
  const [{ open }, entry] = await Promise.all([import("./libraries/warpweft.js"), load()]);
  return { open: () => open(entry) };
}

const importers = {
  warpweft: () => warpweft(() => import("../dist/nn.js")),
  before: () => warpweft(() => import("warpweft-before")),
  tfjs: () => import("./libraries/tfjs.js"),
  ort: () => import("./libraries/ort.js"),
  jax: () => import("./libraries/jax.js"),
};

/** What is not done by then never will be: milliseconds for a case. */
const patience = ({ heavy }) => (heavy ? 900_000 : 180_000);

/** Opened libraries by name; one that could not be opened is its error. */
const libraries = new Map();

/** Opens the libraries named, one after the other. */
async function open(names) {
  for (const name of names) {
    try {
      const code = await importers[name]();
      libraries.set(name, { composed: code.composed, second: code.second, ...(await limited(code.open(), patience({}))) });
    } catch (error) {
      libraries.set(name, { error: `does not start: ${words(error)}` });
    }
  }
}

/** What a library counts, now and before: what was done since. */
const since = (now, before) =>
  Object.fromEntries(["submits", "kernels", "buffers"].map((name) => [name, now[name] - before[name]]));

/** One run: so many computations, and then a read of one element of each, which waits for all of them. */
async function run(instance, repeat) {
  const start = performance.now();
  const results = [];
  for (let i = 0; i < repeat; i++) results.push(await instance.step());
  await instance.peek(results);
  return { ms: performance.now() - start, results };
}

/** Uploads, then runs once with everything that happens only then; checks the whole result. */
async function first(library, given, data, check) {
  const instance = await library.prepare(given, data);
  const start = performance.now();
  await instance.build();
  const results = [await instance.step()];
  await instance.peek(results);
  const first_ms = performance.now() - start;
  const wrong = check(await instance.read(results[0]));
  instance.free(results);
  return { instance, first_ms, error: wrong && `wrong result: ${wrong}`, checked: !wrong, times: [], spent: first_ms };
}

/** The same once more in another way, where a library has one and its usual way gives wrong results. */
async function firstRight(library, given, data, check) {
  const found = await first(library, given, data, check);
  const other = library.second?.[given.kind];
  if (!found.error || !other) return found;
  await found.instance.dispose();
  return { ...(await first(library, { ...given, plain: true }, data, check)), composed: other, usual_error: found.error };
}

/**
 * A case in all opened libraries. `runs` rounds are timed, after one that is not; a library that has taken `budget`
 * milliseconds with all of its runs is not asked again.
 */
async function measure(name, runs, budget) {
  const given = cases.find((one) => one.name === name);
  const data = dataOf(given);
  const check = checker(given, data);
  const all = [];
  for (const [library, opened] of libraries) {
    const entry = { library, checked: false, times: [], composed: opened.composed?.[given.kind] };
    all.push(entry);
    if (opened.error) Object.assign(entry, { error: opened.error });
    else await attempt(entry, given, async () => Object.assign(entry, await firstRight(opened, given, data, check)));
  }
  const round = async (keep, order = all) => {
    for (const entry of order.filter(({ instance, failed }) => instance && !failed)) {
      const left = entry.spent <= budget;
      // A first run that took that long has warmed up enough; but one time is wanted of every library.
      if (!left && (!keep || entry.times.length)) continue;
      await attempt(entry, given, async () => {
        const { stats } = libraries.get(entry.library);
        const before = stats?.();
        const { ms, results } = await run(entry.instance, given.repeat);
        if (stats) entry.counts = since(stats(), before);
        entry.instance.free(results);
        if (keep) entry.times.push(ms);
        entry.spent += ms;
      });
    }
  };
  if (runs > 1) await round(false);
  // Who comes after whom must not matter.
  for (let i = 0; i < runs; i++) await round(true, i % 2 ? all.toReversed() : all);
  for (const entry of all) {
    entry.plan = entry.instance?.plan?.();
    await attempt(entry, given, () => entry.instance?.dispose());
  }
  return all.map(({ instance, failed, spent, ...entry }) => entry);
}

/** Does `work` for a library and a case; an error becomes part of the entry. */
async function attempt(entry, given, work) {
  try {
    await limited(Promise.resolve(work()), patience(given));
  } catch (error) {
    Object.assign(entry, { failed: true, checked: false, error: words(error) });
  }
}

window.bench = { open, measure, adapter };
