import { Device } from "warpweft";
import { product } from "./product.js";

self.onmessage = async ({ data: prefer }) => self.postMessage(await product(Device, { prefer }).catch(String));
