//! Fused functions of two instructions: sums, differences and products with each other, quotients with these, and selections
//! by a comparison. Each operation rounds as it would alone.

use super::simd::{self, Loop};
use crate::expr::Binary;

/// A function that computes `out[i] = f(x[i], y[i], z[i])`.
pub type TernaryFn = fn(&mut [u32], [&[u32]; 3]);
/// A function that computes `out[i] = if f(x[i], y[i]) { a[i] } else { b[i] }`.
pub type ChoiceFn = fn(&mut [u32], [&[u32]; 4]);

/// Returns the fused function of `inner` and then `outer`, on floats. `left` is whether the inner result is the left operand.
/// Returns `None` if the two are not fused.
pub fn ternary(inner: Binary, outer: Binary, left: bool) -> Option<TernaryFn> {
    macro_rules! of {
        ($inner:expr) => {
            match (outer, left) {
                (Binary::Add, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) + z),
                (Binary::Add, false) => |out, x| each(out, x, |x, y, z| z + $inner(x, y)),
                (Binary::Sub, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) - z),
                (Binary::Sub, false) => |out, x| each(out, x, |x, y, z| z - $inner(x, y)),
                (Binary::Mul, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) * z),
                (Binary::Mul, false) => |out, x| each(out, x, |x, y, z| z * $inner(x, y)),
                (Binary::Div, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) / z),
                (Binary::Div, false) => |out, x| each(out, x, |x, y, z| z / $inner(x, y)),
                _ => return None,
            }
        };
    }
    Some(match inner {
        Binary::Add => of!(|x: f32, y: f32| x + y),
        Binary::Sub => of!(|x: f32, y: f32| x - y),
        Binary::Mul => of!(|x: f32, y: f32| x * y),
        _ => return None,
    })
}

/// Returns the fused function of a comparison of floats and a selection, if it exists.
pub fn choice(compare: Binary) -> Option<ChoiceFn> {
    Some(match compare {
        Binary::Lt => |out, x| choose(out, x, |x, y| x < y),
        Binary::Le => |out, x| choose(out, x, |x, y| x <= y),
        Binary::Eq => |out, x| choose(out, x, |x, y| x == y),
        Binary::Ne => |out, x| choose(out, x, |x, y| x != y),
        _ => return None,
    })
}

fn each(out: &mut [u32], operands: [&[u32]; 3], f: impl Fn(f32, f32, f32) -> f32) {
    struct Each<'a, F>(&'a mut [u32], [&'a [u32]; 3], F);
    impl<F: Fn(f32, f32, f32) -> f32> Loop for Each<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            let [x, y, z] = self.1;
            for (((out, &x), &y), &z) in self.0.iter_mut().zip(x).zip(y).zip(z) {
                *out = (self.2)(f32::from_bits(x), f32::from_bits(y), f32::from_bits(z)).to_bits();
            }
        }
    }
    simd::run(Each(out, operands, f));
}

fn choose(out: &mut [u32], operands: [&[u32]; 4], f: impl Fn(f32, f32) -> bool) {
    struct Choose<'a, F>(&'a mut [u32], [&'a [u32]; 4], F);
    impl<F: Fn(f32, f32) -> bool> Loop for Choose<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            let [x, y, a, b] = self.1;
            for ((((out, &x), &y), &a), &b) in self.0.iter_mut().zip(x).zip(y).zip(a).zip(b) {
                // Selects by bits, as in `select`.
                let mask = u32::from((self.2)(f32::from_bits(x), f32::from_bits(y))).wrapping_neg();
                *out = a & mask | b & !mask;
            }
        }
    }
    simd::run(Choose(out, operands, f));
}
