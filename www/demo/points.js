// Points of two classes, in the plane from -2 to 2.

/**
 * @typedef {[x: number, y: number, label: 0 | 1]} Point
 * @typedef {keyof typeof shapes} ShapeName
 */

/** Half the width of the plane. */
export const reach = 2;

/**
 * The shapes. `at` returns the position of a point of a class without noise, for `t` from 0 to 1. `noise` is the recommended
 * deviation.
 * @type {Record<string, { noise: number, at: (t: number, label: 0 | 1, random: () => number) => [number, number] }>}
 */
export const shapes = {
  moons: {
    noise: 0.13,
    at(t, label) {
      const [x, y] = [Math.cos(Math.PI * t), Math.sin(Math.PI * t)];
      return label ? [1.05 * (0.5 - x), 1.05 * (0.25 - y)] : [1.05 * (x - 0.5), 1.05 * (y - 0.25)];
    },
  },
  circles: {
    noise: 0.12,
    at(t, label) {
      const [radius, angle] = [label ? 0.6 : 1.5, 2 * Math.PI * t];
      return [radius * Math.cos(angle), radius * Math.sin(angle)];
    },
  },
  spirals: {
    noise: 0.05,
    at(t, label) {
      const [radius, angle] = [0.15 + 1.65 * t, 1.75 * 2 * Math.PI * t + label * Math.PI];
      return [radius * Math.sin(angle), radius * Math.cos(angle)];
    },
  },
  corners: {
    noise: 0.05,
    at(_, label, random) {
      const [x, y] = [0.15 + 1.5 * random(), 0.15 + 1.5 * random()];
      const side = random() < 0.5 ? 1 : -1;
      return [side * x, (label ? -side : side) * y];
    },
  },
};

/**
 * Returns `count` points of a shape, by a seed.
 * @param {string} name
 * @param {number} count
 * @param {number} seed
 * @returns {Point[]}
 */
export function points(name, count, seed) {
  const { noise, at } = shapes[name];
  const random = randoms(seed);
  // The sum of six uniform numbers from -1 to 1 is nearly normal, with variance 2.
  const normal = () => Array.from({ length: 6 }, () => 2 * random() - 1).reduce((sum, x) => sum + x) / Math.SQRT2;
  return Array.from({ length: count }, (_, n) => {
    const label = /** @type {0 | 1} */ (n % 2);
    const [x, y] = at(random(), label, random);
    return [x + noise * normal(), y + noise * normal(), label];
  });
}

/**
 * Returns a generator of numbers from 0 to 1, by a seed (Mulberry32).
 * @param {number} seed
 */
export function randoms(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
