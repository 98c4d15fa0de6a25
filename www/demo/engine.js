// A device with the demo's programs. The page has an engine for the GPU, and its worker has one for the CPU.

import { Device } from "../dist/nn.js";
import * as attention from "./attention.js";
import * as image from "./image.js";

/**
 * @import { Program, Tensor } from "../dist/nn.js"
 * @import { Filter } from "./image.js"
 * @typedef {{ pixels: Uint8ClampedArray<ArrayBuffer>, width: number, height: number }} Picture
 * @typedef {{ pixels: Uint8ClampedArray<ArrayBuffer>, ms: number }} Frame
 * @typedef {Frame & { values: Float32Array }} Filtered
 * @typedef {{ weights: Float32Array, composed: Float32Array, fused: Float32Array }} Attended
 * @typedef {{ key: string, program: Program, input?: Tensor }} Loaded
 * @typedef {{ operations: number, kernels: number, text: string, labels: string[], sources: (string | undefined)[] }} PlanText
 */

const runs = 9;

export class Engine {
  /** @type {Device} */
  device;
  /** The last program of each kind. @type {{ image?: Loaded, attention?: Loaded }} */
  #loaded = {};
  /** Settles when no measurement is running. @type {Promise<unknown>} */
  #timed = Promise.resolve();

  /** @param {Device} device */
  constructor(device) {
    this.device = device;
  }

  /**
   * Opens an engine on a device, chosen as by `Device.new`.
   * @param {string | number} prefer
   */
  static async open(prefer) {
    return new Engine(await Device.new({ prefer }));
  }

  /** Returns the device's info, and the reason if it is a fallback. */
  about() {
    const { backend, name, vendor, kind, driver } = this.device.info;
    return { backend, name, vendor, kind, driver, fallback: this.device.fallback };
  }

  /**
   * Computes a picture through a chain of filters, as fast as possible.
   * @param {Picture} picture
   * @param {Filter[]} chain
   * @returns {Promise<Frame>}
   */
  async frame(picture, chain) {
    const start = performance.now();
    return this.#filter(picture, chain, async ([packed]) => {
      const pixels = asPixels(await packed.read());
      return { pixels, ms: performance.now() - start };
    });
  }

  /**
   * Computes a picture like `frame`, and also returns the numbers behind the pixels, `[3, height, width]`, for comparison.
   * @param {Picture} picture
   * @param {Filter[]} chain
   * @returns {Promise<Filtered>}
   */
  async image(picture, chain) {
    const start = performance.now();
    return this.#filter(picture, chain, async ([packed, values]) => {
      const pixels = asPixels(await packed.read());
      const ms = performance.now() - start;
      return { pixels, ms, values: /** @type {Float32Array} */ (await values.read()) };
    });
  }

  /**
   * Computes the attention block for words.
   * @param {Uint32Array} words
   * @param {boolean} causal
   * @returns {Promise<Attended>}
   */
  async attention(words, causal) {
    const make = () => attention.program(this.device, words.length, causal);
    const loaded = this.#load("attention", `${words.length} ${causal}`, make);
    loaded.input = this.device.tensor(words);
    return withOutputs(loaded, async (outputs) => {
      const reads = await Promise.all(outputs.map((output) => output.read()));
      const [weights, composed, fused] = /** @type {Float32Array[]} */ (reads);
      return { weights, composed, fused };
    });
  }

  /**
   * Measures the median time of a run of the last program in milliseconds, until an element of the first result is read.
   * Returns undefined if another program was run meanwhile. Measurements wait for each other.
   * @param {"image" | "attention"} kind
   * @returns {Promise<number | undefined>}
   */
  async time(kind) {
    const loaded = this.#loaded[kind];
    if (!loaded) throw new Error(`time: no ${kind} has been computed yet`);
    const timed = this.#timed.then(() => this.#median(kind, loaded));
    this.#timed = timed.catch(() => undefined);
    return timed;
  }

  /**
   * @param {"image" | "attention"} kind
   * @param {Loaded} loaded
   */
  async #median(kind, loaded) {
    const times = [];
    for (let i = 0; i < runs; i++) {
      if (this.#loaded[kind] !== loaded) return undefined;
      const start = performance.now();
      await withOutputs(loaded, ([first]) => first.readRange(0, 1));
      times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[runs >> 1];
  }

  /**
   * Returns the plan of the last program.
   * @param {"image" | "attention"} kind
   * @returns {PlanText | undefined}
   */
  plan(kind) {
    const plan = this.#loaded[kind]?.program.plan;
    if (!plan) return undefined;
    const { operations, kernels, text, labels } = plan;
    return { operations, kernels, text, labels: [...labels], sources: plan.sources() };
  }

  /**
   * Profiles a run of the last program, until an element of the first result is read.
   * @param {"image" | "attention"} kind
   */
  async profile(kind) {
    const loaded = this.#loaded[kind];
    if (!loaded) throw new Error(`profile: no ${kind} has been computed yet`);
    await this.device.measureCeilings();
    const { profile } = await this.device.profile(() => withOutputs(loaded, ([first]) => first.readRange(0, 1)));
    const { traceEvents } = JSON.parse(profile.toChromeTrace());
    const shown = { data: profile.toJSON(), events: traceEvents };
    profile.dispose();
    return shown;
  }

  stats() {
    return this.device.stats();
  }

  /** Frees the programs, but not the device. */
  release() {
    for (const loaded of Object.values(this.#loaded)) unload(loaded);
    this.#loaded = {};
  }

  /**
   * @template T
   * @param {Picture} picture
   * @param {Filter[]} chain
   * @param {(outputs: Tensor[]) => Promise<T>} read
   */
  #filter({ pixels, width, height }, chain, read) {
    const make = () => image.program(this.device, width, height, chain);
    const loaded = this.#load("image", JSON.stringify([width, height, chain]), make);
    loaded.input = this.device.tensor(new Uint32Array(pixels.buffer), [height, width]);
    return withOutputs(loaded, read);
  }

  /**
   * Returns the program of this kind and key. It is made again unless it was the last one of its kind.
   * @param {"image" | "attention"} kind
   * @param {string} key
   * @param {() => Program} make
   * @returns {Loaded}
   */
  #load(kind, key, make) {
    const last = this.#loaded[kind];
    if (last?.key === key) {
      last.input?.dispose();
      return last;
    }
    if (last) unload(last);
    this.#loaded[kind] = undefined;
    const loaded = { key, program: make() };
    this.#loaded[kind] = loaded;
    return loaded;
  }
}

/**
 * Runs a program, and disposes of its outputs after they are read.
 * @template T
 * @param {Loaded} loaded
 * @param {(outputs: Tensor[]) => Promise<T>} read
 */
async function withOutputs({ program, input }, read) {
  if (!input) throw new Error("the program has no input yet");
  const outputs = program.run(input);
  try {
    return await read(outputs);
  } finally {
    for (const output of outputs) output.dispose();
  }
}

/** @param {Loaded | undefined} loaded */
function unload(loaded) {
  loaded?.input?.dispose();
  loaded?.program.dispose();
}

/** @param {ArrayLike<number> & { buffer: ArrayBufferLike }} packed */
const asPixels = (packed) => new Uint8ClampedArray(/** @type {ArrayBuffer} */ (packed.buffer));
