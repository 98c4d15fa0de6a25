// warpweft: tensors on the GPU, or on the CPU where there is none.

import startCpu, * as cpu from "./cpu/warpweft.js";
import startGpu, * as gpu from "./gpu/warpweft.js";
import { provide } from "./load.js";

export * from "./base.js";

// The addresses are written out, so that bundlers find the files.
provide("warpweft", {
  gpu: { glue: gpu, start: startGpu, usual: () => new URL(/* @vite-ignore */ "./gpu.wasm", import.meta.url) },
  cpu: { glue: cpu, start: startCpu, usual: () => new URL(/* @vite-ignore */ "./cpu.wasm", import.meta.url) },
});
