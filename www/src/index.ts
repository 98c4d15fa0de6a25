// warpweft: tensors on the GPU, or on the CPU where there is none.

export type { DType, Shape } from "./arguments.js";
export type { DeviceInfo, Found } from "./choose.js";
export type { NestedArray, TensorData, TensorSource } from "./data.js";
export { Device } from "./device.js";
export type { Tuned, TuneOptions } from "./tune.js";
export type { InputSpec, NormalOptions, UniformOptions } from "./device.js";
export { WarpweftError } from "./errors.js";
export type { ErrorCode } from "./errors.js";
export type { DeviceLimits, Stats } from "./figures.js";
export type { Combination, Eigen, Ordered, ScanOptions, SortOptions, TopKOptions } from "./ordering.js";
export type { WasmSource, WasmSources } from "./load.js";
export { preload } from "./open.js";
export type { DeviceOptions } from "./open.js";
export { Batch, Plan, Program } from "./plan.js";
export type { Axes, ChannelNormOptions, LayerNormOptions, RmsNormOptions, SpreadOptions } from "./reductions.js";
export type { PadMode } from "./movement.js";
export { Tensor } from "./tensor.js";
export type { AttentionOptions, Operand } from "./tensor.js";
export { Variable } from "./variable.js";
export type { AvgPoolOptions, Conv2dOptions, ConvOptions, ConvTransposeOptions } from "./windows.js";
export type { Filter, Padding, PerAxis, PoolOptions, ResampleOptions, ResizeMode } from "./windows.js";
