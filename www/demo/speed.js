// How many steps a second a device takes. As a worker it says so of the CPU: the page stays awake meanwhile.

import { Device, Optimizer } from "../dist/nn.js";
import { Field, step } from "./fourier.js";
import { placesOf } from "./pixels.js";

/** @typedef {{ side: number, batch: number, frequencies: number, sharpness: number, layers: number, width: number }} Size */

/** How long steps are counted, in milliseconds. */
const period = 1000;

/**
 * Steps a second of a field of this size, on a picture that is all grey.
 * @param {Device} device
 * @param {Size} size
 */
export async function stepsPerSecond(device, { side, batch, ...shape }) {
  const field = new Field(device, { ...shape, seed: 1 });
  const optimizer = Optimizer.adam(field, { lr: 1e-3 });
  const data = { places: device.tensor(placesOf(side), [side * side, 2]), colours: device.full([side * side, 3], 0.5) };
  const numbers = Int32Array.from({ length: batch }, (_, n) => (n * 97) % (side * side));
  const take = async (/** @type {number} */ count) => {
    const losses = Array.from({ length: count }, () => step(device, field, optimizer, data, numbers));
    await losses[count - 1].item();
    for (const loss of losses) loss.dispose();
  };
  try {
    await take(4); // What is planned and compiled once.
    const start = performance.now();
    let count = 0;
    while (performance.now() - start < period) {
      await take(4);
      count += 4;
    }
    return (1000 * count) / (performance.now() - start);
  } finally {
    for (const one of [...field.layers, field.waves, optimizer, ...Object.values(data)]) one?.dispose?.();
  }
}

/**
 * The same of the CPU, in a worker that ends with it.
 * @param {Size} size
 * @returns {Promise<number>}
 */
export function stepsPerSecondOfCpu(size) {
  const worker = new Worker(new URL("./speed.js", import.meta.url), { type: "module", name: "speed" });
  /** @type {Promise<number>} */
  const answer = new Promise((resolve, reject) => {
    worker.addEventListener("message", ({ data: { rate, error } }) => (error ? reject(new Error(error)) : resolve(rate)));
    worker.addEventListener("error", ({ message }) => reject(new Error(`the CPU's worker: ${message}`)));
  });
  worker.postMessage(size);
  return answer.finally(() => worker.terminate());
}

if (typeof document === "undefined") {
  self.addEventListener("message", async ({ data }) => {
    try {
      self.postMessage({ rate: await stepsPerSecond(await Device.new({ prefer: "cpu" }), data) });
    } catch (error) {
      self.postMessage({ error: error instanceof Error ? error.message : String(error) });
    }
  });
}
