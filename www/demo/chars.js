// The page "Language model training". Connects its controls to a transformer, which writes text while it learns.

import { Generator, Optimizer } from "../dist/nn.js";
import { attending, showAttending } from "./attending.js";
import { Curve } from "./curve.js";
import { failed, isSlow, openDevice, showNotice, standing } from "./device.js";
import { byId } from "./dom.js";
import { showCode } from "./ink.js";
import { Loop } from "./loop.js";
import { randoms } from "./points.js";
import { connectFiles } from "./saved.js";
import { connectSpeed } from "./speed.js";
import { draw, Text } from "./text.js";
import { lossOf, step, Transformer } from "./transformer.js";
import { pack, unpack } from "./weights.js";

/** @import { Tensor } from "../dist/nn.js" */

/** The number of characters in the net's context. */
const length = 64;
const heads = 4;
/** The number of text pieces in a step, and in a test. */
const batch = 16;
/** The number of characters written after a round of steps. */
const stroke = 3;
/** The number of written characters that are shown. */
const kept = 1200;
/** The shortest time between two tests, in milliseconds. */
const pause = 1000;

const choice = (/** @type {string} */ id) => byId(id, HTMLSelectElement);
/** Returns the options of a list as numbers. @param {string} id */
const offered = (id) => [...choice(id).options].map(({ value }) => Number(value));
const source = byId("text", HTMLTextAreaElement);
const device = await openDevice();
// A smaller net, because steps on the CPU block the page.
if (isSlow(device)) choice("width").value = "32";
const random = randoms(3);
const curve = new Curve(byId("curve", HTMLCanvasElement), ["--thread", "--accent"]);
/** @type {Text} */
let text;
let seed = 0;
let tested = 0;
/** The recent training loss, and the loss on the test part. @type {{ train?: number, test?: number }} */
let losses = {};
/** The written characters, as numbers. @type {number[]} */
let written = [];
/** @type {Transformer} */
let net;
/** The shape of the net, even if other values are selected meanwhile. @type {ReturnType<typeof shapeOf>} */
let shape;
/** @type {Optimizer} */
let optimizer;
/** Pieces of the text's last tenth. @type {Tensor} */
let test;

const loop = new Loop({ step: learn, show, reset, failed });
const resetSpeed = connectSpeed(loop, device, "text", () => ({ ...shape, characters: text.known.length, batch }));
connect();
// `warpweft train chars --epochs 60 --lr 0.004 --weights www/demo/chars.safetensors` makes the file next to the page.
connectFiles("chars.safetensors", loop, device, { save: () => pack(device, net.stateDict(), shape), load });
const ready = Promise.all([read(), showCode("code", "transformer.js").catch(failed)]);

// For programs that test the page.
Object.assign(window, {
  demo: {
    device: { backend: device.info.backend, fallback: device.fallback },
    /** Resolves when the page is shown completely. */
    ready,
    loop,
    stats: () => device.stats(),
    get losses() {
      return losses;
    },
  },
});

function connect() {
  for (const id of ["width", "layers"]) choice(id).addEventListener("change", () => void loop.reset());
  choice("lr").addEventListener("change", () => void loop.turn(() => (optimizer.lr = Number(choice("lr").value))));
  byId("learn", HTMLButtonElement).addEventListener("click", () => void take(source.value));
  byId("write", HTMLButtonElement).addEventListener("click", writeOn);
  const again = () => void loop.turn(() => curve.draw());
  new ResizeObserver(again).observe(byId("curve", HTMLCanvasElement));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

/** Loads the initial text. */
async function read() {
  try {
    const response = await fetch("../data/text.txt");
    if (!response.ok) throw new Error(`The text could not be loaded: ${response.status}`);
    source.value = await response.text();
    await take(source.value);
  } catch (error) {
    failed(error);
  }
}

/**
 * Replaces the text, and makes a new net for it.
 * @param {string} words
 */
async function take(words) {
  const least = 20 * length;
  const found = new Text(words);
  if (found.numbers.length < least) {
    failed(new Error(`A text of ${found.numbers.length} characters is too short. It needs at least ${least}.`));
    return;
  }
  showNotice(standing(device));
  await loop.turn(() => {
    text = found;
    test?.dispose();
    const end = text.numbers.length;
    const pieces = text.pieces(batch, length + 1, [learnt(), end], randoms(5));
    test = device.tensor(pieces, [batch, length + 1]);
  });
  const [count, chance] = [text.numbers.length.toLocaleString("en"), Math.log(text.known.length).toFixed(2)];
  byId("about-text", HTMLElement).textContent =
    `${count} characters, ${text.known.length} different ones. Random guessing has a loss of ${chance}.`;
  await loop.reset();
}

/** Returns the end of the training part, which is the beginning of the text's last tenth. */
const learnt = () => Math.trunc(0.9 * text.numbers.length);

/** Returns the shape of a net with these sizes. */
function shapeOf(width = Number(choice("width").value), layers = Number(choice("layers").value)) {
  return { characters: text.known.join(""), width, layers, length, heads };
}

/** Makes an untrained net. @param {typeof shape} of */
function made(of) {
  seed += 1;
  return new Transformer(new Generator(device, seed), { ...of, characters: [...of.characters].length });
}

/** @param {Transformer} net */
function dispose({ token, position, layers, norm, head }) {
  for (const layer of [token, position, ...layers, norm, head]) layer.dispose();
}

/** Replaces the net by an untrained one. */
function reset() {
  const chosen = shapeOf();
  begin(made(chosen), chosen);
}

/**
 * Replaces the net and its optimizer.
 * @param {Transformer} other
 * @param {typeof shape} of
 */
function begin(other, of) {
  if (net) dispose(net);
  optimizer?.dispose();
  [net, shape] = [other, of];
  optimizer = Optimizer.adamW(net, { lr: Number(choice("lr").value) });
  optimizer.clipNorm(1);
  losses = {};
  written = [...text.numbers.subarray(0, 1)];
  byId("parameters", HTMLElement).textContent = net.parameterCount.toLocaleString("en");
  byId("written", HTMLElement).textContent = "";
  curve.clear();
  resetSpeed();
}

/** Takes a step on random pieces of the text without its last tenth. */
function learn() {
  const pieces = text.pieces(batch, length + 1, [0, learnt()], random);
  return step(device, net, optimizer, pieces, [batch, length + 1]);
}

/**
 * Pads characters to the net's context. Positions attend only to earlier ones, so the padding has no effect, and all inputs
 * have one shape.
 * @param {number[]} seen
 */
function padded(seen) {
  const all = new Int32Array(length);
  all.set(seen);
  return all;
}

/** Writes about a hundred characters. */
function writeOn() {
  for (let n = 0; n < 100 / stroke; n++) void loop.turn(write);
  void loop.turn(look);
}

/** Shows the attention weights from which the last character was chosen. */
async function look() {
  const seen = written.slice(-length - 1, -1);
  const found = seen.length ? device.scope(() => attending(device, net, padded(seen), seen.length - 1, heads)) : [];
  const weights = /** @type {Float32Array[]} */ (await device.read(found));
  for (const tensor of found) tensor.dispose();
  const [chosen] = seen.length ? written.slice(-1) : [];
  const characters = seen.map((number) => text.decode(number));
  showAttending(characters, chosen === undefined ? undefined : text.decode(chosen), weights, heads);
}

/** Writes some characters one by one, each by the net's scores for the text so far. */
async function write() {
  for (let n = 0; n < stroke; n++) {
    const seen = written.slice(-length);
    const scores = device.scope(() => net.forward(device.tensor(padded(seen), [1, length])));
    const count = text.known.length;
    const next = /** @type {Float32Array} */ (await scores.readRange((seen.length - 1) * count, count));
    scores.dispose();
    written.push(draw(next, Number(choice("temperature").value), random()));
  }
  written = written.slice(-kept);
  const box = byId("written", HTMLElement);
  box.textContent = written.map((number) => text.decode(number)).join("");
  box.scrollTop = box.scrollHeight;
}

/**
 * Shows the loss, writes some characters, and tests the net from time to time.
 * @param {number | undefined} loss
 * @param {boolean} now
 */
async function show(loss, now) {
  if (!net) return;
  if (loss !== undefined) {
    losses.train = losses.train === undefined ? loss : 0.9 * losses.train + 0.1 * loss;
    curve.add(0, loop.steps, losses.train);
    await write();
  }
  if (!now && performance.now() - tested < pause) return;
  const value = device.scope(() => lossOf(net, test));
  losses.test = await value.item();
  value.dispose();
  curve.add(1, loop.steps, losses.test);
  curve.draw();
  for (const part of /** @type {const} */ (["train", "test"])) {
    byId(`${part}-loss`, HTMLElement).textContent = losses[part]?.toFixed(3) ?? "–";
  }
  byId("steps", HTMLElement).textContent = loop.steps.toLocaleString("en");
  await look();
  tested = performance.now();
}

/**
 * Continues with the weights of a file, and writes with them.
 * @param {Blob | Response} source
 */
async function load(source) {
  const offer = { ...shapeOf(), widths: offered("width"), depths: offered("layers") };
  begin(...(await unpack(device, source, offer, withWeights)));
  await show(undefined, true);
  writeOn();
}

/**
 * Makes a net with the weights of a file, and returns it with its shape. Other values in the file are for `warpweft train`, to
 * continue training.
 * @param {Record<string, Tensor>} tensors
 * @param {{ width: number, layers: number }} size
 * @returns {[Transformer, typeof shape]}
 */
function withWeights(tensors, { width, layers }) {
  const of = shapeOf(width, layers);
  const other = made(of);
  try {
    const own = other.namedParameters().filter(([name]) => tensors[name]);
    other.loadStateDict(Object.fromEntries(own.map(([name]) => [name, tensors[name]])));
  } catch (error) {
    dispose(other);
    throw error;
  }
  choice("width").value = `${width}`;
  choice("layers").value = `${layers}`;
  return [other, of];
}
