// The JavaScript that wasm-bindgen generates for the CPU core. All entries include it.

import * as glue from "./cpu/warpweft_bg.js";

export const cpu = { glue };
