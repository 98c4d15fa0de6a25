// The demo's filters. A picture of packed pixels passes through a chain of filters and is packed again.
//
// `native/src/cli/demo/image.rs` has the same filters with the same names.

/**
 * @import { Device, Program, Tensor } from "../dist/nn.js"
 * @typedef {keyof typeof filters} FilterName
 * @typedef {{ name: FilterName, strength: number }} Filter
 */

/** The title of each filter, and its strength: default, minimum, maximum and step. */
export const filters = {
  grayscale: { title: "Grayscale" },
  brightness: { title: "Brightness", strength: [0.1, -0.5, 0.5, 0.01] },
  gamma: { title: "Gamma", strength: [0.8, 0.4, 2.5, 0.05] },
  contrast: { title: "Contrast", strength: [6, 1, 12, 0.25] },
  invert: { title: "Invert" },
  blur: { title: "Blur", strength: [3, 1, 8, 1], unit: "px" },
  sharpen: { title: "Sharpen", strength: [1, 0, 4, 0.1] },
  "sobel-x": { title: "Sobel across", strength: [1, 0.25, 4, 0.05] },
  "sobel-y": { title: "Sobel down", strength: [1, 0.25, 4, 0.05] },
  edges: { title: "Edges", strength: [3, 0.5, 8, 0.1] },
  emboss: { title: "Emboss", strength: [1, 0.25, 4, 0.05] },
};

/** The chain of the fixed workload: a colored pencil drawing. @type {Filter[]} */
export const usual = [
  { name: "gamma", strength: 0.8 },
  { name: "blur", strength: 1 },
  { name: "edges", strength: 4 },
  { name: "invert", strength: 0 },
  { name: "contrast", strength: 4 },
];

/** Every filter at its default strength. @type {Filter[]} */
export const all = names().map((name) => ({ name, strength: usualStrength(name) }));

/** Returns the filters' names. */
export function names() {
  return /** @type {FilterName[]} */ (Object.keys(filters));
}

/** @param {FilterName} name */
export function usualStrength(name) {
  const filter = filters[name];
  return "strength" in filter ? filter.strength[0] : 0;
}

/**
 * Compiles a program from packed pixels, `u32 [height, width]` with red in the lowest byte. Its results are packed pixels of
 * the same shape, and the image as `f32 [1, 3, height, width]` from 0 to 1.
 *
 * Intermediate tensors of the closure hold no data, so they are left to the garbage collector.
 * @param {Device} device
 * @param {number} width
 * @param {number} height
 * @param {Filter[]} chain
 * @returns {Program}
 */
export function program(device, width, height, chain) {
  return device.compile([{ shape: [height, width], dtype: "u32" }], (pixels) => {
    /** @type {Tensor} */
    let image = unpack(pixels);
    for (const { name, strength } of chain) image = apply[name](image, strength);
    image = image.clamp(0, 1);
    return [pack(image), image];
  });
}

/**
 * Unpacks pixels: `[height, width] -> [1, 3, height, width]`, from 0 to 1.
 * @param {Tensor} pixels
 */
function unpack(pixels) {
  const shifts = pixels.device.tensor(Uint32Array.of(0, 8, 16), [1, 3, 1, 1]);
  const bytes = pixels.reshape([1, 1, ...pixels.shape]).bitwiseRightShift(shifts).bitwiseAnd(255);
  return bytes.cast("f32").div(255);
}

/**
 * Packs pixels: the inverse of `unpack`, with full opacity.
 * @param {Tensor} image
 */
function pack(image) {
  const shifts = image.device.tensor(Uint32Array.of(0, 8, 16), [1, 3, 1, 1]);
  return image.mul(255).add(0.5).cast("u32").bitwiseLeftShift(shifts).sum([0, 1]).add(0xff000000);
}

/** @type {Record<FilterName, (x: Tensor, strength: number) => Tensor>} */
const apply = {
  grayscale: (x) => {
    const weight = x.device.tensor(Float32Array.of(0.299, 0.587, 0.114), [1, 3, 1, 1]);
    return x.mul(weight).sum(1, { keepdim: true }).expand([...x.shape]);
  },
  brightness: (x, strength) => x.add(strength),
  // Keeps away from 0, where powers below 1 have an infinite slope.
  gamma: (x, strength) => x.clamp(1e-4, 1).pow(strength),
  contrast: (x, strength) => {
    const low = 1 / (1 + Math.exp(strength / 2));
    return x.sub(0.5).mul(strength).sigmoid().sub(low).div(1 - 2 * low);
  },
  invert: (x) => x.neg().add(1),
  blur: (x, strength) => {
    const row = binomials(strength);
    return convolve(convolve(x, row, 1, row.length), row, row.length, 1);
  },
  sharpen: (x, strength) => x.add(convolve(x, [0, -1, 0, -1, 4, -1, 0, -1, 0], 3, 3).mul(strength)),
  "sobel-x": (x, strength) => sobelX(x).mul(strength).add(0.5),
  "sobel-y": (x, strength) => sobelY(x).mul(strength).add(0.5),
  edges: (x, strength) => sobelX(x).hypot(sobelY(x)).mul(strength),
  emboss: (x, strength) => convolve(x, [-1, -0.5, 0, -0.5, 0, 0.5, 0, 0.5, 1], 3, 3).mul(strength).add(0.5),
};

/** @param {Tensor} x */
const sobelX = (x) => convolve(x, [-0.25, 0, 0.25, -0.5, 0, 0.5, -0.25, 0, 0.25], 3, 3);
/** @param {Tensor} x */
const sobelY = (x) => convolve(x, [-0.25, -0.5, -0.25, 0, 0, 0, 0.25, 0.5, 0.25], 3, 3);

/**
 * Returns the row of Pascal's triangle with 2r + 1 numbers, scaled to sum 1. It approximates a Gaussian, and is exact in f32.
 * @param {number} radius
 */
function binomials(radius) {
  let row = [1];
  for (let i = 0; i < 2 * radius; i++) row = [...row, 0].map((value, j) => (value + (row[j - 1] ?? 0)) / 2);
  return row;
}

/**
 * Convolves each channel with a kernel of `rows` by `columns`. The edge pixels are repeated beyond the edges.
 * @param {Tensor} x
 * @param {number[]} kernel
 * @param {number} rows
 * @param {number} columns
 */
function convolve(x, kernel, rows, columns) {
  const extended = extend(extend(x, 2, (rows - 1) / 2), 3, (columns - 1) / 2);
  const weight = x.device.tensor(Float32Array.from([...kernel, ...kernel, ...kernel]), [3, 1, rows, columns]);
  return extended.conv2d(weight, { groups: 3 });
}

/**
 * @param {Tensor} x
 * @param {number} axis
 * @param {number} by
 */
function extend(x, axis, by) {
  if (by === 0) return x;
  const length = x.shape[axis];
  const along = x.device.iota([length + 2 * by], 0);
  return x.indexSelect(axis, along.sub(by).clamp(0, length - 1));
}
