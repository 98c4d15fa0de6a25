// Tests the types of language models in a page. This file is only compiled.

import { deleteModel, Device, Embedder, keptModels, LanguageModel, LoraAdapter, Optimizer } from "../../dist/models.js";
import type { AdapterFiles, GeneratedToken, KeptModel, Message, ModelEstimate, ModelProgress } from "../../dist/models.js";

export async function main(file: File, response: Response, signal: AbortSignal): Promise<void> {
  const device = await Device.new();
  const need: ModelEstimate = await LanguageModel.estimate("model.gguf", { device, context: 512 });
  const model = await LanguageModel.load([file, file], {
    device,
    context: 512,
    cache: "f32",
    signal,
    onProgress: ({ done, total }) => console.log(done / total),
  });
  const messages: Message[] = [{ role: "user", content: "Hello" }];
  for await (const piece of model.chat(messages, { temperature: 0.7, stop: ["\n"], signal })) console.log(piece.length);
  const generation = model.generate(model.encode("Once", true), { maxTokens: 5, likeliest: 3, logitBias: [[1, -2]] });
  const token: GeneratedToken | undefined = await generation.nextToken();
  for await (const { id, likeliest: [first] } of generation.tokens()) console.log(id, first?.[1], token?.text);
  const rest: string = await model.generate("Once").text();
  console.log(need.total, rest, generation.finish satisfies string | undefined, model.contextUsed, model.device.info.name);
  const showProgress = ({ done, total, seconds }: ModelProgress): void => console.log(done / total, seconds?.toFixed(0));
  await LanguageModel.load("model.gguf", { keep: true, sha256: "0".repeat(64), onProgress: showProgress });
  await LanguageModel.load(["a.gguf", "b.gguf"], { sha256: ["0".repeat(64), "1".repeat(64)] as const });
  const kept: KeptModel[] = await keptModels();
  for (const { name, url, bytes, total } of kept) {
    const isDeleted: boolean = bytes < total ? await deleteModel(name) : await deleteModel(new URL(url));
    console.log(isDeleted);
  }
  // @ts-expect-error: `keep` is a boolean
  await LanguageModel.load("model.gguf", { keep: "yes" });
  // @ts-expect-error: a hash is text
  await LanguageModel.load("model.gguf", { sha256: 5 });
  // @ts-expect-error: a cache has no such dtype
  await LanguageModel.load(response, { cache: "f64" });
  // @ts-expect-error: messages have a role
  model.chat([{ content: "Hello" }]);
  // @ts-expect-error: models have no constructor
  new LanguageModel();
  model.dispose();
}

/** Returns vectors of texts. */
export async function search(folder: FileSystemDirectoryHandle, files: FileList, signal: AbortSignal): Promise<void> {
  const embedder = await Embedder.load("/models/all-MiniLM-L6-v2/", { signal, onProgress: ({ done }) => console.log(done) });
  const vectors = embedder.embed(["a", "b"], { promptName: "query" });
  const scores = vectors.matmul(embedder.embed("c", { prompt: "query: " }).transpose(0, 1));
  console.log(await scores.read(), embedder.dimensions + embedder.maxTokens);
  await Embedder.load(folder);
  await Embedder.load(files, { device: embedder.device });
  await Embedder.load({ "config.json": new Blob(), "model.safetensors": "model.safetensors" });
  // @ts-expect-error: texts are text
  embedder.embed([1]);
  embedder.dispose();
}

/** Trains an adapter of a model. */
export async function teach(model: LanguageModel): Promise<AdapterFiles> {
  const adapter: LoraAdapter = model.createAdapter({ rank: 4, alpha: 8, targets: ["q_proj", "down_proj"], seed: 1 });
  const optimizer = Optimizer.adam(adapter.parameters(), { lr: 1e-3 });
  const answer = [{ role: "user", content: "Hello" }, { role: "assistant", content: "Hi" }] as const;
  optimizer.minimize(adapter.loss(["a text", answer, { tokens: model.encode("tokens"), prompt: 1 }]));
  const tuned: LanguageModel = model.withAdapter(adapter);
  const { config, weights } = await adapter.save();
  model.loadAdapter(config, weights).dispose();
  // @ts-expect-error: there is no such layer
  model.createAdapter({ targets: ["q"] });
  tuned.dispose();
  return { config, weights };
}
