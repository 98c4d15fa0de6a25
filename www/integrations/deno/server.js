import { Device } from "warpweft";
import { product } from "./product.js";

console.log(await product(Device, { prefer: "auto" }));
