// A tape of float64 numbers: the meaning of tensors, operations and gradients. An operation is computed at once, and records
// its operands and its gradient. Gradients consist of the same operations, so they have gradients in turn.
//
// Operations throw `Refused` if the library must report an error, and `Skip` if 32-bit numbers need not match 64-bit numbers:
// next to a kink, or far from 1.

import { count } from "./random.js";

/** The library must report an error. Its message must match the pattern, if there is one. */
export class Refused extends Error {
  constructor(why, pattern) {
    super(why);
    this.pattern = pattern;
  }
}

/** The result cannot be compared, or an operand is missing after shrinking. Both sides skip the action. */
export class Skip extends Error {}

/** The largest magnitude of numbers. Their products then fit 32 bits with room to spare. */
const MOST = 1e3;

/** The smallest distance of arguments from a kink of their function. */
const NEAR = 2e-3;

let born = 0;

/** Returns the number of values so far. Later values have higher numbers. */
export const clock = () => born;

/** A value: its operands, and the function that computes their gradients from its gradient. */
export class Value {
  constructor(shape, data, operands = [], pull = undefined) {
    this.born = ++born;
    this.shape = shape;
    this.data = data;
    this.operands = operands;
    this.pull = pull;
    for (const x of data) if (!(Math.abs(x) <= MOST)) throw new Skip(`a value of ${x}`);
  }
}

/** Returns a value that passes no gradients. */
export const constant = (shape, data) => new Value(shape, Float64Array.from(data));

const stridesOf = (shape) => shape.map((_, axis) => count(shape.slice(axis + 1)));

/** Returns the positions in an operand that each element of a broadcast result reads. */
function positions(shape, from) {
  const [strides, own] = [stridesOf(shape), stridesOf(from)];
  const skipped = shape.length - from.length;
  return Array.from({ length: count(shape) }, (_, n) => {
    let at = 0;
    shape.forEach((extent, axis) => {
      const k = axis - skipped;
      if (k >= 0 && from[k] > 1) at += (Math.floor(n / strides[axis]) % extent) * own[k];
    });
    return at;
  });
}

/** Returns the shape that two shapes broadcast to. */
function broadcast(a, b) {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const [m, n] = [a, b].map((shape) => shape[axis - rank + shape.length] ?? 1);
    if (m !== n && m !== 1 && n !== 1) throw new Refused(`shapes [${a}] and [${b}]`);
    return m === 1 ? n : m;
  });
}

const same = (a, b) => a.length === b.length && a.every((x, n) => x === b[n]);

function axisOf(x, axis) {
  const at = axis < 0 ? axis + x.shape.length : axis;
  if (!(at >= 0 && at < x.shape.length)) throw new Refused(`axis ${axis} of shape [${x.shape}]`);
  return at;
}

/** The operations. A test with a wrong reference replaces some of them. */
export const operations = {
  unary(x, of, pull) {
    return new Value(x.shape, x.data.map(of), [x], (g, y) => [pull(g, y)]);
  },

  tanh(x) {
    return this.unary(x, Math.tanh, (g, y) => this.mul(g, this.shift(this.scale(this.square(y), -1), 1)));
  },

  square(x) {
    return this.unary(x, (v) => v * v, (g) => this.scale(this.mul(g, x), 2));
  },

  relu(x) {
    if (x.data.some((v) => Math.abs(v) < NEAR)) throw new Skip("relu next to its kink");
    return this.unary(x, (v) => Math.max(v, 0), (g) => this.mul(g, constant(x.shape, x.data.map((v) => (v > 0 ? 1 : 0)))));
  },

  neg(x) {
    return this.scale(x, -1);
  },

  scale(x, by) {
    return this.unary(x, (v) => v * by, (g) => this.scale(g, by));
  },

  shift(x, by) {
    return this.unary(x, (v) => v + by, (g) => g);
  },

  /** Returns one over the square root of numbers well above 0. */
  rsqrt(x) {
    return this.unary(x, (v) => 1 / Math.sqrt(v), (g, y) => this.scale(this.mul(g, this.mul(y, this.square(y))), -0.5));
  },

  /** Returns a new value with the same numbers. The value of a variable is not the assigned tensor. */
  itself(x) {
    return this.unary(x, (v) => v, (g) => g);
  },

  detach(x) {
    return constant(x.shape, x.data);
  },

  binary(a, b, of, pull) {
    const shape = broadcast(a.shape, b.shape);
    const [p, q] = [positions(shape, a.shape), positions(shape, b.shape)];
    const data = Float64Array.from(p, (at, n) => of(a.data[at], b.data[q[n]]));
    return new Value(shape, data, [a, b], (g) => {
      const [first, second] = pull(g);
      return [this.sumTo(first, a.shape), this.sumTo(second, b.shape)];
    });
  },

  add(a, b) {
    return this.binary(a, b, (x, y) => x + y, (g) => [g, g]);
  },

  sub(a, b) {
    return this.binary(a, b, (x, y) => x - y, (g) => [g, this.neg(g)]);
  },

  mul(a, b) {
    return this.binary(a, b, (x, y) => x * y, (g) => [this.mul(g, b), this.mul(g, a)]);
  },

  /** Computes the users' element function that programs call: `x y + x / 2`. */
  element(x, y) {
    return this.add(this.mul(x, y), this.scale(x, 0.5));
  },

  expand(x, shape) {
    const data = Float64Array.from(positions(shape, x.shape), (at) => x.data[at]);
    return new Value(shape, data, [x], (g) => [this.sumTo(g, x.shape)]);
  },

  /** Sums over broadcast axes. */
  sumTo(x, shape) {
    if (same(x.shape, shape)) return x;
    const data = new Float64Array(count(shape));
    positions(x.shape, shape).forEach((at, n) => (data[at] += x.data[n]));
    return new Value(shape, data, [x], (g) => [this.expand(g, x.shape)]);
  },

  sum(x, axis) {
    // The sum of a single number is a new tensor.
    if (axis === undefined) return x.shape.length ? this.sumTo(x, []) : this.itself(x);
    const at = axisOf(x, axis);
    const kept = x.shape.map((extent, n) => (n === at ? 1 : extent));
    return this.reshape(this.sumTo(x, kept), x.shape.filter((_, n) => n !== at));
  },

  mean(x, axis) {
    const extent = axis === undefined ? count(x.shape) : x.shape[axisOf(x, axis)];
    return this.scale(this.sum(x, axis), 1 / extent);
  },

  reshape(x, shape) {
    if (count(shape) !== count(x.shape)) throw new Refused(`reshape of [${x.shape}] to [${shape}]`);
    return new Value(shape, x.data, [x], (g) => [this.reshape(g, x.shape)]);
  },

  transpose(x) {
    if (x.shape.length !== 2) throw new Refused(`transpose of [${x.shape}]`);
    const [rows, columns] = x.shape;
    const data = Float64Array.from({ length: rows * columns }, (_, n) => x.data[(n % rows) * columns + Math.floor(n / rows)]);
    return new Value([columns, rows], data, [x], (g) => [this.transpose(g)]);
  },

  matmul(a, b) {
    if (a.shape.length !== 2 || b.shape.length !== 2 || a.shape[1] !== b.shape[0]) {
      throw new Refused(`matmul of [${a.shape}] and [${b.shape}]`);
    }
    const [rows, inner, columns] = [...a.shape, b.shape[1]];
    const data = new Float64Array(rows * columns);
    for (let n = 0; n < data.length; n++) {
      const [row, column] = [Math.floor(n / columns), n % columns];
      for (let k = 0; k < inner; k++) data[n] += a.data[row * inner + k] * b.data[k * columns + column];
    }
    const pull = (g) => [this.matmul(g, this.transpose(b)), this.matmul(this.transpose(a), g)];
    return new Value([rows, columns], data, [a, b], pull);
  },

  /** Returns the positions of a slice in the whole. */
  places(shape, axis, start, extent) {
    const inner = count(shape.slice(axis + 1));
    const [part, whole] = [extent * inner, shape[axis] * inner];
    const length = count(shape.slice(0, axis)) * part;
    return Array.from({ length }, (_, n) => Math.floor(n / part) * whole + start * inner + (n % part));
  },

  slice(x, axis, start, end) {
    const at = axisOf(x, axis);
    if (!(start >= 0 && start < end && end <= x.shape[at])) throw new Refused(`slice ${start} to ${end} of [${x.shape}]`);
    const shape = x.shape.map((extent, n) => (n === at ? end - start : extent));
    const data = Float64Array.from(this.places(x.shape, at, start, end - start), (place) => x.data[place]);
    return new Value(shape, data, [x], (g) => [this.placed(g, x.shape, at, start)]);
  },

  /** Returns zeros with a slice in them: the gradient of `slice`. */
  placed(x, shape, axis, start) {
    const data = new Float64Array(count(shape));
    this.places(shape, axis, start, x.shape[axis]).forEach((place, n) => (data[place] = x.data[n]));
    return new Value(shape, data, [x], (g) => [this.slice(g, axis, start, start + x.shape[axis])]);
  },

  /** Returns the numbers of a whole with a slice replaced, as a constant. */
  replaced(whole, axis, start, part) {
    const at = axisOf(whole, axis);
    const isLike = part.shape.every((extent, n) => n === at || extent === whole.shape[n]);
    const fits = isLike && part.shape.length === whole.shape.length && start >= 0 && start + part.shape[at] <= whole.shape[at];
    if (!fits) throw new Refused(`[${part.shape}] in [${whole.shape}]`);
    const data = Float64Array.from(whole.data);
    this.places(whole.shape, at, start, part.shape[at]).forEach((place, n) => (data[place] = part.data[n]));
    return constant(whole.shape, data);
  },

  concat(list, axis) {
    const [first, ...rest] = list;
    const at = axisOf(first, axis);
    for (const { shape } of rest) {
      const fits = shape.length === first.shape.length && shape.every((extent, n) => n === at || extent === first.shape[n]);
      if (!fits) throw new Refused(`concat of [${first.shape}] and [${shape}]`);
    }
    const extents = list.map((x) => x.shape[at]);
    const shape = first.shape.map((extent, n) => (n === at ? extents.reduce((a, b) => a + b) : extent));
    const starts = extents.map((_, n) => extents.slice(0, n).reduce((a, b) => a + b, 0));
    const data = new Float64Array(count(shape));
    list.forEach((x, n) => this.places(shape, at, starts[n], extents[n]).forEach((place, k) => (data[place] = x.data[k])));
    return new Value(shape, data, list, (g) => list.map((_, n) => this.slice(g, at, starts[n], starts[n] + extents[n])));
  },
};

/** Returns a value and its whole history. Does not continue behind values for which `stop` is true. */
export function history(value, stop = () => false) {
  const seen = new Set([value]);
  for (const one of seen) if (!stop(one)) for (const operand of one.operands) seen.add(operand);
  return seen;
}

/** Returns all values on paths from a value to one of others, including these. */
export function between(value, ends) {
  const found = new Set();
  for (const one of [...history(value)].sort((a, b) => a.born - b.born)) {
    if (ends.includes(one) || one.operands.some((operand) => found.has(operand))) found.add(one);
  }
  return found;
}

/** Returns the gradients of a value, weighted by a seed, by each of others, or undefined if the value does not depend on it. */
export function gradients(ops, value, seed, wrt) {
  const needed = between(value, wrt);
  const known = new Map(needed.has(value) ? [[value, seed]] : []);
  for (const one of [...needed].sort((a, b) => b.born - a.born)) {
    const gradient = known.get(one);
    if (!gradient || !one.operands.some((operand) => needed.has(operand))) continue;
    one.pull(gradient, one).forEach((part, n) => {
      const operand = one.operands[n];
      if (!needed.has(operand)) return;
      known.set(operand, known.has(operand) ? ops.add(known.get(operand), part) : part);
    });
  }
  return wrt.map((one) => known.get(one));
}
