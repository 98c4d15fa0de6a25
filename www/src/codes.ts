// Numbers that stand for operations and types between TypeScript and WebAssembly. Written by
// `UPDATE=1 cargo test --test it js`; do not edit.

/** What a core must answer to `fingerprint()` for these numbers and the pointwise rows', to be its own. */
export const fingerprint = 1766755804;

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
  padWith = 33,
  tril = 34,
  triu = 35,
  oneHot = 36,
  tile = 37,
  roll = 38,
  dropout = 39,
  var = 40,
  std = 41,
  argmax = 42,
  argmin = 43,
  logsumexp = 44,
  normL1 = 45,
  normL2 = 46,
  normLinf = 47,
  logSoftmax = 48,
  layerNorm = 49,
  rmsNorm = 50,
  batchNorm = 51,
  groupNorm = 52,
  instanceNorm = 53,
  outer = 54,
  dot = 55,
  rotary = 56,
  attention = 57,
  conv1d = 58,
  conv3d = 59,
  convTranspose1d = 60,
  convTranspose2d = 61,
  convTranspose3d = 62,
  maxPool = 63,
  maxPoolIndices = 64,
  avgPool = 65,
  l2Pool = 66,
  adaptiveAvgPool = 67,
  resize = 68,
  resample = 69,
  cumsum = 70,
  cumprod = 71,
  cummax = 72,
  cummin = 73,
  argsort = 74,
  topK = 75,
  takeAlong = 76,
  scatter = 77,
  scatterAdd = 78,
  scatterReduce = 79,
  indexAdd = 80,
  gatherNd = 81,
  scatterNd = 82,
  maskedFill = 83,
  eigh = 84,
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
}

/** What a core's `later` does. */
export const enum Later {
  open = 0,
  sync = 1,
  read = 2,
}

/** What a core's `words` tells of. */
export const enum Words {
  device = 0,
  source = 1,
  plan = 2,
}

/** The number of the pointwise table's first row as an operation. */
export const FIRST_ROW = 1000;

/** From this number on operations are in the part `extras`. */
export const FIRST_EXTRA = 25;
