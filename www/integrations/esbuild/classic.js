import { Device } from "warpweft";
import cpu from "warpweft/cpu.wasm";
import gpu from "warpweft/gpu.wasm";
import { prefer, show } from "./page.js";
import { product } from "./product.js";

show("main", product(Device, { prefer, wasm: { gpu, cpu } }));
