// A neural field: a small network with Fourier features that computes the color at a position, and a training step.

import { Generator, Layer, Module, Tensor } from "../dist/nn.js";

export class Field extends Module {
  constructor(device, { frequencies, sharpness, layers, width, seed }) {
    super();
    const generator = new Generator(device, seed);
    this.waves = frequencies && device.normal([2, frequencies], { std: Math.PI * sharpness, seed });
    const sizes = [2 * frequencies || 2, ...new Array(layers).fill(width), 3];
    this.layers = sizes.slice(1).map((size, n) => Layer.linear(generator, sizes[n], size));
  }

  /** Computes red, green and blue `[count, 3]`, each from 0 to 1, from positions `[count, 2]`, each from -1 to 1. */
  forward(places) {
    const angles = this.waves && places.matmul(this.waves); // Fixed and random: Tancik and others, 2020.
    const features = angles ? Tensor.concat([angles.sin(), angles.cos()], 1) : places;
    const last = this.layers.length - 1;
    return this.layers.reduce((x, layer, n) => (n < last ? layer.forward(x).relu() : layer.forward(x)), features).sigmoid();
  }
}

/** Takes a step on the pixels with these numbers. The optimizer is `Optimizer.adam(field, { lr: 0.01 })` or another. */
export function step(device, field, optimizer, { places, colours }, numbers) {
  return device.scope(() => {
    const batch = device.tensor(numbers);
    const loss = field.forward(places.indexSelect(0, batch)).mseLoss(colours.indexSelect(0, batch));
    optimizer.minimize(loss);
    return loss;
  });
}
