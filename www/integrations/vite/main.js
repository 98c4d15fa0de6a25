import { Device } from "warpweft";
import { ask, prefer, show } from "./page.js";
import { product } from "./product.js";

show("main", product(Device, { prefer }));
show("worker", ask(new Worker(new URL("./worker.js", import.meta.url), { type: "module" })));
