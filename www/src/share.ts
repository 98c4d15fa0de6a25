// Sharing with a page that has a `GPUDevice` of its own: that device, its buffers as tensors, and tensors' buffers.

import { checked, refused, told } from "./host.js";
import { dataError, WarpweftError } from "./errors.js";
import { load, type WasmSources } from "./load.js";
import type { GpuBuffer } from "./platform.js";

export type { GpuBuffer, GpuDevice } from "./platform.js";

/** What `Device.from` takes. */
export interface ShareOptions {
  /** Where the WebAssembly comes from, as for `Device.new()`. */
  wasm?: WasmSources;
}

/** What `device.tensorFromBuffer` makes of a buffer. */
export interface BufferSpec<T extends string = string> {
  shape: readonly number[];
  /** Default: `"f32"`. */
  dtype?: T;
}

/** A device on the page's own. */
export async function share(device: unknown, options?: ShareOptions): Promise<object> {
  const op = "from";
  const { wasm = {} } = checked(op, options, ["wasm"]);
  if (!told("GPUDevice", "limits", device)) throw refused(op, "the device", "a GPUDevice", device);
  const { classes } = (await load("gpu", wasm).core).host;
  const lost = told("GPUDevice", "lost", device) as Promise<{ message: string; reason: string }>;
  const why = await Promise.race([lost, undefined]);
  if (why) throw new WarpweftError("DeviceLost", `${op}: the device was lost: ${why.message || why.reason}`);
  return (classes.Device as { share(device: unknown): Promise<object> }).share(device);
}

const noGpu = (op: string) => new WarpweftError("Unsupported", `${op}: the device must be a GPU, got the CPU`);

type Borrow = (buffer: unknown, dtype: unknown, shape: unknown) => object;

/** A tensor of a buffer of the page's, made by a device of the GPU's core. */
export function borrow(make: Borrow | undefined, buffer: unknown, spec: BufferSpec): object {
  const op = "tensorFromBuffer";
  const { shape, dtype = "f32" } = checked(op, spec, ["shape", "dtype"]);
  if (!make) throw noGpu(op);
  const state = told("GPUBuffer", "mapState", buffer) ?? "unmapped";
  if (state !== "unmapped") throw dataError(`${op}: the buffer must be unmapped, got ${String(state)}; unmap() it first`);
  return make(buffer, dtype, shape);
}

/** A buffer, bytes of it, and the number of what keeps it. */
export type Pinned = readonly [buffer: GpuBuffer, byteLength: number, place: number];

/**
 * The buffer that a tensor lies in: see {@link Tensor.gpuBuffer}. It stays there, and is used for nothing else, until
 * `dispose()`; what is never disposed of is kept until the device is disposed of.
 */
export class SharedBuffer {
  /** The buffer. */
  readonly buffer: GpuBuffer;
  /** Bytes of it that are the tensor's, from its beginning. */
  readonly byteLength: number;
  #end: (() => void) | undefined;

  /** @internal */
  constructor(pinned: Pinned | undefined, unpin: (place: number) => void) {
    if (!pinned) throw noGpu("gpuBuffer");
    const [buffer, byteLength, place] = pinned;
    this.buffer = buffer;
    this.byteLength = byteLength;
    this.#end = () => unpin(place);
  }

  /** The tensor may be freed, and the buffer used for others. Doing so twice is harmless. */
  dispose(): void {
    this.#end?.();
    this.#end = undefined;
  }

  /** The same, for `using`. */
  declare [Symbol.dispose]: () => void;

  static {
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.dispose });
  }
}
