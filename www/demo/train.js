// The page "Classify points". Connects its controls to a network, and draws its results.

import { Optimizer } from "../dist/nn.js";
import { Curve } from "./curve.js";
import { failed, openDevice } from "./device.js";
import { byId, make } from "./dom.js";
import { colour, HeatMap, sheet, showCode } from "./ink.js";
import { Loop } from "./loop.js";
import { Mlp, step } from "./mlp.js";
import { NetPicture } from "./network.js";
import { points, reach, shapes } from "./points.js";
import { connectSpeed } from "./speed.js";

/**
 * @import { Tensor } from "../dist/nn.js"
 * @import { Point } from "./points.js"
 * @typedef {{ list: Point[], x?: Tensor, y?: Tensor }} Data
 */

/** The positions in a row of the plane at which the net is evaluated. */
const side = 40;
/** The number of training points, and of test points. */
const count = 200;
/** The shortest time between two pictures, in milliseconds. */
const pause = 60;
/** The most training points, including the user's. */
const most = 1000;
/** The directions of the arrow keys, which move the cross. Enter adds a point at the cross. */
const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
let cross = [0, 0];

const choice = (/** @type {string} */ id) => byId(id, HTMLSelectElement);
/** Returns a selected number. @param {string} id */
const number = (id) => Number(choice(id).value);

const device = await openDevice();
const plane = byId("plane", HTMLCanvasElement);
const map = new HeatMap(side);
const picture = new NetPicture(byId("net", HTMLCanvasElement), side);
const curve = new Curve(byId("curve", HTMLCanvasElement), ["--thread", "--accent"]);
const grid = device.tensor(
  Array.from({ length: side * side }, (_, n) => [
    (2 * reach * ((n % side) + 0.5)) / side - reach,
    reach - (2 * reach * (Math.floor(n / side) + 0.5)) / side,
  ]),
);
/** The training points and the test points. @type {{ train: Data, test: Data }} */
const data = { train: { list: [] }, test: { list: [] } };
let seed = 0;
let drawn = 0;
/** @type {Mlp} */
let net;
/** @type {Optimizer} */
let optimizer;
/** The accuracy on both parts, from 0 to 1. Undefined without points. @type {Record<string, number | undefined>} */
let accuracy = {};

const loop = new Loop({ step: learn, show, reset, failed });
const resetSpeed = connectSpeed(loop, device, "points", () => ({ ...shape(), count }));
connect();
const ready = Promise.all([choose(), showCode("code", "mlp.js").catch(failed)]);

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
  },
});

function connect() {
  const names = { moons: "Two moons", circles: "Circles", spirals: "Spirals", corners: "Corners" };
  for (const name of Object.keys(shapes)) choice("data").append(make("option", { value: name }, names[name]));
  choice("data").addEventListener("change", () => void choose());
  for (const id of ["layers", "units", "activation", "optimizer"]) {
    choice(id).addEventListener("change", () => void loop.reset());
  }
  choice("lr").addEventListener("change", () => void loop.turn(() => (optimizer.lr = number("lr"))));
  byId("empty", HTMLButtonElement).addEventListener("click", () => void replace([], []));
  const chosen = () => (choice("class").value === "1" ? 1 : 0);
  plane.addEventListener("click", (event) => add(placeOf(event), chosen()));
  plane.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    add(placeOf(event), chosen() ? 0 : 1);
  });
  const redraw = () => void loop.turn(() => show(undefined, true));
  plane.addEventListener("keydown", (event) => {
    const way = ways[event.key];
    if (way) cross = cross.map((at, axis) => Math.max(-reach, Math.min(reach, at + 0.1 * way[axis])));
    else if (event.key === "Enter") add(cross, chosen());
    else return;
    event.preventDefault();
    redraw();
  });
  for (const name of ["focus", "blur"]) plane.addEventListener(name, redraw);
  new ResizeObserver(redraw).observe(plane);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** Returns the position of the plane under the pointer. @param {MouseEvent} event */
function placeOf({ clientX, clientY }) {
  const { left, top, width, height } = plane.getBoundingClientRect();
  return [((clientX - left) / width) * 2 * reach - reach, reach - ((clientY - top) / height) * 2 * reach];
}

/**
 * Adds a training point.
 * @param {number[]} point
 * @param {0 | 1} label
 */
function add([x, y], label) {
  if (data.train.list.length < most) void replace([...data.train.list, [x, y, label]], data.test.list);
}

/** Makes the selected points, and a new net for them. */
async function choose() {
  const shape = choice("data").value;
  seed += 1;
  await replace(points(shape, count, 2 * seed), points(shape, count, 2 * seed + 1), true);
}

/**
 * Replaces the points.
 * @param {Point[]} train
 * @param {Point[]} test
 * @param {boolean} [again] whether to make a new network for these points.
 */
async function replace(train, test, again = false) {
  const done = loop.turn(async () => {
    for (const [part, list] of Object.entries({ train, test })) {
      data[part].x?.dispose();
      data[part].y?.dispose();
      const x = list.length ? device.tensor(list.map(([x, y]) => [x, y])) : undefined;
      const y = list.length ? device.tensor(list.map(([, , label]) => label)) : undefined;
      data[part] = { list, x, y };
    }
    if (!again) await show(undefined, true);
  });
  await (again ? loop.reset() : done);
}

/** Returns the selected shape of the net. */
const shape = () => ({ layers: number("layers"), units: number("units"), activation: choice("activation").value });

/** Makes a new net and its optimizer. */
function reset() {
  for (const layer of net?.layers ?? []) layer.dispose();
  optimizer?.dispose();
  seed += 1;
  net = new Mlp(device, { ...shape(), seed });
  const rule = choice("optimizer").value;
  optimizer = Optimizer[rule](net, { lr: number("lr"), ...(rule === "sgd" ? { momentum: 0.9 } : {}) });
  curve.clear();
  resetSpeed();
}

/** Takes a step on all training points. */
function learn() {
  const { x, y } = data.train;
  return x && y && step(device, net, optimizer, x, y);
}

/**
 * Evaluates the net at all positions and points, and draws the results.
 * @param {number | undefined} loss
 * @param {boolean} now
 */
async function show(loss, now) {
  curve.add(0, loop.steps, loss);
  if (!net || (!now && performance.now() - drawn < pause)) return;
  const sets = Object.entries(data).filter(([, { x }]) => x);
  const asked = device.scope(() => [...net.outputs(grid), ...sets.map(([, { x }]) => net.forward(/** @type {Tensor} */ (x)))]);
  const weights = net.layers.map((layer) => layer.parameter("weight").value);
  const values = await device.read([...asked, ...weights]);
  for (const tensor of asked) tensor.dispose();
  const depth = net.layers.length;
  const layers = net.layers.map((_, n) => ({ outputs: values[n], weights: values[asked.length + n] }));
  accuracy = {};
  sets.forEach(([part, { list }], n) => {
    const scores = values[depth + n];
    accuracy[part] = list.filter(([, , label], i) => scores[i] > 0 === (label === 1)).length / list.length;
    if (part === "test" && loop.steps > 0) curve.add(1, loop.steps, crossEntropy(scores, list));
  });
  drawPlane(layers[depth - 1].outputs);
  picture.draw(layers);
  curve.draw();
  showScores(loss);
  drawn = performance.now();
}

/** Returns the mean loss of points. */
function crossEntropy(scores, list) {
  const loss = (score, label) => Math.max(score, 0) - score * label + Math.log1p(Math.exp(-Math.abs(score)));
  return list.reduce((sum, [, , label], n) => sum + loss(scores[n], label), 0) / list.length;
}

/** @param {Float32Array} logits of all positions. */
function drawPlane(logits) {
  const { context, width } = sheet(plane);
  context.drawImage(map.paint((index) => Math.tanh(logits[index] / 2)), 0, 0, width, width);
  const colours = [colour("--thread"), colour("--accent")];
  context.strokeStyle = colour("--card");
  context.lineWidth = 1;
  const across = (/** @type {number} */ x) => ((x + reach) / (2 * reach)) * width;
  for (const [x, y, label] of data.train.list) {
    context.fillStyle = colours[label];
    context.beginPath();
    context.arc(across(x), across(-y), 4, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
  if (!plane.matches(":focus-visible")) return;
  const [x, y] = [across(cross[0]), across(-cross[1])];
  context.strokeStyle = colour("--ink");
  context.beginPath();
  context.moveTo(x - 8, y);
  context.lineTo(x + 8, y);
  context.moveTo(x, y - 8);
  context.lineTo(x, y + 8);
  context.stroke();
}

/** @param {number | undefined} loss */
function showScores(loss) {
  const percent = (part) => (accuracy[part] === undefined ? "–" : `${(100 * accuracy[part]).toFixed(1)} %`);
  byId("train-accuracy", HTMLElement).textContent = percent("train");
  byId("test-accuracy", HTMLElement).textContent = percent("test");
  byId("steps", HTMLElement).textContent = loop.steps.toLocaleString("en");
  if (loss !== undefined) byId("loss", HTMLElement).textContent = loss.toFixed(4);
  else if (loop.steps === 0) byId("loss", HTMLElement).textContent = "–";
}
