// Measures the steps per second of a device and of the CPU. This file is also the worker that measures the CPU, so that the
// page stays responsive.

import { Device, Generator, Optimizer } from "../dist/nn.js";
import { byId } from "./dom.js";

/**
 * @import { Tensor } from "../dist/nn.js"
 * @import { Loop } from "./loop.js"
 * @typedef {{ dispose?: () => void }} Held
 * @typedef {any} Size what its work asks for.
 * @typedef {{ step: () => Tensor, held: (Held | undefined)[] }} Work a step on data that stands still, and what it holds.
 */

/** The duration of a measurement, in milliseconds. */
const period = 1000;

/** Returns pseudorandom numbers from 0 up to, but not including, `end`. */
const numbers = (/** @type {number} */ count, /** @type {number} */ end) =>
  Int32Array.from({ length: count }, (_, n) => (n * 97) % end);

/** The training work of each page. @type {Record<string, (device: Device, size: Size) => Promise<Work>>} */
const works = {
  async points(device, { count, ...shape }) {
    const { Mlp, step } = await import("./mlp.js");
    const { points } = await import("./points.js");
    const net = new Mlp(device, { ...shape, seed: 1 });
    const optimizer = Optimizer.adam(net, { lr: 1e-3 });
    const list = points("moons", count, 1);
    const [x, y] = [device.tensor(list.map(([x, y]) => [x, y])), device.tensor(list.map(([, , label]) => label))];
    return { step: () => step(device, net, optimizer, x, y), held: [...net.layers, optimizer, x, y] };
  },
  async digits(device, { count, batch }) {
    const { cnn, step } = await import("./cnn.js");
    const net = cnn(new Generator(device, 1));
    const optimizer = Optimizer.adam(net, { lr: 1e-3 });
    const data = { images: device.full([count, 1, 8, 8], 0.5), labels: device.tensor(numbers(count, 10)) };
    const chosen = numbers(batch, count);
    const held = [...Object.values(net), optimizer, data.images, data.labels];
    return { step: () => step(device, net, optimizer, data, chosen), held };
  },
  async text(device, { batch, ...shape }) {
    const { step, Transformer } = await import("./transformer.js");
    const net = new Transformer(new Generator(device, 1), shape);
    const optimizer = Optimizer.adamW(net, { lr: 1e-3 });
    const { token, position, layers, norm, head } = net;
    const pieces = numbers(batch * (shape.length + 1), shape.characters);
    const take = () => step(device, net, optimizer, pieces, [batch, shape.length + 1]);
    return { step: take, held: [position.parameter("weight"), token, position, ...layers, norm, head, optimizer] };
  },
  async field(device, { side, batch, ...shape }) {
    const { Field, step } = await import("./fourier.js");
    const { placesOf } = await import("./pixels.js");
    const net = new Field(device, { ...shape, seed: 1 });
    const optimizer = Optimizer.adam(net, { lr: 1e-3 });
    const data = { places: device.tensor(placesOf(side), [side * side, 2]), colours: device.full([side * side, 3], 0.5) };
    const chosen = numbers(batch, side * side);
    const held = [...net.layers, net.waves, optimizer, data.places, data.colours];
    return { step: () => step(device, net, optimizer, data, chosen), held };
  },
};

/**
 * Measures the steps per second of a page's work.
 * @param {Device} device
 * @param {string} name
 * @param {Size} size
 */
async function stepsPerSecond(device, name, size) {
  const { step, held } = await works[name](device, size);
  const take = async (/** @type {number} */ count) => {
    const losses = Array.from({ length: count }, step);
    await losses[count - 1].item();
    for (const loss of losses) loss.dispose();
  };
  try {
    await take(4); // The first steps plan and compile.
    const start = performance.now();
    let count = 0;
    while (performance.now() - start < period) {
      await take(4);
      count += 4;
    }
    return (1000 * count) / (performance.now() - start);
  } finally {
    for (const one of held) one?.dispose?.();
  }
}

/**
 * Measures the steps per second of the CPU, in a worker that ends afterwards.
 * @param {string} name
 * @param {Size} size
 * @returns {Promise<number>}
 */
function stepsPerSecondOfCpu(name, size) {
  const worker = new Worker(new URL("./speed.js", import.meta.url), { type: "module", name: "speed" });
  /** @type {Promise<number>} */
  const answer = new Promise((resolve, reject) => {
    worker.addEventListener("message", ({ data: { rate, error } }) => (error ? reject(new Error(error)) : resolve(rate)));
    worker.addEventListener("error", ({ message }) => reject(new Error(`the CPU's worker: ${message}`)));
  });
  worker.postMessage({ name, size });
  return answer.finally(() => worker.terminate());
}

/**
 * Connects the button `#measure` of `timing.js`. It times steps of the page's work here and then on the CPU, so that the two do
 * not share the CPU. Returns a function that clears the figures, for a net of another size.
 * @param {Loop} loop
 * @param {Device} device
 * @param {string} name of the work.
 * @param {() => Size} size returns the current size.
 */
export function connectSpeed(loop, device, name, size) {
  const button = byId("measure", HTMLButtonElement);
  const say = (/** @type {string} */ id, /** @type {string} */ text) => (byId(id, HTMLElement).textContent = text);
  const both = (/** @type {string} */ text) => ["device-speed", "cpu-speed"].forEach((id) => say(id, text));
  const rate = (/** @type {number} */ steps) => `${steps < 10 ? steps.toFixed(1) : Math.round(steps)} steps per second`;
  const measure = async () => {
    button.disabled = true;
    try {
      both("…");
      say("device-speed", rate(await stepsPerSecond(device, name, size())));
      say("cpu-speed", rate(await stepsPerSecondOfCpu(name, size())));
    } finally {
      button.disabled = false;
    }
  };
  button.addEventListener("click", () => void loop.turn(measure));
  return () => both("–");
}

if (typeof document === "undefined") {
  self.addEventListener("message", async ({ data: { name, size } }) => {
    try {
      self.postMessage({ rate: await stepsPerSecond(await Device.new({ prefer: "cpu" }), name, size) });
    } catch (error) {
      self.postMessage({ error: error instanceof Error ? error.message : String(error) });
    }
  });
}
