// The page "Handwritten digits". Connects its controls to a network, and shows its results.

import { Generator, Optimizer } from "../dist/nn.js";
import { cnn, step } from "./cnn.js";
import { Curve } from "./curve.js";
import { failed, openDevice } from "./device.js";
import { byId } from "./dom.js";
import { showCode } from "./ink.js";
import { Loop } from "./loop.js";
import { drawPixels, Pad } from "./pad.js";
import { randoms } from "./points.js";
import { connectFiles } from "./saved.js";
import { best, scoresOf, showConfusion, showExamples, showGuess, showMisread } from "./scores.js";
import { connectSpeed } from "./speed.js";
import { drawings } from "./strokes.js";

/**
 * @import { Sequential, Tensor } from "../dist/nn.js"
 * @import { Images } from "./strokes.js"
 * @typedef {{ train: Images, test: Images }} Part the training data and the test data.
 * @typedef {Part & { images: Tensor, labels: Tensor, numbers: Int32Array, tested: Tensor }} Data both, and on the
 * device the training images with their labels and numbers, and the test images.
 */

const batch = 32;
/** The shortest time between two tests, in milliseconds. */
const pause = 400;
/** The numbers of drawn images, similar to those of scikit-learn's data set. */
const counts = { train: 1440, test: 360 };
/** The architecture of the net, as `warpweft train digits` writes it into its files. */
const architecture = {
  input: [1, 8, 8],
  layers: [
    { inputs: 1, kernel_size: 3, layer: "conv2d", name: "0", outputs: 8, padding: 1 },
    { layer: "relu" },
    { inputs: 8, kernel_size: 3, layer: "conv2d", name: "2", outputs: 16, padding: 1 },
    { layer: "relu" },
    { kernel_size: 2, layer: "max_pool" },
    { layer: "flatten" },
    { inputs: 256, layer: "linear", name: "6", outputs: 64 },
    { layer: "relu" },
    { inputs: 64, layer: "linear", name: "8", outputs: 10 },
  ],
  net: "digits",
  output: "scores of the digits 0 to 9",
  range: [0, 1],
};

const choice = (/** @type {string} */ id) => byId(id, HTMLSelectElement);

const device = await openDevice();
const written = await load();
const random = randoms(1);
const curve = new Curve(byId("curve", HTMLCanvasElement), ["--thread", "--accent"]);
const pad = new Pad(byId("pad", HTMLCanvasElement), () => void see(pad.pixels()));
let seed = 0;
let drawn = 0;
/** The recent loss. @type {number | undefined} */
let smooth;
/** The numbers of the images that are left in the epoch. @type {Int32Array} */
let order = new Int32Array();
/** The selected data. @type {Data} */
let data;
/** @type {Sequential} */
let net;
/** @type {Optimizer} */
let optimizer;
/** The drawing on the pad, as the net's input. @type {Float32Array | undefined} */
let seen;
/** The scores of the drawing. @type {Float32Array | undefined} */
let guess;
/** The last input whose scores were computed. @type {Float32Array | undefined} */
let readLast;
let accuracy = 0;

const loop = new Loop({ step: learn, show, reset, failed });
const resetSpeed = connectSpeed(loop, device, "digits", () => ({ count: data.train.digits.length, batch }));
connect();
// `warpweft train digits --epochs 20 --out www/demo/digits.safetensors` makes the file next to the page.
connectFiles("digits.safetensors", loop, device, { save, load: take });
const ready = Promise.all([choose(), showCode("code", "cnn.js").catch(failed)]);

// For programs that test the page.
Object.assign(window, {
  demo: {
    device: { backend: device.info.backend, fallback: device.fallback },
    /** Resolves when the page is shown completely. */
    ready,
    loop,
    stats: () => device.stats(),
    get accuracy() {
      return accuracy;
    },
    get guess() {
      return guess && best(guess);
    },
  },
});

/** Loads the handwritten digits, with pixels from 0 to 1. Every fifth digit is a test image. @returns {Promise<Part>} */
async function load() {
  try {
    const response = await fetch("../data/digits.npz");
    if (!response.ok) throw new Error(`The digits could not be loaded: ${response.status}`);
    const { images, labels } = await device.loadNpz(response);
    const [ink, digits] = await device.read([images, labels]);
    for (const array of [images, labels]) array.dispose();
    const part = (/** @type {boolean} */ tested) => ({
      pixels: Float32Array.from(ink.filter((_, n) => (Math.trunc(n / 64) % 5 === 0) === tested), (count) => count / 16),
      digits: Int32Array.from(digits.filter((_, n) => (n % 5 === 0) === tested)),
    });
    return { train: part(false), test: part(true) };
  } catch (error) {
    failed(error);
    throw error;
  }
}

/** Draws digits with the selected style. @returns {Part} */
function draw() {
  const look = { slant: Number(choice("slant").value), noise: Number(choice("noise").value) };
  return { train: drawings(counts.train, 1, look), test: drawings(counts.test, 2, look) };
}

/** Uploads the selected data, and makes a new net for them. */
function choose() {
  const chosen = choice("data").value;
  for (const id of ["slant", "noise"]) choice(id).disabled = chosen === "written";
  void loop.turn(() => {
    const parts = [...(chosen === "drawn" ? [] : [written]), ...(chosen === "written" ? [] : [draw()])];
    const [train, test] = [joined(parts.map(({ train }) => train)), joined(parts.map(({ test }) => test))];
    const tensor = (/** @type {Images} */ { pixels, digits }) => device.tensor(pixels, [digits.length, 1, 8, 8]);
    for (const old of [data?.images, data?.labels, data?.tested]) old?.dispose();
    const numbers = Int32Array.from(train.digits.keys());
    data = { train, test, numbers, images: tensor(train), labels: device.tensor(train.digits), tested: tensor(test) };
    byId("tested", HTMLElement).textContent = `${test.digits.length}`;
    showExamples(train);
  });
  return loop.reset();
}

/** Concatenates images. @param {Images[]} parts @returns {Images} */
function joined(parts) {
  return {
    pixels: Float32Array.from(parts.flatMap(({ pixels }) => [...pixels])),
    digits: Int32Array.from(parts.flatMap(({ digits }) => [...digits])),
  };
}

function connect() {
  for (const id of ["data", "slant", "noise"]) choice(id).addEventListener("change", () => void choose());
  byId("clear", HTMLButtonElement).addEventListener("click", () => {
    pad.clear();
    void see(undefined);
  });
  byId("example", HTMLButtonElement).addEventListener("click", () => {
    const n = Math.trunc(random() * data.test.digits.length);
    pad.clear();
    void see(data.test.pixels.slice(64 * n, 64 * (n + 1)));
  });
  const again = () => {
    pad.draw();
    void loop.turn(() => {
      showExamples(data.train);
      return show(undefined, true);
    });
  };
  new ResizeObserver(again).observe(byId("pad", HTMLCanvasElement));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

/** Makes a new net and its optimizer. */
function reset() {
  for (const part of Object.values(net ?? {})) part.dispose?.();
  optimizer?.dispose();
  seed += 1;
  net = cnn(new Generator(device, seed));
  optimizer = Optimizer.adam(net, { lr: 0.002 });
  order = new Int32Array();
  smooth = undefined;
  curve.clear();
  resetSpeed();
}

/** Takes a step on the next images. Batches are always full, so that all steps have one shape. */
function learn() {
  if (order.length < batch) order = shuffled(data.numbers);
  const numbers = order.subarray(0, batch);
  order = order.subarray(batch);
  return step(device, net, optimizer, data, numbers);
}

/** @param {Int32Array} numbers */
function shuffled(numbers) {
  const mixed = numbers.slice();
  for (let n = mixed.length - 1; n > 0; n--) {
    const other = Math.trunc(random() * (n + 1));
    [mixed[n], mixed[other]] = [mixed[other], mixed[n]];
  }
  return mixed;
}

/** Sets the input that the net should read. @param {Float32Array | undefined} pixels */
function see(pixels) {
  seen = pixels;
  drawPixels(byId("seen", HTMLCanvasElement), seen ?? []);
  return loop.turn(read);
}

/** Computes the scores of the input. Inputs that were replaced meanwhile are skipped. */
async function read() {
  if (!seen) guess = undefined;
  else if (readLast !== seen) {
    readLast = seen;
    const input = device.tensor(seen, [1, 1, 8, 8]);
    const scores = device.scope(() => net.forward(input));
    guess = /** @type {Float32Array} */ (await scores.read());
    scores.dispose();
    input.dispose();
  }
  showGuess(guess);
}

/**
 * Tests the net, and shows the results.
 * @param {number | undefined} loss
 * @param {boolean} now
 */
async function show(loss, now) {
  if (loss !== undefined) {
    smooth = smooth === undefined ? loss : 0.8 * smooth + 0.2 * loss;
    curve.add(0, loop.steps, smooth);
  }
  byId("epochs", HTMLElement).textContent = ((loop.steps * batch) / data.numbers.length).toFixed(1);
  if (!net || (!now && performance.now() - drawn < pause)) return;
  const tested = device.scope(() => net.forward(data.tested));
  const scores = /** @type {Float32Array} */ (await tested.read());
  tested.dispose();
  const { digits, pixels } = data.test;
  accuracy = showConfusion(scores, digits);
  showMisread(scores, digits, pixels);
  if (loop.steps > 0) curve.add(1, loop.steps, crossEntropy(scores, digits));
  byId("accuracy", HTMLElement).textContent = `${(100 * accuracy).toFixed(1)} %`;
  byId("loss", HTMLElement).textContent = smooth === undefined ? "–" : smooth.toFixed(4);
  byId("steps", HTMLElement).textContent = loop.steps.toLocaleString("en");
  curve.draw();
  readLast = undefined;
  await read();
  drawn = performance.now();
}

/** Returns the mean loss of images. */
function crossEntropy(scores, labels) {
  let sum = 0;
  labels.forEach((label, n) => {
    const row = scoresOf(scores, n);
    const most = Math.max(...row);
    sum += most + Math.log(row.reduce((sum, score) => sum + Math.exp(score - most), 0)) - row[label];
  });
  return sum / labels.length;
}

/** Returns the bytes of a weights file. */
function save() {
  return device.saveSafetensors(net.stateDict(), { architecture: JSON.stringify(architecture) });
}

/**
 * Continues with the weights of a file. Other values in the file are for `warpweft train`, to continue training.
 * @param {Blob | Response} source
 */
async function take(source) {
  const { tensors } = await device.loadSafetensors(source);
  try {
    const own = net.namedParameters().filter(([name]) => tensors[name]);
    net.loadStateDict(Object.fromEntries(own.map(([name]) => [name, tensors[name]])));
  } finally {
    for (const tensor of Object.values(tensors)) tensor.dispose();
  }
  await show(undefined, true);
}
