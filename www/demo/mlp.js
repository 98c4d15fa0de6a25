// A network of linear layers for two classes of points, and a training step.

import { Generator, Layer, Module } from "../dist/nn.js";

export class Mlp extends Module {
  constructor(device, { layers, units, activation, seed }) {
    super();
    const generator = new Generator(device, seed);
    const sizes = [2, ...new Array(layers).fill(units), 1];
    this.layers = sizes.slice(1).map((size, n) => Layer.linear(generator, sizes[n], size));
    this.activation = activation; // "tanh", "relu" or another method of tensors.
  }

  /** Computes the outputs of each layer for points `[count, 2]`. The last output is above 0 for the second class. */
  outputs(x) {
    const last = this.layers.length - 1;
    return this.layers.map((layer, n) => (x = n < last ? layer.forward(x)[this.activation]() : layer.forward(x)));
  }

  forward(x) {
    return this.outputs(x).at(-1).squeeze(1);
  }
}

/** Takes a step on points `x` of classes `y`. The optimizer is `Optimizer.adam(net, { lr: 0.03 })` or another. */
export function step(device, net, optimizer, x, y) {
  return device.scope(() => {
    const loss = net.forward(x).binaryCrossEntropyWithLogits(y);
    optimizer.minimize(loss); // One submission: forward, backward, update.
    return loss;
  });
}
