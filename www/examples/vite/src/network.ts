// A network of two layers on random data. The seeds are fixed, so every device and every thread computes the same.

import { Device, type DeviceOptions, type Tensor } from "warpweft";

/** The result of a run. */
export interface Answer {
  device: string;
  fallback: string | undefined;
  /** The probabilities of three classes for each of four inputs. */
  probabilities: number[][];
}

/** Runs the network on a new device. */
export async function runNetwork(prefer: DeviceOptions["prefer"]): Promise<Answer> {
  const device = await Device.new({ prefer });
  const inputs = device.normal([4, 16], { seed: 1 });
  const hidden = layer(device, inputs, 32, 2).gelu();
  const output = layer(device, hidden, 3, 3).softmax();
  const values = [...(await output.read())];
  const { info, fallback } = device;
  device.dispose(); // This also disposes of all tensors.
  const probabilities = [0, 3, 6, 9].map((start) => values.slice(start, start + 3));
  return { device: `${info.name} (${info.backend})`, fallback, probabilities };
}

/** Computes `x W + b` with random weights: `[rows, n] -> [rows, width]`. */
function layer(device: Device, x: Tensor, width: number, seed: number): Tensor {
  const inputs = x.shape[1]!;
  const weight = device.normal([inputs, width], { std: 1 / Math.sqrt(inputs), seed });
  const bias = device.uniform([width], { low: -0.1, high: 0.1, seed: seed + 10 });
  return x.matmul(weight).add(bias);
}
