// A classic script that does not say where the WebAssembly is: the error tells what helps.

import { Device } from "warpweft";
import { prefer, show } from "./page.js";
import { product } from "./product.js";

show("main", product(Device, { prefer }));
