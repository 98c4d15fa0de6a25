// What wasm-bindgen wrote around the CPU's core, which all entries have.

import * as glue from "./cpu/warpweft_bg.js";

export const cpu = { glue };
