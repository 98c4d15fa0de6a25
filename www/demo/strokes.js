// Synthetic handwritten digits: images of 8 x 8 with labels, drawn with strokes, by a seed.

import { randoms } from "./points.js";

/**
 * @typedef {[x: number, y: number]} Point in a square from 0 to 1, from the top left.
 * @typedef {{ pixels: Float32Array, digits: Int32Array }} Images of 64 numbers each, from 0 (paper) to 1 (ink), and their
 * labels.
 * @typedef {{ slant: number, noise: number }} Look the largest slant of digits in degrees, and the fraction of the
 * bitmap's dots that are inverted.
 */

/** The dots in a row of the bitmap, and in a row of the block that one number counts. */
const [side, block] = [32, 4];

/**
 * Returns an arc of an ellipse, between two turns that count clockwise from the top.
 * @param {number} x @param {number} y @param {number} wide @param {number} high @param {number} from @param {number} to
 * @returns {Point[]}
 */
function arc(x, y, wide, high, from = 0, to = 1) {
  const count = Math.ceil(16 * Math.abs(to - from));
  return Array.from({ length: count + 1 }, (_, n) => {
    const angle = 2 * Math.PI * (from + ((to - from) * n) / count);
    return [x + wide * Math.sin(angle), y - high * Math.cos(angle)];
  });
}

/** The ways to draw each digit: strokes, which are lists of points. @type {Point[][][][]} */
const ways = [
  [[arc(0.5, 0.5, 0.32, 0.5)]],
  [
    [[[0.28, 0.32], [0.55, 0], [0.55, 1]]],
    [[[0.5, 0], [0.5, 1]]],
    [[[0.3, 0.3], [0.52, 0], [0.52, 1]], [[0.28, 1], [0.78, 1]]],
  ],
  [
    [[...arc(0.5, 0.27, 0.28, 0.27, -0.22, 0.33), [0.2, 1], [0.85, 1]]],
    [[...arc(0.5, 0.27, 0.28, 0.27, -0.22, 0.36), ...arc(0.32, 0.86, 0.14, 0.12, 0.6, 1.25), [0.85, 1]]],
  ],
  [
    [[...arc(0.45, 0.25, 0.28, 0.25, -0.18, 0.5), ...arc(0.45, 0.75, 0.32, 0.25, 0, 0.7)]],
    [[[0.2, 0.02], [0.75, 0.02], [0.45, 0.42], ...arc(0.45, 0.71, 0.32, 0.29, 0.04, 0.68)]],
  ],
  [
    [[[0.5, 0], [0.15, 0.62], [0.88, 0.62]], [[0.64, 0.32], [0.6, 1]]],
    [[[0.6, 1], [0.6, 0], [0.15, 0.65], [0.88, 0.65]]],
    [[[0.22, 0], [0.18, 0.5], [0.78, 0.5]], [[0.78, 0], [0.72, 1]]],
  ],
  [
    [[[0.3, 0], [0.25, 0.45], ...arc(0.46, 0.68, 0.32, 0.32, -0.08, 0.66)], [[0.3, 0], [0.8, 0]]],
  ],
  [
    [[...arc(0.72, 0.7, 0.5, 0.7, -0.02, -0.25), ...arc(0.5, 0.72, 0.28, 0.28, -0.25, -1.3)]],
    [[[0.4, 0], [0.25, 0.5], ...arc(0.5, 0.72, 0.28, 0.28, -0.25, -1.2)]],
  ],
  [
    [[[0.2, 0.03], [0.8, 0.03], [0.4, 1]]],
    [[[0.2, 0.03], [0.78, 0.03], [0.4, 1]], [[0.25, 0.52], [0.8, 0.48]]],
  ],
  [[[...arc(0.5, 0.75, 0.28, 0.25, 0, -1), ...arc(0.5, 0.25, 0.24, 0.25, 0.5, 1.5)]]],
  [
    [[...arc(0.48, 0.27, 0.27, 0.27, 0.25, -0.75), [0.72, 1]]],
    [[...arc(0.48, 0.27, 0.27, 0.27, 0.2, -0.75), ...arc(0.35, 0.5, 0.4, 0.5, 0.25, 0.55)]],
  ],
];

/**
 * Draws `count` images of the ten digits in turn. With the same seed, another look keeps the same handwriting.
 * @param {number} count
 * @param {number} seed
 * @param {Look} look
 * @returns {Images}
 */
export function drawings(count, seed, { slant, noise }) {
  const random = randoms(seed);
  // A separate generator, so that the noise does not change how images are drawn.
  const chance = randoms(~seed);
  /** Returns the number of unchanged dots before the next changed dot. */
  const stay = () => (noise > 0 ? Math.trunc(Math.log(1 - chance()) / Math.log(1 - noise)) : Infinity);
  const pixels = new Float32Array(64 * count);
  const bitmap = new Float32Array(side * side);
  for (let n = 0; n < count; n++) {
    bitmap.fill(0);
    paint(bitmap, hand(n % 10, slant, random), 1.6 + 1.3 * random());
    for (let dot = stay(); dot < bitmap.length; dot += 1 + stay()) bitmap[dot] = 1 - bitmap[dot];
    tally(bitmap, pixels.subarray(64 * n, 64 * (n + 1)));
  }
  return { pixels, digits: Int32Array.from({ length: count }, (_, n) => n % 10) };
}

/**
 * Returns the strokes of a digit with random variations, at their places in the bitmap.
 * @param {number} digit
 * @param {number} slant
 * @param {() => number} random
 */
function hand(digit, slant, random) {
  const way = ways[digit][Math.trunc(ways[digit].length * random())];
  const between = (/** @type {number} */ low, /** @type {number} */ high) => low + (high - low) * random();
  const lean = Math.tan((Math.PI / 180) * slant * between(-1, 1));
  const width = between(0.75, 1.05);
  // The error of the hand is a smooth function, so strokes that meet still meet.
  const error = () => {
    const [most, u, v, phase] = [between(0.01, 0.05), between(2, 6), between(2, 6), between(0, 7)];
    return (/** @type {number} */ x, /** @type {number} */ y) => most * Math.sin(u * x + v * y + phase);
  };
  const [right, down] = [error(), error()];
  const strokes = way.map((stroke) =>
    stroke.map(([x, y]) => [width * (x + right(x, y)) + lean * (0.5 - y), y + down(x, y)]),
  );
  // The data set's digits fill their square, so these nearly do, too.
  const size = between(0.85, 1) * (side - 4);
  const ends = [0, 1].map((axis) => {
    const all = strokes.flat().map((point) => point[axis]);
    return [Math.min(...all), Math.max(...all)];
  });
  const scale = size / Math.max(...ends.map(([low, high]) => high - low));
  const middle = ends.map(([low, high]) => side / 2 + between(-1.5, 1.5) - (scale * (low + high)) / 2);
  return strokes.map((stroke) => stroke.map((point) => point.map((at, axis) => middle[axis] + scale * at)));
}

/**
 * Inks the dots near the strokes. The amount depends on the distance.
 * @param {Float32Array} bitmap
 * @param {number[][][]} strokes
 * @param {number} radius of the pen.
 */
function paint(bitmap, strokes, radius) {
  const reach = radius + 0.5;
  const first = (/** @type {number} */ a, /** @type {number} */ b) => Math.max(0, Math.ceil(Math.min(a, b) - reach - 0.5));
  const end = (/** @type {number} */ a, /** @type {number} */ b) => Math.min(side, Math.ceil(Math.max(a, b) + reach - 0.5));
  for (const stroke of strokes) {
    for (let n = 1; n < stroke.length; n++) {
      const [[x, y], [toX, toY]] = [stroke[n - 1], stroke[n]];
      const [wide, high] = [toX - x, toY - y];
      const square = wide * wide + high * high || 1;
      for (let row = first(y, toY), under = end(y, toY); row < under; row++) {
        for (let column = first(x, toX), beside = end(x, toX); column < beside; column++) {
          const u = column + 0.5 - x;
          const v = row + 0.5 - y;
          const t = Math.max(0, Math.min(1, (u * wide + v * high) / square));
          // `Math.hypot` takes several times as long.
          const ink = Math.min(1, reach - Math.sqrt((u - t * wide) ** 2 + (v - t * high) ** 2));
          const dot = side * row + column;
          if (ink > bitmap[dot]) bitmap[dot] = ink;
        }
      }
    }
  }
}

/**
 * Counts the ink of each block of 4 x 4 dots, in sixteenths, as in the data set.
 * @param {Float32Array} bitmap
 * @param {Float32Array} numbers
 */
function tally(bitmap, numbers) {
  for (let dot = 0; dot < bitmap.length; dot++) {
    numbers[8 * Math.trunc(dot / side / block) + Math.trunc((dot % side) / block)] += bitmap[dot];
  }
  for (let n = 0; n < numbers.length; n++) numbers[n] = Math.round(numbers[n]) / block ** 2;
}
