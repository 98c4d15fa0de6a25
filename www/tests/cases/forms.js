// Tests the form of error messages: `op: what must hold, got what`, with the operation's name in JavaScript. The methods are
// those of the classes at run time, so none can be missed.

import { check, test } from "./harness.js";

/** Phrases that a message may contain instead of `must` and `got`. */
const OTHERS = [" is not supported"];

/** Returns what is wrong with a message of an operation, or nothing if it has the form. */
function wrong(op, message) {
  if (!message.startsWith(`${op}: `)) return `does not begin with "${op}: "`;
  if (OTHERS.some((other) => message.includes(other))) return undefined;
  if (!message.includes(" must ")) return "does not say what must hold";
  return /, got \S/.test(message) ? undefined : "does not say what it got";
}

/** Returns the names of the methods of a class, including inherited ones. */
function methods(prototype) {
  if (prototype === Object.prototype || prototype === Function.prototype) return [];
  const own = Object.entries(Object.getOwnPropertyDescriptors(prototype));
  const isMethod = ([name, { value }]) => typeof value === "function" && !/^(constructor$|__)/.test(name);
  const named = own.filter(isMethod);
  return [...named.map(([name]) => name), ...methods(Object.getPrototypeOf(prototype))];
}

const words = (text) => text.trim().split(/\s+/);

/** Methods that cannot be rejected, by reason. */
const NEVER = {
  "not for users": words(`bytes checkpointed claim extents run twin compiled end facts fromNpy fromNpz fromSafetensors
    madeElement madeShader measure recorded stopProfile toNpz toSafetensors upload version beginProfile endProfile choose borrow
    pin share kernels config lastPlan`),
  "takes no arguments, and every tensor": words(`detach dispose findNonFinite gpuBuffer onesLike print randomBits ravel read
    readNested saveNpy text toString zerosLike isFinite isInf isNan graph eq ne measureCeilings stats synchronize submit memory
    memoryLimit cacheLimits trim batch item signBit unitFloat`),
  "other cases test its arguments": words(`checkIndices setMemoryLimit setCacheLimits onCompile
    tensorFromBuffer tune loadSafetensors saveSafetensors loadNpy loadNpz saveNpz profile`),
};

/** Unary operations of numbers. */
const UNARY = words(`acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 gelu geluTanh hardSigmoid
  hardSwish lgamma log log10 log1p log2 logSigmoid mish reciprocal rsqrt sigmoid silu sin sinh softsign sqrt tan tanh selu ceil
  floor round trunc fract relu relu6 elu celu softplus hardTanh hardshrink softshrink threshold logit nanToNum sign abs neg
  square leakyRelu`);

/** Binary operations of numbers that broadcast. */
const BINARY = words(`add sub mul div pow maximum minimum atan2 copysign hypot fmod remainder floorDivide lt le gt ge
  squaredDifference logaddexp`);

const BITS = words("bitwiseAnd bitwiseOr bitwiseXor bitwiseLeftShift bitwiseRightShift");
const LOGICAL = words("logicalAnd logicalOr logicalXor");
const REDUCTIONS = words(`sum prod max min mean var std logsumexp normL1 normL2 normLinf norm argmax argmin softmax
  logSoftmax`);
const ALONG = words(`cumsum cumprod cummax cummin sort argsort logcumsumexp median glu trapezoid diff unbind flip squeeze
  quantile kthvalue topk roll select narrow slice split chunk repeatInterleave unsqueeze`);
const SQUARE = words("inv det slogdet cholesky eigh");
const LOSSES = words(`mseLoss l1Loss smoothL1Loss huberLoss poissonNllLoss binaryCrossEntropy binaryCrossEntropyWithLogits
  softMarginLoss hingeEmbeddingLoss klDiv`);

/** Arguments before the axis: 1 by default. */
const ONE_BEFORE = words("kthvalue topk roll diff trapezoid split chunk repeatInterleave");
const BEFORE = { norm: [2], quantile: [0.5], ...Object.fromEntries(ONE_BEFORE.map((op) => [op, [1]])) };
/** Arguments after the axis. */
const BEHIND = { select: [0], narrow: [0, 1], slice: [0, 1] };

/** Returns all rejected calls of tensors: the operation, the fault, and the call. */
function ofTensors({ device, Tensor }) {
  const t = (...shape) => device.ones(shape);
  const i = (...shape) => device.full(shape, 1, { dtype: "i32" });
  const b = (...shape) => device.full(shape, true);
  const gone = t(2);
  gone.dispose();
  const rows = [];
  const row = (op, kind, call) => rows.push([op, kind, call]);
  for (const op of UNARY) row(op, "dtype", () => b(2)[op]());
  for (const op of BINARY) {
    row(op, "size", () => t(2)[op](t(3)));
    row(op, "dtype", () => t(2)[op](i(2)));
    row(op, "value", () => t(2)[op]("1"));
    row(op, "disposed", () => t(2)[op](gone));
  }
  for (const op of BITS) {
    row(op, "size", () => i(2)[op](i(3)));
    row(op, "dtype", () => t(2)[op](t(2)));
    row(op, "disposed", () => i(2)[op](gone));
  }
  for (const op of LOGICAL) {
    row(op, "size", () => b(2)[op](b(3)));
    row(op, "dtype", () => b(2)[op](t(2)));
    row(op, "disposed", () => b(2)[op](gone));
  }
  row("bitwiseNot", "dtype", () => t(2).bitwiseNot());
  row("logicalNot", "dtype", () => t(2).logicalNot());
  for (const op of [...REDUCTIONS, ...ALONG]) {
    const call = (axis) => t(2, 2)[op](...(BEFORE[op] ?? []), op === "flip" ? [axis] : axis, ...(BEHIND[op] ?? []));
    row(op, "value", () => call(5));
    row(op, "value", () => call("0"));
  }
  for (const op of words("any all")) row(op, "dtype", () => t(2)[op]());
  const floats = words("mean var std logsumexp normL1 normL2 normLinf norm softmax logSoftmax");
  for (const op of floats) row(op, "dtype", () => i(2)[op]());
  for (const op of SQUARE) {
    row(op, "size", () => t(2, 3)[op]());
    row(op, "rank", () => t(2)[op]());
    row(op, "dtype", () => i(2, 2)[op]());
  }
  for (const op of words("qr matrixNorm")) {
    row(op, "rank", () => t(2)[op]());
    row(op, "dtype", () => i(2, 2)[op]());
  }
  for (const op of words("solve lstsq solveTriangular")) {
    row(op, "size", () => t(2, 2)[op](t(3)));
    row(op, "dtype", () => t(2, 2)[op](i(2)));
    row(op, "disposed", () => t(2, 2)[op](gone));
  }
  for (const op of LOSSES) {
    row(op, "size", () => t(2)[op](t(3)));
    row(op, "dtype", () => t(2)[op](i(2)));
    row(op, "disposed", () => t(2)[op](gone));
  }
  for (const op of words("crossEntropy nllLoss")) {
    row(op, "size", () => t(4, 3)[op](i(3)));
    row(op, "dtype", () => t(4, 3)[op](t(4)));
    row(op, "disposed", () => t(4, 3)[op](gone));
  }
  row("crossEntropy", "value", () => t(4, 3).crossEntropy(i(4), { labelSmoothing: 2 }));
  row("huberLoss", "value", () => t(2).huberLoss(t(2), { delta: 0 }));
  row("gaussianNllLoss", "size", () => t(2).gaussianNllLoss(t(2), t(3)));
  row("marginRankingLoss", "size", () => t(2).marginRankingLoss(t(3), t(2)));
  row("cosineEmbeddingLoss", "size", () => t(2, 3).cosineEmbeddingLoss(t(2, 3), t(3)));
  row("tripletMarginLoss", "size", () => t(2, 3).tripletMarginLoss(t(2, 3), t(2, 4)));
  const windows = { conv1d: 3, conv2d: 4, conv3d: 5, convTranspose1d: 3, convTranspose2d: 4, convTranspose3d: 5 };
  for (const [op, rank] of Object.entries(windows)) {
    const shape = (channels, extent) => [1, channels, ...Array(rank - 2).fill(extent)];
    row(op, "rank", () => t(5)[op](t(...shape(2, 3))));
    row(op, "size", () => t(...shape(3, 5))[op](t(...shape(2, 3))));
    row(op, "dtype", () => i(...shape(2, 5))[op](i(...shape(2, 3))));
    row(op, "value", () => t(...shape(2, 5))[op](t(...shape(2, 3)), { stride: 0 }));
    row(op, "disposed", () => t(...shape(2, 5))[op](gone));
  }
  for (const op of words("maxPool maxPoolIndices avgPool l2Pool")) {
    row(op, "rank", () => t(4, 4)[op]({ kernelSize: [2, 2] }));
    row(op, "size", () => t(1, 1, 4, 4)[op]({ kernelSize: 5 }));
    row(op, "dtype", () => b(1, 1, 4)[op]({ kernelSize: 2 }));
    row(op, "value", () => t(1, 1, 4)[op]({ kernelSize: 0 }));
  }
  for (const op of words("adaptiveAvgPool adaptiveMaxPool adaptiveMaxPoolIndices")) {
    row(op, "value", () => t(4)[op]([0]));
    row(op, "dtype", () => b(4)[op]([2]));
  }
  for (const [op, one] of [["scatter", t], ["scatterAdd", t]]) {
    row(op, "dtype", () => t(4)[op](0, t(2), one(2)));
    row(op, "size", () => t(4)[op](0, i(3), one(2)));
    row(op, "disposed", () => t(4)[op](0, i(2), gone));
  }
  for (const op of words("fft ifft irfft")) {
    row(op, "dtype", () => i(4, 2)[op]());
    row(op, "size", () => t(4, 3)[op]());
    row(op, "value", () => t(4, 2)[op]({ n: 0 }));
  }
  for (const op of words("fft2 ifft2")) row(op, "size", () => t(4, 3)[op]());
  return [...rows, ...others({ device, Tensor, t, i, b, gone })];
}

/** Returns the rejected calls of the other operations of tensors. */
function others({ device, Tensor, t, i, b, gone }) {
  return [
    ["matmul", "size", () => t(2, 3).matmul(t(4, 5))],
    ["matmul", "rank", () => t().matmul(t(2, 2))],
    ["matmul", "dtype", () => t(2, 2).matmul(i(2, 2))],
    ["matmul", "disposed", () => t(2, 2).matmul(gone)],
    ["outer", "rank", () => t(2, 2).outer(t(2))],
    ["dot", "size", () => t(2).dot(t(3))],
    ["attention", "rank", () => t(2, 2).attention(t(2, 2), t(2, 2))],
    ["attention", "value", () => t(1, 1, 2, 2).attention(t(1, 1, 2, 2), t(1, 1, 2, 2), { window: 0 })],
    ["rotary", "size", () => t(2, 4).rotary(t(3), t(3))],
    ["lerp", "size", () => t(2).lerp(t(3), 0.5)],
    ["fma", "size", () => t(2).fma(t(3), 1)],
    ["heaviside", "size", () => t(2).heaviside(t(3))],
    ["where", "dtype", () => t(2).where(1, 2)],
    ["clamp", "value", () => t(2).clamp("0", 1)],
    ["clampMin", "value", () => t(2).clampMin("0")],
    ["clampMax", "value", () => t(2).clampMax("0")],
    ["isClose", "size", () => t(2).isClose(t(3))],
    ["allClose", "size", () => t(2).allClose(t(3))],
    ["bitcast", "dtype", () => b(2).bitcast("i32")],
    ["cast", "value", () => t(2).cast("f64")],
    ["fullLike", "dtype", () => i(2).fullLike(0.5)],
    ["dropout", "value", () => t(2).dropout(1.5)],
    ["dropout", "dtype", () => i(2).dropout(0.5)],
    ["reshape", "size", () => t(2, 3).reshape([4])],
    ["reshape", "value", () => t(2, 3).reshape([-1, -1])],
    ["expand", "size", () => t(2).expand([3])],
    ["permute", "value", () => t(2, 2).permute([0, 0])],
    ["transpose", "value", () => t(2, 2).transpose(0, 5)],
    ["movedim", "size", () => t(2, 2).movedim([0], [0, 1])],
    ["flatten", "value", () => t(2, 2).flatten(3)],
    ["tile", "rank", () => t(2, 2).tile([1])],
    ["rot90", "value", () => t(2, 2).rot90(1, [0, 5])],
    ["pad", "rank", () => t(2).pad([[1, 1], [1, 1]])],
    ["padWith", "size", () => t(2).padWith([[2, 0]], "reflect")],
    ["unfold", "size", () => t(2).unfold(0, 3)],
    ["im2col", "rank", () => t(2).im2col([1, 1])],
    ["pixelShuffle", "size", () => t(1, 3, 2, 2).pixelShuffle(2)],
    ["pixelUnshuffle", "size", () => t(1, 1, 3, 3).pixelUnshuffle(2)],
    ["resize", "rank", () => t(2).resize([2, 2])],
    ["resize", "dtype", () => i(2).resize([3])],
    ["resample", "value", () => t(2).resample(5, 2)],
    ["gridSample", "rank", () => t(2, 2).gridSample(t(2, 2))],
    ["diag", "rank", () => t(2, 2, 2).diag()],
    ["diagonal", "rank", () => t(2).diagonal()],
    ["trace", "rank", () => t(2).trace()],
    ["tril", "rank", () => t(2).tril()],
    ["triu", "rank", () => t(2).triu()],
    ["cross", "size", () => t(2).cross(t(2))],
    ["kron", "rank", () => t(1, 1, 1, 1, 1).kron(t(2))],
    ["complexMul", "size", () => t(3).complexMul(t(3))],
    ["rfft", "dtype", () => i(4).rfft()],
    ["tensordot", "size", () => t(2).tensordot(t(3), [0], [0])],
    ["cdist", "size", () => t(2, 3).cdist(t(2, 4))],
    ["cov", "rank", () => t(2, 2, 2).cov()],
    ["histc", "value", () => t(2).histc(0, 0, 1)],
    ["bincount", "dtype", () => t(2).bincount(3)],
    ["searchsorted", "size", () => t(2, 3).searchsorted(t(3, 2))],
    ["bucketize", "rank", () => t(2).bucketize(t(2, 2))],
    ["cosineSimilarity", "size", () => t(2).cosineSimilarity(t(3))],
    ["prelu", "size", () => t(2, 3).prelu(t(2))],
    ["indexSelect", "dtype", () => t(4).indexSelect(0, t(2))],
    ["indexSelect", "disposed", () => t(4).indexSelect(0, gone)],
    ["take", "dtype", () => t(4).take(t(2))],
    ["gather", "dtype", () => t(4).gather(0, t(2))],
    ["gather", "size", () => t(4, 2).gather(0, i(3))],
    ["gatherNd", "size", () => t(4).gatherNd(i(2))],
    ["scatterReduce", "dtype", () => t(4).scatterReduce(0, i(2), t(2), "any")],
    ["scatterNd", "size", () => t(4, 2).scatterNd(i(3, 1), t(3))],
    ["indexAdd", "size", () => t(4).indexAdd(0, i(2), t(3))],
    ["maskedFill", "dtype", () => t(2).maskedFill(t(2), 0)],
    ["maskedSelect", "dtype", () => t(2).maskedSelect(t(2))],
    ["sliceScatter", "size", () => t(4).sliceScatter(0, 3, t(2))],
    ["oneHot", "dtype", () => t(2).oneHot(3)],
    ["unpack", "dtype", () => t(2).unpack(4)],
    ["unpackBf16", "dtype", () => t(2).unpackBf16()],
    ["dequantize", "dtype", () => t(2).dequantize(t(2))],
    ["batchNorm", "size", () => t(2, 4).batchNorm(t(3), t(3))],
    ["groupNorm", "size", () => t(2, 4).groupNorm(3)],
    ["instanceNorm", "rank", () => t(4).instanceNorm()],
    ["layerNorm", "size", () => t(4).layerNorm({ weight: t(3) })],
    ["rmsNorm", "size", () => t(4).rmsNorm({ weight: t(3) })],
    ["grad", "rank", () => t(2).grad([t(2)])],
    ["grad", "disposed", () => t().grad([gone])],
    ["backward", "rank", () => t(2).backward([])],
    ["checkpoint", "value", () => t(2).checkpoint(1)],
    ["to", "value", () => t(2).to("cpu")],
    ["readRange", "value", () => t(2).readRange(1, 2)],
    ["item", "size", () => t(2).item()],
    ["concat", "size", () => Tensor.concat([t(2, 2), t(2, 3)], 0)],
    ["concat", "dtype", () => Tensor.concat([t(2), i(2)], 0)],
    ["concat", "disposed", () => Tensor.concat([gone, t(2)], 0)],
    ["stack", "size", () => Tensor.stack([t(2), t(3)], 0)],
    ["einsum", "value", () => Tensor.einsum("i1", [t(2, 2)])],
    ["meshgrid", "rank", () => Tensor.meshgrid([t(2, 2)])],
    ["vjp", "value", () => Tensor.vjp([t(2)], [], [t(2)])],
    ["tensor", "value", () => device.tensor([[1, 2], [3]])],
    ["tensor", "size", () => device.tensor([1, 2, 3], [2, 2])],
    ["tensor", "dtype", () => device.tensor([1.5], [1], "i32")],
    ["tensor", "value", () => device.tensor([1], [1], "f64")],
    ["tensor", "value", () => device.tensor("123")],
    ["zeros", "value", () => device.zeros([-1])],
    ["ones", "rank", () => device.ones(Array(9).fill(1))],
    ["full", "dtype", () => device.full([1], 0.5, { dtype: "i32" })],
    ["iota", "value", () => device.iota([2], 1)],
    ["arange", "value", () => device.arange(0, 1, 0)],
    ["linspace", "value", () => device.linspace(0, 1, 2.5)],
    ["eye", "value", () => device.eye(-2)],
    ["uniform", "value", () => device.uniform([2], { low: 2, high: 1 })],
    ["normal", "value", () => device.normal([2], { std: -1 })],
    ["bernoulli", "value", () => device.bernoulli([2], 1.5)],
    ["compile", "value", () => device.compile([{ shape: [2] }])],
    ["elementFunction", "value", () => device.elementFunction(1)],
    ["shader", "value", () => device.shader(1)],
    ["scope", "value", () => device.scope(1)],
    ["add", "value", () => t(2).add(1, 2)],
    ["sum", "value", () => t(2).sum(0, { keepDim: true })],
  ];
}

/** Returns the rejected calls of training: the class, its static method, and the call. */
function ofLearning({ device, Generator, Layer, Optimizer, Schedule, Sequential, Residual, Variable, WeightAverage }) {
  const g = new Generator(device, 0);
  const t = (...shape) => device.ones(shape);
  const one = () => [new Variable(t(2))];
  const rules = methodsOf(Optimizer).filter((name) => name !== "muon");
  return [
    ...rules.map((name) => [name, () => Optimizer[name](one(), { lr: -1 })]),
    ["muon", () => Optimizer.muon(one())],
    ["linear", () => Layer.linear(g, -1, 2)],
    ["bilinear", () => Layer.bilinear(g, 1, 2, "3")],
    ["embedding", () => Layer.embedding(g, 1.5, 2)],
    ["dropout", () => Layer.dropout(g, 1.5)],
    ["lora", () => Layer.lora(g, Layer.linear(g, 2, 2), 0, 1)],
    ...words("conv1d conv2d conv3d convTranspose1d convTranspose2d convTranspose3d").map((name) => [
      name,
      () => Layer[name](g, 3, 4, 3, { groups: 2 }),
    ]),
    ...words("rnn lstm gru").map((name) => [name, () => Layer[name](g, 3, 0)]),
    ...words("batchNorm layerNorm rmsNorm").map((name) => [name, () => Layer[name](g, "2")]),
    ["groupNorm", () => Layer.groupNorm(g, "2", 4)],
    ["instanceNorm", () => Layer.instanceNorm(1)],
    ...words("multiheadAttention transformerEncoderLayer transformerDecoderLayer").map((name) => [
      name,
      () => Layer[name](g, 5, 2),
    ]),
    ["constant", () => Schedule.constant(-1)],
    ["stepLr", () => Schedule.stepLr(0.1, 0)],
    ["multiStep", () => Schedule.multiStep(-1, [3])],
    ["exponential", () => Schedule.exponential(-1, 0.5)],
    ["polynomial", () => Schedule.polynomial(-1, 3)],
    ["linear", () => Schedule.linear(-1)],
    ["cosineAnnealing", () => Schedule.cosineAnnealing(0.1, 0)],
    ["cosineAnnealingWarmRestarts", () => Schedule.cosineAnnealingWarmRestarts(0.1, 0)],
    ["oneCycle", () => Schedule.oneCycle(0.1, 0)],
    ["reduceOnPlateau", () => Schedule.reduceOnPlateau(0.1, { factor: 1.5 })],
    ["sequential", () => new Sequential(1)],
    ["residual", () => new Residual(1)],
    ["variable", () => new Variable(1)],
    ["average", () => Optimizer.sgd(one()).average(2)],
    ["WeightAverage", () => new WeightAverage()],
  ];
}

const methodsOf = (kind) => Object.getOwnPropertyNames(kind).filter((name) => typeof kind[name] === "function");

/** Returns the message with which a call is rejected. */
async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return error?.name === "WarpweftError" ? error.message : `not a WarpweftError: ${error?.stack ?? error}`;
  }
  return undefined;
}

test("forms: every operation says what must hold and what it got", async (context) => {
  const { device, Tensor } = context;
  const faults = [];
  const rows = ofTensors(context);
  for (const [op, kind, call] of rows) {
    const message = await refusal(call);
    const fault = message === undefined ? "was not refused" : wrong(op, message);
    if (fault) faults.push(`${op}, wrong ${kind}: ${fault}: ${message}`);
  }
  const known = new Set([...rows.map(([op]) => op), ...Object.values(NEVER).flat()]);
  const [ofTensor, ofDevice] = [device.ones([1]), device].map((object) => methods(Object.getPrototypeOf(object)));
  const missing = [...ofTensor, ...methodsOf(Tensor), ...ofDevice].filter((name) => !known.has(name));
  for (const name of missing) faults.push(`${name}: no call of it is refused`);
  check(rows.length > 300, `only ${rows.length} calls`);
  check(faults.length === 0, faults.join("\n"));
});

test("forms: every method of a disposed tensor says so", async ({ device }) => {
  const gone = device.ones([2]);
  gone.dispose();
  // The CPU has no GPU buffers, so `gpuBuffer` has another message.
  const aside = [...NEVER["not for users"], "dispose", "toString", "gpuBuffer"];
  const faults = [];
  for (const name of methods(Object.getPrototypeOf(gone))) {
    if (aside.includes(name)) continue;
    const message = await refusal(() => gone[name]());
    const fault = message === undefined ? "was not refused" : wrong(name, message);
    if (fault || !message.includes("must not be disposed")) faults.push(`${name}: ${fault ?? "does not say so"}: ${message}`);
  }
  check(faults.length === 0, faults.join("\n"));
});

test("forms: what makes layers, optimizers and schedules", async (context) => {
  const rows = ofLearning(context);
  const faults = [];
  for (const [op, call] of rows) {
    const message = await refusal(call);
    const fault = message === undefined ? "was not refused" : wrong(op, message);
    if (fault) faults.push(`${op}: ${fault}: ${message}`);
  }
  const known = rows.map(([op]) => op);
  for (const kind of [context.Layer, context.Optimizer, context.Schedule]) {
    for (const name of methodsOf(kind)) if (!known.includes(name)) faults.push(`${name}: no call of it is refused`);
  }
  check(faults.length === 0, faults.join("\n"));
});

test("forms: a recurrent layer names itself and the width", async ({ device, Generator, Layer }) => {
  const g = new Generator(device, 0);
  for (const op of ["rnn", "lstm", "gru"]) {
    const message = await refusal(() => Layer[op](g, 3, 2).forward(device.ones([1, 2, 4])));
    check(message === `${op}: the input must be [batch, steps, 3] with a step, got shape [1, 2, 4]`, message);
  }
});
