// What is measured: for every case its shapes, its data, and which of the inputs are weights.
//
// A case names a kind; each library knows how to compute every kind, and `reference.js` computes it in float64.

/**
 * @typedef {{ shape: number[], scale?: number, classes?: number, weight?: boolean }} Input
 * @typedef {{ name: string, kind: string, what: string, inputs: Record<string, Input>, output: number[], repeat: number,
 *   heavy?: boolean } & Record<string, any>} Case
 */

/** So many steps of a training are checked, by their losses. */
export const trained = 3;

/** A layer with a bias, its weight `[outputs, ...inputs]`, within PyTorch's bound. */
function layer(name, [outputs, ...inputs]) {
  const own = { scale: 1 / Math.sqrt(sizeOf(inputs)), weight: true };
  return { [`${name}.weight`]: { shape: [outputs, ...inputs], ...own }, [`${name}.bias`]: { shape: [outputs], ...own } };
}

/** The inputs of models that are trained; parameters have PyTorch's names, order and layout. */
const models = {
  mlp: ({ rows }) => ({
    ...{ x: { shape: [rows, 784] }, y: { shape: [rows], classes: 10 } },
    ...{ ...layer("0", [512, 784]), ...layer("2", [256, 512]), ...layer("4", [10, 256]) },
  }),
  cnn: ({ rows }) => ({
    ...{ x: { shape: [rows, 1, 28, 28] }, y: { shape: [rows], classes: 10 } },
    ...{ ...layer("0", [16, 1, 3, 3]), ...layer("3", [32, 16, 3, 3]), ...layer("7", [128, 32 * 49]), ...layer("9", [10, 128]) },
  }),
  lstm({ rows, steps, width, hidden }) {
    const own = { scale: 1 / Math.sqrt(hidden), weight: true };
    const [weights, biases] = [[width, hidden].map((inputs) => [4 * hidden, inputs]), [[4 * hidden], [4 * hidden]]];
    const names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map((name) => `0.${name}_l0`);
    const cell = names.map((name, i) => [name, { shape: [...weights, ...biases][i], ...own }]);
    const data = { x: { shape: [rows, steps, width] }, y: { shape: [rows], classes: 10 } };
    return { ...data, ...Object.fromEntries(cell), ...layer("2", [10, hidden]) };
  },
  transformer({ rows, length, width, wide, layers, letters }) {
    const row = { shape: [width], weight: true };
    const projections = (name) => {
      const { [`${name}.weight`]: weight, [`${name}.bias`]: bias } = layer(name, [3 * width, width]);
      return { [`${name}_weight`]: weight, [`${name}_bias`]: bias };
    };
    const block = (name) => ({
      ...{ ...projections(`${name}.self_attn.in_proj`), ...layer(`${name}.self_attn.out_proj`, [width, width]) },
      ...{ ...layer(`${name}.linear1`, [wide, width]), ...layer(`${name}.linear2`, [width, wide]) },
      ...Object.fromEntries([1, 2].flatMap((n) => ["weight", "bias"].map((part) => [`${name}.norm${n}.${part}`, row]))),
    });
    const blocks = Array.from({ length: layers }, (_, i) => block(`${i + 1}`));
    return {
      ...{ x: { shape: [rows, length], classes: letters }, y: { shape: [rows * length], classes: letters } },
      ...{ "0.weight": { shape: [letters, width], weight: true } },
      ...Object.assign({}, ...blocks, layer(`${layers + 1}`, [letters, width])),
    };
  },
};

/** What each kind takes and gives; parameters are the case's. */
const kinds = {
  matmul({ m, k, n, batch, ta, tb }) {
    const lead = batch ? [batch] : [];
    const inputs = { a: { shape: [...lead, ...(ta ? [k, m] : [m, k])] }, b: { shape: [...lead, ...(tb ? [n, k] : [k, n])] } };
    return { inputs, output: [...lead, m, n] };
  },
  conv2d({ channels, size, filters, window, stride = 1, groups = 1 }) {
    const out = Math.floor((size + 2 * Math.floor(window / 2) - window) / stride) + 1;
    const w = { shape: [filters, channels / groups, window, window], weight: true };
    return { inputs: { x: { shape: [1, channels, size, size] }, w }, output: [1, filters, out, out] };
  },
  attention({ heads, queries, keys, width }) {
    const [q, other] = [queries, keys].map((length) => ({ shape: [1, heads, length, width] }));
    return { inputs: { q, k: other, v: other }, output: q.shape };
  },
  softmax: ({ rows, columns }) => ({ inputs: { x: { shape: [rows, columns], scale: 4 } }, output: [rows, columns] }),
  layernorm({ rows, columns }) {
    const row = { shape: [columns], weight: true };
    return { inputs: { x: { shape: [rows, columns] }, weight: row, bias: row }, output: [rows, columns] };
  },
  rmsnorm({ rows, columns }) {
    const weight = { shape: [columns], weight: true };
    return { inputs: { x: { shape: [rows, columns] }, weight }, output: [rows, columns] };
  },
  sum({ shape, axis }) {
    return { inputs: { x: { shape } }, output: axis === undefined ? [] : shape.filter((_, i) => i !== axis) };
  },
  pointwise: ({ count }) => ({ inputs: { x: { shape: [count] } }, output: [count] }),
  permute: ({ shape, order }) => ({ inputs: { x: { shape } }, output: order.map((axis) => shape[axis]) }),
  adds: ({ count }) => ({ inputs: { x: { shape: [count] }, y: { shape: [count] } }, output: [count] }),
  mlp({ rows, widths }) {
    const inputs = { x: { shape: [rows, widths[0]] } };
    for (let i = 1; i < widths.length; i++) {
      inputs[`w${i}`] = { shape: [widths[i - 1], widths[i]], scale: 1 / Math.sqrt(widths[i - 1]), weight: true };
      inputs[`b${i}`] = { shape: [widths[i]], weight: true };
    }
    return { inputs, output: [rows, widths.at(-1)] };
  },
  block({ length, width, wide }) {
    const matrix = (rows, columns) => ({ shape: [rows, columns], scale: 1 / Math.sqrt(rows), weight: true });
    const row = (columns) => ({ shape: [columns], weight: true });
    const projections = Object.fromEntries(["wq", "wk", "wv", "wo"].map((name) => [name, matrix(width, width)]));
    const inputs = { x: { shape: [length, width] }, g1: row(width), c1: row(width), ...projections };
    const rest = { g2: row(width), c2: row(width), w1: matrix(width, wide), b1: row(wide), w2: matrix(wide, width) };
    return { inputs: { ...inputs, ...rest, b2: row(width) }, output: [length, width] };
  },
  lengths({ rows, longest, widths: [width, wide, out] }) {
    const w1 = { shape: [width, wide], scale: 1 / Math.sqrt(width), weight: true };
    const w2 = { shape: [wide, out], scale: 1 / Math.sqrt(wide), weight: true };
    return { inputs: { x: { shape: [longest, width] }, w1, w2 }, output: [rows, out] };
  },
  train: ({ model, ...parameters }) => ({ inputs: models[model](parameters), output: [trained] }),
  transfer: ({ count }) => ({ inputs: { x: { shape: [count] } }, output: [count] }),
};

/** @returns {Case} */
const make = (name, kind, what, parameters) => ({ name, kind, what, repeat: 1, ...parameters, ...kinds[kind](parameters) });

const square = (n, more) => make(`matmul-${n}`, "matmul", `${n} x ${n} x ${n}`, { m: n, k: n, n, ...more });
const product = (name, what, parameters) => make(`matmul-${name}`, "matmul", what, parameters);
const conv = (name, what, parameters) => make(`conv-${name}`, "conv2d", what, parameters);
const attention = (name, what, parameters) =>
  make(`attention-${name}`, "attention", what, { heads: 8, queries: 512, keys: 512, width: 64, ...parameters });
const half = { m: 512, k: 512, n: 512 };
const table = [4096, 1024];
const rows = [
  ["4096x1024", 4096, 1024],
  ["64x32768", 64, 32768],
  ["1x1M", 1, 1 << 20],
];
const overRows = (kind, title) =>
  rows.map(([size, count, columns]) => make(`${kind}-${size}`, kind, `${title} of ${size}`, { rows: count, columns }));

/** `repeat` is how often a case is computed before the read that ends a run, where once would be too short to time. */
export const cases = [
  square(256, { repeat: 4 }),
  square(512),
  square(1024),
  square(2048, { heavy: true }),
  product("1x4096x4096", "a row by 4096 x 4096", { m: 1, k: 4096, n: 4096 }),
  product("16x4096x4096", "16 rows by 4096 x 4096", { m: 16, k: 4096, n: 4096 }),
  product("16x256", "16 products of 256 x 256", { m: 256, k: 256, n: 256, batch: 16 }),
  product("ta", "512, left one transposed", { ...half, ta: true }),
  product("tb", "512, right one transposed", { ...half, tb: true }),
  product("tatb", "512, both transposed", { ...half, ta: true, tb: true }),
  conv("3x3", "64 -> 64 at 56 x 56", { channels: 64, size: 56, filters: 64, window: 3 }),
  conv("1x1", "256 -> 256 at 56 x 56", { channels: 256, size: 56, filters: 256, window: 1 }),
  conv("depthwise", "3x3, 128 channels at 56 x 56", {
    ...{ channels: 128, size: 56, filters: 128, window: 3, groups: 128, repeat: 4 },
  }),
  conv("stride2", "3x3 by 2, 64 -> 128 at 56 x 56", { channels: 64, size: 56, filters: 128, window: 3, stride: 2 }),
  conv("7x7", "7x7 by 2, 3 -> 64 at 224 x 224", { channels: 3, size: 224, filters: 64, window: 7, stride: 2 }),
  attention("512", "8 heads, 512 long, 64 wide", {}),
  attention("causal", "the same, causal", { causal: true }),
  attention("wide", "8 heads, 512 long, 128 wide", { width: 128 }),
  attention("decode", "1 query, 2048 keys, 8 heads, 64 wide", { queries: 1, keys: 2048, repeat: 4 }),
  attention("2048", "8 heads, 2048 long, 64 wide", { queries: 2048, keys: 2048, heavy: true }),
  ...overRows("softmax", "softmax"),
  ...overRows("layernorm", "layer norm"),
  ...overRows("rmsnorm", "RMS norm"),
  make("sum-0", "sum", "over the rows of 4096x1024", { shape: table, axis: 0 }),
  make("sum-1", "sum", "over the columns of 4096x1024", { shape: table, axis: 1 }),
  make("sum-all", "sum", "over all of 4096x1024", { shape: table }),
  make("pointwise-8", "pointwise", "8 operations on 4M", { count: 1 << 22 }),
  make("transpose", "permute", "4096x1024", { shape: table, order: [1, 0] }),
  make("permute", "permute", "[64,128,512] by [2,0,1]", { shape: [64, 128, 512], order: [2, 0, 1] }),
  make("adds-1", "adds", "one addition of 16 floats and the read of one", { count: 16, times: 1 }),
  make("adds-200", "adds", "200 dependent adds of 16 floats, each its own call", { count: 16, times: 200 }),
  make("mlp", "mlp", "64x784 -> 512 -> 512 -> 10, relu", { rows: 64, widths: [784, 512, 512, 10], repeat: 4 }),
  make("block", "block", "transformer block, 128 long, 256 wide", { length: 128, width: 256, heads: 4, wide: 1024 }),
  make("lengths", "lengths", "softmax(relu(x w1) w2), n x 256 -> 512 -> 64, another n in each run", {
    ...{ rows: 64, longest: 256, widths: [256, 512, 64] },
  }),
  make("train-mlp-64", "train", "a step of Adam, 64 of 784 -> 512 -> 256 -> 10", { model: "mlp", rows: 64 }),
  make("train-mlp-512", "train", "the same of 512", { model: "mlp", rows: 512 }),
  make("train-cnn", "train", "two convolutions, two dense layers, 64 of 28 x 28", { model: "cnn", rows: 64 }),
  make("train-lstm", "train", "an LSTM of 128 over 100 steps, 32 examples", {
    ...{ model: "lstm", rows: 32, steps: 100, width: 64, hidden: 128 },
  }),
  make("train-transformer", "train", "4 layers, 256 wide, 128 tokens, 8 examples", {
    ...{ model: "transformer", rows: 8, length: 128, width: 256, heads: 4, wide: 1024, layers: 4, letters: 256, heavy: true },
  }),
  make("transfer", "transfer", "64 MB there, + 1, and back", { count: 1 << 24 }),
];

/** The inputs of a case: the same numbers in every run and every browser (Steele's and Vigna's splitmix, 32 bits). */
export function dataOf({ name, inputs }) {
  let state = [...name].reduce((hash, letter) => (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0, 7);
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return ((z ^ (z >>> 15)) >>> 8) / (1 << 23) - 1;
  };
  const fill = ({ shape, scale = 1, classes }) => {
    const values = new (classes ? Int32Array : Float32Array)(sizeOf(shape));
    for (let i = 0; i < values.length; i++) values[i] = classes ? ((next() + 1) / 2) * classes : next() * scale;
    return values;
  };
  return Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, fill(input)]));
}

/** The numbers of Adam, as its authors have them. */
export const adam = { lr: 1e-3, b1: 0.9, b2: 0.999, eps: 1e-8 };

/** The names of what a training learns. */
export const parametersOf = ({ inputs }) => Object.keys(inputs).filter((name) => inputs[name].weight);

/** The inputs of a case of lengths one after the other, as `{ shape, values }`: first as many rows as its result has. */
export function inputsOfLengths({ rows, longest, widths: [width] }, { x }) {
  let count = 0;
  return () => {
    const length = rows + ((count++ * 37) % (longest - rows));
    return { shape: [length, width], values: x.subarray(0, length * width) };
  };
}

export function sizeOf(shape) {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Data in another layout: axis i of the result is axis `order[i]`. */
export function permuted(data, shape, order) {
  const strides = shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
  const result = new Float32Array(data.length);
  const count = order.map((axis) => shape[axis]);
  const at = order.map(() => 0);
  let from = 0;
  for (let i = 0; i < result.length; i++) {
    result[i] = data[from];
    for (let axis = order.length - 1; axis >= 0; axis--) {
      from += strides[order[axis]];
      if (++at[axis] < count[axis]) break;
      from -= strides[order[axis]] * count[axis];
      at[axis] = 0;
    }
  }
  return result;
}
