// The language model and its adapter in a worker, so that the page stays responsive while it computes.

import { Device, keptModels, LanguageModel, LoraAdapter, Optimizer } from "../dist/models.js";

/**
 * @import { AdapterExample, Message } from "../dist/models.js"
 * @typedef {{ pairs: [question: string, answer: string][], texts: string[] }} Examples
 * @typedef {{ steps: number, rate: number, rank: number }} Settings
 * @typedef {{ step: number, done: number, steps: number, loss: number, seconds: number }} Step `step` counts from the beginning
 *   of the adapter, and `done` from the last press of the button; `seconds` is the time of a step
 */

/** The linear layers that get an adapter, in each layer of the model. */
const TARGETS = /** @type {const} */ (["q_proj", "v_proj", "up_proj", "down_proj"]);
/** The most tokens of a conversation. */
const MAX_CONTEXT = 512;
/** The most tokens of a piece of a text. */
const MAX_PIECE = 128;
/** The most examples of a step, and the most tokens in them, with padding. */
const [MAX_BATCH, MAX_BATCH_TOKENS] = [8, 512];
/** The approximate number of tokens that a chat template adds to a question and an answer. */
const TEMPLATE = 40;
/** The most tokens of an answer. */
const MAX_ANSWER = 64;
/** The milliseconds between progress reports. */
const REPORT = 50;

/** An adapter of a model, with its optimizer and the adapted model. */
class Lesson {
  steps = 0;
  /** @type {LanguageModel | undefined} */
  #tuned;

  /**
   * @param {LanguageModel} model
   * @param {LoraAdapter} adapter
   */
  constructor(model, adapter) {
    this.model = model;
    this.adapter = adapter;
    this.optimizer = Optimizer.adam(adapter.parameters(), { lr: 1e-3 });
  }

  /** The model with the present adapter. */
  get tuned() {
    return (this.#tuned ??= this.model.withAdapter(this.adapter));
  }

  /**
   * Takes a training step, and returns the loss before it.
   * @param {AdapterExample[]} batch
   */
  async step(batch) {
    // The context of the adapted model has keys and values of the old adapter.
    this.#tuned?.dispose();
    this.#tuned = undefined;
    const loss = this.adapter.loss(batch);
    try {
      this.optimizer.minimize(loss);
      const value = await loss.item();
      this.steps += 1;
      return value;
    } finally {
      loss.dispose();
    }
  }

  dispose() {
    this.#tuned?.dispose();
    this.optimizer.dispose();
    this.adapter.dispose();
  }
}

/** @type {LanguageModel | undefined} */
let model;
/** @type {Lesson | undefined} */
let lesson;
/** Aborts the work in progress. */
let stop = new AbortController();

const post = (/** @type {object} */ message) => self.postMessage(message);

/** Lets the page's messages be handled. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

const methods = {
  /**
   * Loads a model, and returns facts about it.
   * @param {File | string} source
   * @param {string} prefer
   * @param {boolean} keep
   */
  async load(source, prefer, keep) {
    methods.close();
    stop = new AbortController();
    const { signal } = stop;
    const device = await Device.new({ prefer: /^\d+$/.test(prefer) ? Number(prefer) : prefer });
    let lastReport = 0;
    /** @param {{ done: number, total: number }} progress */
    const onProgress = (progress) => {
      if (performance.now() - lastReport < REPORT && progress.done < progress.total) return;
      lastReport = performance.now();
      post({ progress });
    };
    try {
      model = await LanguageModel.load(source, { device, context: MAX_CONTEXT, signal, keep, onProgress });
    } catch (error) {
      device.dispose();
      throw error;
    }
    const { backend, name, kind } = device.info;
    return { device: { backend, name, kind }, fallback: device.fallback, memory: memory() };
  },
  /**
   * Trains the present adapter, or a new one, until the last step or a stop.
   * @param {Examples} examples
   * @param {Settings} settings
   */
  async teach(examples, { steps, rate, rank }) {
    stop = new AbortController();
    const { signal } = stop;
    const batches = batchesOf(need(), examples);
    const isNew = !lesson;
    lesson ??= new Lesson(need(), need().createAdapter({ rank, alpha: 4 * rank, targets: TARGETS, seed: 1 }));
    lesson.optimizer.lr = rate;
    const begun = lesson.steps;
    const last = begun + steps;
    // The first step takes longer, because programs are planned and compiled.
    let start = performance.now();
    try {
      while (lesson.steps < last && !signal.aborted) {
        const done = lesson.steps - begun;
        if (done === 1) start = performance.now();
        const loss = await lesson.step(batches[done % batches.length]);
        const seconds = (performance.now() - start) / 1000 / Math.max(done, 1);
        post({ step: { step: lesson.steps, done: done + 1, steps, loss, seconds } });
        if (!Number.isFinite(loss)) {
          throw new Error(`The loss is ${loss}. Press Forget, and teach with a lower learning rate.`);
        }
        await pause();
      }
    } catch (error) {
      if (isNew && !lesson.steps) methods.removeAdapter();
      throw error;
    }
    return { isStopped: lesson.steps < last, memory: memory() };
  },
  /**
   * Generates answers to a question with and without the adapter, at the same time.
   * @param {string} question
   */
  async answer(question) {
    stop = new AbortController();
    const { signal } = stop;
    /** @type {[string, LanguageModel][]} */
    const models = [["before", need()]];
    if (lesson) models.push(["after", lesson.tuned]);
    const ended = await Promise.allSettled(models.map(([who, model]) => speak(who, model, question, signal)));
    for (const one of ended) if (one.status === "rejected") throw one.reason;
    return { memory: memory() };
  },
  removeAdapter() {
    lesson?.dispose();
    lesson = undefined;
    return { memory: model && memory() };
  },
  async save() {
    if (!lesson) throw new Error("There is no adapter.");
    return lesson.adapter.save();
  },
  /**
   * Replaces the present adapter by the files of another one.
   * @param {string} config
   * @param {Uint8Array} weights
   */
  restore(config, weights) {
    const next = new Lesson(need(), need().loadAdapter(config, weights));
    methods.removeAdapter();
    lesson = next;
    return { rank: next.adapter.rank, memory: memory() };
  },
  close() {
    methods.removeAdapter();
    const device = model?.device;
    model?.dispose();
    model = undefined;
    device?.dispose();
  },
  /** Returns whether the browser can keep model files. */
  async canKeep() {
    try {
      return Boolean(await keptModels());
    } catch (error) {
      if (/** @type {{ code?: string }} */ (error).code === "Unsupported") return false;
      throw error;
    }
  },
};

function need() {
  if (!model) throw new Error("There is no model.");
  return model;
}

const memory = () => need().device.memory().allocated;

/**
 * Streams one model's answer to the page. An error ends the other model's answer, too.
 * @param {string} who
 * @param {LanguageModel} model
 * @param {string} question
 * @param {AbortSignal} signal
 */
async function speak(who, model, question, signal) {
  /** @type {Message[]} */
  const messages = [{ role: "user", content: question }];
  const generation = model.chat(messages, { temperature: 0, maxTokens: MAX_ANSWER, signal });
  try {
    for await (const piece of generation) {
      post({ piece: { who, text: piece } });
      await pause();
    }
    if (generation.finish === "maxTokens") post({ piece: { who, text: "…" } });
  } catch (error) {
    if (signal.aborted) return;
    stop.abort();
    throw error;
  } finally {
    generation.dispose();
  }
}

/**
 * Returns the examples of each step. A step has examples of similar length, which need little padding.
 * @param {LanguageModel} model
 * @param {Examples} examples
 */
function batchesOf(model, { pairs, texts }) {
  /** @type {{ example: AdapterExample, length: number }[]} */
  const all = pairs.map(([question, answer]) => ({
    example: [{ role: "user", content: question }, { role: "assistant", content: answer }],
    length: TEMPLATE + model.encode(`${question} ${answer}`).length,
  }));
  for (const text of texts) {
    const tokens = model.encode(text);
    if (tokens.length <= MAX_PIECE) all.push({ example: text, length: tokens.length });
    else all.push(...pieces(tokens).map((tokens) => ({ example: { tokens }, length: tokens.length })));
  }
  all.sort((a, b) => a.length - b.length);
  /** @type {AdapterExample[][]} */
  const batches = [];
  for (const { example, length } of all) {
    const last = batches.at(-1);
    const hasRoom = last && last.length < MAX_BATCH && (last.length + 1) * length <= MAX_BATCH_TOKENS;
    if (hasRoom) last.push(example);
    else batches.push([example]);
  }
  return batches;
}

/**
 * Splits a long text into pieces of equal length.
 * @param {Uint32Array} tokens
 */
function pieces(tokens) {
  const count = Math.ceil(tokens.length / MAX_PIECE);
  const size = Math.ceil(tokens.length / count);
  return Array.from({ length: count }, (_, n) => tokens.slice(n * size, (n + 1) * size));
}

self.addEventListener("message", async ({ data }) => {
  if (data.stop) return stop.abort(new Error("Loading was cancelled."));
  const { id, method, args } = data;
  try {
    post({ id, answer: await /** @type {any} */ (methods)[method](...args) });
  } catch (error) {
    const { message, code } = /** @type {Error & { code?: string }} */ (error);
    post({ id, error: message ?? String(error), code });
  }
});
