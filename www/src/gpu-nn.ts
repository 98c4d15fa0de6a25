// The JavaScript that wasm-bindgen generates for the GPU core with layers, optimizers and the trainer. Two entries include it.

import * as glue from "./gpu-nn/warpweft_bg.js";
import { provide, shareClasses, type Provided, type WasmSource } from "./load.js";
import { cpu } from "./cpu.js";
import { addFile } from "./entry.js";
import { Generator, Layer, Optimizer, Schedule, Trainer, WeightAverage } from "./models.js";
import { makeAs, makeIn } from "./modules.js";

type Inside = Pick<Provided, "isInside">;

addFile(new Error());

let isShared = false;

/** Registers the core for an entry, the CPU's, and the classes of models. */
export function provideModels(entry: string, wasm: Record<"gpu" | "cpu", () => WasmSource>, rest: Inside = {}): void {
  provide(entry, "gpu-nn", { gpu: { glue, ...rest, wasm: wasm.gpu }, cpu: { ...cpu, ...rest, wasm: wasm.cpu } });
  if (isShared) return;
  isShared = true;
  shareClasses({ Generator, Layer, Optimizer, WeightAverage, Schedule, Trainer }, makeIn);
  makeAs(glue as unknown as Record<string, object>); // The CPU's have the same.
}
