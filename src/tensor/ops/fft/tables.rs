//! The factors of Fourier transforms, computed in `f64` and rounded once. They are uploaded as data, because the sine of
//! a GPU may have an error of 2^-11.

use std::f64::consts::TAU;

/// The real and the imaginary part.
type Complex = (f64, f64);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Returns `e^(sign 2 pi i at / count)`. The angle is reduced as an integer, which is exact.
fn root(at: u64, count: usize, sign: f64) -> Complex {
    let (sin, cos) = (TAU * (at % count as u64) as f64 / count as f64).sin_cos();
    // Parts below 1e-12 are rounding errors of 0. No other root has such small parts.
    let exact = |x: f64| if x.abs() < 1e-12 { 0.0 } else { x };
    (exact(cos), sign * exact(sin))
}

/// Returns the transform of `count` complex numbers as a real matrix, `[2 count, 2 count]`, in which real and imaginary
/// parts alternate.
pub fn complex_matrix(count: usize, sign: f64) -> Vec<f32> {
    let mut matrix = vec![0.0; 4 * count * count];
    for j in 0..count {
        for k in 0..count {
            let (re, im) = root((j * k) as u64, count, sign);
            let row = 2 * count;
            matrix[2 * j * row + 2 * k] = re as f32;
            matrix[2 * j * row + 2 * k + 1] = im as f32;
            matrix[(2 * j + 1) * row + 2 * k] = -im as f32;
            matrix[(2 * j + 1) * row + 2 * k + 1] = re as f32;
        }
    }
    matrix
}

/// Returns the matrix for the first `kept` results of the transform of `count` real numbers: `[count, 2 kept]`.
pub fn real_matrix(count: usize, kept: usize) -> Vec<f32> {
    let mut matrix = Vec::with_capacity(2 * count * kept);
    for j in 0..count {
        for k in 0..kept {
            let (re, im) = root((j * k) as u64, count, -1.0);
            matrix.extend([re as f32, im as f32]);
        }
    }
    matrix
}

/// Returns the matrix from the first `kept` results to `count` real numbers, `[2 kept, count]`, without normalization.
/// Results between the first and the middle one have weight 2, for their mirror image.
pub fn real_inverse_matrix(count: usize, kept: usize) -> Vec<f32> {
    let mut matrix = vec![0.0; 2 * kept * count];
    for k in 0..kept {
        let weight = if k == 0 || 2 * k == count { 1.0 } else { 2.0 };
        for j in 0..count {
            let (re, im) = root((j * k) as u64, count, 1.0);
            matrix[2 * k * count + j] = (weight * re) as f32;
            // The imaginary parts of the first and the middle result are 0 for real numbers.
            matrix[(2 * k + 1) * count + j] =
                if weight == 2.0 { (-weight * im) as f32 } else { 0.0 };
        }
    }
    matrix
}

/// Returns the twiddle factors between the transforms of `rows` and of `columns` numbers: `[rows, columns, 2]`.
pub fn twiddles(rows: usize, columns: usize, sign: f64) -> Vec<f32> {
    let mut factors = Vec::with_capacity(2 * rows * columns);
    for k in 0..rows {
        for j in 0..columns {
            let (re, im) = root(j as u64 * k as u64, rows * columns, sign);
            factors.extend([re as f32, im as f32]);
        }
    }
    factors
}

/// Returns Bluestein's factors `e^(sign pi i n^2 / count)`, `[count, 2]`, and the transform of their conjugates at `wide`
/// points, a power of two, `[wide, 2]`.
pub fn chirp(count: usize, wide: usize, sign: f64) -> (Vec<f32>, Vec<f32>) {
    let mut factors = Vec::with_capacity(count);
    for n in 0..count as u64 {
        factors.push(root(n * n, 2 * count, sign));
    }
    let mut filter = vec![(0.0, 0.0); wide];
    for (n, &(re, im)) in factors.iter().enumerate() {
        filter[n] = (re, -im);
        filter[(wide - n) % wide] = (re, -im);
    }
    transform(&mut filter);
    let flat =
        |list: &[Complex]| list.iter().flat_map(|&(re, im)| [re as f32, im as f32]).collect();
    (flat(&factors), flat(&filter))
}

/// Transforms a power of two of numbers in place (Cooley and Tukey 1965).
fn transform(x: &mut [Complex]) {
    let count = x.len();
    let bits = count.trailing_zeros();
    for n in 0..count {
        let turned = if bits == 0 { 0 } else { n.reverse_bits() >> (usize::BITS - bits) };
        if n < turned {
            x.swap(n, turned);
        }
    }
    let mut half = 1;
    while half < count {
        for start in (0..count).step_by(2 * half) {
            for n in start..start + half {
                let odd = times(x[n + half], root((n - start) as u64, 2 * half, -1.0));
                let even = x[n];
                x[n] = (even.0 + odd.0, even.1 + odd.1);
                x[n + half] = (even.0 - odd.0, even.1 - odd.1);
            }
        }
        half *= 2;
    }
}
