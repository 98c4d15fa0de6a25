import { Device } from "./node_modules/warpweft/www/dist/index.js";
import { product } from "./product.js";

self.onmessage = async ({ data: prefer }) => self.postMessage(await product(Device, { prefer }).catch(String));
