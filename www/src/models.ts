// The entry `warpweft/models`: `warpweft/nn` with language models.

import * as gpu from "./gpu-models/warpweft_bg.js";
import * as cpu from "./cpu-models/warpweft_bg.js";
import { addFile } from "./entry.js";
import { Embedder, Generation, LanguageModel, LoraAdapter } from "./language.js";
import { prepareLanguage } from "./prepare-language.js";
import { provide, shareClasses } from "./load.js";
import { shareNn } from "./share-nn.js";

export * from "./base.js";
export * from "./nn-classes.js";
export * from "./language.js";
export type { FitOptions, Forward, TrainingData } from "./train.js";

addFile(new Error());

// The URLs are written out, so that bundlers find the files.
provide("warpweft/models", {
  gpu: { name: "gpu-models", glue: gpu, wasm: () => new URL(/* @vite-ignore */ "./gpu-models.wasm", import.meta.url) },
  cpu: { name: "cpu-models", glue: cpu, wasm: () => new URL(/* @vite-ignore */ "./cpu-models.wasm", import.meta.url) },
});
shareNn(gpu);
shareClasses({ LanguageModel, Generation, Embedder, LoraAdapter }, prepareLanguage);
