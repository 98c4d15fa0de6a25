// Modules that the build writes to dist, where TypeScript does not look.

/** What wasm-bindgen wrote around a core: `load.ts` says what it needs of it. */
declare module "*/warpweft_bg.js" {}

/** The cores' WebAssembly as base64. */
declare module "*/inside.js" {
  export const gpu: string;
  export const cpu: string;
}
