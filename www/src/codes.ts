// Numbers that stand for operations and types between TypeScript and WebAssembly. Written by
// `UPDATE=1 cargo test --test it js`; do not edit.

/** What a core must answer to `fingerprint()` for these numbers and the pointwise rows', to be its own. */
export const fingerprint = 1472815838;

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
  conv2d = 23,
  detach = 24,
  linspace = 25,
  eye = 26,
  uniform = 27,
  normal = 28,
  bernoulli = 29,
  stack = 30,
  indexSelect = 31,
  unfold = 32,
  unpack = 33,
  unpackBf16 = 34,
  dequantize = 35,
  padWith = 36,
  tril = 37,
  triu = 38,
  oneHot = 39,
  tile = 40,
  roll = 41,
  dropout = 42,
  var = 43,
  std = 44,
  argmax = 45,
  argmin = 46,
  logsumexp = 47,
  normL1 = 48,
  normL2 = 49,
  normLinf = 50,
  logSoftmax = 51,
  layerNorm = 52,
  rmsNorm = 53,
  batchNorm = 54,
  groupNorm = 55,
  instanceNorm = 56,
  outer = 57,
  dot = 58,
  rotary = 59,
  attention = 60,
  conv1d = 61,
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

/** From this number on operations are in the part `extras`. */
export const FIRST_EXTRA = 25;
