// Tests every other method against plain JavaScript, on one device.

import { check, close, randoms, same, test } from "./harness.js";
import * as reference from "./reference.js";

const all = async (tensor) => [...(await tensor.read())];

test("data in and out", async ({ device, Tensor }) => {
  same([...device.tensor(3).shape], []);
  same(await device.tensor(3).item(), 3);
  same(await device.tensor(true).item(), 1);
  const nested = device.tensor([[1, 2, 3], [4, 5, 6]]);
  same([[...nested.shape], nested.dtype, nested.rank, nested.size], [[2, 3], "f32", 2, 6]);
  check((await nested.read()) instanceof Float32Array, "f32 reads as Float32Array");
  check((await device.tensor(new Int32Array([-1])).read()) instanceof Int32Array, "i32 reads as Int32Array");
  check((await device.tensor(new Uint32Array([2 ** 32 - 1])).read())[0] === 2 ** 32 - 1, "u32 reads as it was");
  const truths = await device.tensor([false, true, true]).read();
  check(truths instanceof Uint8Array, "bool reads as Uint8Array");
  same([...truths], [0, 1, 1]);
  same(await all(device.tensor([1, 0], undefined, "bool")), [1, 0]);
  same(await all(device.tensor(new Float64Array([1.5, 2]))), [1.5, 2]);
  same(await all(device.tensor(new Float32Array([3, -4]), [2, 1], "i32")), [3, -4]);
  same([...device.tensor(new Float32Array(6), [3, -1]).shape], [3, 2]);
  same([...device.tensor([]).shape], [0]);
  same(await all(device.tensor([])), []);
  const view = new Float32Array([9, 1, 2, 9]).subarray(1, 3);
  same(await all(device.tensor(view)), [1, 2], "a view of a larger buffer");
  same([...(await nested.readRange(2, 3))], [3, 4, 5]);
  same(await all(await nested.to(device)), [1, 2, 3, 4, 5, 6]);
  same(String(nested), `Tensor(f32 [2, 3] on ${device.info.backend})`);
  check(nested instanceof Tensor, "it is a Tensor");
});

test("16-bit floats", async ({ device }) => {
  if (!device.limits.f16) {
    let code;
    try {
      device.tensor([1], [1], "f16");
    } catch (error) {
      ({ code } = error);
    }
    return same(code, "Unsupported");
  }
  const halves = device.tensor([1, -2.5, 65504, 0.1, 6e-8, Infinity, NaN], undefined, "f16");
  same(halves.dtype, "f16");
  close(await halves.read(), [1, -2.5, 65504, 0.0999755859375, 2 ** -24, Infinity, NaN], 1e-9);
  same([...(await halves.readRange(1, 2))], [-2.5, 65504]);
  same(await all(await halves.slice(0, 0, 3).to(device)), [1, -2.5, 65504]);
});

test("tensors from nothing", async ({ device }) => {
  same(await all(device.zeros([3])), [0, 0, 0]);
  same(await all(device.ones([2, 1])), [1, 1]);
  same(await all(device.full([2], 7, { dtype: "i32" })), [7, 7]);
  same(device.full([2], true).dtype, "bool");
  same(await all(device.iota([2, 2], 1)), [0, 1, 0, 1]);
  close(await all(device.arange(1, 3, 0.5)), [1, 1.5, 2, 2.5]);
  close(await all(device.linspace(0, 1, 5)), [0, 0.25, 0.5, 0.75, 1]);
  same(await all(device.eye(2)), [1, 0, 0, 1]);
});

test("random tensors", async ({ device }) => {
  const uniform = await all(device.uniform([4000], { low: 2, high: 4, seed: 7 }));
  same(uniform, await all(device.uniform([4000], { low: 2, high: 4, seed: 7 })), "the same seed");
  check(uniform.every((x) => 2 <= x && x < 4), "outside of the range");
  close([reference.mean(uniform)], [3], 0.02, "mean");
  const normal = await all(device.normal([4000], { mean: 1, std: 2, seed: 3 }));
  close([reference.mean(normal), reference.variance(normal)], [1, 4], 0.15, "moments");
  close([reference.mean(await all(device.bernoulli([4000], 0.25, { seed: 5 })))], [0.25], 0.03, "bernoulli");
  const kept = await all(device.ones([4000]).dropout(0.5, 11));
  check(kept.every((x) => x === 0 || x === 2), "dropout keeps or drops");
  close([reference.mean(kept)], [1], 0.1, "dropout");
  check(String(await all(device.uniform([8]))) !== String(await all(device.uniform([8]))), "seeds are random");
});

test("reductions", async ({ device }) => {
  const list = randoms(24, 3);
  const x = device.tensor(list, [4, 6]);
  const byRow = reference.rows(list, 6);
  const sum = (row) => row.reduce((a, b) => a + b, 0);
  const cases = {
    sum,
    prod: (row) => row.reduce((a, b) => a * b, 1),
    max: (row) => Math.max(...row),
    min: (row) => Math.min(...row),
    mean: reference.mean,
    logsumexp: (row) => Math.log(sum(row.map(Math.exp))),
    normL1: (row) => sum(row.map(Math.abs)),
    normL2: (row) => Math.hypot(...row),
    normLinf: (row) => Math.max(...row.map(Math.abs)),
  };
  for (const [name, formula] of Object.entries(cases)) {
    close(await all(x[name](1)), byRow.map(formula), 1e-5, name);
    close(await all(x[name]()), [formula(list)], 1e-5, `${name} of all`);
    same([...x[name]([1], { keepdim: true }).shape], [4, 1], `${name} keeping`);
    same([...x[name](-2).shape], [6], `${name} from the end`);
  }
  close(await all(x.var(1)), byRow.map((row) => reference.variance(row, 1)), 1e-5, "var");
  close(await all(x.var(1, { correction: 0 })), byRow.map((row) => reference.variance(row)), 1e-5, "var of all");
  close(await all(x.std(1)), byRow.map((row) => Math.sqrt(reference.variance(row, 1))), 1e-5, "std");
  same([...x.std(0, { keepdim: true }).shape], [1, 6]);
  same(await all(x.argmax(1)), byRow.map((row) => row.indexOf(Math.max(...row))), "argmax");
  same(await all(x.argmin(1)), byRow.map((row) => row.indexOf(Math.min(...row))), "argmin");
  same(await all(x.gt(0).any(1)), byRow.map((row) => Number(row.some((v) => v > 0))), "any");
  same(await all(x.gt(-0.5).all(1)), byRow.map((row) => Number(row.every((v) => v > -0.5))), "all");
});

test("softmax and normalisations", async ({ device }) => {
  const list = randoms(30, 8).map((x) => x * 5);
  const x = device.tensor(list, [3, 10]);
  const byRow = reference.rows(list, 10);
  close(await all(x.softmax()), byRow.flatMap(reference.softmax), 1e-5, "softmax");
  close(await all(x.logSoftmax(1)), byRow.flatMap((r) => reference.softmax(r).map(Math.log)), 1e-5, "logSoftmax");
  const normal = (row) =>
    row.map((v) => (v - reference.mean(row)) / Math.sqrt(reference.variance(row) + 1e-5));
  close(await all(x.layerNorm()), byRow.flatMap(normal), 1e-4, "layerNorm");
  const [weight, bias] = [device.full([10], 2), device.full([10], 1)];
  const scaled = byRow.flatMap(normal).map((v) => v * 2 + 1);
  close(await all(x.layerNorm({ weight, bias, axes: [1] })), scaled, 1e-4, "layerNorm with weight and bias");
  const rms = (row) => row.map((v) => v / Math.sqrt(reference.mean(row.map((w) => w * w)) + 1e-6));
  close(await all(x.rmsNorm({ weight, eps: 1e-6 })), byRow.flatMap(rms).map((v) => 2 * v), 1e-4, "rmsNorm");
});

test("products", async ({ device }) => {
  const [a, b] = [randoms(5 * 7, 1), randoms(7 * 3, 2)];
  const [x, y] = [device.tensor(a, [5, 7]), device.tensor(b, [7, 3])];
  const product = reference.matmul(a, b, 5, 7, 3);
  close(await all(x.matmul(y)), product, 1e-5, "matmul");
  close(await all(y.transpose().matmul(x.transpose()).transpose()), product, 1e-5, "matmul of views");
  close(await all(x.slice(0, 0, 1).squeeze(0).matmul(y)), product.slice(0, 3), 1e-5, "vector by matrix");
  const batches = twice(device, a, x);
  close(await all(batches.matmul(y)), [...product, ...product], 1e-5, "a batch of products");
  const [u, v] = [randoms(4, 3), randoms(4, 4)];
  const [p, q] = [device.tensor(u), device.tensor(v)];
  close(await all(p.outer(q)), u.flatMap((i) => v.map((j) => i * j)), 1e-6, "outer");
  close(await all(p.dot(q)), [u.reduce((s, i, n) => s + i * v[n], 0)], 1e-6, "dot");
});

/** Returns a batch with `x` twice. */
function twice(device, list, x) {
  return device.tensor([...list, ...list], [2, ...x.shape]);
}

test("conv2d", async ({ device }) => {
  const [shape, kernel] = [[2, 3, 6, 5], [4, 3, 3, 3]];
  const [x, w] = [randoms(180, 5), randoms(108, 6)];
  const [input, weight] = [device.tensor(x, shape), device.tensor(w, kernel)];
  const want = (stride, pad) => reference.conv2d(x, shape, w, kernel, stride, pad);
  close(await all(input.conv2d(weight)), want(1, 0), 1e-5, "valid");
  close(await all(input.conv2d(weight, { padding: "same" })), want(1, 1), 1e-5, "same");
  close(await all(input.conv2d(weight, { stride: 2, padding: [[1, 1], [1, 1]] })), want(2, 1), 1e-5, "stride");
  const bias = device.tensor([1, 2, 3, 4]);
  const shifted = want(1, 1).map((v, i) => v + 1 + (Math.floor(i / 30) % 4));
  close(await all(input.conv2d(weight, { bias, padding: [1, 1], dilation: [1, 1], groups: 1 })), shifted, 1e-5, "bias");
});

test("attention", async ({ device }) => {
  const lists = [1, 2, 3].map((seed) => randoms(20, seed));
  const [q, k, v] = lists.map((list) => device.tensor(list, [1, 1, 5, 4]));
  close(await all(q.attention(k, v)), reference.attention(...lists, 4), 1e-5, "plain");
  const causal = reference.attention(...lists, 4, { causal: true });
  close(await all(q.attention(k, v, { isCausal: true })), causal, 1e-5, "causal");
  const mask = device.ones([5, 5]).tril().gt(0);
  close(await all(q.attention(k, v, { attnMask: mask, scale: 0.5 })), causal, 1e-5, "masked");
});

test("movement", async ({ device, Tensor }) => {
  const x = device.tensor([[1, 2, 3], [4, 5, 6]]);
  same([...x.reshape([3, -1]).shape], [3, 2]);
  same([...x.flatten().shape], [6]);
  same(await all(x.permute([1, 0])), [1, 4, 2, 5, 3, 6]);
  same(await all(x.transpose()), [1, 4, 2, 5, 3, 6]);
  same(await all(device.tensor([1, 2]).unsqueeze(-1).expand([2, 3])), [1, 1, 1, 2, 2, 2]);
  same([...x.unsqueeze(0).squeeze(0).shape], [2, 3]);
  same(await all(x.slice(1, 1)), [2, 3, 5, 6]);
  same(await all(x.slice(-1, -3, -1, 1)), [1, 2, 4, 5]);
  same(await all(x.slice(1, 0, 3, 2)), [1, 3, 4, 6]);
  same(await all(x.sliceScatter(1, -2, device.tensor([[7], [8]]))), [1, 7, 3, 4, 8, 6]);
  same(await all(x.flip([0, 1])), [6, 5, 4, 3, 2, 1]);
  same(await all(x.flip(1)), [3, 2, 1, 6, 5, 4]);
  same(await all(x.flip([])), [1, 2, 3, 4, 5, 6]);
  same(await all(x.indexSelect(1, device.tensor(new Int32Array([-1, 0, -4])))), [3, 1, 0, 6, 4, 0]);
  same(await all(x.pad([[0, 1], [1, 0]], 9)), [9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9]);
  const [left, right] = x.split([1, 2], 1);
  same([await all(left), await all(right)], [[1, 4], [2, 3, 5, 6]]);
  same(await all(Tensor.concat([left, right], 1)), [1, 2, 3, 4, 5, 6]);
  same(await all(Tensor.stack([x, x.neg()], 0)), [1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6]);
  const index = device.tensor(new Int32Array([2, 0]));
  same(await all(x.indexSelect(1, index)), [3, 1, 6, 4]);
  same(await all(device.ones([2, 3]).tril()), [1, 0, 0, 1, 1, 0]);
  same(await all(device.ones([2, 3]).triu(1)), [0, 1, 1, 0, 0, 1]);
  same(await all(index.oneHot(3)), [0, 0, 1, 1, 0, 0]);
  same(await all(device.tensor([1, 2]).tile([2])), [1, 2, 1, 2]);
  same(await all(x.cast("i32").cast("bool").cast("f32")), [1, 1, 1, 1, 1, 1]);
});

test("scans", async ({ device }) => {
  const x = device.tensor([[1, 2, 3], [4, 5, 6]]);
  same(await all(x.cumsum(1)), [1, 3, 6, 4, 9, 15]);
  same(await all(x.cumsum(-1, { exclusive: true })), [0, 1, 3, 0, 4, 9]);
  same(await all(x.cumsum(0, { reverse: true })), [5, 7, 9, 4, 5, 6]);
  same(await all(x.cumprod(1)), [1, 2, 6, 4, 20, 120]);
  const y = device.tensor([2, 1, 3, 0]);
  same(await all(y.cummax(0)), [2, 2, 3, 3]);
  same(await all(y.cummin(0)), [2, 1, 1, 0]);
});

test("sorting", async ({ device }) => {
  const x = device.tensor([[3, 1, 2], [0, NaN, -1]]);
  const { values, indices } = x.sort();
  same(await all(values), [1, 2, 3, -1, 0, NaN]);
  same(await all(indices), [1, 2, 0, 2, 0, 1]);
  same(await all(x.argsort(1, { descending: true })), [0, 2, 1, 0, 2, 1]);
  const top = x.topk(2);
  same([...top.values.shape], [2, 2]);
  same(await all(top.values), [3, 2, 0, -1]);
  same(await all(top.indices), [0, 2, 0, 2]);
  same(await all(x.topk(1, { axis: 0, largest: false }).indices), [1, 0, 1]);
  const list = randoms(3000, 9);
  const ordered = [...Float32Array.from(list)].sort((a, b) => a - b);
  same(await all(device.tensor(list).sort().values), ordered);
});

test("taking and scattering", async ({ device }) => {
  const x = device.tensor([[1, 2, 3], [4, 5, 6]]);
  const i32 = (list, shape) => device.tensor(new Int32Array(list), shape);
  const [index, source] = [i32([2, 0, 2, 1, 1, 7], [2, 3]), device.tensor([[10, 20, 30], [40, 50, 60]])];
  same(await all(x.gather(1, index)), [3, 1, 3, 5, 5, 0]);
  same(await all(x.scatter(1, index, source)), [20, 2, 30, 4, 50, 6]);
  same(await all(x.scatterAdd(1, index, source)), [21, 2, 43, 4, 95, 6]);
  same(await all(x.scatterReduce(1, index, source, "max")), [20, 2, 30, 4, 50, 6]);
  same(await all(x.scatterReduce(1, index, source, "prod")), [20, 2, 900, 4, 10000, 6]);
  same(await all(x.indexAdd(0, i32([1]), device.tensor([[1, 1, 1]]))), [1, 2, 3, 5, 6, 7]);
  const places = i32([1, 2, 0, 0, 5, 0], [3, 2]);
  same(await all(x.gatherNd(places)), [6, 1, 0]);
  same(await all(x.scatterNd(places, device.tensor([7, 8, 9]))), [8, 2, 3, 4, 5, 7]);
  same(await all(x.scatterNd(places, device.tensor([7, 8, 9]), { reduction: "sum" })), [9, 2, 3, 4, 5, 13]);
  same(await all(x.maskedFill(x.gt(3), -1)), [1, 2, 3, -1, -1, -1]);
  same(await all(x.roll(1, 1)), [3, 1, 2, 6, 4, 5]);
  same(await all(x.roll(-1, 0)), [4, 5, 6, 1, 2, 3]);
  same(x.chunk(2, 1).map((piece) => [...piece.shape]), [[2, 2], [2, 1]]);
  same([...x.argmax(1, { keepdim: true }).shape], [2, 1]);
  same(await x.readNested(), [[1, 2, 3], [4, 5, 6]]);
  same(await device.tensor(3).readNested(), 3);
});

test("small operations made of others", async ({ device }) => {
  const x = device.tensor([[3, -4], [0, 2]]);
  close(await all(x.norm(2, 1)), [5, 2], 1e-6, "norm");
  same(await all(x.norm(Infinity)), [4], "norm, the largest");
  same(await all(x.clampMin(1)), [3, 1, 1, 2], "clampMin");
  same(await all(x.clampMax(1)), [1, -4, 0, 1], "clampMax");
  same(await all(x.clamp(undefined, 2)), [2, -4, 0, 2], "clamp, open below");
  same(await all(x.diag()), [3, 2], "diag");
  same(await all(x.diag(1)), [-4], "diag beside");
  same(await all(x.prelu(device.tensor([0.5]))), [3, -2, 0, 2], "prelu");
  close(await all(x.glu(1)), [3 / (1 + Math.exp(4)), 0], 1e-6, "glu");
  close(await all(x.cosineSimilarity(device.tensor([[3, -4], [5, 0]]), { axis: 1 })), [1, 0], 1e-6, "cosineSimilarity");
  same(await all(x.take(device.tensor(new Int32Array([3, 0])))), [2, 3], "take");
  same(await all(x.rot90()), [-4, 2, 3, 0], "rot90");
  const { values, indices } = x.kthvalue(1, 1);
  same([await all(values), await all(indices)], [[-4, 0], [1, 0]], "kthvalue");
  same(await all(await x.maskedSelect(x.gt(0))), [3, 2], "maskedSelect");
  same(await all(x.reshape([1, 1, 2, 2]).im2col([1, 2])), [3, 0, -4, 2], "im2col");
  const picture = x.reshape([4, 1, 1]).pixelShuffle(2);
  same([picture.shape, await all(picture)], [[1, 2, 2], [3, -4, 0, 2]], "pixelShuffle");
  same((await picture.pixelUnshuffle(2)).shape, [4, 1, 1], "pixelUnshuffle");
  same(await all(x.reshape([-1]).flatten()), [3, -4, 0, 2], "reshape with -1");
  same(await all(x.select(0, -1)), [0, 2], "select");
});

test("weights of few bits", async ({ device }) => {
  // Two rows of eight 4-bit numbers: 0 to 7, and -8 to -1.
  const words = device.tensor(new Uint32Array([0x76543210, 0xfedcba98]), [2, 1]);
  same(await all(words.unpack(4)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], "unpack");
  const numbers = words.unpack(4, true);
  same([numbers.dtype, numbers.shape], ["i32", [2, 8]], "what unpack gives");
  const scale = device.tensor([0.5, 2, 1, 3], [2, 2]);
  const zero = device.tensor(new Int32Array([1, 0, 0, -1]), [2, 2]);
  const want = [-0.5, 0, 0.5, 1, 8, 10, 12, 14, -8, -7, -6, -5, -9, -6, -3, 0];
  same(await all(numbers.dequantize(scale, { zeroPoint: zero })), want, "dequantize");
  const x = device.ones([3, 8]);
  const product = x.matmul(numbers.dequantize(scale).transpose(0, 1)).relu();
  same(await all(product), [47, 0, 47, 0, 47, 0], "a product");
  same(await all(device.tensor(new Uint32Array([0xc0203f80])).unpackBf16()), [1, -2.5], "unpackBf16");
});

test("eigh", async ({ device }) => {
  const { values, vectors } = device.tensor([[2, 1], [1, 2]]).eigh();
  close(await all(values), [1, 3], 1e-5, "values");
  const again = vectors.mul(values.unsqueeze(0)).matmul(vectors.transpose());
  close(await all(again), [2, 1, 1, 2], 1e-5, "the matrix again");
});

test("sizes that no kernel divides evenly", async ({ device }) => {
  for (const size of [0, 1, 255, 257, 70001]) {
    const list = Float32Array.from({ length: size }, (_, i) => i % 100);
    const x = device.tensor(list);
    close(await x.add(1).mul(2).read(), list.map((v) => (v + 1) * 2), 1e-6, `map of ${size}`);
    close([await x.sum().item()], [list.reduce((a, b) => a + b, 0)], 1e-5, `sum of ${size}`);
  }
});
