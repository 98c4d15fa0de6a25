import { Device } from "warpweft";
import { prefer, show } from "./page.js";
import { product } from "./product.js";

show("main", product(Device, { prefer }));
