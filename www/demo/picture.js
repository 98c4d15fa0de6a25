// The demo's own picture: a lake in the mountains, computed with integer arithmetic only.
//
// `native/src/cli/demo/picture.rs` computes the same bytes, and `hash` proves that. All lengths are in sixteenths of a unit. The
// picture is 480 units wide and 320 high at any resolution.

const unit = 16;
const waterline = 206 * unit;

/** The resolution of the fixed workload. */
export const usual = { width: 480, height: 320 };

/**
 * Returns the picture's pixels, RGBA, row by row.
 * @param {number} width
 * @param {number} height
 * @returns {Uint8ClampedArray<ArrayBuffer>}
 */
export function picture(width, height) {
  const pixels = new Uint8ClampedArray(width * height * 4);
  const lines = skyline();
  for (let row = 0; row < height; row++) {
    const y = Math.trunc((row * 320 * unit) / height);
    for (let column = 0; column < width; column++) {
      const x = Math.trunc((column * 480 * unit) / width);
      const grain = (hash3(column, row, 99) & 7) - 3;
      const colour = boat(lines, x, y) ?? (y < waterline ? land(lines, x, y) : water(lines, x, y));
      const at = (row * width + column) * 4;
      for (let i = 0; i < 3; i++) pixels[at + i] = clamp(colour[i] + grain);
      pixels[at + 3] = 255;
    }
  }
  return pixels;
}

/**
 * Returns the 32-bit FNV-1a hash of bytes.
 * @param {ArrayLike<number>} bytes
 */
export function hash(bytes) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i], 0x01000193);
  return hash >>> 0;
}

/** @typedef {[number, number, number]} Colour */

/** @param {number} value */
const clamp = (value) => Math.max(0, Math.min(255, value));

/**
 * Interpolates from a to b for t from 0 to 256.
 * @param {number} a
 * @param {number} b
 * @param {number} t
 */
const mix = (a, b, t) => a + (((b - a) * t) >> 8);

/**
 * @param {Colour} a
 * @param {Colour} b
 * @param {number} t
 * @returns {Colour}
 */
const blend = (a, b, t) => [mix(a[0], b[0], t), mix(a[1], b[1], t), mix(a[2], b[2], t)];

/**
 * Returns 0 below `from`, 256 above `to`, and a linear value in between.
 * @param {number} value
 * @param {number} from
 * @param {number} to
 */
const ramp = (value, from, to) => Math.max(0, Math.min(256, Math.trunc(((value - from) * 256) / (to - from))));

/**
 * Returns 32 well-mixed bits of three numbers.
 * @param {number} x
 * @param {number} y
 * @param {number} seed
 */
function hash3(x, y, seed) {
  let h = Math.imul(x, 0x27d4eb2d) ^ Math.imul(y, 0x165667b1) ^ Math.imul(seed, 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 15), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/**
 * Returns smooth noise from 0 to 255, with one random value per cell of size 2^shift.
 * @param {number} x
 * @param {number} y
 * @param {number} shift
 * @param {number} seed
 */
function noise(x, y, shift, seed) {
  const mask = (1 << shift) - 1;
  const [column, row] = [x >> shift, y >> shift];
  const [s, t] = [smooth(((x & mask) << 8) >> shift), smooth(((y & mask) << 8) >> shift)];
  /** @type {(i: number, j: number) => number} */
  const corner = (i, j) => hash3(column + i, row + j, seed) & 255;
  return mix(mix(corner(0, 0), corner(1, 0), s), mix(corner(0, 1), corner(1, 1), s), t);
}

/**
 * Computes 3t^2 - 2t^3, from 0 to 256.
 * @param {number} t
 */
const smooth = (t) => (t * t * (768 - 2 * t)) >> 16;

/**
 * Returns the sum of four octaves of noise, from 0 to 255. Each octave has half the size and half the strength of the previous
 * one.
 * @param {number} x
 * @param {number} y
 * @param {number} shift
 * @param {number} seed
 */
function clouds(x, y, shift, seed) {
  let sum = 0;
  for (let i = 0; i < 4; i++) sum += noise(x, y, shift - i, seed + i) << (3 - i);
  return Math.trunc(sum / 15);
}

/**
 * The outlines as y for each x, from the top: three mountain ranges, and the pines on the shore.
 * @typedef {{ far: Int32Array, middle: Int32Array, near: Int32Array, pines: Int32Array }} Skyline
 */

/** @returns {Skyline} */
function skyline() {
  /** @type {(height: (x: number) => number) => Int32Array} */
  const along = (height) => Int32Array.from({ length: 480 * unit }, (_, x) => height(x));
  return {
    far: along((x) => 196 * unit - ((peaks(x, 11, 11) * 150 * unit) >> 8)),
    middle: along((x) => 196 * unit - ((peaks(x, 11, 25) * 100 * unit) >> 8)),
    near: along((x) => 196 * unit - ((clouds(x, 0, 10, 31) * 44 * unit) >> 8)),
    pines: along(pineTop),
  };
}

/**
 * Returns a line of sharp peaks, from 0 to 255.
 * @param {number} x
 * @param {number} shift
 * @param {number} seed
 */
function peaks(x, shift, seed) {
  let sum = 0;
  for (let i = 0; i < 5; i++) sum += (255 - Math.abs(2 * noise(x, 0, shift - i, seed + i) - 255)) << (4 - i);
  return Math.trunc(sum / 31);
}

/**
 * Returns the color above the waterline.
 * @param {Skyline} lines
 * @param {number} x
 * @param {number} y
 * @returns {Colour}
 */
function land(lines, x, y) {
  if (y > lines.pines[x]) return blend([14, 34, 34], [30, 58, 46], noise(x, y, 5, 41));
  if (y > lines.near[x]) return slope(lines.near, x, y, [38, 66, 84], [74, 108, 104], false);
  if (y > lines.middle[x]) return slope(lines.middle, x, y, [64, 84, 124], [142, 146, 166], true);
  if (y > lines.far[x]) return slope(lines.far, x, y, [118, 128, 168], [206, 190, 192], true);
  return sky(x, y);
}

/**
 * Returns the color of a mountain: spurs lit from the right, snow on the heights, mist at the foot.
 * @param {Int32Array} ridge
 * @param {number} x
 * @param {number} y
 * @param {Colour} shade
 * @param {Colour} light
 * @param {boolean} snowy
 * @returns {Colour}
 */
function slope(ridge, x, y, shade, light, snowy) {
  // Spurs run down from the peaks, and noise bends them.
  const at = x + ((clouds(x, y, 9, 51) - 128) * 2);
  /** @type {(x: number) => number} */
  const height = (x) => ridge[Math.max(0, Math.min(480 * unit - 1, x))];
  const rough = clouds(x + (y >> 1), y, 7, 55) - 128;
  const lit = clamp(120 + ((height(at + 40) - height(at - 40)) << 1) + rough);
  const snow = snowy ? ramp(118 * unit + rough * 5 - y, -40, 40) : 0;
  const cover = blend(blend(shade, [255, 255, 255], 110), [255, 250, 246], lit);
  return blend(blend(blend(shade, light, lit), cover, snow), [222, 198, 192], ramp(y, 110 * unit, 230 * unit) >> 1);
}

/**
 * @param {number} x
 * @param {number} y
 * @returns {Colour}
 */
function sky(x, y) {
  const height = ramp(y, 0, 150 * unit);
  const high = blend([44, 84, 150], [126, 164, 206], ramp(height, 0, 140));
  const clear = blend(high, [248, 206, 164], ramp(height, 140, 256));
  const [dx, dy] = [x - 356 * unit, y - 84 * unit];
  const distance = (dx * dx + dy * dy) >> 8; // In squared units.
  if (distance < 15 * 15) return [255, 246, 214];
  const glow = Math.trunc((256 * 500) / (500 + distance));
  const veil = ramp(clouds(x >> 1, y * 2, 10, 71), 118, 205);
  return blend(blend(clear, [255, 238, 226], (veil * 3) >> 2), [255, 226, 170], glow);
}

/**
 * Returns the top of the trees on the shore, as y from the top.
 * @param {number} x
 */
function pineTop(x) {
  let top = 203 * unit;
  for (const [spacing, tall, seed] of [[9, 26, 81], [14, 40, 82]]) {
    const tree = Math.trunc(x / (spacing * unit));
    for (let i = tree - 1; i <= tree + 1; i++) {
      const random = hash3(i, 0, seed) >>> 8;
      // Few trees are in the middle of the picture.
      const bare = 255 - ramp(Math.abs(i * spacing - 215), 30, 200);
      if ((random & 255) < bare) continue;
      const middle = i * spacing * unit + ((random >> 8) & 127);
      const height = (tall * unit * (128 + ((random >> 16) & 127))) >> 8;
      // Branches make the outline ragged.
      const below = Math.abs(x - middle) * 4;
      const ragged = below + ((hash3(below >> 5, i, seed) & 31) << 1);
      top = Math.min(top, 204 * unit - height + ragged);
    }
  }
  return top;
}

/**
 * Returns the color of the lake: a reflection of the land, in ripples that grow toward the viewer.
 * @param {Skyline} lines
 * @param {number} x
 * @param {number} y
 * @returns {Colour}
 */
function water(lines, x, y) {
  const depth = y - waterline;
  const ripple = noise(x >> 2, y * 2, 6, 91) - 128;
  const reach = 20 + (depth >> 3);
  const mirrored = Math.min(waterline - 1, waterline - 1 - depth + ((ripple * reach) >> 8));
  const aside = x + ((ripple * reach) >> 9);
  const seen = land(lines, Math.max(0, Math.min(480 * unit - 1, aside)), Math.max(0, mirrored));
  const glint = noise(x >> 1, y * 4, 6, 92) > 222 ? 36 : 0;
  const deep = blend(seen, [20, 52, 80], 70 + (depth >> 4));
  return [deep[0] + glint, deep[1] + glint, deep[2] + glint];
}

/**
 * Returns the color of a sailing boat with sharp edges, or of its reflection.
 * @param {Skyline} lines
 * @param {number} x
 * @param {number} y
 * @returns {Colour | undefined}
 */
function boat(lines, x, y) {
  const line = 252 * unit;
  if (y <= line) return sails(x - 150 * unit, line - y);
  const ripple = (noise(x >> 2, y * 2, 5, 93) - 128) >> 4;
  const seen = sails(x - 150 * unit + ripple * 3, y - line + ripple);
  return seen && blend(seen, water(lines, x, y), 120);
}

/**
 * Returns the color of the boat at `x` to the right of its mast and `up` above the water.
 * @param {number} x
 * @param {number} up
 * @returns {Colour | undefined}
 */
function sails(x, up) {
  const hull = up < 11 * unit && Math.abs(x) < 34 * unit + up;
  if (hull) return up > 8 * unit ? [236, 228, 212] : [134, 40, 34];
  if (Math.abs(x) < unit && up < 104 * unit) return [70, 48, 36];
  if (up < 15 * unit || up > 98 * unit) return undefined;
  const width = 98 * unit - up;
  if (x > 0 && 5 * x < 2 * width) return x * 5 > width ? [244, 240, 230] : [226, 222, 214];
  if (x < 0 && -x * 10 < 3 * width && up < 90 * unit) return [206, 74, 50];
  return undefined;
}
