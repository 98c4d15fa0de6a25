// The public classes of models. wasm-bindgen writes their declarations, as for `classes.ts`.

export { Generator, Layer, Module, Optimizer, Residual, Schedule, Sequential, WeightAverage } from "./modules.js";
export { Trainer } from "./train.js";
