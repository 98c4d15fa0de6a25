// A server may import what only its pages use: there is no GPU, no window and no document here.

import { Device, preload, WarpweftError } from "warpweft";
import { product } from "./product.js";

const code = await Device.new({ prefer: "gpu" }).catch((error) => error instanceof WarpweftError && error.code);
if (code !== "NoDevice") throw new Error(`a GPU in Node: ${code}`);
preload();
console.log(await product(Device));
