// The entry `warpweft`: tensors on the GPU, or on the CPU as a fallback.

import * as glue from "./gpu/warpweft_bg.js";
import { cpu } from "./cpu.js";
import { addFile } from "./entry.js";
import { provide } from "./load.js";

export * from "./base.js";

addFile(new Error());

// The URLs are written out, so that bundlers find the files.
provide("warpweft", {
  gpu: { name: "gpu", glue, wasm: () => new URL(/* @vite-ignore */ "./gpu.wasm", import.meta.url) },
  cpu: { ...cpu, wasm: () => new URL(/* @vite-ignore */ "./cpu.wasm", import.meta.url) },
});
