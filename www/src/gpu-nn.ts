// The JavaScript that wasm-bindgen generates for the GPU core with layers, optimizers and the trainer. Two entries include it.

import * as glue from "./gpu-nn/warpweft_bg.js";
import { provide, shareClasses, type Provided, type WasmSource } from "./load.js";
import { cpu } from "./cpu.js";
import { addFile } from "./entry.js";
import { Generator, Layer, Optimizer, Schedule, Trainer, WeightAverage } from "./nn-classes.js";
import { makeAs, makeIn } from "./modules.js";

type Inside = Pick<Provided, "isInside">;

addFile(new Error());

let isShared = false;

/** Registers this GPU core and the CPU core for an entry, and shares the classes of layers. */
export function provideNn(entry: string, wasm: Record<"gpu" | "cpu", () => WasmSource>, rest: Inside = {}): void {
  const [gpu, own] = [{ name: "gpu-nn", glue, ...rest, wasm: wasm.gpu }, { ...cpu, ...rest, wasm: wasm.cpu }];
  provide(entry, { gpu, cpu: own });
  shareNn(glue);
}

/** Shares the classes of layers, once. `glue` may be any core's, because all cores have the same static methods. */
export function shareNn(glue: object): void {
  if (isShared) return;
  isShared = true;
  shareClasses({ Generator, Layer, Optimizer, WeightAverage, Schedule, Trainer }, makeIn);
  makeAs(glue as Record<string, object>);
}
