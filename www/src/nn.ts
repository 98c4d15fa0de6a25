// warpweft/nn: the same, with layers, optimizers and the trainer.

import { provideModels } from "./gpu-nn.js";

export * from "./base.js";
export * from "./models.js";
export type { FitOptions, Forward, TrainingData } from "./train.js";

// The addresses are written out, so that bundlers find the files.
provideModels("warpweft/nn", {
  gpu: () => new URL(/* @vite-ignore */ "./gpu-nn.wasm", import.meta.url),
  cpu: () => new URL(/* @vite-ignore */ "./cpu.wasm", import.meta.url),
});
