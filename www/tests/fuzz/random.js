// Random numbers that depend only on a seed, so that each program of the fuzz can be repeated: choices (Tommy Ettinger's
// mulberry32), and values of tensors with two decimals, which people can read.

/** Returns choices that depend only on the seed. */
export function chance(seed) {
  let state = seed | 0;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count) => Math.floor(next() * count);
  return {
    next,
    below,
    one: (list) => list[below(list.length)],
    /** Returns true with a probability of 1 / `count`. */
    once: (count) => below(count) === 0,
    /** Returns a key of an object. The values are the weights. */
    weighted(weights) {
      const entries = Object.entries(weights).filter(([, weight]) => weight > 0);
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [key, weight] of entries) if ((left -= weight) < 0) return key;
      return entries.at(-1)?.[0];
    },
  };
}

/** Returns values from -1 to 1 with two decimals, none of them close to 0. */
export function numbers(seed, count, scale = 1) {
  const random = chance(seed);
  return Array.from({ length: count }, () => {
    const size = 0.1 + 0.9 * random.next();
    return (Math.round(100 * size * scale) / 100) * (random.once(2) ? 1 : -1);
  });
}

/** Returns the number of elements of a shape. */
export const count = (shape) => shape.reduce((product, extent) => product * extent, 1);
