// Weights files of the text page's net, made here or by `warpweft train chars`.

/**
 * @import { Device, FileSource, Tensor } from "../dist/nn.js"
 * @typedef {{ characters: string, width: number, layers: number, length: number, heads: number }} Shape
 */

/**
 * Returns the architecture of a net, as `warpweft train chars` writes it into its files.
 * @param {Shape} shape
 */
export const architecture = ({ characters, width, layers, length, heads }) => ({
  activation: "gelu",
  characters,
  dim_feedforward: 4 * width,
  heads,
  layers,
  length,
  net: "chars",
  norm_first: true,
  output: "scores of the next character at each place",
  width,
});

/**
 * Returns the bytes of a weights file.
 * @param {Device} device
 * @param {Record<string, Tensor>} weights
 * @param {Shape} shape
 */
export const pack = (device, weights, shape) =>
  device.saveSafetensors(weights, { architecture: JSON.stringify(architecture(shape)) });

/**
 * Reads a file, calls `make` with its tensors, and disposes of them. Throws an error in a sentence for a damaged file, or for a
 * net that does not fit the page.
 * @template T
 * @param {Device} device
 * @param {FileSource} source
 * @param {Pick<Shape, "characters" | "length" | "heads"> & { widths: number[], depths: number[] }} offer
 * @param {(tensors: Record<string, Tensor>, size: { width: number, layers: number }) => T} make
 * @returns {Promise<T>}
 */
export async function unpack(device, source, offer, make) {
  const { tensors, metadata } = await device.loadSafetensors(source).catch((error) => {
    throw new Error(`These weights could not be loaded. ${error.message}`);
  });
  try {
    return make(tensors, sizeOf(metadata.architecture, offer));
  } finally {
    for (const tensor of Object.values(tensors)) tensor.dispose();
  }
}

/** Returns the width and the layers in a file's note. Throws if the page does not have such a net. */
function sizeOf(note, { characters, length, heads, widths, depths }) {
  const found = parsed(note);
  if (typeof found?.net !== "string") throw new Error("This file does not say which network its weights are for.");
  if (found.net !== "chars") throw new Error(`These weights are for another network: ${found.net}.`);
  if (found.characters !== characters) {
    const [theirs, ours] = [[...`${found.characters}`].length, [...characters].length];
    const but = theirs === ours ? ", and they differ" : "";
    const text = `that text has ${theirs} different characters, and this one has ${ours}${but}`;
    throw new Error(`These weights are for another text: ${text}.`);
  }
  const { width, layers } = found;
  /** @type {Record<string, unknown>} */
  const wanted = architecture({ characters, width, layers, length, heads });
  const offered = { width: widths.includes(width), layers: depths.includes(layers) };
  const names = [...Object.keys(offered), ...Object.keys(wanted)];
  const other = names.find((name) => offered[name] === false || found[name] !== wanted[name]);
  if (other) throw new Error(`This page has no network of this size: ${other} ${found[other]}.`);
  return { width, layers };
}

/** @param {string | undefined} note */
function parsed(note) {
  try {
    return JSON.parse(note ?? "null");
  } catch {
    return undefined;
  }
}
