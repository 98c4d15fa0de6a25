// Sharing a `GPUDevice` with the page: its device, its buffers as tensors, and the buffers of tensors.

import { checked, getterValue, refused } from "./host.js";
import { argumentError, WarpweftError } from "./errors.js";
import { load, type WasmSources } from "./load.js";
import type { GpuBuffer } from "./platform.js";

export type { GpuBuffer, GpuDevice } from "./platform.js";

/** The options of `Device.from`. */
export interface ShareOptions {
  /** The source of the WebAssembly, as for `Device.new()`. */
  wasm?: WasmSources;
}

/** The tensor to make from a buffer. */
export interface BufferSpec<T extends string = string> {
  shape: readonly number[];
  /** The element type. Default: `"f32"`. */
  dtype?: T;
}

/** Opens a device on the page's `GPUDevice`. */
export async function share(device: unknown, options?: ShareOptions): Promise<object> {
  const op = "from";
  const { wasm = {} } = checked(op, options, ["wasm"]);
  if (!getterValue("GPUDevice", "limits", device)) throw refused(op, "the device", "a GPUDevice", device);
  const { classes } = (await load("gpu", wasm).core).host;
  const lost = getterValue("GPUDevice", "lost", device) as Promise<{ message: string; reason: string }>;
  const why = await Promise.race([lost, undefined]);
  if (why) throw new WarpweftError("DeviceLost", `${op}: the device was lost: ${why.message || why.reason}`);
  return (classes.Device as { share(device: unknown): Promise<object> }).share(device);
}

const noGpu = (op: string) => new WarpweftError("Unsupported", `${op}: the device must be a GPU, got the CPU`);

type Borrow = (buffer: unknown, dtype: unknown, shape: unknown) => object;

/** Makes a tensor from a buffer of the page. The device must be a GPU. */
export function borrow(make: Borrow | undefined, buffer: unknown, spec: BufferSpec): object {
  const op = "tensorFromBuffer";
  const { shape, dtype = "f32" } = checked(op, spec, ["shape", "dtype"]);
  if (!make) throw noGpu(op);
  const state = getterValue("GPUBuffer", "mapState", buffer) ?? "unmapped";
  if (state !== "unmapped") throw argumentError(`${op}: the buffer must be unmapped, got ${String(state)}; unmap() it first`);
  return make(buffer, dtype, shape);
}

/** A buffer, the tensor's bytes in it, and the number of the slot that keeps the tensor alive. */
export type Pinned = readonly [buffer: GpuBuffer, byteLength: number, slot: number];

/**
 * The buffer of a tensor, made by {@link Tensor.gpuBuffer}. The buffer remains the tensor's, and is not used for anything else,
 * until `dispose()` or the end of the device.
 */
export class SharedBuffer {
  /** The buffer. */
  readonly buffer: GpuBuffer;
  /** The length of the tensor in bytes, from the buffer's beginning. */
  readonly byteLength: number;
  #end: (() => void) | undefined;

  /** @internal */
  constructor(pinned: Pinned | undefined, unpin: (slot: number) => void) {
    if (!pinned) throw noGpu("gpuBuffer");
    const [buffer, byteLength, slot] = pinned;
    this.buffer = buffer;
    this.byteLength = byteLength;
    this.#end = () => unpin(slot);
  }

  /** Releases the buffer, so that the tensor can be freed and the buffer reused. Later calls have no effect. */
  dispose(): void {
    this.#end?.();
    this.#end = undefined;
  }

  /** Calls `dispose`, for `using` declarations. */
  declare [Symbol.dispose]: () => void;

  static {
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.dispose });
  }
}
