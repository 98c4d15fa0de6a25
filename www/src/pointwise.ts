// The pointwise operations: one method per row of the table in src/op/pointwise.rs. Written by
// `UPDATE=1 cargo test --test it js`; do not edit.

import { Recorded } from "./recorded.js";
import type { Operand, Tensor } from "./tensor.js";

/** The operations that work element by element. */
export abstract class Pointwise extends Recorded {
  /**
   * The absolute value, `|x|`; its derivative at 0 is 0.
   * Takes `f32`, `f16` and `i32`.
   */
  abs(): Tensor {
    return this.row(0, "abs");
  }

  /**
   * The value with its sign changed, `-x`.
   * Takes `f32`, `f16` and `i32`.
   */
  neg(): Tensor {
    return this.row(1, "neg");
  }

  /**
   * The sign: -1, 1, or `x` itself where that is 0, -0 or NaN.
   * Takes `f32`, `f16` and `i32`.
   */
  sign(): Tensor {
    return this.row(2, "sign");
  }

  /**
   * Whether the sign bit is set: true for negative values and for -0.
   * Takes `f32` and `f16`.
   */
  signBit(): Tensor {
    return this.row(3, "signBit");
  }

  /**
   * The largest integer not above `x`.
   * Takes `f32` and `f16`.
   */
  floor(): Tensor {
    return this.row(4, "floor");
  }

  /**
   * The smallest integer not below `x`.
   * Takes `f32` and `f16`.
   */
  ceil(): Tensor {
    return this.row(5, "ceil");
  }

  /**
   * The nearest integer; halves go to the even one.
   * Takes `f32` and `f16`.
   */
  round(): Tensor {
    return this.row(6, "round");
  }

  /**
   * The integer part: `x` rounded towards 0.
   * Takes `f32` and `f16`.
   */
  trunc(): Tensor {
    return this.row(7, "trunc");
  }

  /**
   * The fractional part `x - floor(x)`, from 0 up to 1; the 1 where a tiny negative `x`
   * rounds to it.
   * Takes `f32` and `f16`.
   */
  fract(): Tensor {
    return this.row(8, "fract");
  }

  /**
   * The multiplicative inverse, `1 / x`.
   * Takes `f32` and `f16`.
   */
  recip(): Tensor {
    return this.row(9, "recip");
  }

  /**
   * The square, `x * x`.
   * Takes every type but `bool`.
   */
  square(): Tensor {
    return this.row(10, "square");
  }

  /**
   * The square root; NaN below 0.
   * Takes `f32` and `f16`.
   */
  sqrt(): Tensor {
    return this.row(11, "sqrt");
  }

  /**
   * The inverse of the square root, `1 / sqrt(x)`; NaN below 0.
   * Takes `f32` and `f16`.
   */
  rsqrt(): Tensor {
    return this.row(12, "rsqrt");
  }

  /**
   * The exponential, `e^x`. GPUs may be wrong by `3 + 2 |x|` units in the last place.
   * Takes `f32` and `f16`.
   */
  exp(): Tensor {
    return this.row(13, "exp");
  }

  /**
   * `2^x`. GPUs may be wrong by `3 + 2 |x|` units in the last place.
   * Takes `f32` and `f16`.
   */
  exp2(): Tensor {
    return this.row(14, "exp2");
  }

  /**
   * `e^x - 1`, accurate near 0 too.
   * Takes `f32` and `f16`.
   */
  expm1(): Tensor {
    return this.row(15, "expm1");
  }

  /**
   * The natural logarithm; -Inf at 0, NaN below. GPUs may be off by 5e-7 (not relative) for
   * `x` from 1/2 to 2; where `x` is close to 1, `log1p` of the difference keeps its digits.
   * Takes `f32` and `f16`.
   */
  log(): Tensor {
    return this.row(16, "log");
  }

  /**
   * The logarithm to base 2; -Inf at 0, NaN below.
   * Takes `f32` and `f16`.
   */
  log2(): Tensor {
    return this.row(17, "log2");
  }

  /**
   * The logarithm to base 10, `log(x) / log(10)`; -Inf at 0, NaN below.
   * Takes `f32` and `f16`.
   */
  log10(): Tensor {
    return this.row(18, "log10");
  }

  /**
   * `log(1 + x)`, accurate near 0 too; -Inf at -1, NaN below.
   * Takes `f32` and `f16`.
   */
  log1p(): Tensor {
    return this.row(19, "log1p");
  }

  /**
   * The sine of `x` radians. GPUs lose digits as `|x|` grows; keep it below some thousands.
   * Takes `f32` and `f16`.
   */
  sin(): Tensor {
    return this.row(20, "sin");
  }

  /**
   * The cosine of `x` radians. GPUs lose digits as `|x|` grows; keep it below some
   * thousands.
   * Takes `f32` and `f16`.
   */
  cos(): Tensor {
    return this.row(21, "cos");
  }

  /**
   * The tangent of `x` radians. GPUs lose digits as `|x|` grows, and next to the poles.
   * Takes `f32` and `f16`.
   */
  tan(): Tensor {
    return this.row(22, "tan");
  }

  /**
   * The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside [-1, 1].
   * Takes `f32` and `f16`.
   */
  asin(): Tensor {
    return this.row(23, "asin");
  }

  /**
   * The angle in [0, pi] whose cosine is `x`; NaN outside [-1, 1].
   * Takes `f32` and `f16`.
   */
  acos(): Tensor {
    return this.row(24, "acos");
  }

  /**
   * The angle in [-pi/2, pi/2] whose tangent is `x`.
   * Takes `f32` and `f16`.
   */
  atan(): Tensor {
    return this.row(25, "atan");
  }

  /**
   * The hyperbolic sine, `(e^x - e^-x) / 2`.
   * Takes `f32` and `f16`.
   */
  sinh(): Tensor {
    return this.row(26, "sinh");
  }

  /**
   * The hyperbolic cosine, `(e^x + e^-x) / 2`.
   * Takes `f32` and `f16`.
   */
  cosh(): Tensor {
    return this.row(27, "cosh");
  }

  /**
   * The hyperbolic tangent, `(e^x - e^-x) / (e^x + e^-x)`, from -1 to 1.
   * Takes `f32` and `f16`.
   */
  tanh(): Tensor {
    return this.row(28, "tanh");
  }

  /**
   * The inverse hyperbolic sine, `log(x + sqrt(x^2 + 1))`.
   * Takes `f32` and `f16`.
   */
  asinh(): Tensor {
    return this.row(29, "asinh");
  }

  /**
   * The inverse hyperbolic cosine, `log(x + sqrt(x^2 - 1))`; NaN below 1.
   * Takes `f32` and `f16`.
   */
  acosh(): Tensor {
    return this.row(30, "acosh");
  }

  /**
   * The inverse hyperbolic tangent, `log((1 + x) / (1 - x)) / 2`; Inf at 1, NaN outside [-1,
   * 1].
   * Takes `f32` and `f16`.
   */
  atanh(): Tensor {
    return this.row(31, "atanh");
  }

  /**
   * The error function, the integral of `2 / sqrt(pi) e^(-t^2)` from 0 to `x`.
   * Takes `f32` and `f16`.
   */
  erf(): Tensor {
    return this.row(32, "erf");
  }

  /**
   * `1 - erf(x)`, accurate in the tail too; the relative error grows to 1e-5 at 9, where f32
   * ends.
   * Takes `f32` and `f16`.
   */
  erfc(): Tensor {
    return this.row(33, "erfc");
  }

  /**
   * The rectifier: `x` above 0, else 0; its derivative at 0 is 0.
   * Takes `f32` and `f16`.
   */
  relu(): Tensor {
    return this.row(34, "relu");
  }

  /**
   * The rectifier that stops at 6: `min(max(x, 0), 6)`.
   * Takes `f32` and `f16`.
   */
  relu6(): Tensor {
    return this.row(35, "relu6");
  }

  /**
   * `x` above 0, else `alpha * x`.
   * Takes `f32` and `f16`.
   */
  leakyRelu(alpha = 0.01): Tensor {
    return this.row(36, "leakyRelu", [], [alpha]);
  }

  /**
   * The exponential linear unit: `x` above 0, else `alpha (e^x - 1)`. Clevert et al. 2015.
   * Takes `f32` and `f16`.
   */
  elu(alpha = 1): Tensor {
    return this.row(37, "elu", [], [alpha]);
  }

  /**
   * The self-normalising unit: 1.0507 times `x` above 0, else 1.0507 * 1.67326 `(e^x - 1)`.
   * Klambauer et al. 2017.
   * Takes `f32` and `f16`.
   */
  selu(): Tensor {
    return this.row(38, "selu");
  }

  /**
   * The continuously differentiable unit: `x` above 0, else `alpha (e^(x / alpha) - 1)`.
   * Barron 2017.
   * Takes `f32` and `f16`.
   */
  celu(alpha = 1): Tensor {
    return this.row(39, "celu", [], [alpha]);
  }

  /**
   * The logistic function `1 / (1 + e^-x)`, from 0 to 1.
   * Takes `f32` and `f16`.
   */
  sigmoid(): Tensor {
    return this.row(40, "sigmoid");
  }

  /**
   * `min(max(x / 6 + 1/2, 0), 1)`, the sigmoid in straight lines.
   * Takes `f32` and `f16`.
   */
  hardSigmoid(): Tensor {
    return this.row(41, "hardSigmoid");
  }

  /**
   * The logarithm of the logistic function, `-log(1 + e^-x)`.
   * Takes `f32` and `f16`.
   */
  logSigmoid(): Tensor {
    return this.row(42, "logSigmoid");
  }

  /**
   * The sigmoid linear unit, also called swish: `x / (1 + e^-x)`.
   * Takes `f32` and `f16`.
   */
  silu(): Tensor {
    return this.row(43, "silu");
  }

  /**
   * `x min(max(x / 6 + 1/2, 0), 1)`, the swish in parabolas. Howard et al. 2019.
   * Takes `f32` and `f16`.
   */
  hardSwish(): Tensor {
    return this.row(44, "hardSwish");
  }

  /**
   * The Gaussian error linear unit `x (1 + erf(x / sqrt(2))) / 2`. Hendrycks and Gimpel
   * 2016.
   * Takes `f32` and `f16`.
   */
  gelu(): Tensor {
    return this.row(45, "gelu");
  }

  /**
   * The tanh form of gelu: `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`; up to 5e-4
   * away from it.
   * Takes `f32` and `f16`.
   */
  geluTanh(): Tensor {
    return this.row(46, "geluTanh");
  }

  /**
   * `x tanh(log(1 + e^x))`. Misra 2019.
   * Takes `f32` and `f16`.
   */
  mish(): Tensor {
    return this.row(47, "mish");
  }

  /**
   * The smooth rectifier `log(1 + e^x)`.
   * Takes `f32` and `f16`.
   */
  softplus(): Tensor {
    return this.row(48, "softplus");
  }

  /**
   * `x / (1 + |x|)`, from -1 to 1.
   * Takes `f32` and `f16`.
   */
  softsign(): Tensor {
    return this.row(49, "softsign");
  }

  /**
   * `x` limited to [min, max].
   * Takes `f32` and `f16`.
   */
  hardTanh(min = -1, max = 1): Tensor {
    return this.row(50, "hardTanh", [], [min, max]);
  }

  /**
   * Whether `x` is NaN.
   * Takes `f32` and `f16`.
   */
  isNan(): Tensor {
    return this.row(51, "isNan");
  }

  /**
   * Whether `x` is Inf or -Inf.
   * Takes `f32` and `f16`.
   */
  isInf(): Tensor {
    return this.row(52, "isInf");
  }

  /**
   * Whether `x` is neither NaN nor infinite.
   * Takes `f32` and `f16`.
   */
  isFinite(): Tensor {
    return this.row(53, "isFinite");
  }

  /**
   * True where `x` is false.
   * Takes `bool`.
   */
  logicalNot(): Tensor {
    return this.row(54, "logicalNot");
  }

  /**
   * Every bit inverted; of `bool`, the logical not.
   * Takes `i32`, `u32` and `bool`.
   */
  bitwiseNot(): Tensor {
    return this.row(55, "bitwiseNot");
  }

  /**
   * The sum, `x + y`; integers wrap.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  add(y: Operand): Tensor {
    return this.row(56, "add", [y]);
  }

  /**
   * The difference, `x - y`; integers wrap.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  sub(y: Operand): Tensor {
    return this.row(57, "sub", [y]);
  }

  /**
   * The product, `x * y`; integers wrap.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  mul(y: Operand): Tensor {
    return this.row(58, "mul", [y]);
  }

  /**
   * The quotient, `x / y`; integers truncate towards 0, and an integer over 0 is itself.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  div(y: Operand): Tensor {
    return this.row(59, "div", [y]);
  }

  /**
   * The remainder `x - y trunc(x / y)`, with the sign of `x`; of integers by 0 it is 0. GPUs
   * may be one `y` off where `x / y` is within rounding of an integer, with no digits left
   * where it is above 2^24.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  rem(y: Operand): Tensor {
    return this.row(60, "rem", [y]);
  }

  /**
   * The remainder `x - y floor(x / y)`, with the sign of `y`, as Python's `%`; of integers
   * by 0 it is 0.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  floorMod(y: Operand): Tensor {
    return this.row(61, "floorMod", [y]);
  }

  /**
   * `x` to the power `y`: `x^0` and `1^y` are 1, `0^y` is Inf for negative `y`, and a
   * negative `x` gives NaN unless `y` is an integer. The relative error on GPUs grows with
   * `|y log2(x)|`, about 1e-7 for each.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  pow(y: Operand): Tensor {
    return this.row(62, "pow", [y]);
  }

  /**
   * The smaller one; NaN if one is NaN. The gradient goes to the smaller one, half to each
   * where they are equal.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  minimum(y: Operand): Tensor {
    return this.row(63, "minimum", [y]);
  }

  /**
   * The larger one; NaN if one is NaN. The gradient goes to the larger one, half to each
   * where they are equal.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  maximum(y: Operand): Tensor {
    return this.row(64, "maximum", [y]);
  }

  /**
   * The angle of the point (x, y) in radians, from -pi to pi; signed zeros count as IEEE 754
   * says.
   * This tensor is `y`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  atan2(x: Operand): Tensor {
    return this.row(65, "atan2", [x]);
  }

  /**
   * `sqrt(x^2 + y^2)`, without overflow on the way; its gradient at (0, 0) is 0.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  hypot(y: Operand): Tensor {
    return this.row(66, "hypot", [y]);
  }

  /**
   * `x` with the sign of `y`; -0 and NaN have signs too.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  copysign(y: Operand): Tensor {
    return this.row(67, "copysign", [y]);
  }

  /**
   * `(x - y)^2`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  squaredDifference(y: Operand): Tensor {
    return this.row(68, "squaredDifference", [y]);
  }

  /**
   * Whether `x` equals `y`; NaN equals nothing.
   * This tensor is `x`. Takes every type.
   * Operands broadcast; a number takes the tensors' type.
   */
  eq(y: Operand): Tensor {
    return this.row(69, "eq", [y]);
  }

  /**
   * Whether `x` differs from `y`; NaN differs from everything.
   * This tensor is `x`. Takes every type.
   * Operands broadcast; a number takes the tensors' type.
   */
  ne(y: Operand): Tensor {
    return this.row(70, "ne", [y]);
  }

  /**
   * Whether `x < y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  lt(y: Operand): Tensor {
    return this.row(71, "lt", [y]);
  }

  /**
   * Whether `x <= y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  le(y: Operand): Tensor {
    return this.row(72, "le", [y]);
  }

  /**
   * Whether `x > y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  gt(y: Operand): Tensor {
    return this.row(73, "gt", [y]);
  }

  /**
   * Whether `x >= y`.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  ge(y: Operand): Tensor {
    return this.row(74, "ge", [y]);
  }

  /**
   * Whether both are true.
   * This tensor is `x`. Takes `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  logicalAnd(y: Operand): Tensor {
    return this.row(75, "logicalAnd", [y]);
  }

  /**
   * Whether at least one is true.
   * This tensor is `x`. Takes `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  logicalOr(y: Operand): Tensor {
    return this.row(76, "logicalOr", [y]);
  }

  /**
   * Whether exactly one is true.
   * This tensor is `x`. Takes `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  logicalXor(y: Operand): Tensor {
    return this.row(77, "logicalXor", [y]);
  }

  /**
   * The bits set in both; of `bool`, the logical and.
   * This tensor is `x`. Takes `i32`, `u32` and `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  bitwiseAnd(y: Operand): Tensor {
    return this.row(78, "bitwiseAnd", [y]);
  }

  /**
   * The bits set in at least one; of `bool`, the logical or.
   * This tensor is `x`. Takes `i32`, `u32` and `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  bitwiseOr(y: Operand): Tensor {
    return this.row(79, "bitwiseOr", [y]);
  }

  /**
   * The bits set in exactly one; of `bool`, the logical exclusive or.
   * This tensor is `x`. Takes `i32`, `u32` and `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  bitwiseXor(y: Operand): Tensor {
    return this.row(80, "bitwiseXor", [y]);
  }

  /**
   * The bits of `x` moved `count` places up, zeros following; the count is taken modulo 32.
   * This tensor is `x`. Takes `i32` and `u32`.
   * Operands broadcast; a number takes the tensors' type.
   */
  shl(count: Operand): Tensor {
    return this.row(81, "shl", [count]);
  }

  /**
   * The bits of `x` moved `count` places down, copies of the sign following; the count is
   * taken modulo 32.
   * This tensor is `x`. Takes `i32` and `u32`.
   * Operands broadcast; a number takes the tensors' type.
   */
  shr(count: Operand): Tensor {
    return this.row(82, "shr", [count]);
  }

  /**
   * `x` where the condition holds, else `y`.
   * This tensor is `condition`. This is a `bool` tensor; the others have one type, any.
   * Operands broadcast; a number takes the tensors' type.
   */
  select(x: Operand, y: Operand): Tensor {
    return this.row(83, "select", [x, y]);
  }

  /**
   * `x` limited to [min, max], `min(max(x, min), max)`; NaN stays NaN. The gradient goes to
   * `x` inside, both ends included, and to the limit outside.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  clamp(min: Operand, max: Operand): Tensor {
    return this.row(84, "clamp", [min, max]);
  }

  /**
   * `x * y + z`, in one rounding where the device has it.
   * This tensor is `x`. Takes every type but `bool`.
   * Operands broadcast; a number takes the tensors' type.
   */
  fma(y: Operand, z: Operand): Tensor {
    return this.row(85, "fma", [y, z]);
  }

  /**
   * The point between `x` (at `t = 0`) and `y` (at `t = 1`): `x + t (y - x)`; both ends are
   * exact.
   * This tensor is `x`. Takes `f32` and `f16`.
   * Operands broadcast; a number takes the tensors' type.
   */
  lerp(y: Operand, t: Operand): Tensor {
    return this.row(86, "lerp", [y, t]);
  }

  /**
   * 32 random bits, the same on every device: the first word of Threefry-2x32-20 for the
   * counter `(counter, 0)` and the key `(key, 0)`. Salmon et al. 2011.
   * This tensor is `counter`. Takes `u32`.
   * Operands broadcast; a number takes the tensors' type.
   */
  randomBits(key: Operand): Tensor {
    return this.row(87, "randomBits", [key]);
  }

  /**
   * The number in [0, 1) that the top 24 bits make: `(bits >> 8) / 2^24`, as `f32`.
   * This tensor is `bits`. Takes `u32`.
   */
  unitFloat(): Tensor {
    return this.row(88, "unitFloat");
  }
}
