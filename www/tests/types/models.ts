// How a page uses language models. Only compiled.

import { deleteModel, Device, keptModels, LanguageModel } from "../../dist/models.js";
import type { GeneratedToken, KeptModel, Message, ModelEstimate, ModelProgress } from "../../dist/models.js";

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
  // @ts-expect-error: a model is kept or not
  await LanguageModel.load("model.gguf", { keep: "yes" });
  // @ts-expect-error: a hash is text
  await LanguageModel.load("model.gguf", { sha256: 5 });
  // @ts-expect-error: there is no such type of a cache
  await LanguageModel.load(response, { cache: "f64" });
  // @ts-expect-error: messages have a role
  model.chat([{ content: "Hello" }]);
  // @ts-expect-error: models are loaded
  new LanguageModel();
  model.dispose();
}
