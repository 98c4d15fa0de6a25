// The page that learns a picture: joins its controls to a neural field, and draws what it has learnt.

import { Optimizer } from "../dist/nn.js";
import { Curve } from "./curve.js";
import { failed, isSlow, openDevice, standing, tell } from "./device.js";
import { byId, make } from "./dom.js";
import { Field, step } from "./fourier.js";
import { sheet, showCode } from "./ink.js";
import { Loop } from "./loop.js";
import { names, numbersOf, own, pictureOf, placesOf, psnr } from "./pixels.js";
import { randoms } from "./points.js";
import { Source } from "./source.js";
import { connectSpeed } from "./speed.js";

/** @import { Tensor } from "../dist/nn.js" */

/** How much closer the part is seen. */
const closer = 4;
/** The shortest time between two pictures, in milliseconds; and as a part of the time: drawing takes one third at most. */
const pause = { least: 100, times: 2 };

const choice = (/** @type {string} */ id) => byId(id, HTMLSelectElement);
const number = (/** @type {string} */ id) => Number(/** @type {HTMLInputElement} */ (byId(id, HTMLElement)).value);
const say = (/** @type {string} */ id, /** @type {string} */ text) => (byId(id, HTMLElement).textContent = text);
const canvas = (/** @type {string} */ id) => byId(id, HTMLCanvasElement);

const device = await openDevice();
/** Pixels in a row, and how many a step learns: what takes a GPU milliseconds would have the page wait here. */
const [side, batch] = isSlow(device) ? [64, 1024] : [128, 4096];
const random = randoms(7);
const curve = new Curve(canvas("curve"), ["--accent"]);
/** All places of the picture, and the colours there. @type {{ places: Tensor, colours?: Tensor }} */
const data = { places: device.tensor(placesOf(side), [side * side, 2]) };
/** The picture as numbers. @type {Float32Array} */
let wanted;
/** What the net makes of it. @type {Float32Array | undefined} */
let learnt;
/** How alike the two are, in decibels. */
let likeness = NaN;
/** Whether the last picture was the camera's. */
let followed = false;
let seed = 0;
/** When the next picture is due. */
let due = 0;
/** @type {Field} */
let field;
/** @type {Optimizer} */
let optimizer;

for (const [name, title] of Object.entries(names)) choice("picture").append(make("option", { value: name }, title));
const loop = new Loop({ step: learn, show, reset, failed });
const forgetSpeed = connectSpeed(loop, device, "field", () => ({ ...shape(), side, batch }));
const take = loop.latest(takePicture);
const source = new Source(choice("picture"), (name) => own(name, side), () => void take(), failed);
const look = loop.latest(() => loop.turn(showPart));
const redraw = loop.latest(() => loop.turn(drawAll));
connect();
const ready = Promise.all([take(), showCode("code", "fourier.js").catch(failed)]);

// For programs that look at the page.
Object.assign(window, {
  demo: {
    device: { backend: device.info.backend, fallback: device.fallback },
    /** It is shown as it is at first. */
    ready,
    loop,
    stats: () => device.stats(),
    /** The likeness of what is drawn, in decibels. */
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
      // The part's middle is where the click was, as far as the edges allow it.
      const part = (/** @type {number} */ at) => `${(100 * (at - 0.5 / closer)) / (1 - 1 / closer)}`;
      byId("across", HTMLInputElement).value = part((event.clientX - left) / width);
      byId("down", HTMLInputElement).value = part((event.clientY - top) / height);
      void look();
    });
  }
  new ResizeObserver(() => void redraw()).observe(canvas("learnt"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void redraw());
}

/** What the size of the net is. */
const shape = () => ({
  frequencies: number("frequencies"),
  sharpness: number("sharpness"),
  layers: number("layers"),
  width: number("width"),
});

/** Another picture: a new net begins with it, unless it is the camera's, which the net follows, or the last of these. */
async function takePicture() {
  const follows = source.live || followed;
  followed = source.live;
  await loop.turn(() => {
    wanted = numbersOf(source.now(), side);
    data.colours?.dispose();
    data.colours = device.tensor(wanted, [side * side, 3]);
    tell(standing(device));
    return follows ? drawAll() : undefined;
  });
  if (!follows) await loop.reset();
}

/** A new net, and what teaches it. */
function reset() {
  for (const one of [...(field?.layers ?? []), field?.waves, optimizer]) one?.dispose?.();
  seed += 1;
  field = new Field(device, { ...shape(), seed });
  const rule = choice("optimizer").value;
  optimizer = Optimizer[rule](field, { lr: number("lr"), ...(rule === "sgd" ? { momentum: 0.9 } : {}) });
  say("parameters", `${field.parameterCount.toLocaleString("en")} parameters`);
  say("loss", "–");
  forgetSpeed();
  byId("sharpness", HTMLSelectElement).disabled = number("frequencies") === 0;
  curve.clear();
}

/** A step on pixels from anywhere. */
function learn() {
  const numbers = Int32Array.from({ length: batch }, () => Math.trunc(random() * side * side));
  return step(device, field, optimizer, /** @type {{ places: Tensor, colours: Tensor }} */ (data), numbers);
}

/**
 * What the net gives at places, `side` times `side` of them: a quarter of the picture or all of it costs the same.
 * @param {Tensor} places
 */
async function ask(places) {
  const colours = device.scope(() => field.forward(places));
  const numbers = await colours.read();
  colours.dispose();
  return numbers;
}

/**
 * Draws what the net has learnt, and says how close it is.
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

/** The part that is seen closer: its left and top, of 1. */
const corner = () => ["across", "down"].map((id) => (number(id) / 100) * (1 - 1 / closer));

async function drawAll() {
  if (!learnt) return;
  curve.draw();
  await showPart();
}

/** Asks the net about a part, more closely, and draws both pictures with a frame around it. */
async function showPart() {
  if (!learnt) return;
  const [left, top] = corner();
  const places = device.tensor(placesOf(side, 2 * left - 1, 2 * top - 1, 2 / closer), [side * side, 2]);
  const part = await ask(places);
  places.dispose();
  for (const [id, numbers] of /** @type {const} */ ([["original", wanted], ["learnt", learnt]])) {
    const picture = pictureOf(numbers, side);
    const { context, width } = paint(canvas(id), picture, 0, 0, side);
    // On dark or light, by day or night.
    for (const [colour, line] of /** @type {const} */ ([["white", 4], ["black", 1.5]])) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(left * width, top * width, width / closer, width / closer);
    }
    if (id === "original") paint(canvas("original-part"), picture, left * side, top * side, side / closer);
  }
  paint(canvas("learnt-part"), pictureOf(part, side), 0, 0, side);
}

/** Draws a square of a picture, its pixels as they are. */
function paint(canvas, picture, left, top, size) {
  const { context, width } = sheet(canvas);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, left, top, size, size, 0, 0, width, width);
  return { context, width };
}
