// The classes that models are made of, as users have them; the declarations are what wasm-bindgen wrote, as in `classes.ts`.

export { Generator, Layer, Module, Optimizer, Residual, Schedule, Sequential, WeightAverage } from "./modules.js";
export { Trainer } from "./train.js";
