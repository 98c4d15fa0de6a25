// The cases in float64 and plain JavaScript, at sampled elements: what every library's results are checked against. Losses
// of trainings are PyTorch's, by `training.py`.

import { sizeOf } from "./cases.js";
import training from "./training.json" with { type: "json" };

/** How far a value may lie from the reference, in parts of the largest one looked at: sums are taken in float32. */
export const near = 1e-3;

const sampled = 64;

/** Elements that are looked at: the first, the last, and others all over. */
function samples({ output }) {
  const size = sizeOf(output);
  const spread = Array.from({ length: sampled }, (_, i) => Math.floor(((i * 0.6180339887 + 0.37) % 1) * size));
  return [...new Set([0, size - 1, ...spread])];
}

const sumOf = (count, term) => {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += term(i);
  return sum;
};

/** `[rows, inner] x [inner, columns]`, whole. */
function product(a, b, rows, inner, columns) {
  const result = new Float64Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let k = 0; k < inner; k++) {
      const factor = a[i * inner + k];
      for (let j = 0; j < columns; j++) result[i * columns + j] += factor * b[k * columns + j];
    }
  }
  return result;
}

function softmaxRow(row) {
  const top = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const exp = Float64Array.from(row, (value) => Math.exp(value - top));
  const sum = exp.reduce((a, b) => a + b, 0);
  return exp.map((value) => value / sum);
}

function normRow(row, { weight, bias }, epsilon) {
  const mean = bias ? row.reduce((a, b) => a + b, 0) / row.length : 0;
  const square = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
  return Float64Array.from(row, (x, i) => ((x - mean) / Math.sqrt(square + epsilon)) * weight[i] + (bias ? bias[i] : 0));
}

/** One row of attention: `q [width]`, `k` and `v` as functions of position and column. */
function attend(q, k, v, keys, width) {
  const scores = Float64Array.from({ length: keys }, (_, j) => sumOf(width, (d) => q(d) * k(j, d)) / Math.sqrt(width));
  const weights = softmaxRow(scores);
  return Float64Array.from({ length: width }, (_, d) => sumOf(keys, (j) => weights[j] * v(j, d)));
}

/** By rows, each computed once. */
function byRow(columns, row) {
  const rows = new Map();
  return (index) => {
    const at = Math.floor(index / columns);
    if (!rows.has(at)) rows.set(at, row(at));
    return rows.get(at)[index % columns];
  };
}

/** Abramowitz and Stegun 7.1.26: within 1.5e-7. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** For each kind: from a case and its data to a function from an element's index to its value. */
const kinds = {
  matmul: ({ m, k, n, ta, tb }, { a, b }) => (index) => {
    const [matrix, i, j] = [Math.floor(index / (m * n)), Math.floor(index / n) % m, index % n];
    const left = (l) => a[matrix * m * k + (ta ? l * m + i : i * k + l)];
    const right = (l) => b[matrix * k * n + (tb ? j * k + l : l * n + j)];
    return sumOf(k, (l) => left(l) * right(l));
  },
  conv2d: ({ channels, size, window, stride = 1, groups = 1, filters, output }, { x, w }) => (index) => {
    const [width, depth, pad] = [output[3], channels / groups, Math.floor(window / 2)];
    const [filter, row, column] = [Math.floor(index / width ** 2), Math.floor(index / width) % width, index % width];
    const first = Math.floor(filter / (filters / groups)) * depth;
    return sumOf(depth * window * window, (i) => {
      const channel = Math.floor(i / window ** 2);
      const y = row * stride - pad + (Math.floor(i / window) % window);
      const z = column * stride - pad + (i % window);
      const inside = y >= 0 && y < size && z >= 0 && z < size;
      return inside ? x[((first + channel) * size + y) * size + z] * w[filter * depth * window ** 2 + i] : 0;
    });
  },
  attention: ({ queries, keys, width, causal }, { q, k, v }) =>
    byRow(width, (row) => {
      const head = Math.floor(row / queries);
      const seen = causal ? (row % queries) + 1 + keys - queries : keys;
      const of = (data) => (j, d) => data[(head * keys + j) * width + d];
      return attend((d) => q[row * width + d], of(k), of(v), seen, width);
    }),
  softmax: ({ columns }, { x }) => byRow(columns, (row) => softmaxRow(x.subarray(row * columns, (row + 1) * columns))),
  layernorm: ({ columns }, { x, ...rest }) =>
    byRow(columns, (row) => normRow(Float64Array.from(x.subarray(row * columns, (row + 1) * columns)), rest, 1e-5)),
  rmsnorm: ({ columns }, { x, ...rest }) =>
    byRow(columns, (row) => normRow(Float64Array.from(x.subarray(row * columns, (row + 1) * columns)), rest, 1e-6)),
  sum: ({ shape: [rows, columns], axis }, { x }) => (index) => {
    if (axis === 0) return sumOf(rows, (i) => x[i * columns + index]);
    return axis === 1 ? sumOf(columns, (j) => x[index * columns + j]) : sumOf(x.length, (i) => x[i]);
  },
  pointwise: (_, { x }) => (index) => {
    const inner = 1 / (1 + Math.exp(-Math.max(x[index] * 1.1 + 0.1, 0) * 0.5));
    return (inner - 0.25) ** 2 + 1;
  },
  permute: ({ shape, order, output }, { x }) => (index) => {
    let [from, rest] = [0, index];
    for (let axis = order.length - 1; axis >= 0; axis--) {
      from += (rest % output[axis]) * sizeOf(shape.slice(order[axis] + 1));
      rest = Math.floor(rest / output[axis]);
    }
    return x[from];
  },
  adds: ({ times }, { x, y }) => (index) => x[index] + times * y[index],
  mlp({ rows, widths }, data) {
    let values = data.x;
    for (let layer = 1; layer < widths.length; layer++) {
      const [bias, columns] = [data[`b${layer}`], widths[layer]];
      const sums = product(values, data[`w${layer}`], rows, widths[layer - 1], columns);
      const last = layer === widths.length - 1;
      values = sums.map((value, i) => (last ? value + bias[i % columns] : Math.max(value + bias[i % columns], 0)));
    }
    return (index) => values[index];
  },
  train: ({ name }) => (index) => training[name][index],
  lengths({ rows, widths: [width, wide, out] }, { x, w1, w2 }) {
    const hidden = product(x, w1, rows, width, wide).map((value) => Math.max(value, 0));
    const last = product(hidden, w2, rows, wide, out);
    return byRow(out, (row) => softmaxRow(last.subarray(row * out, (row + 1) * out)));
  },
  block({ length, width, heads, wide }, { x, g1, c1, wq, wk, wv, wo, g2, c2, w1, b1, w2, b2 }) {
    const norm = (values, weight, bias) => {
      const result = new Float64Array(values.length);
      for (let i = 0; i < length; i++) {
        const row = Float64Array.from(values.subarray(i * width, (i + 1) * width));
        result.set(normRow(row, { weight, bias }, 1e-5), i * width);
      }
      return result;
    };
    const first = norm(x, g1, c1);
    const [q, k, v] = [wq, wk, wv].map((weight) => product(first, weight, length, width, width));
    const mixed = new Float64Array(length * width);
    const size = width / heads;
    for (let i = 0; i < length; i++) {
      for (let start = 0; start < width; start += size) {
        const of = (data) => (j, d) => data[j * width + start + d];
        mixed.set(attend((d) => q[i * width + start + d], of(k), of(v), length, size), i * width + start);
      }
    }
    const middle = product(mixed, wo, length, width, width).map((value, i) => value + x[i]);
    const hidden = product(norm(middle, g2, c2), w1, length, width, wide).map((value, i) => gelu(value + b1[i % wide]));
    const last = product(hidden, w2, length, wide, width).map((value, i) => value + b2[i % width] + middle[i]);
    return (index) => last[index];
  },
  transfer: (_, { x }) => (index) => x[index] + 1,
};

/** What is wrong with a library's result; undefined where nothing is. */
export function checker(given, data) {
  const value = kinds[given.kind](given, data);
  const wanted = samples(given).map((index) => [index, value(index)]);
  const largest = Math.max(...wanted.map(([, want]) => Math.abs(want)));
  return (result) => {
    if (result.length !== sizeOf(given.output)) return `${result.length} elements instead of ${sizeOf(given.output)}`;
    // A value that is missing, or not a number, is not within any distance.
    const wrong = wanted.find(([index, want]) => !(Math.abs(result[index] - want) <= near * largest));
    return wrong && `element ${wrong[0]} is ${result[wrong[0]]} instead of ${wrong[1]}`;
  };
}
