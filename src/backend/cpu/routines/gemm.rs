//! A matrix product by `gemm-f32`, the part of the `gemm` crate for `f32`. The call is `unsafe` code, because it takes
//! pointers.

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

/// A matrix inside a slice, with the elements `data[offset + row * strides[0] + column * strides[1]]`.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub offset: i64,
    pub strides: [i64; 2],
}

impl Matrix<'_> {
    /// Returns the position of a number.
    pub fn position(&self, row: usize, column: usize) -> usize {
        (self.offset + row as i64 * self.strides[0] + column as i64 * self.strides[1]) as usize
    }

    /// Transposes the matrix.
    pub fn transposed(self) -> Self {
        Matrix { strides: [self.strides[1], self.strides[0]], ..self }
    }

    /// Reverses an axis of `extent` numbers, so that the last row or column is the first.
    fn reversed(mut self, axis: usize, extent: usize) -> Self {
        self.offset += (extent as i64 - 1) * self.strides[axis];
        self.strides[axis] = -self.strides[axis];
        self
    }

    /// Whether a matrix of `rows` times `columns` numbers is inside the slice.
    fn inside(&self, rows: usize, columns: usize) -> bool {
        let reach = |extent: usize, stride: i64| {
            i64::try_from(extent).ok()?.checked_sub(1)?.checked_mul(stride)
        };
        let bounds = || {
            let (down, across) = (reach(rows, self.strides[0])?, reach(columns, self.strides[1])?);
            let low = self.offset.checked_add(down.min(0))?.checked_add(across.min(0))?;
            let high = self.offset.checked_add(down.max(0))?.checked_add(across.max(0))?;
            Some(low >= 0 && high < i64::try_from(self.data.len()).ok()?)
        };
        bounds().unwrap_or(false)
    }
}

/// Computes `out = a * b`, or `out += a * b` if `add`. `a` is m times k, and `b` is k times n. Row i of `out` is
/// `out[i * row_stride..][..n]`. `threads` distributes the work over the pool. Panics if a matrix is not inside its slice,
/// which callers check.
#[allow(unsafe_code)]
pub fn multiply(
    [m, n, k]: [usize; 3],
    out: &mut [f32],
    row_stride: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    (add, threads): (bool, bool),
) {
    if m == 0 || n == 0 {
        return;
    }
    let rows = (m - 1).checked_mul(row_stride).and_then(|rows| rows.checked_add(n));
    assert!(rows.is_some_and(|len| len <= out.len()) && (row_stride >= n || m == 1));
    if k == 0 {
        if !add {
            out.chunks_mut(row_stride.max(1)).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return;
    }
    assert!(a.inside(m, k) && b.inside(k, n));
    // The kernels need results with contiguous columns. Here rows are contiguous, so this computes the product of the
    // transposed matrices.
    let by_rows = row_stride > 1;
    let ([m, n], [down, across]) = match by_rows {
        true => ([n, m], [1, row_stride as isize]),
        false => ([m, n], [row_stride as isize, 1]),
    };
    let (mut left, mut right) = match by_rows {
        true => (b.transposed(), a.transposed()),
        false => (a, b),
    };
    // The kernels also need ascending columns of `left`. If they descend, `left` and `right` are reversed.
    if left.strides[1] < 0 {
        left = left.reversed(1, k);
        right = right.reversed(0, k);
    }
    // SAFETY: all numbers of a, b and out are inside their slices, as asserted above, and later steps keep these numbers.
    // `out` is borrowed mutably, its rows do not overlap, and the function accesses nothing else.
    unsafe {
        get_gemm_fn()(
            m,
            n,
            k,
            out.as_mut_ptr(),
            across,
            down,
            add,
            left.data.as_ptr().offset(left.offset as isize),
            left.strides[1] as isize,
            left.strides[0] as isize,
            right.data.as_ptr().offset(right.offset as isize),
            right.strides[1] as isize,
            right.strides[0] as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism(threads),
        );
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn parallelism(threads: bool) -> Parallelism {
    match threads {
        true => Parallelism::Rayon(0),
        false => Parallelism::None,
    }
}

#[cfg(target_arch = "wasm32")]
fn parallelism(_: bool) -> Parallelism {
    Parallelism::None
}
