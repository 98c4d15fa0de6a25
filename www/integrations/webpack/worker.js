import { Device } from "warpweft/nn";
import { product } from "./product.js";

self.onmessage = async ({ data: prefer }) => self.postMessage(await product(Device, { prefer }).catch(String));
