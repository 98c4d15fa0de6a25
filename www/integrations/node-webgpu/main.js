import { create, globals } from "webgpu";
import { Device } from "warpweft";
import { product } from "./product.js";

// What a browser has: WebGPU's classes, and its entry on the navigator, which Node 20 has not.
Object.assign(globalThis, globals);
globalThis.navigator ??= {};
Object.defineProperty(navigator, "gpu", { value: create([]), configurable: true });

console.log(await product(Device, { prefer: process.argv[2] ?? "gpu" }));
