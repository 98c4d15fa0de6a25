// The expected results of operations, in plain JavaScript on 64-bit floats.

/** Computes the error function: a series below 3, a continued fraction above. */
export function erf(x) {
  if (Math.abs(x) > 3) return Math.sign(x) * (1 - erfcTail(Math.abs(x)));
  let [term, sum] = [x, x];
  for (let n = 1; n < 100; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

function erfcTail(x) {
  let fraction = x;
  for (let n = 60; n > 0; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / fraction;
}

/** Computes log|Gamma(x)|: moves x to where Stirling's series is exact, and reflects values below 0. */
function lgamma(x) {
  if (x < 0) return Math.log(Math.abs(Math.PI / Math.sin(Math.PI * x))) - lgamma(1 - x);
  if (x < 12) return lgamma(x + 1) - Math.log(x);
  return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + 1 / (12 * x) - 1 / (360 * x ** 3);
}

/** Computes the derivative of `lgamma`. */
function digamma(x) {
  if (x < 0) return digamma(1 - x) - Math.PI / Math.tan(Math.PI * x);
  if (x < 20) return digamma(x + 1) - 1 / x;
  return Math.log(x) - 1 / (2 * x) - 1 / (12 * x ** 2) + 1 / (120 * x ** 4);
}

/** Computes the inverse of the error function, by Newton's method from 0. */
function erfinv(y) {
  let x = 0;
  for (let n = 0; n < 60; n++) x += ((y - erf(x)) * Math.sqrt(Math.PI) * Math.exp(x * x)) / 2;
  return x;
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const softplus = (x) => Math.log1p(Math.exp(x));
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const roundEven = (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));
const elu = (x, alpha = 1) => (x > 0 ? x : alpha * Math.expm1(x));
const selu = [1.0507009873554805, 1.6732632423543772];

/** The rows of one float: the formula, and values to try if the usual ones are outside its domain. */
export const unary = {
  abs: [Math.abs],
  neg: [(x) => -x],
  sign: [Math.sign],
  floor: [Math.floor],
  ceil: [Math.ceil],
  round: [roundEven],
  trunc: [Math.trunc],
  fract: [(x) => x - Math.floor(x)],
  reciprocal: [(x) => 1 / x],
  square: [(x) => x * x],
  sqrt: [Math.sqrt, [0.25, 2, 100]],
  rsqrt: [(x) => 1 / Math.sqrt(x), [0.25, 2, 100]],
  exp: [Math.exp],
  exp2: [(x) => 2 ** x],
  expm1: [Math.expm1],
  log: [Math.log, [0.1, 1, 7]],
  log2: [Math.log2, [0.1, 1, 7]],
  log10: [Math.log10, [0.1, 1, 7]],
  log1p: [Math.log1p, [-0.5, 1e-4, 7]],
  sin: [Math.sin],
  cos: [Math.cos],
  tan: [Math.tan, [-1.2, 0.1, 1]],
  asin: [Math.asin, [-0.9, 0.1, 0.8]],
  acos: [Math.acos, [-0.9, 0.1, 0.8]],
  atan: [Math.atan],
  sinh: [Math.sinh],
  cosh: [Math.cosh],
  tanh: [Math.tanh],
  asinh: [Math.asinh],
  acosh: [Math.acosh, [1.5, 3, 40]],
  atanh: [Math.atanh, [-0.9, 0.1, 0.8]],
  erf: [erf],
  erfc: [(x) => 1 - erf(x), [-2, 0.5, 1.5]],
  logit: [(x) => Math.log(x) - Math.log1p(-x), [0.1, 0.25, 0.99]],
  erfinv: [erfinv, [-0.9, 0.1, 0.99]],
  lgamma: [lgamma, [-2.5, 0.1, 1.5, 40]],
  digamma: [digamma, [-2.5, 0.1, 1.5, 40]],
  relu: [(x) => Math.max(x, 0)],
  relu6: [(x) => clamp(x, 0, 6)],
  leakyRelu: [(x) => (x > 0 ? x : 0.01 * x)],
  elu: [elu],
  selu: [(x) => selu[0] * (x > 0 ? x : selu[1] * Math.expm1(x))],
  celu: [elu],
  sigmoid: [sigmoid],
  hardSigmoid: [(x) => clamp(x / 6 + 0.5, 0, 1)],
  logSigmoid: [(x) => -softplus(-x)],
  silu: [(x) => x * sigmoid(x)],
  hardSwish: [(x) => x * clamp(x / 6 + 0.5, 0, 1)],
  gelu: [(x) => 0.5 * x * (1 + erf(x / Math.SQRT2))],
  geluTanh: [(x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))],
  mish: [(x) => x * Math.tanh(softplus(x))],
  softplus: [softplus],
  softsign: [(x) => x / (1 + Math.abs(x))],
  hardTanh: [(x) => clamp(x, -1, 1)],
  hardshrink: [(x) => (Math.abs(x) <= 0.5 ? 0 : x)],
  softshrink: [(x) => Math.max(x - 0.5, 0) + Math.min(x + 0.5, 0)],
  threshold: [(x) => Math.max(x, 0)],
  isNan: [Number.isNaN, [1, NaN, Infinity]],
  isInf: [(x) => Math.abs(x) === Infinity, [1, NaN, -Infinity]],
  isFinite: [Number.isFinite, [1, NaN, Infinity]],
  signBit: [(x) => x < 0 || Object.is(x, -0), [-0, 0, -3, 3]],
};

const floorMod = (x, y) => x - y * Math.floor(x / y);

/** The rows of two floats. */
export const binary = {
  add: (x, y) => x + y,
  sub: (x, y) => x - y,
  mul: (x, y) => x * y,
  div: (x, y) => x / y,
  fmod: (x, y) => x % y,
  remainder: floorMod,
  pow: (x, y) => x ** y,
  minimum: Math.min,
  maximum: Math.max,
  atan2: Math.atan2,
  hypot: Math.hypot,
  heaviside: (x, values) => (x === 0 ? values : +(x > 0)),
  copysign: (x, y) => (y < 0 ? -Math.abs(x) : Math.abs(x)),
  squaredDifference: (x, y) => (x - y) ** 2,
  eq: (x, y) => x === y,
  ne: (x, y) => x !== y,
  lt: (x, y) => x < y,
  le: (x, y) => x <= y,
  gt: (x, y) => x > y,
  ge: (x, y) => x >= y,
};

/** The rows of two `bool`s. */
export const logical = {
  logicalAnd: (x, y) => x && y,
  logicalOr: (x, y) => x || y,
  logicalXor: (x, y) => x !== y,
};

/** The rows of two integers. */
export const bitwise = {
  bitwiseAnd: (x, y) => x & y,
  bitwiseOr: (x, y) => x | y,
  bitwiseXor: (x, y) => x ^ y,
  bitwiseLeftShift: (x, count) => x << count,
  bitwiseRightShift: (x, count) => x >> count,
  floorDivide: (x, y) => Math.floor(x / y),
};

/** Returns the product of an `m` by `k` and a `k` by `n` matrix, row-major. */
export function matmul(a, b, m, k, n) {
  const element = (i, j) => Array.from({ length: k }, (_, l) => a[i * k + l] * b[l * n + j]).reduce((x, y) => x + y, 0);
  return Array.from({ length: m * n }, (_, at) => element(Math.floor(at / n), at % n));
}

/** Returns the softmax of a list. */
export function softmax(list) {
  const exps = list.map((x) => Math.exp(x - Math.max(...list)));
  return exps.map((e) => e / exps.reduce((x, y) => x + y, 0));
}

/** Returns the rows of a row-major matrix. */
export const rows = (list, columns) =>
  Array.from({ length: list.length / columns }, (_, i) => list.slice(i * columns, (i + 1) * columns));

/** Returns the arithmetic mean. */
export const mean = (list) => list.reduce((x, y) => x + y, 0) / list.length;

/** Returns the variance. */
export const variance = (list, correction = 0) =>
  list.reduce((sum, x) => sum + (x - mean(list)) ** 2, 0) / (list.length - correction);

/** Computes a convolution of `[batch, channels, height, width]` with `[out, channels, kh, kw]`, one group, no dilation. */
export function conv2d(x, [batch, channels, height, width], w, [out, , kh, kw], stride, pad) {
  const [oh, ow] = [(height + 2 * pad - kh) / stride + 1, (width + 2 * pad - kw) / stride + 1].map(Math.floor);
  const result = [];
  for (let b = 0; b < batch; b++)
    for (let o = 0; o < out; o++)
      for (let y = 0; y < oh; y++)
        for (let z = 0; z < ow; z++) {
          let sum = 0;
          for (let c = 0; c < channels; c++)
            for (let i = 0; i < kh; i++)
              for (let j = 0; j < kw; j++) {
                const [r, s] = [y * stride + i - pad, z * stride + j - pad];
                if (r < 0 || s < 0 || r >= height || s >= width) continue;
                sum += x[((b * channels + c) * height + r) * width + s] * w[((o * channels + c) * kh + i) * kw + j];
              }
          result.push(sum);
        }
  return result;
}

/** Computes attention of one head: q is `queries` by `d`, k and v are `keys` by `d`. */
export function attention(q, k, v, d, { causal = false } = {}) {
  const [qs, ks, vs] = [rows(q, d), rows(k, d), rows(v, d)];
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  return qs.flatMap((query, i) => {
    const seen = (j) => !causal || j <= i + ks.length - qs.length;
    const weights = softmax(ks.map((key, j) => (seen(j) ? dot(query, key) / Math.sqrt(d) : -Infinity)));
    return Array.from({ length: d }, (_, c) => dot(weights, vs.map((value) => value[c])));
  });
}
