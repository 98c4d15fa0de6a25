// The JavaScript that wasm-bindgen generates for the GPU core with layers, optimizers and the trainer. Two entries include it.

import * as glue from "./gpu-nn/warpweft_bg.js";
import { cpu } from "./cpu.js";
import { addFile } from "./entry.js";
import { provide, type Provided, type WasmSource } from "./load.js";
import { shareNn } from "./share-nn.js";

type Inside = Pick<Provided, "isInside">;

addFile(new Error());

/** Registers this GPU core and the CPU core for an entry, and shares the classes of layers. */
export function provideNn(entry: string, wasm: Record<"gpu" | "cpu", () => WasmSource>, rest: Inside = {}): void {
  const [gpu, own] = [{ name: "gpu-nn", glue, ...rest, wasm: wasm.gpu }, { ...cpu, ...rest, wasm: wasm.cpu }];
  provide(entry, { gpu, cpu: own });
  shareNn(glue);
}
