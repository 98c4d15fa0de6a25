// Encoders in transformers.js, which runs them by ONNX Runtime Web: on WebGPU, or in WebAssembly on one thread.

import { AutoTokenizer, env, pipeline } from "@huggingface/transformers";

Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, localModelPath: "/", useBrowserCache: false });
const { wasm } = env.backends.onnx;
// Without an address ONNX Runtime takes its WebAssembly from this bundle, not from a content network.
delete wasm.wasmPaths;
wasm.numThreads = 1;

/** How many tokens each of the texts has, those at the beginning and the end included. */
export async function countTokens({ model }, texts) {
  const tokenizer = await AutoTokenizer.from_pretrained(`models/${model}`);
  return texts.map((text) => tokenizer.encode(text).length);
}

export async function encoder({ model, device }) {
  const options = { device: device === "cpu" ? "wasm" : device, dtype: "fp32" };
  const extractor = await pipeline("feature-extraction", `onnx/${model}`, options);
  return {
    where: device === "cpu" ? "CPU, one thread" : "WebGPU",
    embed: async (texts) => (await extractor(texts, { pooling: "mean", normalize: true })).data,
    dispose: () => extractor.dispose(),
  };
}
