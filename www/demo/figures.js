// The demo's fixed workload on the page's device and on the CPU, timed and compared. `warpweft demo --json` reports the same
// natively.

import * as attention from "./attention.js";
import { Engine } from "./engine.js";
import * as image from "./image.js";
import { hash, picture, usual } from "./picture.js";

/**
 * @import { Device } from "../dist/nn.js"
 * @import { Picture } from "./engine.js"
 * @import { Remote } from "./remote.js"
 * @typedef {{ ms: number, mean: number, difference: number, samples: number[] }} Measured
 * @typedef {{
 *   where: string, backend: string, name: string, software: boolean, fallback?: string,
 *   image: Measured,
 *   filters: Record<string, { mean: number, difference: number }>,
 *   attention: Measured & { rowSums: number, fused: number },
 * }} DeviceFigures
 * @typedef {{ picture: { width: number, height: number, hash: number }, devices: DeviceFigures[] }} Figures
 */

/**
 * Runs the workload on a device and in the CPU's worker. Differences are the largest ones from the CPU's values.
 * @param {Device} device
 * @param {Remote} cpu
 * @returns {Promise<Figures>}
 */
export async function figures(device, cpu) {
  // The engine has separate programs, so the page can use its own meanwhile.
  const gpu = new Engine(device);
  const { width, height } = usual;
  const pixels = picture(width, height);
  const source = { pixels, width, height };
  const [mine, reference] = [await work(gpu, source), await work(cpu, source)];
  gpu.release();
  const devices = [
    compare(gpu.about(), mine, reference),
    compare(await cpu.about(), reference, reference),
  ];
  return { picture: { width, height, hash: hash(pixels) }, devices };
}

/** @typedef {Awaited<ReturnType<typeof work>>} Results */

/**
 * @param {Engine | Remote} engine
 * @param {Picture} source
 */
async function work(engine, source) {
  /** @type {Record<string, Float32Array>} */
  const alone = {};
  for (const filter of image.all) alone[filter.name] = (await engine.image(source, [filter])).values;
  const { values } = await engine.image(source, image.usual);
  const imageMs = await engine.time("image");
  const words = attention.split(attention.sentence);
  const attended = await engine.attention(attention.numbers(words), true);
  const attentionMs = await engine.time("attention");
  return { alone, values, imageMs, ...attended, attentionMs, words: words.length };
}

/**
 * @param {Awaited<ReturnType<Remote["about"]>>} about
 * @param {Results} mine
 * @param {Results} reference
 * @returns {DeviceFigures}
 */
function compare({ backend, name, kind, fallback }, mine, reference) {
  /** @type {DeviceFigures["filters"]} */
  const filters = {};
  for (const [name, values] of Object.entries(mine.alone)) {
    filters[name] = { mean: mean(values), difference: difference(values, reference.alone[name]) };
  }
  return {
    where: "browser",
    backend,
    name,
    software: isSoftware(kind),
    fallback,
    image: {
      ms: mine.imageMs ?? NaN,
      mean: mean(mine.values),
      difference: difference(mine.values, reference.values),
      samples: samples(mine.values),
    },
    filters,
    attention: {
      ms: mine.attentionMs ?? NaN,
      mean: mean(mine.fused),
      difference: Math.max(difference(mine.weights, reference.weights), difference(mine.fused, reference.fused)),
      samples: samples(mine.fused),
      rowSums: rowSums(mine.weights, mine.words),
      fused: difference(mine.fused, mine.composed),
    },
  };
}

/**
 * Whether a device is a software GPU.
 * @param {string} kind
 */
export const isSoftware = (kind) => kind === "software";

/**
 * Returns the largest difference between two lists. NaN if one has a NaN.
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
export function difference(a, b) {
  let most = a.length === b.length ? 0 : NaN;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(a[i] - b[i]));
  return most;
}

/**
 * Returns the largest deviation from 1 among the row sums of attention weights.
 * @param {Float32Array} weights
 * @param {number} count
 */
export function rowSums(weights, count) {
  let most = 0;
  for (let i = 0; i < weights.length; i += count) {
    const sum = weights.subarray(i, i + count).reduce((sum, weight) => sum + weight, 0);
    most = Math.max(most, Math.abs(sum - 1));
  }
  return most;
}

/** @param {Float32Array} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * Returns 64 values, evenly spread.
 * @param {Float32Array} values
 */
const samples = (values) => Array.from({ length: 64 }, (_, i) => values[Math.trunc((i * values.length) / 64)]);
