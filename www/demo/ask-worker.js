// The language model in a worker, so that the page stays responsive while it computes.

import { deleteModel, Device, keptModels, LanguageModel } from "../dist/models.js";

/** @type {LanguageModel | undefined} */
let model;
/** Aborts the loading or the answer in progress. */
let stop = new AbortController();

const post = (/** @type {object} */ message) => self.postMessage(message);

const methods = {
  /**
   * Loads a model, and returns facts about it.
   * @param {File | string} source
   * @param {string} prefer
   * @param {boolean} keep
   */
  async load(source, prefer, keep) {
    model?.dispose();
    model = undefined;
    stop = new AbortController();
    const device = await Device.new({ prefer: /^\d+$/.test(prefer) ? Number(prefer) : prefer });
    let lastReport = 0;
    model = await LanguageModel.load(source, {
      ...{ device, signal: stop.signal, keep },
      onProgress(progress) {
        if (performance.now() - lastReport < 50 && progress.done < progress.total) return;
        lastReport = performance.now();
        post({ progress });
      },
    });
    const { backend, name, kind } = device.info;
    return { device: { backend, name, kind }, fallback: device.fallback, ...facts() };
  },
  /**
   * Answers token by token, and returns the reason why the answer ended.
   * @param {import("../dist/models.js").Message[]} messages
   * @param {import("../dist/models.js").GenerateOptions} options
   */
  async answer(messages, options) {
    if (!model) throw new Error("there is no model");
    stop = new AbortController();
    const own = model;
    const begun = performance.now();
    let [first, count] = [0, 0];
    const generation = own.chat(messages, { ...options, likeliest: 5, signal: stop.signal });
    try {
      for await (const { id, text, logprob, likeliest } of generation.tokens()) {
        first ||= performance.now();
        count += 1;
        const others = likeliest.map(([id, logprob]) => [own.decode([id]), Math.exp(logprob)]);
        const speed = count > 1 ? ((count - 1) * 1000) / (performance.now() - first) : 0;
        post({ token: { text, own: own.decode([id]), probability: Math.exp(logprob), others, speed, first: first - begun } });
        // Lets the page's messages be handled, which may stop the answer.
        await new Promise((resolve) => setTimeout(resolve));
      }
      return { finish: generation.finish, ...facts() };
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      return { finish: "stopped", ...facts() };
    } finally {
      generation.dispose();
    }
  },
  async close() {
    model?.dispose();
    model = undefined;
  },
  /** Lists the model files in the browser's storage, or returns undefined if there is no storage. */
  async kept() {
    try {
      return await keptModels();
    } catch (error) {
      if (/** @type {{ code?: string }} */ (error).code === "Unsupported") return undefined;
      throw error;
    }
  },
  /** @param {string} url */
  remove: (url) => deleteModel(url),
};

/** Returns the facts that the page shows about the model. */
function facts() {
  if (!model) return undefined;
  const { contextUsed, contextLength, device } = model;
  return { contextUsed, contextLength, memory: device.memory().allocated };
}

self.addEventListener("message", async ({ data }) => {
  if (data.stop) return stop.abort(new Error("Loading was cancelled."));
  const { id, method, args } = data;
  try {
    post({ id, answer: await /** @type {any} */ (methods)[method](...args) });
  } catch (error) {
    post({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
