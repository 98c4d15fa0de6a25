// Types of the platform. They are looked up by name, because a program may compile without the library that has them: Node's
// types have no `WebAssembly`, and neither `@types/node` nor `lib.dom` is required.

/** A global class's objects; where TypeScript does not know the class, any object. */
type Instance<Name extends string> = typeof globalThis extends { [name in Name]: { prototype: infer T } } ? T : object;

export type PlatformBlob = Instance<"Blob">;
export type PlatformResponse = Instance<"Response">;
export type PlatformSignal = Instance<"AbortSignal">;
/** A folder of the file system, as `showDirectoryPicker` gives it. */
export type PlatformFolder = Instance<"FileSystemDirectoryHandle">;
export type PlatformUrl = Instance<"URL">;
/** A `GPUDevice`. */
export type GpuDevice = Instance<"GPUDevice">;
/** A `GPUBuffer`. */
export type GpuBuffer = Instance<"GPUBuffer">;
/** A `WebAssembly.Module`. */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer T } } } ? T : object;
