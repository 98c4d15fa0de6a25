// What wasm-bindgen wrote around the cores, in dist: `load.ts` says what it needs of it.

declare module "*/warpweft.js" {
  export default function start(wasm: { module_or_path: WebAssembly.Module }): Promise<unknown>;
}
