// A transformer over characters, and a training step.

import { Layer, Module } from "../dist/nn.js";

export class Transformer extends Module {
  constructor(generator, { characters, length, width, heads, layers }) {
    super();
    const layer = () =>
      Layer.transformerEncoderLayer(generator, width, heads, {
        dimFeedforward: 4 * width,
        activation: "gelu",
        normFirst: true,
        dropout: 0,
      });
    this.token = Layer.embedding(generator, characters, width);
    this.position = Layer.embedding(generator, length, width);
    this.layers = Array.from({ length: layers }, layer);
    this.norm = Layer.layerNorm(generator, [width]);
    this.head = Layer.linear(generator, width, characters);
  }

  /** Computes the embeddings of characters and their positions. */
  embed(text) {
    return this.token.forward(text).add(this.position.parameter("weight").value);
  }

  /**
   * Computes scores of the next character, `[batch, length, characters]`, from the numbers of characters, `[batch, length]`.
   */
  forward(text) {
    let x = this.embed(text);
    for (const layer of this.layers) x = layer.forward(x, { isCausal: true });
    return this.head.forward(this.norm.forward(x));
  }
}

/** Computes the loss of pieces of a text, `[batch, length + 1]`. Each character is predicted from those before it. */
export function lossOf(net, pieces) {
  const scores = net.forward(pieces.slice(1, 0, -1));
  return scores.permute([0, 2, 1]).crossEntropy(pieces.slice(1, 1));
}

/** Takes a step. The optimizer is `Optimizer.adamW(net, { lr: 0.002 })`, with gradients clipped by `clipNorm(1)`. */
export function step(device, net, optimizer, numbers, shape) {
  return device.scope(() => {
    const loss = lossOf(net, device.tensor(numbers, shape));
    optimizer.minimize(loss);
    return loss;
  });
}
