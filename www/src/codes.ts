// Numbers that stand for operations and types between TypeScript and WebAssembly. Written by
// `UPDATE=1 cargo test --test it js`; do not edit.

/** What a core must answer to `fingerprint()` for these numbers and the pointwise rows', to be its own. */
export const fingerprint = 1697751270;

/** The types of elements, by number. */
export const dtypes = ["f32", "f16", "i32", "u32", "bool"] as const;

/** Operations other than the pointwise ones. */
export const enum Code {
  full = 0,
  iota = 1,
  arange = 2,
  cast = 3,
  reshape = 4,
  permute = 5,
  transpose = 6,
  expand = 7,
  unsqueeze = 8,
  squeeze = 9,
  slice = 10,
  flip = 11,
  pad = 12,
  concat = 13,
  sum = 14,
  prod = 15,
  max = 16,
  min = 17,
  any = 18,
  all = 19,
  mean = 20,
  softmax = 21,
  matmul = 22,
  detach = 23,
  linspace = 24,
  eye = 25,
  uniform = 26,
  normal = 27,
  bernoulli = 28,
  stack = 29,
  indexSelect = 30,
  unfold = 31,
  unpack = 32,
  unpackBf16 = 33,
  dequantize = 34,
  padWith = 35,
  tril = 36,
  triu = 37,
  oneHot = 38,
  tile = 39,
  roll = 40,
  dropout = 41,
  var = 42,
  std = 43,
  argmax = 44,
  argmin = 45,
  logsumexp = 46,
  normL1 = 47,
  normL2 = 48,
  normLinf = 49,
  logSoftmax = 50,
  layerNorm = 51,
  rmsNorm = 52,
  batchNorm = 53,
  groupNorm = 54,
  instanceNorm = 55,
  outer = 56,
  dot = 57,
  rotary = 58,
  attention = 59,
  conv1d = 60,
  conv2d = 61,
  conv3d = 62,
  convTranspose1d = 63,
  convTranspose2d = 64,
  convTranspose3d = 65,
  maxPool = 66,
  maxPoolIndices = 67,
  avgPool = 68,
  l2Pool = 69,
  adaptiveAvgPool = 70,
  resize = 71,
  resample = 72,
  cumsum = 73,
  cumprod = 74,
  cummax = 75,
  cummin = 76,
  argsort = 77,
  topK = 78,
  takeAlong = 79,
  scatter = 80,
  scatterAdd = 81,
  scatterReduce = 82,
  indexAdd = 83,
  gatherNd = 84,
  scatterNd = 85,
  maskedFill = 86,
  eigh = 87,
}

/** What a core's `ask` is asked for. */
export const enum Ask {
  describe = 0,
  figures = 1,
  trim = 2,
  flush = 3,
  run = 4,
  lastPlan = 5,
  programPlan = 6,
  runProgram = 7,
  grad = 8,
  runBatch = 9,
  planBatch = 10,
  keep = 11,
  variants = 12,
}

/** What a core's `later` does. */
export const enum Later {
  open = 0,
  sync = 1,
  read = 2,
  tune = 3,
}

/** What a core's `words` tells of. */
export const enum Words {
  device = 0,
  source = 1,
  plan = 2,
  variants = 3,
}

/** The number of the pointwise table's first row as an operation. */
export const FIRST_ROW = 1000;
