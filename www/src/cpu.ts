// The JavaScript that wasm-bindgen generates for the CPU core. All entries without language models include it.

import * as glue from "./cpu/warpweft_bg.js";
import { addFile } from "./entry.js";

addFile(new Error());

export const cpu = { name: "cpu", glue };
