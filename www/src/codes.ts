// Numbers that stand for operations and types between TypeScript and WebAssembly. Written by
// `UPDATE=1 cargo test --test it js`; do not edit.

/** What a core must answer to `fingerprint()` for these numbers and the pointwise rows', to be its own. */
export const fingerprint = 2784701631;

/** The types of elements, by number. */
export const dtypes = ["f32", "f16", "i32", "u32", "bool"] as const;

/** Operations other than the pointwise ones. */
export const enum Code {
  full = 0,
  iota = 1,
  arange = 2,
  linspace = 3,
  eye = 4,
  uniform = 5,
  normal = 6,
  bernoulli = 7,
  cast = 8,
  reshape = 9,
  permute = 10,
  transpose = 11,
  expand = 12,
  unsqueeze = 13,
  squeeze = 14,
  slice = 15,
  flip = 16,
  pad = 17,
  concat = 18,
  stack = 19,
  indexSelect = 20,
  tril = 21,
  triu = 22,
  oneHot = 23,
  tile = 24,
  dropout = 25,
  sum = 26,
  prod = 27,
  max = 28,
  min = 29,
  any = 30,
  all = 31,
  mean = 32,
  var = 33,
  argmax = 34,
  argmin = 35,
  logsumexp = 36,
  normL1 = 37,
  normL2 = 38,
  normLinf = 39,
  softmax = 40,
  logSoftmax = 41,
  layerNorm = 42,
  rmsNorm = 43,
  matmul = 44,
  outer = 45,
  dot = 46,
  conv2d = 47,
  attention = 48,
  detach = 49,
}
