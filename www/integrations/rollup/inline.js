import { Device } from "warpweft/inline";
import { prefer, show } from "./page.js";
import { product } from "./product.js";

show("main", product(Device, { prefer }));
