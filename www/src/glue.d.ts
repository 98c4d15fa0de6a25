// Modules that the build writes to dist, where TypeScript does not look.

/** The JavaScript that wasm-bindgen generates for a core. `load.ts` has the type of the part it uses. */
declare module "*/warpweft_bg.js" {}

/** The cores' WebAssembly in base64. */
declare module "*/inside.js" {
  export const gpu: string;
  export const cpu: string;
}
