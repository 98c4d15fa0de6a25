// Runs models in warpweft and in a peer, in turns, on one page. `www/tools/bench-models.mjs` calls it and takes the results.

import { adapter, limited, words } from "../support.js";
import { median } from "../table.js";
import { cases, story, textsOf } from "./cases.js";

const importers = {
  warpweft: () => import("./warpweft.js"),
  wllama: () => import("./wllama.js"),
  transformers: () => import("./transformers.js"),
};

/** The most milliseconds that loading a model or a run may take. */
const PATIENCE_MS = 300_000;
/** Tokens that are generated in the run that is not timed. */
const WARM_UP_TOKENS = 4;
/** Milliseconds after which a run of an encoder makes no more calls. */
const ENCODER_RUN_MS = 1500;
/** The least cosine of two libraries' vectors of a text. */
const LEAST_COSINE = 0.9999;

/** How each kind of model is measured: `run` returns the times and the result of one run, and `differ` compares results. */
const kinds = {
  async language({ prompt, tokens }, { encode, decode }) {
    const all = encode(story);
    const slices = Array.from(all.slice(prompt), (_, at) => all.slice(at, at + prompt));
    // wllama takes texts, so a prompt must encode to the same tokens again. Neighbors begin differently, because tokens that
    // two prompts share at the beginning would be read from the first one's cache.
    const prompts = slices.filter((ids, at) => `${encode(decode(ids))}` === `${ids}` && ids[0] !== slices[at - 1]?.[0]);
    const run = async ({ generate }, round) => {
      const ids = prompts.at(round % prompts.length);
      const most = round < 0 ? WARM_UP_TOKENS : tokens + 1;
      const pieces = [];
      const start = performance.now();
      let [first, last, count] = [0, 0, 0];
      for await (const { text, tokens } of generate({ ids, text: decode(ids) }, most)) {
        last = performance.now();
        first ||= last;
        count = tokens;
        pieces.push(text);
      }
      if (count !== most) throw new Error(`${most} tokens must be generated, got ${count}`);
      const perSecond = (count, ms) => (count * 1000) / ms;
      return { times: { prompt: perSecond(prompt, first - start), decode: perSecond(tokens, last - first) }, result: pieces };
    };
    return { run, differ: differentTexts };
  },
  async encoder(given) {
    const texts = textsOf(given);
    const counts = await (await importers.transformers()).countTokens(given, texts);
    const odd = counts.find((count) => count !== given.tokens);
    if (odd !== undefined) throw new Error(`each text must have ${given.tokens} tokens, got ${odd}`);
    const run = async ({ embed }) => {
      const times = [];
      const start = performance.now();
      for (let now = start; now - start < ENCODER_RUN_MS; ) {
        const result = await embed(texts);
        times.push(performance.now() - now);
        now = performance.now();
        if (now - start >= ENCODER_RUN_MS) return { times: { call: median(times) }, result: [...result] };
      }
    };
    return { run, differ: (own, other) => differentVectors(own[0], other[0], given.texts) };
  },
};

/**
 * Says how the texts of two libraries differ. The first tokens must be the same in most rounds, but not in all. Rounding errors
 * may swap two tokens that are nearly equally likely.
 */
function differentTexts(own, other) {
  const same = own.filter((pieces, round) => pieces[0] === other[round]?.[0]).length;
  return 2 * same > own.length ? undefined : `the first tokens were the same in ${same} of ${own.length} rounds`;
}

/** Says how the vectors of two libraries differ. */
function differentVectors(own, other, texts) {
  const width = own.length / texts;
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const part = (values, n) => values.slice(n * width, (n + 1) * width);
  if (other.length !== own.length) return `${other.length} numbers and ${own.length}`;
  for (let n = 0; n < texts; n++) {
    const [a, b] = [part(own, n), part(other, n)];
    const cosine = dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
    if (!(cosine > LEAST_COSINE)) return `the cosine for text ${n} is ${cosine.toFixed(5)}`;
  }
}

/** Does `work` for a library; an error becomes part of its entry. */
async function attempt(entry, work) {
  try {
    if (!entry.error) await limited(work(), PATIENCE_MS);
  } catch (error) {
    entry.error = words(error);
  }
}

/** Measures a case in warpweft and in the other libraries named: `runs` runs each, after one that is not timed. */
async function measure(name, { libraries, prefer, runs }) {
  const given = { ...cases.find((one) => one.name === name), prefer };
  const entries = libraries.map((library) => ({ library, checked: false, times: [], results: [] }));
  for (const entry of entries) {
    await attempt(entry, async () => {
      entry.instance = await (await importers[entry.library]())[given.kind](given);
      entry.where = entry.instance.where;
    });
  }
  const own = entries.find(({ library }) => library === "warpweft");
  if (own.error) throw new Error(own.error);
  const { run, differ } = await kinds[given.kind](given, own.instance);
  for (let round = -1; round < runs; round++) {
    // Who comes after whom must not matter.
    for (const entry of round % 2 ? entries.toReversed() : entries) {
      await attempt(entry, async () => {
        const { times, result } = await run(entry.instance, round);
        if (round < 0) return;
        entry.times.push(times);
        entry.results.push(result);
      });
    }
  }
  for (const entry of entries.filter((entry) => entry !== own && !entry.error && !own.error)) {
    const wrong = differ(own.results, entry.results);
    if (wrong) own.error = entry.error = `wrong result of one of the two: ${wrong}`;
    else own.checked = entry.checked = true;
  }
  for (const entry of entries) {
    try {
      await entry.instance?.dispose();
    } catch {
      // What an error left behind is freed with the page.
    }
  }
  return entries.map(({ instance, results, ...entry }) => entry);
}

window.bench = { measure, adapter };
