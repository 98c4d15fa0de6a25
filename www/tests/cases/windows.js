// Tests pooling, convolutions and resampling from JavaScript, with small numbers computed by hand.

import { close, same, test } from "./harness.js";

const all = async (tensor) => [...(await tensor.read())];

const count = (n) => Array.from({ length: n }, (_, i) => i + 1);

test("convolutions over one to three axes", async ({ device }) => {
  const line = device.tensor([1, 2, 3, 4], [1, 1, 4]);
  const pair = device.tensor([1, 10], [1, 1, 2]);
  same(await all(line.conv1d(pair)), [21, 32, 43], "conv1d");
  same(await all(line.conv1d(pair, { stride: 2, padding: 1 })), [10, 32, 4], "conv1d with a stride and zeros");
  same(await all(line.conv1d(pair, { padding: [[0, 1]], dilation: 2 })), [31, 42, 3], "conv1d, zeros at the end");
  same([...line.conv1d(pair, { padding: "same" }).shape], [1, 1, 4]);
  const plane = device.tensor(count(9), [1, 1, 3, 3]);
  const square = device.tensor([1, 0, 0, 1], [1, 1, 2, 2]);
  same(await all(plane.conv2d(square, { bias: device.tensor([100]) })), [106, 108, 112, 114], "conv2d");
  const body = device.tensor(count(8), [1, 1, 2, 2, 2]);
  same(await all(body.conv3d(device.ones([1, 1, 2, 1, 2]))), [14, 22], "conv3d");
});

test("transposed convolutions", async ({ device }) => {
  const line = device.tensor([1, 2], [1, 1, 2]);
  const weight = device.tensor([1, 10, 100], [1, 1, 3]);
  same(await all(line.convTranspose1d(weight)), [1, 12, 120, 200], "convTranspose1d");
  same(await all(line.convTranspose1d(weight, { stride: 2, padding: 1 })), [10, 102, 20], "with a stride, cut off");
  same(await all(line.convTranspose1d(weight, { stride: 2, outputPadding: 1 })), [1, 10, 102, 20, 200, 0], "with more");
  const plane = device.tensor([1, 2], [1, 1, 1, 2]);
  const square = device.tensor([1, 2, 3, 4], [1, 1, 2, 2]);
  same(await all(plane.convTranspose2d(square)), [1, 4, 4, 3, 10, 8], "convTranspose2d");
  same([...device.ones([1, 2, 2, 2, 2]).convTranspose3d(device.ones([2, 3, 2, 2, 2])).shape], [1, 3, 3, 3, 3]);
});

test("pooling", async ({ device }) => {
  const x = device.tensor(count(16), [1, 1, 4, 4]);
  same(await all(x.maxPool({ kernelSize: 2 })), [6, 8, 14, 16], "maxPool");
  same(await all(x.avgPool({ kernelSize: 2 })), [3.5, 5.5, 11.5, 13.5], "avgPool");
  same(await all(x.avgPool({ kernelSize: [1, 3], stride: [4, 2], padding: [0, 1] })), [1.5, 3], "avgPool of what is inside");
  const counted = x.avgPool({ kernelSize: [1, 3], stride: [4, 2], padding: [0, 1], countIncludePad: true });
  close(await all(counted), [1, 3], 1e-6, "avgPool of all");
  same([...x.maxPool({ kernelSize: 3, stride: 2, ceilMode: true }).shape], [1, 1, 2, 2]);
  close(await all(device.tensor([3, 4], [1, 1, 2]).l2Pool({ kernelSize: 2 })), [5], 1e-6, "l2Pool");
  same(await all(x.adaptiveAvgPool([1, 2])), [7.5, 9.5], "adaptiveAvgPool");
  same(await all(x.maxPoolIndices({ kernelSize: 2 })), [5, 7, 13, 15], "maxPoolIndices");
  const whole = device.tensor([-3, -1], [1, 1, 2], "i32");
  same(await all(whole.maxPool({ kernelSize: 2, stride: 1, padding: 1 })), [-3, -1, -1], "maxPool of integers");
});

test("resizing, windows and padding", async ({ device }) => {
  const x = device.tensor([0, 10], [1, 2]);
  same(await all(x.resize([4], "nearest")), [0, 0, 10, 10], "nearest");
  same(await all(x.resize([4])), [0, 2.5, 7.5, 10], "linear");
  close(await all(x.resize([3], "linear-corners")), [0, 5, 10], 1e-6, "linear, corners");
  same(await all(device.tensor(count(5)).resize([2], "nearest-exact")), [2, 4], "nearest exact");
  // Keys's weights halfway are -3/32, 19/32, 19/32, -3/32 for -0.75.
  const edge = device.tensor([0, 0, 1, 1]);
  close(await all(edge.resample(0, 3, { first: 0.5, filter: "cubic" })), [-3 / 32, 0.5, 35 / 32], 1e-6, "cubic places");
  close(await all(edge.resize([1], "cubic")), [0.5], 1e-6, "cubic");
  same(await all(edge.resize([4], "cubic-corners")), [0, 0, 1, 1], "cubic, corners");
  close(await all(edge.resize([2], "linear-antialias")), [1 / 7, 6 / 7], 1e-6, "linear, antialias");
  close(await all(edge.resize([2], "cubic-antialias")), [10 / 121, 111 / 121], 1e-6, "cubic, antialias");
  same(await all(device.tensor(count(5)).resample(0, 2, { first: 3, step: -1, filter: "floor" })), [4, 3], "backwards");
  same(await all(device.tensor(count(5)).unfold(0, 3, 2)), [1, 2, 3, 3, 4, 5], "unfold");
  const line = device.tensor([1, 2, 3]);
  same(await all(line.padWith([[2, 1]], "reflect")), [3, 2, 1, 2, 3, 2], "reflect");
  same(await all(line.padWith([[2, 1]], "edge")), [1, 1, 1, 2, 3, 3], "edge");
  same(await all(line.padWith([[2, 1]], "symmetric")), [2, 1, 1, 2, 3, 3], "symmetric");
  same(await all(line.padWith([[2, 1]], "wrap")), [2, 3, 1, 2, 3, 1], "wrap");
});

test("norms by channel, rotary, sliding window", async ({ device }) => {
  const x = device.tensor([1, 3, 10, 30], [1, 2, 2]);
  close(await all(x.instanceNorm()), [-1, 1, -1, 1], 1e-4, "instanceNorm");
  const [mean, variance] = [device.tensor([1, 10]), device.tensor([4, 100])];
  const weight = device.tensor([1, 2]);
  close(await all(x.batchNorm(mean, variance, { weight })), [0, 1, 0, 4], 1e-4, "batchNorm");
  same([...x.groupNorm(1).shape], [1, 2, 2]);
  const [cos, sin] = [device.tensor([0, 1]), device.tensor([1, 0])];
  same(await all(device.tensor([1, 2, 3, 4]).rotary(cos, sin)), [-3, 2, 1, 4], "rotary, halves");
  same(await all(device.tensor([1, 2, 3, 4]).rotary(cos, sin, true)), [-2, 1, 3, 4], "rotary, neighbours");
  const q = device.zeros([1, 1, 3, 1]);
  const v = device.tensor([1, 3, 8], [1, 1, 3, 1]);
  close(await all(q.attention(q, v, { isCausal: true, window: 2 })), [1, 2, 5.5], 1e-5, "a window of two");
});
