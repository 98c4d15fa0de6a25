// warpweft/nn: the same, with layers, optimisers and the trainer.

import startCpu, * as cpu from "./cpu/warpweft.js";
import startGpu, * as gpu from "./gpu-nn/warpweft.js";
import { provide, shareClasses } from "./load.js";
import { Generator, Layer, Optimizer, Schedule, Trainer, WeightAverage } from "./models.js";
import { makeAs, makeIn } from "./modules.js";

export * from "./base.js";
export * from "./models.js";
export type { FitOptions, Forward, TrainingData } from "./train.js";

// The addresses are written out, so that bundlers find the files.
provide("warpweft/nn", {
  gpu: { glue: gpu, start: startGpu, usual: () => new URL(/* @vite-ignore */ "./gpu-nn.wasm", import.meta.url) },
  cpu: { glue: cpu, start: startCpu, usual: () => new URL(/* @vite-ignore */ "./cpu.wasm", import.meta.url) },
});

shareClasses({ Generator, Layer, Optimizer, WeightAverage, Schedule, Trainer }, makeIn);
makeAs(gpu as unknown as Record<string, object>); // The CPU's have the same.
