// Language models in wllama, which is llama.cpp: on one thread of the CPU, or on the device that it chooses by default.

import { Wllama } from "@wllama/wllama";
import wasm from "@wllama/wllama/esm/wasm/wllama.wasm?url";

export async function language({ model, device, context }) {
  let isOnGpu = false;
  const read = (...values) => {
    isOnGpu ||= values.some((line) => /WebGPU\S* +model buffer size/.test(line));
  };
  const wllama = new Wllama({ default: wasm }, { logger: { debug: read, log: read, warn: read, error: read } });
  wllama.setCompat(null); // Its build for other browsers comes from a content network.
  const file = await (await fetch(`/models/${model}`)).blob();
  // By default it moves all layers to WebGPU if the adapter suits it.
  const layers = device === "cpu" ? { n_gpu_layers: 0 } : {};
  await wllama.loadModel([file], { n_threads: 1, n_ctx: context, ...layers });
  return {
    where: isOnGpu ? "WebGPU" : "CPU, one thread",
    async *generate({ text: prompt, ids }, count) {
      const options = { prompt, max_tokens: count, temperature: 0, ignore_eos: true, cache_prompt: false };
      for await (const chunk of await wllama.createCompletion({ ...options, stream: true, timings_per_token: true })) {
        const { prompt_n: read, predicted_n: tokens } = chunk.timings;
        if (read !== ids.length) throw new Error(`the prompt must have ${ids.length} tokens, got ${read}`);
        const [{ text, finish_reason: end }] = chunk.choices;
        if (!end) yield { text, tokens };
      }
    },
    dispose: () => wllama.exit(),
  };
}
