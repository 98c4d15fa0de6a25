// The classes that models are made of, as users have them; the declarations are what wasm-bindgen wrote, as in `classes.ts`.

import { shareClasses } from "./load.js";
import { Generator, Layer, makeBy, Optimizer, Schedule, WeightAverage } from "./modules.js";
import { Trainer } from "./train.js";

export { Generator, Layer, Module, Optimizer, Residual, Schedule, Sequential, WeightAverage } from "./modules.js";
export { Trainer } from "./train.js";

shareClasses({ Generator, Layer, Optimizer, WeightAverage, Schedule, Trainer }, makeBy);
