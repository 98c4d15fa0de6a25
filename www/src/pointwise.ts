// The pointwise operations: one method per row of the table in src/op/pointwise.rs. Written by
// `UPDATE=1 cargo test --test it js`; do not edit.

import { Recorded } from "./recorded.js";
import type { Operand, Tensor } from "./tensor.js";

/** The operations that work element by element. */
export interface Pointwise {
  /**
   * The absolute value, `|x|`; its derivative at 0 is 0.
   * Takes `f32`, `f16` and `i32`.
   */
  abs(): Tensor;

  /**
   * The value with its sign changed, `-x`.
   * Takes `f32`, `f16` and `i32`.
   */
  neg(): Tensor;

  /**
   * The sign: -1, 1, or `x` itself where that is 0, -0 or NaN.
   * Takes `f32`, `f16` and `i32`.
   */
  sign(): Tensor;

  /**
   * Whether the sign bit is set: true for negative values and for -0.
   * Takes `f32` and `f16`.
   */
  signBit(): Tensor;

  /**
   * The largest integer not above `x`.
   * Takes `f32` and `f16`.
   */
  floor(): Tensor;

  /**
   * The smallest integer not below `x`.
   * Takes `f32` and `f16`.
   */
  ceil(): Tensor;

  /**
   * The nearest integer; halves go to the even one.
   * Takes `f32` and `f16`.
   */
  round(): Tensor;

  /**
   * The integer part: `x` rounded towards 0.
   * Takes `f32` and `f16`.
   */
  trunc(): Tensor;

  /**
   * The fractional part `x - floor(x)`, from 0 up to 1; the 1 where a tiny negative `x`
   * rounds to it.
   * Takes `f32` and `f16`.
   */
  fract(): Tensor;

  /**
   * The multiplicative inverse, `1 / x`.
   * Takes `f32` and `f16`.
   */
  recip(): Tensor;

  /**
   * The square, `x * x`.
   * Takes every type but `bool`.
   */
  square(): Tensor;

  /**
   * The square root; NaN below 0.
   * Takes `f32` and `f16`.
   */
  sqrt(): Tensor;

  /**
   * The inverse of the square root, `1 / sqrt(x)`; NaN below 0.
   * Takes `f32` and `f16`.
   */
  rsqrt(): Tensor;

  /**
   * The exponential, `e^x`. GPUs may be wrong by `3 + 2 |x|` units in the last place.
   * Takes `f32` and `f16`.
   */
  exp(): Tensor;

  /**
   * `2^x`. GPUs may be wrong by `3 + 2 |x|` units in the last place.
   * Takes `f32` and `f16`.
   */
  exp2(): Tensor;

  /**
   * `e^x - 1`, accurate near 0 too.
   * Takes `f32` and `f16`.
   */
  expm1(): Tensor;

  /**
   * The natural logarithm; -Inf at 0, NaN below. GPUs may be off by 5e-7 (not relative) for
   * `x` from 1/2 to 2; where `x` is close to 1, `log1p` of the difference keeps its digits.
   * Takes `f32` and `f16`.
   */
  log(): Tensor;

  /**
   * The logarithm to base 2; -Inf at 0, NaN below.
   * Takes `f32` and `f16`.
   */
  log2(): Tensor;

  /**
   * The logarithm to base 10, `log(x) / log(10)`; -Inf at 0, NaN below.
   * Takes `f32` and `f16`.
   */
  log10(): Tensor;

  /**
   * `log(1 + x)`, accurate near 0 too; -Inf at -1, NaN below.
   * Takes `f32` and `f16`.
   */
  log1p(): Tensor;

  /**
   * The sine of `x` radians. GPUs lose digits as `|x|` grows; keep it below some thousands.
   * Takes `f32` and `f16`.
   */
  sin(): Tensor;

  /**
   * The cosine of `x` radians. GPUs lose digits as `|x|` grows; keep it below some
   * thousands.
   * Takes `f32` and `f16`.
   */
  cos(): Tensor;

  /**
   * The tangent of `x` radians. GPUs lose digits as `|x|` grows, and next to the poles.
   * Takes `f32` and `f16`.
   */
  tan(): Tensor;

  /**
   * The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside [-1, 1].
   * Takes `f32` and `f16`.
   */
  asin(): Tensor;

  /**
   * The angle in [0, pi] whose cosine is `x`; NaN outside [-1, 1].
   * Takes `f32` and `f16`.
   */
  acos(): Tensor;

  /**
   * The angle in [-pi/2, pi/2] whose tangent is `x`.
   * Takes `f32` and `f16`.
   */
  atan(): Tensor;

  /**
   * The hyperbolic sine, `(e^x - e^-x) / 2`.
   * Takes `f32` and `f16`.
   */
  sinh(): Tensor;

  /**
   * The hyperbolic cosine, `(e^x + e^-x) / 2`.
   * Takes `f32` and `f16`.
   */
  cosh(): Tensor;

  /**
   * The hyperbolic tangent, `(e^x - e^-x) / (e^x + e^-x)`, from -1 to 1.
   * Takes `f32` and `f16`.
   */
  tanh(): Tensor;

  /**
   * The inverse hyperbolic sine, `log(x + sqrt(x^2 + 1))`.
   * Takes `f32` and `f16`.
   */
  asinh(): Tensor;

  /**
   * The inverse hyperbolic cosine, `log(x + sqrt(x^2 - 1))`; NaN below 1.
   * Takes `f32` and `f16`.
   */
  acosh(): Tensor;

  /**
   * The inverse hyperbolic tangent, `log((1 + x) / (1 - x)) / 2`; Inf at 1, NaN outside [-1,
   * 1].
   * Takes `f32` and `f16`.
   */
  atanh(): Tensor;

  /**
   * The error function, the integral of `2 / sqrt(pi) e^(-t^2)` from 0 to `x`.
   * Takes `f32` and `f16`.
   */
  erf(): Tensor;

  /**
   * `1 - erf(x)`, accurate in the tail too; the relative error grows to 1e-5 at 9, where f32
   * ends.
   * Takes `f32` and `f16`.
   */
  erfc(): Tensor;

  /**
   * The rectifier: `x` above 0, else 0; its derivative at 0 is 0.
   * Takes `f32` and `f16`.
   */
  relu(): Tensor;

  /**
   * The rectifier that stops at 6: `min(max(x, 0), 6)`.
   * Takes `f32` and `f16`.
   */
  relu6(): Tensor;

  /**
   * `x` above 0, else `alpha * x`.
   * Takes `f32` and `f16`.
   * @param alpha usually 0.01
   */
  leakyRelu(alpha?: number): Tensor;

  /**
   * The exponential linear unit: `x` above 0, else `alpha (e^x - 1)`. Clevert et al. 2015.
   * Takes `f32` and `f16`.
   * @param alpha usually 1
   */
  elu(alpha?: number): Tensor;

  /**
   * The self-normalising unit: 1.0507 times `x` above 0, else 1.0507 * 1.67326 `(e^x - 1)`.
   * Klambauer et al. 2017.
   * Takes `f32` and `f16`.
   */
  selu(): Tensor;

  /**
   * The continuously differentiable unit: `x` above 0, else `alpha (e^(x / alpha) - 1)`.
   * Barron 2017.
   * Takes `f32` and `f16`.
   * @param alpha usually 1
   */
  celu(alpha?: number): Tensor;

  /**
   * The logistic function `1 / (1 + e^-x)`, from 0 to 1.
   * Takes `f32` and `f16`.
   */
  sigmoid(): Tensor;

  /**
   * `min(max(x / 6 + 1/2, 0), 1)`, the sigmoid in straight lines.
   * Takes `f32` and `f16`.
   */
  hardSigmoid(): Tensor;

  /**
   * The logarithm of the logistic function, `-log(1 + e^-x)`.
   * Takes `f32` and `f16`.
   */
  logSigmoid(): Tensor;

  /**
   * The sigmoid linear unit, also called swish: `x / (1 + e^-x)`.
   * Takes `f32` and `f16`.
   */
  silu(): Tensor;

  /**
   * `x min(max(x / 6 + 1/2, 0), 1)`, the swish in parabolas. Howard et al. 2019.
   * Takes `f32` and `f16`.
   */
  hardSwish(): Tensor;

  /**
   * The Gaussian error linear unit `x (1 + erf(x / sqrt(2))) / 2`. Hendrycks and Gimpel
   * 2016.
   * Takes `f32` and `f16`.
   */
  gelu(): Tensor;

  /**
   * The tanh form of gelu: `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`; up to 5e-4
   * away from it.
   * Takes `f32` and `f16`.
   */
  geluTanh(): Tensor;

  /**
   * `x tanh(log(1 + e^x))`. Misra 2019.
   * Takes `f32` and `f16`.
   */
  mish(): Tensor;

  /**
   * The smooth rectifier `log(1 + e^x)`.
   * Takes `f32` and `f16`.
   */
  softplus(): Tensor;

  /**
   * `x / (1 + |x|)`, from -1 to 1.
   * Takes `f32` and `f16`.
   */
  softsign(): Tensor;

  /**
   * `x` limited to [min, max].
   * Takes `f32` and `f16`.
   * @param min usually -1
   * @param max usually 1
   */
  hardTanh(min?: number, max?: number): Tensor;

  /**
   * Whether `x` is NaN.
   * Takes `f32` and `f16`.
   */
  isNan(): Tensor;

  /**
   * Whether `x` is Inf or -Inf.
   * Takes `f32` and `f16`.
   */
  isInf(): Tensor;

  /**
   * Whether `x` is neither NaN nor infinite.
   * Takes `f32` and `f16`.
   */
  isFinite(): Tensor;

  /**
   * True where `x` is false.
   * Takes `bool`.
   */
  logicalNot(): Tensor;

  /**
   * Every bit inverted; of `bool`, the logical not.
   * Takes `i32`, `u32` and `bool`.
   */
  bitwiseNot(): Tensor;

  /**
   * The sum, `x + y`; integers wrap.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  add(y: Operand): Tensor;

  /**
   * The difference, `x - y`; integers wrap.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  sub(y: Operand): Tensor;

  /**
   * The product, `x * y`; integers wrap.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  mul(y: Operand): Tensor;

  /**
   * The quotient, `x / y`; integers truncate towards 0, and an integer over 0 is itself.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  div(y: Operand): Tensor;

  /**
   * The remainder `x - y trunc(x / y)`, with the sign of `x`; of integers by 0 it is 0. GPUs
   * may be one `y` off where `x / y` is within rounding of an integer, with no digits left
   * where it is above 2^24.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  rem(y: Operand): Tensor;

  /**
   * The remainder `x - y floor(x / y)`, with the sign of `y`, as Python's `%`; of integers
   * by 0 it is 0.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  floorMod(y: Operand): Tensor;

  /**
   * `x` to the power `y`: `x^0` and `1^y` are 1, `0^y` is Inf for negative `y`, and a
   * negative `x` gives NaN unless `y` is an integer. The relative error on GPUs grows with
   * `|y log2(x)|`, about 1e-7 for each.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  pow(y: Operand): Tensor;

  /**
   * The smaller one; NaN if one is NaN. The gradient goes to the smaller one, half to each
   * where they are equal.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  minimum(y: Operand): Tensor;

  /**
   * The larger one; NaN if one is NaN. The gradient goes to the larger one, half to each
   * where they are equal.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  maximum(y: Operand): Tensor;

  /**
   * The angle of the point (x, y) in radians, from -pi to pi; signed zeros count as IEEE 754
   * says.
   * This tensor is `y`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  atan2(x: Operand): Tensor;

  /**
   * `sqrt(x^2 + y^2)`, without overflow on the way; its gradient at (0, 0) is 0.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  hypot(y: Operand): Tensor;

  /**
   * `x` with the sign of `y`; -0 and NaN have signs too.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  copysign(y: Operand): Tensor;

  /**
   * `(x - y)^2`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  squaredDifference(y: Operand): Tensor;

  /**
   * Whether `x` equals `y`; NaN equals nothing.
   * This tensor is `x`. Takes every type.
   * Operands broadcast; a number takes the tensors' type.
   */
  eq(y: Operand): Tensor;

  /**
   * Whether `x` differs from `y`; NaN differs from everything.
   * This tensor is `x`. Takes every type.
   * Operands broadcast; a number takes the tensors' type.
   */
  ne(y: Operand): Tensor;

  /**
   * Whether `x < y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  lt(y: Operand): Tensor;

  /**
   * Whether `x <= y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  le(y: Operand): Tensor;

  /**
   * Whether `x > y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  gt(y: Operand): Tensor;

  /**
   * Whether `x >= y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  ge(y: Operand): Tensor;

  /**
   * Whether both are true.
   * This tensor is `x`. Takes `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  logicalAnd(y: Operand): Tensor;

  /**
   * Whether at least one is true.
   * This tensor is `x`. Takes `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  logicalOr(y: Operand): Tensor;

  /**
   * Whether exactly one is true.
   * This tensor is `x`. Takes `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  logicalXor(y: Operand): Tensor;

  /**
   * The bits set in both; of `bool`, the logical and.
   * This tensor is `x`. Takes `i32`, `u32` and `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  bitwiseAnd(y: Operand): Tensor;

  /**
   * The bits set in at least one; of `bool`, the logical or.
   * This tensor is `x`. Takes `i32`, `u32` and `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  bitwiseOr(y: Operand): Tensor;

  /**
   * The bits set in exactly one; of `bool`, the logical exclusive or.
   * This tensor is `x`. Takes `i32`, `u32` and `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  bitwiseXor(y: Operand): Tensor;

  /**
   * The bits of `x` moved `count` places up, zeros following; the count is taken modulo 32.
   * This tensor is `x`. Takes `i32` and `u32`.
   * Operands broadcast; a number takes the tensors' type.
   */
  shl(count: Operand): Tensor;

  /**
   * The bits of `x` moved `count` places down, copies of the sign following; the count is
   * taken modulo 32.
   * This tensor is `x`. Takes `i32` and `u32`.
   * Operands broadcast; a number takes the tensors' type.
   */
  shr(count: Operand): Tensor;

  /**
   * The `f32` whose bits `x` is: its sign, eight bits of exponent, 23 of fraction. GPUs may make subnormal numbers
   * 0.
   * Takes `u32`.
   */
  fromBits(): Tensor;

  /**
   * `x` where the condition holds, else `y`.
   * This tensor is `condition`. This is a `bool` tensor; the others have one type, any.
   * Operands broadcast; a number takes the tensors' type.
   */
  select(x: Operand, y: Operand): Tensor;

  /**
   * `x` limited to [min, max], `min(max(x, min), max)`; NaN stays NaN. The gradient goes to
   * `x` inside, both ends included, and to the limit outside.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  clamp(min: Operand, max: Operand): Tensor;

  /**
   * `x * y + z`, in one rounding where the device has it.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  fma(y: Operand, z: Operand): Tensor;

  /**
   * The point between `x` (at `t = 0`) and `y` (at `t = 1`): `x + t (y - x)`; both ends are
   * exact.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  lerp(y: Operand, t: Operand): Tensor;

  /**
   * 32 random bits, the same on every device: the first word of Threefry-2x32-20 for the
   * counter `(counter, 0)` and the key `(key, 0)`. Salmon et al. 2011.
   * This tensor is `counter`. Takes `u32`.
   * Operands broadcast; a number takes the tensors' type.
   */
  randomBits(key: Operand): Tensor;

  /**
   * The number in [0, 1) that the top 24 bits make: `(bits >> 8) / 2^24`, as `f32`.
   * This tensor is `bits`. Takes `u32`.
   */
  unitFloat(): Tensor;
}

/** The rows: a name, how many operands follow this tensor, and the parameters' usual values. */
const rows = `abs neg sign signBit floor ceil round trunc fract recip square sqrt rsqrt exp exp2 expm1 log log2 log10 log1p
sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc relu relu6 leakyRelu:0:0.01 elu:0:1 selu
celu:0:1 sigmoid hardSigmoid logSigmoid silu hardSwish gelu geluTanh mish softplus softsign hardTanh:0:-1:1
isNan isInf isFinite logicalNot bitwiseNot add:1 sub:1 mul:1 div:1 rem:1 floorMod:1 pow:1 minimum:1 maximum:1
atan2:1 hypot:1 copysign:1 squaredDifference:1 eq:1 ne:1 lt:1 le:1 gt:1 ge:1 logicalAnd:1 logicalOr:1
logicalXor:1 bitwiseAnd:1 bitwiseOr:1 bitwiseXor:1 shl:1 shr:1 fromBits select:2 clamp:2 fma:2 lerp:2
randomBits:1 unitFloat`;

// As text a method takes its name, and not its name three times with the words around it.
export abstract class Pointwise extends Recorded {
  static {
    rows.split(/\s/).forEach((row, number) => {
      const [name = "", operands = 0, ...rest] = row.split(":");
      const count = Number(operands);
      const usual = rest.map(Number);
      const method = {
        [name](this: Pointwise, ...given: Operand[]) {
          // Whoever gives more than there is place for means something else by it; what is missing is undefined.
          given.length = count + usual.length;
          usual.forEach((value, i) => {
            if (given[count + i] === undefined) given[count + i] = value;
          });
          return this.row(number, name, given, count);
        },
      };
      Object.defineProperty(this.prototype, name, { value: method[name], writable: true, configurable: true });
    });
  }
}
