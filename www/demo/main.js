// The page "Filters and attention". Connects its controls to an engine on the device and one on the CPU.

import * as attention from "./attention.js";
import { ChainEditor } from "./chain.js";
import { failed, openDevice, showNotice, standing } from "./device.js";
import { byId, latest, make, milliseconds, tiny } from "./dom.js";
import { Engine } from "./engine.js";
import { difference, figures, rowSums } from "./figures.js";
import { showHeat } from "./heat.js";
import { showCounters, showDevice, showPlan } from "./panel.js";
import { picture } from "./picture.js";
import { showProfile } from "./profile.js";
import { Remote } from "./remote.js";
import { Source } from "./source.js";

/** The largest allowed difference between values of the device and of the CPU. The values are at most about 1. */
const near = 1e-4;

const cpu = new Remote();
const engine = new Engine(await openDevice());
showDevice(engine);
const source = new Source(byId("size", HTMLSelectElement), own, () => void updateImage(), failed);
const editor = new ChainEditor(() => void updateImage());

/** @type {"image" | "attention"} */
let planned = "image";
/** @type {{ words: string[], weights: Float32Array } | undefined} */
let attended;
let frames = 0;

const updateMine = latest(() => showMine().catch(failed));
const updateTheirs = latest(() => showTheirs().catch(failed));
const updateProfile = latest(() => profileRun().catch(failed));
const updateImage = () => Promise.all([updateMine(), updateTheirs()]);
const updateAttention = latest(() => showAttention().catch(failed));
connect();

// For programs that test the page.
Object.assign(window, {
  demo: {
    device: engine.about(),
    /** Resolves when the first results are shown. */
    ready: Promise.all([updateImage(), updateAttention()]).then(() => undefined),
    /** Resolves when nothing is being computed. */
    idle,
    /** Runs a fixed workload, and returns its times and differences. */
    figures: () => figures(engine.device, cpu),
    /** The number of pictures that the device has computed. */
    get frames() {
      return frames;
    },
  },
});

async function idle() {
  const updates = [updateMine, updateTheirs, updateAttention, updateProfile];
  while (updates.some((update) => update.idle())) await Promise.all(updates.map((update) => update.idle()));
}

/**
 * Draws the demo's own picture.
 * @param {string} wide
 */
function own(wide) {
  const [width, height] = [Number(wide), (Number(wide) * 2) / 3];
  return { pixels: picture(width, height), width, height };
}

function connect() {
  const sentence = byId("sentence", HTMLInputElement);
  sentence.value = attention.sentence;
  sentence.addEventListener("input", () => void updateAttention());
  byId("causal", HTMLInputElement).addEventListener("change", () => void updateAttention());
  const head = byId("head", HTMLSelectElement);
  for (let i = 0; i < attention.heads; i++) head.append(make("option", { value: `${i}` }, `Head ${i + 1}`));
  head.addEventListener("change", showWeights);
  byId("profile", HTMLButtonElement).addEventListener("click", () => void updateProfile());
  for (const kind of /** @type {const} */ (["image", "attention"])) {
    byId(`plan-${kind}`, HTMLButtonElement).addEventListener("click", () => {
      planned = kind;
      showPanel();
    });
  }
}

/** Shows the picture of the device as fast as possible. */
async function showMine() {
  const picture = source.now();
  const { pixels, ms } = await engine.frame(picture, editor.chain);
  paint("gpu-canvas", pixels, picture);
  frames += 1;
  if (source.live) byId("gpu-time", HTMLElement).textContent = milliseconds(ms);
  showCounters(engine);
}

/** Shows the picture of the CPU, and its difference from the device's. For a still picture, also shows the time of both. */
async function showTheirs() {
  const [picture, chain] = [source.now(), editor.chain];
  const theirs = await cpu.image(picture, chain);
  paint("cpu-canvas", theirs.pixels, picture);
  const mine = await engine.image(picture, chain);
  const apart = difference(mine.values, theirs.values);
  const text = `The two images differ by at most ${tiny(apart)}, on a scale from 0 to 1.`;
  judge("image-difference", apart <= near, text);
  showNotice(standing(engine.device));
  showPanel();
  if (source.live) {
    byId("cpu-time", HTMLElement).textContent = milliseconds(theirs.ms);
    return;
  }
  const [gpuTime, cpuTime] = [await engine.time("image"), await cpu.time("image")];
  const stale = source.live || source.now() !== picture || editor.chain !== chain;
  if (stale || gpuTime === undefined || cpuTime === undefined) return;
  byId("gpu-time", HTMLElement).textContent = milliseconds(gpuTime);
  byId("cpu-time", HTMLElement).textContent = milliseconds(cpuTime);
  showCounters(engine);
}

async function showAttention() {
  const words = attention.split(byId("sentence", HTMLInputElement).value);
  const verdict = byId("attention-difference", HTMLElement);
  if (words.length === 0) {
    verdict.className = "verdict";
    verdict.textContent = "Type at least one word.";
    attended = undefined;
    showHeat([], new Float32Array());
    return;
  }
  const numbers = attention.numbers(words);
  const causal = byId("causal", HTMLInputElement).checked;
  const mine = await engine.attention(numbers, causal);
  attended = { words, weights: mine.weights };
  showWeights();
  showPanel();
  const theirs = await cpu.attention(numbers, causal);
  const fused = difference(mine.fused, mine.composed);
  const apart = Math.max(difference(mine.fused, theirs.fused), difference(mine.weights, theirs.weights));
  const sums = rowSums(mine.weights, words.length);
  const [gpuTime, cpuTime] = [await engine.time("attention"), await cpu.time("attention")];
  // Other words were entered meanwhile.
  if (gpuTime === undefined || cpuTime === undefined) return;
  judge(
    "attention-difference",
    fused <= near && apart <= near && sums <= near,
    `attention() and softmax(scores) · V differ by ${tiny(fused)}, the device and the CPU by ${tiny(apart)}. Rows sum ` +
      `to 1 within ${tiny(sums)}. It took ${milliseconds(gpuTime)} here and ${milliseconds(cpuTime)} on the CPU.`,
  );
  showPanel();
}

/** Profiles a run of the program whose plan is shown. */
async function profileRun() {
  byId("profile-summary", HTMLElement).textContent = "Measuring the peak rates of the device, and then a run …";
  showProfile(await engine.profile(planned));
  byId("profile-table", HTMLElement).hidden = false;
  showCounters(engine);
}

/** Shows the weights of the selected head. */
function showWeights() {
  if (!attended) return;
  const { words, weights } = attended;
  const [head, size] = [byId("head", HTMLSelectElement).selectedIndex, words.length ** 2];
  showHeat(words, weights.subarray(head * size, (head + 1) * size));
}

function showPanel() {
  for (const kind of ["image", "attention"]) {
    byId(`plan-${kind}`, HTMLButtonElement).setAttribute("aria-pressed", `${kind === planned}`);
  }
  showPlan(engine, planned);
  showCounters(engine);
}

/**
 * @param {string} id
 * @param {Uint8ClampedArray<ArrayBuffer>} pixels
 * @param {{ width: number, height: number }} size
 */
function paint(id, pixels, { width, height }) {
  const canvas = byId(id, HTMLCanvasElement);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.getContext("2d")?.putImageData(new ImageData(pixels, width, height), 0, 0);
}

/**
 * @param {string} id
 * @param {boolean} good
 * @param {string} text
 */
function judge(id, good, text) {
  const verdict = byId(id, HTMLElement);
  verdict.className = `verdict ${good ? "good" : "bad"}`;
  verdict.textContent = text;
}
