// A convolutional network for digits of 8 x 8 pixels, and a training step.

import { Layer, Sequential } from "../dist/nn.js";

const relu = (x) => x.relu();
const same = { padding: 1 };

/** Computes the scores of ten digits, `[count, 10]`, from images `[count, 1, 8, 8]`. */
export const cnn = (generator) =>
  new Sequential(
    Layer.conv2d(generator, 1, 8, 3, same), relu,
    Layer.conv2d(generator, 8, 16, 3, same), relu,
    (x) => x.maxPool({ kernelSize: 2 }), (x) => x.flatten(1),
    Layer.linear(generator, 256, 64), relu,
    Layer.linear(generator, 64, 10),
  );

/** Takes a step on the examples with these numbers. The optimizer is `Optimizer.adam(net, { lr: 0.002 })`. */
export function step(device, net, optimizer, { images, labels }, numbers) {
  return device.scope(() => {
    const batch = device.tensor(numbers);
    const scores = net.forward(images.indexSelect(0, batch));
    const loss = scores.crossEntropy(labels.indexSelect(0, batch));
    optimizer.minimize(loss);
    return loss;
  });
}
