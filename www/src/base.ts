// The exports of all entries: tensors on the GPU, or on the CPU as a fallback.

export type { DeviceInfo, Found } from "./choose.js";
export * from "./classes.js";
export { WarpweftError } from "./errors.js";
export type { ErrorCode } from "./errors.js";
export type { FileOptions, FileSource, Safetensors, Skipped } from "./files.js";
export { setDebug } from "./load.js";
export type { WasmSource, WasmSources } from "./load.js";
export { preload } from "./open.js";
export type { DeviceOptions } from "./open.js";
export type { BufferSpec, GpuBuffer, GpuDevice, SharedBuffer, ShareOptions } from "./share.js";
export type { TextOptions } from "./text.js";
export type { Tuned, TuneOptions } from "./tune.js";
