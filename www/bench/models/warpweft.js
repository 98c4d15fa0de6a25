// Models in warpweft: SmolLM2 from its GGUF file, and all-MiniLM-L6-v2 from its folder.

import { Device, Embedder, LanguageModel } from "../../dist/models.js";

const load = async (Kind, { model, prefer }, options) => {
  const device = await Device.new({ prefer });
  return Kind.load(`/models/${model}`, { device, ...options });
};

const place = ({ info: { backend } }) => (backend === "cpu" ? "CPU, one thread" : "WebGPU");

export async function language(given) {
  const model = await load(LanguageModel, given, { context: given.context });
  return {
    where: place(model.device),
    encode: (text) => [...model.encode(text)],
    decode: (ids) => model.decode(ids),
    async *generate({ ids }, maxTokens) {
      const generation = model.generate(ids, { maxTokens, ignoreEnd: true });
      let tokens = 0;
      for await (const { text } of generation.tokens()) yield { text, tokens: ++tokens };
    },
    dispose: () => model.dispose(),
  };
}

export async function encoder(given) {
  const embedder = await load(Embedder, given);
  return {
    where: place(embedder.device),
    async embed(texts) {
      const vectors = embedder.embed(texts);
      const numbers = await vectors.read();
      vectors.dispose();
      return numbers;
    },
    dispose: () => embedder.dispose(),
  };
}
