// The page "Fit an image". Connects its controls to a neural field, and draws the learned picture.

import { Optimizer } from "../dist/nn.js";
import { Curve } from "./curve.js";
import { failed, isSlow, openDevice, showNotice, standing } from "./device.js";
import { byId, make } from "./dom.js";
import { Field, step } from "./fourier.js";
import { sheet, showCode } from "./ink.js";
import { Loop } from "./loop.js";
import { names, numbersOf, own, pictureOf, placesOf, psnr } from "./pixels.js";
import { randoms } from "./points.js";
import { Source } from "./source.js";
import { connectSpeed } from "./speed.js";

/** @import { Tensor } from "../dist/nn.js" */

/** The magnification of the selected part. */
const closer = 4;
/**
 * The pause between two pictures: its minimum in milliseconds, and its multiple of the drawing time. Drawing takes at most a
 * third of the time.
 */
const pause = { least: 100, times: 2 };

const choice = (/** @type {string} */ id) => byId(id, HTMLSelectElement);
const number = (/** @type {string} */ id) => Number(/** @type {HTMLInputElement} */ (byId(id, HTMLElement)).value);
const say = (/** @type {string} */ id, /** @type {string} */ text) => (byId(id, HTMLElement).textContent = text);
const canvas = (/** @type {string} */ id) => byId(id, HTMLCanvasElement);

const device = await openDevice();
/** The pixels in a row, and in a step. Both are smaller on slow devices, whose steps block the page. */
const [side, batch] = isSlow(device) ? [64, 1024] : [128, 4096];
const random = randoms(7);
const curve = new Curve(canvas("curve"), ["--accent"]);
/** All positions of the picture, and their colors. @type {{ places: Tensor, colours?: Tensor }} */
const data = { places: device.tensor(placesOf(side), [side * side, 2]) };
/** The picture as numbers. @type {Float32Array} */
let wanted;
/** The learned picture. @type {Float32Array | undefined} */
let learnt;
/** The peak signal-to-noise ratio of the learned picture, in decibels. */
let likeness = NaN;
/** Whether the last picture came from the camera. */
let followed = false;
let seed = 0;
/** The time when the next picture is due. */
let due = 0;
/** @type {Field} */
let field;
/** @type {Optimizer} */
let optimizer;

for (const [name, title] of Object.entries(names)) choice("picture").append(make("option", { value: name }, title));
const loop = new Loop({ step: learn, show, reset, failed });
const resetSpeed = connectSpeed(loop, device, "field", () => ({ ...shape(), side, batch }));
const take = loop.latest(takePicture);
const source = new Source(choice("picture"), (name) => own(name, side), () => void take(), failed);
const look = loop.latest(() => loop.turn(showPart));
const redraw = loop.latest(() => loop.turn(drawAll));
connect();
const ready = Promise.all([take(), showCode("code", "fourier.js").catch(failed)]);

// For programs that test the page.
Object.assign(window, {
  demo: {
    device: { backend: device.info.backend, fallback: device.fallback },
    /** Resolves when the page is shown completely. */
    ready,
    loop,
    stats: () => device.stats(),
    /** The peak signal-to-noise ratio of the drawn picture, in decibels. */
    get psnr() {
      return likeness;
    },
  },
});

function connect() {
  say("batch", batch.toLocaleString("en"));
  say("pixels", `${side} × ${side} × 3 numbers`);
  for (const id of ["frequencies", "sharpness", "layers", "width", "optimizer"]) {
    choice(id).addEventListener("change", () => void loop.reset());
  }
  choice("lr").addEventListener("change", () => void loop.turn(() => (optimizer.lr = number("lr"))));
  for (const id of ["across", "down"]) byId(id, HTMLInputElement).addEventListener("input", () => void look());
  for (const id of ["original", "learnt"]) {
    canvas(id).addEventListener("click", (event) => {
      const { left, top, width, height } = canvas(id).getBoundingClientRect();
      // The click is the middle of the part, unless the part would cross an edge.
      const part = (/** @type {number} */ at) => `${(100 * (at - 0.5 / closer)) / (1 - 1 / closer)}`;
      byId("across", HTMLInputElement).value = part((event.clientX - left) / width);
      byId("down", HTMLInputElement).value = part((event.clientY - top) / height);
      void look();
    });
  }
  new ResizeObserver(() => void redraw()).observe(canvas("learnt"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void redraw());
}

/** Returns the selected shape of the net. */
const shape = () => ({
  frequencies: number("frequencies"),
  sharpness: number("sharpness"),
  layers: number("layers"),
  width: number("width"),
});

/** Uses another picture, and makes a new net for it. For pictures of the camera, the net continues to learn. */
async function takePicture() {
  const follows = source.live || followed;
  followed = source.live;
  await loop.turn(() => {
    wanted = numbersOf(source.now(), side);
    data.colours?.dispose();
    data.colours = device.tensor(wanted, [side * side, 3]);
    showNotice(standing(device));
    return follows ? drawAll() : undefined;
  });
  if (!follows) await loop.reset();
}

/** Makes a new net and its optimizer. */
function reset() {
  for (const one of [...(field?.layers ?? []), field?.waves, optimizer]) one?.dispose?.();
  seed += 1;
  field = new Field(device, { ...shape(), seed });
  const rule = choice("optimizer").value;
  optimizer = Optimizer[rule](field, { lr: number("lr"), ...(rule === "sgd" ? { momentum: 0.9 } : {}) });
  say("parameters", `${field.parameterCount.toLocaleString("en")} parameters`);
  say("loss", "–");
  resetSpeed();
  byId("sharpness", HTMLSelectElement).disabled = number("frequencies") === 0;
  curve.clear();
}

/** Takes a step on random pixels. */
function learn() {
  const numbers = Int32Array.from({ length: batch }, () => Math.trunc(random() * side * side));
  return step(device, field, optimizer, /** @type {{ places: Tensor, colours: Tensor }} */ (data), numbers);
}

/**
 * Computes the colors at `side` times `side` positions. Any region of the plane costs the same.
 * @param {Tensor} places
 */
async function ask(places) {
  const colours = device.scope(() => field.forward(places));
  const numbers = await colours.read();
  colours.dispose();
  return numbers;
}

/**
 * Draws the learned picture, and shows how close it is.
 * @param {number | undefined} loss
 * @param {boolean} now
 */
async function show(loss, now) {
  if (loss !== undefined) say("loss", loss.toFixed(5));
  const start = performance.now();
  if (!field || (!now && start < due)) return;
  const given = await ask(data.places);
  [learnt, likeness] = [given, psnr(given, wanted)];
  if (loop.steps > 0) curve.add(0, loop.steps, likeness);
  say("psnr", `${likeness.toFixed(1)} dB`);
  say("steps", loop.steps.toLocaleString("en"));
  await drawAll();
  const end = performance.now();
  due = end + Math.max(pause.least, pause.times * (end - start));
}

/** Returns the left and top of the magnified part, as fractions of the picture. */
const corner = () => ["across", "down"].map((id) => (number(id) / 100) * (1 - 1 / closer));

async function drawAll() {
  if (!learnt) return;
  curve.draw();
  await showPart();
}

/** Computes the magnified part with the net, and draws both pictures with a frame around the part. */
async function showPart() {
  if (!learnt) return;
  const [left, top] = corner();
  const places = device.tensor(placesOf(side, 2 * left - 1, 2 * top - 1, 2 / closer), [side * side, 2]);
  const part = await ask(places);
  places.dispose();
  for (const [id, numbers] of /** @type {const} */ ([["original", wanted], ["learnt", learnt]])) {
    const picture = pictureOf(numbers, side);
    const { context, width } = paint(canvas(id), picture, 0, 0, side);
    // Visible on dark and on light pictures.
    for (const [colour, line] of /** @type {const} */ ([["white", 4], ["black", 1.5]])) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(left * width, top * width, width / closer, width / closer);
    }
    if (id === "original") paint(canvas("original-part"), picture, left * side, top * side, side / closer);
  }
  paint(canvas("learnt-part"), pictureOf(part, side), 0, 0, side);
}

/** Draws a square of a picture without smoothing. */
function paint(canvas, picture, left, top, size) {
  const { context, width } = sheet(canvas);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, left, top, size, size, 0, 0, width, width);
  return { context, width };
}
