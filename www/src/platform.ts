// Types of the platform, looked up by name. A program may compile without the library that declares them. Node's types lack
// `WebAssembly`, and neither `@types/node` nor `lib.dom` is required.

/** The instance type of a global class, or `object` if TypeScript does not declare the class. */
type Instance<Name extends string> = typeof globalThis extends { [name in Name]: { prototype: infer T } } ? T : object;

export type PlatformBlob = Instance<"Blob">;
export type PlatformResponse = Instance<"Response">;
export type PlatformSignal = Instance<"AbortSignal">;
/** A folder of the file system, as returned by `showDirectoryPicker`. */
export type PlatformFolder = Instance<"FileSystemDirectoryHandle">;
export type PlatformUrl = Instance<"URL">;
/** A `GPUDevice`. */
export type GpuDevice = Instance<"GPUDevice">;
/** A `GPUBuffer`. */
export type GpuBuffer = Instance<"GPUBuffer">;
/** A `WebAssembly.Module`. */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer T } } } ? T : object;
