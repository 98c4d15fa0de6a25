import { Device } from "./node_modules/warpweft/www/dist/index.js";
import { prefer, show } from "./page.js";
import { product } from "./product.js";

show("main", product(Device, { prefer }));
