// A page's model code. It imports the entry with layers.

import { Device, Module, Optimizer } from "warpweft/nn";

/** A product by a weight that other code made. */
export class Product extends Module {
  constructor(weight) {
    super();
    this.weight = weight;
  }

  forward(x) {
    return x.matmul(this.weight.value);
  }
}

export const opened = (settings) => Device.new(settings);

/** Whether an optimizer takes the weight. */
export const trained = (model) => Optimizer.sgd(model, { lr: 0.1 }).lr === 0.1;
