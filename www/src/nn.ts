// The entry `warpweft/nn`: `warpweft` with layers, optimizers and the trainer.

import { provideNn } from "./gpu-nn.js";

export * from "./base.js";
export * from "./nn-classes.js";
export type { FitOptions, Forward, TrainingData } from "./train.js";

// The URLs are written out, so that bundlers find the files.
provideNn("warpweft/nn", {
  gpu: () => new URL(/* @vite-ignore */ "./gpu-nn.wasm", import.meta.url),
  cpu: () => new URL(/* @vite-ignore */ "./cpu.wasm", import.meta.url),
});
