// Tests calls that must be rejected, with their error codes. The device must still work afterwards.

import { refuses, rejects, same, test } from "./harness.js";

test("refused: pointwise", ({ device, Tensor }) => {
  const [x, i, b] = [device.tensor([1, 2, 3]), device.tensor(new Int32Array([1, 2, 3])), device.tensor([true])];
  refuses("Shape", "add", () => x.add(device.ones([2])));
  refuses("DType", "add", () => x.add(i));
  refuses("DType", "exp", () => i.exp());
  refuses("DType", "add", () => i.add(0.5));
  refuses("DType", "add", () => i.add(NaN));
  refuses("DType", "logicalAnd", () => x.logicalAnd(b));
  refuses("DType", "where", () => x.where(1, 2));
  for (const odd of [undefined, null, "1", {}, [1], 1n, Symbol("x"), () => 1]) {
    refuses("InvalidArgument", "add", () => x.add(odd));
  }
  refuses("InvalidArgument", "leakyRelu", () => x.leakyRelu("much"));
  refuses("InvalidArgument", "clamp", () => x.clamp("0"));
  refuses("InvalidArgument", "add", () => x.add(Object.create(Tensor.prototype)));
});

test("refused: data", ({ device }) => {
  refuses("Shape", "tensor", () => device.tensor([[1, 2], [3]]));
  refuses("Shape", "tensor", () => device.tensor([1, 2, 3], [2, 2]));
  refuses("Shape", "tensor", () => device.tensor([1, 2, 3], [-1, 2]));
  refuses("Shape", "tensor", () => device.tensor([1, 2, 3], [1.5, 2]));
  refuses("Shape", "tensor", () => device.tensor([1], [1, 1, 1, 1, 1, 1, 1, 1, 1]));
  const loop = [];
  loop.push(loop);
  refuses("Shape", "tensor", () => device.tensor(loop));
  refuses("InvalidArgument", "tensor", () => device.tensor([[1], 2]));
  refuses("InvalidArgument", "tensor", () => device.tensor([1, [2]]));
  refuses("Shape", "tensor", () => device.tensor([[1], [[2]]]));
  refuses("InvalidArgument", "tensor", () => device.tensor("123"));
  refuses("InvalidArgument", "tensor", () => device.tensor(null));
  refuses("InvalidArgument", "tensor", () => device.tensor({ length: 2 }));
  refuses("DType", "tensor", () => device.tensor(new BigInt64Array([2n ** 31n])));
  refuses("DType", "tensor", () => device.tensor(new Uint8Array([2]), [1], "bool"));
  refuses("InvalidArgument", "tensor", () => device.tensor(new ArrayBuffer(4)));
  refuses("Shape", "tensor", () => device.tensor(new ArrayBuffer(3), undefined, "f16"));
  refuses("InvalidArgument", "tensor", () => device.tensor(new DataView(new ArrayBuffer(8))));
  refuses("InvalidArgument", "tensor", () => device.tensor([1], [1], "f64"));
  refuses("InvalidArgument", "tensor", () => device.tensor([1], "1"));
  refuses("DType", "tensor", () => device.tensor([1.5], [1], "i32"));
  refuses("DType", "tensor", () => device.tensor([-1], [1], "u32"));
  refuses("Limit", "tensor", () => device.tensor([1], [2 ** 31, 2 ** 31, 0]));
});

test("refused: an index out of range, where that is asked for", async ({ device }) => {
  const [x, index] = [device.tensor([1, 2, 3]), device.tensor(new Int32Array([2, 7]))];
  same([...(await x.indexSelect(0, index).read())], [3, 0]);
  device.checkIndices(true);
  const picked = x.indexSelect(0, index);
  await rejects("InvalidArgument", "read: an index of index_select must be in [-3, 3), got 7", () => picked.read());
  device.checkIndices(false);
  same([...(await picked.read())], [3, 0]);
});

test("refused: creation", ({ device }) => {
  for (const bad of [-1, 1.5, NaN, Infinity]) refuses("Shape", "zeros", () => device.zeros([bad]));
  refuses("Limit", "zeros", () => device.zeros([2 ** 31]));
  refuses("Limit", "zeros", () => device.zeros([2 ** 16, 2 ** 16]));
  for (const bad of [2 ** 33, 1e300]) refuses("Limit", "zeros", () => device.zeros([bad, 0]));
  refuses("InvalidArgument", "zeros", () => device.zeros("3"));
  refuses("InvalidArgument", "zeros", () => device.zeros(["3"]));
  refuses("InvalidArgument", "zeros", () => device.zeros([3], { type: "i32" }));
  refuses("DType", "full", () => device.full([1], 0.5, { dtype: "i32" }));
  refuses("InvalidArgument", "full", () => device.full([1], "1"));
  refuses("Shape", "iota", () => device.iota([2], 1));
  refuses("Shape", "eye", () => device.eye(-2));
  refuses("InvalidArgument", "arange", () => device.arange());
  refuses("InvalidArgument", "arange", () => device.arange(0, 1, 0));
  refuses("Shape", "linspace", () => device.linspace(0, 1, 2.5));
  refuses("InvalidArgument", "uniform", () => device.uniform([2], { low: 2, high: 1 }));
  refuses("Shape", "uniform", () => device.uniform([2], { seed: -1 }));
  refuses("InvalidArgument", "uniform", () => device.uniform([2], { sed: 1 }));
  refuses("InvalidArgument", "uniform", () => device.uniform([2], 7));
  refuses("InvalidArgument", "normal", () => device.normal([2], { std: -1 }));
  refuses("InvalidArgument", "bernoulli", () => device.bernoulli([2], 1.5));
});

test("refused: reductions", ({ device }) => {
  const [x, i] = [device.ones([2, 3]), device.full([2], 1, { dtype: "i32" })];
  refuses("Shape", "sum", () => x.sum(2));
  refuses("Shape", "sum", () => x.sum(-3));
  refuses("Shape", "sum", () => x.sum(0.5));
  refuses("Shape", "sum", () => x.sum([0, 0]));
  refuses("InvalidArgument", "sum", () => x.sum("0"));
  refuses("DType", "mean", () => i.mean());
  refuses("DType", "any", () => x.any());
  refuses("InvalidArgument", "var", () => x.var(0, 1));
  refuses("Shape", "argmax", () => device.zeros([0]).argmax(0));
  refuses("InvalidArgument", "argmax", () => x.argmax(0, true));
  refuses("InvalidArgument", "sum", () => x.sum(0, { keepDim: true }));
  refuses("InvalidArgument", "sum", () => x.sum(0, { keepdim: 1 }));
  refuses("Shape", "softmax", () => x.softmax(5));
  refuses("DType", "softmax", () => i.softmax());
  refuses("Shape", "layerNorm", () => x.layerNorm({ weight: device.ones([2]) }));
  refuses("InvalidArgument", "layerNorm", () => x.layerNorm({ weight: 2 }));
  refuses("Shape", "rmsNorm", () => x.rmsNorm({ axes: [4] }));
});

test("refused: products", ({ device }) => {
  const x = device.ones([2, 3]);
  refuses("Shape", "matmul", () => x.matmul(x));
  refuses("Shape", "matmul", () => x.matmul(device.tensor(1)));
  refuses("DType", "matmul", () => x.matmul(device.full([3, 2], 1, { dtype: "i32" })));
  refuses("InvalidArgument", "matmul", () => x.matmul(2));
  refuses("Shape", "outer", () => x.outer(x));
  refuses("Shape", "dot", () => device.ones([2]).dot(device.ones([3])));
  const [image, weight] = [device.ones([1, 1, 4, 4]), device.ones([1, 1, 3, 3])];
  refuses("Shape", "conv2d", () => image.conv2d(weight, { stride: 0 }));
  refuses("Shape", "conv2d", () => image.conv2d(weight, { groups: 2 }));
  refuses("Shape", "conv2d", () => image.conv2d(weight, { padding: -1 }));
  refuses("InvalidArgument", "conv2d", () => image.conv2d(weight, { padding: "full" }));
  refuses("InvalidArgument", "conv2d", () => image.conv2d(weight, { stride: [1, 1, 1] }));
  refuses("Shape", "conv2d", () => image.conv2d(weight, { stride: 1.5 }));
  refuses("Limit", "conv2d", () => image.conv2d(weight, { padding: 2 ** 32 }));
  const q = device.ones([1, 2, 3, 4]);
  refuses("Shape", "attention", () => q.attention(q, device.ones([1, 2, 5, 4])));
  refuses("InvalidArgument", "attention", () => q.attention(q));
  refuses("InvalidArgument", "attention", () => q.attention(q, q, { scale: "1" }));
});

test("refused: windows and norms by channel", ({ device }) => {
  const image = device.ones([1, 2, 4, 4]);
  const weight = device.ones([2, 1, 3, 3]);
  refuses("Shape", "conv1d", () => image.conv1d(weight));
  refuses("Shape", "conv3d", () => image.conv3d(weight));
  refuses("Shape", "convTranspose2d", () => image.convTranspose2d(device.ones([3, 1, 3, 3])));
  refuses("InvalidArgument", "convTranspose2d", () => image.convTranspose2d(weight, { padding: "full" }));
  refuses("InvalidArgument", "convTranspose2d", () => image.convTranspose2d(weight, { outputPadding: [1] }));
  refuses("Shape", "maxPool", () => image.maxPool({ kernelSize: 5 }));
  refuses("Shape", "maxPool", () => image.maxPool({ kernelSize: 0 }));
  refuses("InvalidArgument", "maxPool", () => image.maxPool());
  refuses("InvalidArgument", "avgPool", () => image.avgPool({ kernelSize: [2, "2"] }));
  refuses("DType", "l2Pool", () => image.cast("i32").l2Pool({ kernelSize: 2 }));
  refuses("Shape", "adaptiveAvgPool", () => image.adaptiveAvgPool([0]));
  refuses("InvalidArgument", "resize", () => image.resize([2, 2], "lanczos"));
  refuses("InvalidArgument", "resample", () => image.resample(0, 2, { filter: "lanczos" }));
  refuses("InvalidArgument", "resample", () => image.resample(0, 2, { step: NaN }));
  refuses("Shape", "resample", () => image.resample(9, 2));
  refuses("Limit", "resample", () => image.resample(0, 2, { first: 2e9 }));
  refuses("Shape", "resize", () => image.resize([0, 2]));
  refuses("Shape", "unfold", () => image.unfold(3, 5));
  refuses("InvalidArgument", "padWith", () => image.padWith([[1, 1]], "mirror"));
  refuses("Shape", "padWith", () => image.padWith([[1, 1]], "edge"));
  refuses("Shape", "batchNorm", () => image.batchNorm(device.ones([3]), device.ones([3])));
  refuses("Shape", "groupNorm", () => image.groupNorm(3));
  refuses("InvalidArgument", "instanceNorm", () => image.instanceNorm({ weight: 1 }));
  refuses("Shape", "rotary", () => image.rotary(device.ones([3]), device.ones([3])));
  refuses("Shape", "attention", () => image.attention(image, image, { window: 0 }));
});

test("refused: movement", ({ device, Tensor }) => {
  const x = device.ones([2, 3]);
  refuses("Shape", "reshape", () => x.reshape([4]));
  refuses("Shape", "reshape", () => x.reshape([-1, -1]));
  refuses("Shape", "reshape", () => x.reshape([-1, 4]));
  refuses("Shape", "reshape", () => x.reshape([-1, 0]));
  refuses("Shape", "permute", () => x.permute([0, 0]));
  refuses("Shape", "transpose", () => x.transpose(0, 2));
  refuses("Shape", "expand", () => x.expand([2, 4]));
  refuses("Shape", "unsqueeze", () => x.unsqueeze(3));
  refuses("Shape", "squeeze", () => x.squeeze(0));
  refuses("Shape", "slice", () => x.slice(1, 2, 1));
  refuses("Shape", "slice", () => x.slice(1, 0, 4));
  refuses("Shape", "slice", () => x.slice(1, 0, 3, 0));
  refuses("Shape", "slice", () => x.slice(2, 0));
  refuses("Shape", "slice", () => x.slice(NaN, 0));
  refuses("Shape", "flip", () => x.flip([2]));
  refuses("Shape", "pad", () => x.pad([[1, 1]]));
  refuses("Shape", "pad", () => x.pad([[0, -3], [0, 0]]));
  refuses("InvalidArgument", "pad", () => x.pad([1, 1]));
  refuses("Limit", "pad", () => x.pad([[2 ** 31, 2 ** 31], [0, 0]]));
  refuses("Shape", "split", () => x.split([1, 1], 1));
  refuses("Shape", "split", () => x.split([4, -1], 1));
  refuses("Shape", "concat", () => Tensor.concat([x, device.ones([3, 3])], 1));
  refuses("InvalidArgument", "concat", () => Tensor.concat([], 0));
  refuses("InvalidArgument", "concat", () => Tensor.concat([x, undefined], 0));
  refuses("InvalidArgument", "concat", () => Tensor.concat(x, 0));
  refuses("Shape", "stack", () => Tensor.stack([x, device.ones([3])], 0));
  refuses("DType", "indexSelect", () => x.indexSelect(0, x));
  refuses("Shape", "tril", () => device.ones([2]).tril());
  refuses("Shape", "tril", () => x.tril(0.5));
  refuses("DType", "oneHot", () => x.oneHot(3));
  refuses("Shape", "tile", () => x.tile([2]));
  refuses("Limit", "tile", () => x.tile([2 ** 31, 2 ** 31]));
  refuses("InvalidArgument", "dropout", () => x.dropout(1.5));
  refuses("InvalidArgument", "cast", () => x.cast("float"));
});

test("refused: ordering", ({ device }) => {
  const x = device.ones([2, 3]);
  const index = device.full([2, 3], 0, { dtype: "i32" });
  refuses("Shape", "cumsum", () => x.cumsum(2));
  refuses("InvalidArgument", "cumsum", () => x.cumsum());
  refuses("Shape", "cumprod", () => x.cumprod(0.5));
  refuses("InvalidArgument", "cummax", () => x.cummax(0, true));
  refuses("InvalidArgument", "cummin", () => x.cummin(0, { reverse: "yes" }));
  refuses("Shape", "sort", () => x.sort(2));
  refuses("InvalidArgument", "sort", () => x.sort(0, 1));
  refuses("Shape", "argsort", () => x.argsort(-3));
  refuses("InvalidArgument", "argsort", () => x.argsort("0"));
  for (const odd of [4, -1, 1.5, NaN]) refuses("Shape", "topk", () => x.topk(odd));
  refuses("InvalidArgument", "topk", () => x.topk(1, 1));
  refuses("DType", "gather", () => x.gather(0, x));
  refuses("Shape", "gather", () => x.gather(0, device.full([2], 0, { dtype: "i32" })));
  refuses("InvalidArgument", "gather", () => x.gather(0, [0]));
  refuses("Shape", "scatter", () => x.scatter(0, index, device.ones([2, 2])));
  refuses("DType", "scatter", () => x.scatter(0, index, index));
  refuses("InvalidArgument", "scatter", () => x.scatter(0, index));
  refuses("DType", "scatterAdd", () => x.scatterAdd(0, x, x));
  refuses("InvalidArgument", "scatterReduce", () => x.scatterReduce(0, index, x, "average"));
  refuses("DType", "scatterReduce", () => x.scatterReduce(0, index, x, "any"));
  refuses("Shape", "indexAdd", () => x.indexAdd(0, index, x));
  refuses("Shape", "gatherNd", () => x.gatherNd(index));
  refuses("InvalidArgument", "scatterNd", () => x.scatterNd(index, x, { reduction: "add" }));
  refuses("DType", "maskedFill", () => x.maskedFill(x, 0));
  refuses("Shape", "maskedFill", () => x.maskedFill(device.full([2], true), 0));
  refuses("DType", "unpack", () => device.ones([4]).unpack(4));
  refuses("InvalidArgument", "unpack", () => device.full([4], 1, { dtype: "u32" }).unpack(5));
  refuses("InvalidArgument", "unpack", () => device.full([4], 1, { dtype: "u32" }).unpack("4"));
  refuses("Shape", "unpack", () => device.full([], 1, { dtype: "u32" }).unpack(4));
  refuses("DType", "unpackBf16", () => device.ones([4]).unpackBf16());
  refuses("DType", "dequantize", () => device.ones([4]).dequantize(device.ones([4])));
  refuses("InvalidArgument", "dequantize", () => device.full([4], 1, { dtype: "i32" }).dequantize(2));
  refuses("Shape", "dequantize", () => device.full([4], 1, { dtype: "i32" }).dequantize(device.ones([3])));
  refuses("Shape", "eigh", () => x.eigh());
  refuses("DType", "eigh", () => device.full([2, 2], 1, { dtype: "i32" }).eigh());
  refuses("Shape", "roll", () => x.roll(1, 2));
  refuses("Shape", "roll", () => x.roll(0.5, 0));
  refuses("Shape", "chunk", () => x.chunk(0, 0));
  refuses("Shape", "chunk", () => x.chunk(2, 2));
});

test("refused: reading", async ({ device }) => {
  const x = device.ones([2, 3]);
  await rejects("Shape", "readRange", () => x.readRange(5, 2));
  await rejects("Shape", "readRange", () => x.readRange(-1, 2));
  await rejects("Shape", "readRange", () => x.readRange(0, 1.5));
  await rejects("InvalidArgument", "readRange", () => x.readRange("0", 1));
  await rejects("Limit", "readRange", () => x.readRange(2 ** 40, 1));
  await rejects("Shape", "item", () => x.item());
});

test("refused: batches and programs", ({ device }) => {
  const spec = { shape: [2] };
  refuses("InvalidArgument", "batch", () => device.batch().add(1));
  refuses("InvalidArgument", "compile", () => device.compile([spec], () => 1));
  refuses("InvalidArgument", "compile", () => device.compile([spec], async (x) => x.relu()));
  refuses("InvalidArgument", "compile", () => device.compile(spec, (x) => x.relu()));
  refuses("InvalidArgument", "compile", () => device.compile([spec]));
  refuses("InvalidArgument", "compile", () => device.compile([{ shape: [2], dtype: "f64" }], (x) => x.relu()));
  refuses("InvalidArgument", "compile", () => device.compile([{ shape: [2], type: "f32" }], (x) => x.relu()));
  refuses("Shape", "compile", () => device.compile([{ shape: [-2] }], (x) => x.relu()));
  refuses("Shape", "add", () => device.compile([spec], (x) => x.add(device.ones([3]))));
  const own = new Error("mine");
  let caught;
  try {
    device.compile([spec], () => {
      throw own;
    });
  } catch (error) {
    caught = error;
  }
  same(caught === own, true, "an error of the function comes out as it is");
  const program = device.compile([spec], (x) => x.relu());
  refuses("InvalidArgument", "program", () => program.run());
  refuses("Shape", "program", () => program.run(device.ones([3])));
  refuses("DType", "program", () => program.run(device.full([2], 1, { dtype: "i32" })));
  refuses("InvalidArgument", "program", () => program.run([device.ones([2])]));
});

test("refused: devices", async ({ Device }) => {
  await rejects("InvalidArgument", "device", () => Device.new({ prefer: {} }));
  await rejects("InvalidArgument", "device", () => Device.new("cpu"));
  await rejects("InvalidArgument", "device", () => Device.new({ prefers: "cpu" }));
  await rejects("NoDevice", "device", () => Device.new({ prefer: 99 }));
  await rejects("NoDevice", "device", () => Device.new({ prefer: "a machine of that name" }));
});

test("refused: options that are not booleans", async ({ device }) => {
  const x = device.ones([2]);
  for (const odd of ["yes", 1, null]) {
    const save = () => device.saveNpz({ x }, { compressed: odd });
    await rejects("InvalidArgument", "saveNpz: compressed must be true or false", save);
    await rejects("InvalidArgument", "tune: again must be true or false", () => device.tune({ again: odd }));
  }
});

test("refused: messages name the options and objects that were given", ({ device, Optimizer, Variable }) => {
  const w = new Variable(device.ones([2]));
  refuses("InvalidArgument", "adam: weightDecay of Adam must be at least 0, got -1", () => Optimizer.adam([w], { weightDecay: -1 }));
  refuses("InvalidArgument", "grad: wrt must be a list of tensors, got a Tensor", () => w.value.sum().grad(w.value));
  refuses("InvalidArgument", "add: y must be a tensor or a number, got a Variable", () => w.value.add(w));
  refuses("InvalidArgument", "add: y must be a tensor or a number, got a Device", () => w.value.add(device));
  const [image, weight] = [device.ones([1, 1, 4, 4]), device.ones([1, 1, 3, 3])];
  const padded = (padding) => () => image.conv2d(weight, { padding });
  refuses("Shape", "conv2d: padding must be an integer of at least 0, got -1", padded([-1, -1]));
  refuses("InvalidArgument", "conv2d: padding must have 2 numbers, one for each axis, got 3", padded([1, 1, 1]));
  refuses("InvalidArgument", "conv2d: padding must have one pair for each of 2 axes, got 1", padded([[1, 1]]));
});

test("inherited fields of options are not refused", ({ device }) => {
  const options = Object.assign(Object.create({ unrelated: 1 }), { keepdim: true });
  same(device.ones([2, 3]).sum(0, options).shape, [1, 3]);
});

test("the device goes on after refusals", async ({ device }) => {
  same([...(await device.tensor([1, 2]).add(1).read())], [2, 3]);
});
