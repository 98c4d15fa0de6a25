//! The functions of instructions over blocks of values, as a table that is resolved when a kernel is prepared. A value is a
//! word, and its type defines the meaning of the word.

use super::elementary::{self, from_half, to_half};
use super::simd::{self, Loop};
use crate::dtype::{DType, Numbers};
use crate::expr::{Binary, Unary};

/// A function that computes `out[i] = f(x[i])`.
pub type UnaryFn = fn(&mut [u32], &[u32]);
/// A function that computes `out[i] = f(x[i], y[i])`.
pub type BinaryFn = fn(&mut [u32], &[u32], &[u32]);

pub fn map<X: Value, Y: Value>(out: &mut [u32], x: &[u32], f: impl Fn(X) -> Y) {
    struct Map<'a, F>(&'a mut [u32], &'a [u32], F);
    impl<F: Fn(u32) -> u32> Loop for Map<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for (out, &x) in self.0.iter_mut().zip(self.1) {
                *out = (self.2)(x);
            }
        }
    }
    simd::run(Map(out, x, |x| f(X::from_word(x)).word()));
}

fn zip<X: Value, Y: Value>(out: &mut [u32], x: &[u32], y: &[u32], f: impl Fn(X, X) -> Y) {
    struct Zip<'a, F>(&'a mut [u32], &'a [u32], &'a [u32], F);
    impl<F: Fn(u32, u32) -> u32> Loop for Zip<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for ((out, &x), &y) in self.0.iter_mut().zip(self.1).zip(self.2) {
                *out = (self.3)(x, y);
            }
        }
    }
    simd::run(Zip(out, x, y, |x, y| f(X::from_word(x), X::from_word(y)).word()));
}

/// Computes `out[i] = if c[i] { a[i] } else { b[i] }`.
pub fn select(out: &mut [u32], c: &[u32], a: &[u32], b: &[u32]) {
    struct Select<'a>(&'a mut [u32], [&'a [u32]; 3]);
    impl Loop for Select<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            let [c, a, b] = self.1;
            for (((out, &c), &a), &b) in self.0.iter_mut().zip(c).zip(a).zip(b) {
                // Selects by bits. An `if` would select between addresses, which is not vectorized.
                let mask = u32::from(c == 0).wrapping_sub(1);
                *out = a & mask | b & !mask;
            }
        }
    }
    simd::run(Select(out, [c, a, b]));
}

/// A type that the words of a value represent.
pub trait Value: Copy {
    fn from_word(word: u32) -> Self;
    fn word(self) -> u32;
}

impl Value for f32 {
    #[inline(always)]
    fn from_word(word: u32) -> f32 {
        f32::from_bits(word)
    }
    #[inline(always)]
    fn word(self) -> u32 {
        self.to_bits()
    }
}

impl Value for i32 {
    #[inline(always)]
    fn from_word(word: u32) -> i32 {
        word as i32
    }
    #[inline(always)]
    fn word(self) -> u32 {
        self as u32
    }
}

impl Value for u32 {
    #[inline(always)]
    fn from_word(word: u32) -> u32 {
        word
    }
    #[inline(always)]
    fn word(self) -> u32 {
        self
    }
}

impl Value for bool {
    #[inline(always)]
    fn from_word(word: u32) -> bool {
        word != 0
    }
    #[inline(always)]
    fn word(self) -> u32 {
        u32::from(self)
    }
}

/// Returns the larger one, or NaN if one of them is NaN.
#[inline(always)]
pub fn larger(x: f32, y: f32) -> f32 {
    if x > y || x.is_nan() {
        x
    } else {
        y
    }
}

/// Returns the smaller one, or NaN if one of them is NaN.
#[inline(always)]
pub fn smaller(x: f32, y: f32) -> f32 {
    if x < y || x.is_nan() {
        x
    } else {
        y
    }
}

/// Returns the function of `op` for values of type `dtype`, or `None` if it is undefined.
pub fn unary(op: Unary, dtype: DType) -> Option<UnaryFn> {
    match dtype.numbers() {
        Numbers::Signed => unary_i32(op),
        Numbers::Unsigned => unary_u32(op),
        Numbers::Bool => matches!(op, Unary::Not).then_some(|o, x| map(o, x, |x: bool| !x)),
        Numbers::Float => unary_f32(op),
    }
}

fn unary_f32(op: Unary) -> Option<UnaryFn> {
    macro_rules! of {
        ($f:expr) => {
            Some(|out, x| map::<f32, _>(out, x, $f))
        };
    }
    match op {
        Unary::Neg => of!(|x| -x),
        Unary::Abs => of!(f32::abs),
        Unary::Floor => of!(elementary::floor),
        Unary::Ceil => of!(elementary::ceil),
        Unary::Round => of!(elementary::round),
        Unary::Trunc => of!(elementary::trunc),
        Unary::Exp => of!(elementary::exp),
        Unary::Exp2 => of!(elementary::exp2),
        Unary::Log => of!(elementary::log),
        Unary::Log2 => of!(elementary::log2),
        Unary::Sqrt => of!(f32::sqrt),
        Unary::InverseSqrt => of!(|x| 1.0 / x.sqrt()),
        Unary::Sin => of!(f32::sin),
        Unary::Cos => of!(f32::cos),
        Unary::Tan => of!(f32::tan),
        Unary::Asin => of!(f32::asin),
        Unary::Acos => of!(f32::acos),
        Unary::Atan => of!(f32::atan),
        Unary::IsNan => of!(f32::is_nan),
        Unary::IsInf => of!(f32::is_infinite),
        Unary::SignBit => of!(f32::is_sign_negative),
        Unary::Not => None,
    }
}

fn unary_i32(op: Unary) -> Option<UnaryFn> {
    match op {
        Unary::Neg => Some(|o, x| map(o, x, i32::wrapping_neg)),
        Unary::Abs => Some(|o, x| map(o, x, i32::wrapping_abs)),
        Unary::Not => Some(|o, x| map(o, x, |x: i32| !x)),
        Unary::SignBit => Some(|o, x| map(o, x, i32::is_negative)),
        _ => unary_u32(op),
    }
}

/// Functions of unsigned integers. They include the functions that are equal for both signs, because all integers are whole
/// and finite.
fn unary_u32(op: Unary) -> Option<UnaryFn> {
    match op {
        Unary::Neg => Some(|o, x| map(o, x, u32::wrapping_neg)),
        Unary::Not => Some(|o, x| map(o, x, |x: u32| !x)),
        Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => {
            Some(|o, x| o.copy_from_slice(x))
        }
        Unary::IsNan | Unary::IsInf | Unary::SignBit => Some(|o, _| o.fill(0)),
        _ => None,
    }
}

/// Returns the function of `op` for two values of type `dtype`, or `None` if it is undefined.
pub fn binary(op: Binary, dtype: DType) -> Option<BinaryFn> {
    match dtype.numbers() {
        Numbers::Signed => binary_i32(op),
        // Booleans are the words 0 and 1.
        Numbers::Unsigned | Numbers::Bool => binary_u32(op),
        Numbers::Float => binary_f32(op),
    }
}

fn binary_f32(op: Binary) -> Option<BinaryFn> {
    macro_rules! of {
        ($f:expr) => {
            Some(|out, x, y| zip::<f32, _>(out, x, y, $f))
        };
    }
    match op {
        Binary::Add => of!(|x, y| x + y),
        Binary::Sub => of!(|x, y| x - y),
        Binary::Mul => of!(|x, y| x * y),
        Binary::Div => of!(|x, y| x / y),
        Binary::Rem => of!(|x, y| x % y),
        Binary::Min => of!(smaller),
        Binary::Max => of!(larger),
        Binary::Pow => of!(f32::powf),
        Binary::Atan2 => of!(f32::atan2),
        Binary::Lt => of!(|x, y| x < y),
        Binary::Le => of!(|x, y| x <= y),
        Binary::Eq => of!(|x, y| x == y),
        Binary::Ne => of!(|x, y| x != y),
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => None,
    }
}

fn binary_i32(op: Binary) -> Option<BinaryFn> {
    macro_rules! of {
        ($f:expr) => {
            Some(|out, x, y| zip::<i32, _>(out, x, y, $f))
        };
    }
    match op {
        Binary::Add => of!(i32::wrapping_add),
        Binary::Sub => of!(i32::wrapping_sub),
        Binary::Mul => of!(i32::wrapping_mul),
        Binary::Div => of!(|x, y| if y == 0 { x } else { x.wrapping_div(y) }),
        Binary::Rem => of!(|x, y| if y == 0 { 0 } else { x.wrapping_rem(y) }),
        Binary::Min => of!(|x, y| x.min(y)),
        Binary::Max => of!(|x, y| x.max(y)),
        Binary::And => of!(|x, y| x & y),
        Binary::Or => of!(|x, y| x | y),
        Binary::Xor => of!(|x, y| x ^ y),
        Binary::Shl => of!(|x, y| x.wrapping_shl(y as u32)),
        Binary::Shr => of!(|x, y| x.wrapping_shr(y as u32)),
        Binary::Lt => of!(|x, y| x < y),
        Binary::Le => of!(|x, y| x <= y),
        Binary::Eq => of!(|x, y| x == y),
        Binary::Ne => of!(|x, y| x != y),
        Binary::Pow | Binary::Atan2 => None,
    }
}

fn binary_u32(op: Binary) -> Option<BinaryFn> {
    macro_rules! of {
        ($f:expr) => {
            Some(|out, x, y| zip::<u32, _>(out, x, y, $f))
        };
    }
    match op {
        Binary::Add => of!(u32::wrapping_add),
        Binary::Sub => of!(u32::wrapping_sub),
        Binary::Mul => of!(u32::wrapping_mul),
        Binary::Div => of!(|x, y| x.checked_div(y).unwrap_or(x)),
        Binary::Rem => of!(|x, y| x.checked_rem(y).unwrap_or(0)),
        Binary::Min => of!(|x, y| x.min(y)),
        Binary::Max => of!(|x, y| x.max(y)),
        Binary::And => of!(|x, y| x & y),
        Binary::Or => of!(|x, y| x | y),
        Binary::Xor => of!(|x, y| x ^ y),
        Binary::Shl => of!(u32::wrapping_shl),
        Binary::Shr => of!(u32::wrapping_shr),
        Binary::Lt => of!(|x, y| x < y),
        Binary::Le => of!(|x, y| x <= y),
        Binary::Eq => of!(|x, y| x == y),
        Binary::Ne => of!(|x, y| x != y),
        Binary::Pow | Binary::Atan2 => None,
    }
}

/// Returns the conversion as WGSL defines it. Floats truncate and saturate, and NaN becomes 0.
pub fn cast(from: DType, to: DType) -> UnaryFn {
    use DType::{Bool, F32, I32, U32};
    match (from.compute(), to.compute()) {
        // Rounds as if the value were stored and read again.
        (F32, _) if to == DType::F16 => |o, x| map(o, x, |x: u32| from_half(to_half(x))),
        (I32, _) if to == DType::F16 => {
            |o, x| map(o, x, |x: i32| from_half(to_half((x as f32).to_bits())))
        }
        _ if to == DType::F16 => {
            |o, x| map(o, x, |x: u32| from_half(to_half((x as f32).to_bits())))
        }
        // Narrow integers saturate when converted from floats, and wrap when converted from other integers.
        (F32, _) if to == DType::I8 => |o, x| map(o, x, |x: f32| i32::from(x as i8)),
        (F32, _) if to == DType::U8 => |o, x| map(o, x, |x: f32| u32::from(x as u8)),
        (F32, _) if to == DType::I16 => |o, x| map(o, x, |x: f32| i32::from(x as i16)),
        (F32, _) if to == DType::U16 => |o, x| map(o, x, |x: f32| u32::from(x as u16)),
        _ if to == DType::I8 => |o, x| map(o, x, |x: i32| i32::from(x as i8)),
        _ if to == DType::U8 => |o, x| map(o, x, |x: u32| u32::from(x as u8)),
        _ if to == DType::I16 => |o, x| map(o, x, |x: i32| i32::from(x as i16)),
        _ if to == DType::U16 => |o, x| map(o, x, |x: u32| u32::from(x as u16)),
        (F32, I32) => |o, x| map(o, x, |x: f32| x as i32),
        (F32, U32) => |o, x| map(o, x, |x: f32| x as u32),
        (F32, Bool) => |o, x| map(o, x, |x: f32| x != 0.0),
        (I32, F32) => |o, x| map(o, x, |x: i32| x as f32),
        (U32 | Bool, F32) => |o, x| map(o, x, |x: u32| x as f32),
        (I32 | U32, Bool) => |o, x| map(o, x, |x: u32| x != 0),
        _ => |o, x| o.copy_from_slice(x),
    }
}

/// Returns the function that keeps the bits.
pub fn bitcast() -> UnaryFn {
    |o, x| o.copy_from_slice(x)
}

/// Returns the approximate cost of `op` in additions, which determines the size of tasks.
pub fn unary_cost(op: Unary) -> usize {
    match op {
        Unary::Neg | Unary::Abs | Unary::Not => 1,
        Unary::IsNan | Unary::IsInf | Unary::SignBit => 1,
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => 2,
        Unary::Sqrt | Unary::InverseSqrt | Unary::Exp | Unary::Exp2 => 6,
        Unary::Log | Unary::Log2 => 8,
        _ => 24,
    }
}

/// Returns the approximate cost of `op` in additions, which determines the size of tasks.
pub fn binary_cost(op: Binary) -> usize {
    match op {
        Binary::Div | Binary::Rem => 6,
        Binary::Pow | Binary::Atan2 => 48,
        _ => 1,
    }
}
