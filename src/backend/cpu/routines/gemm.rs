//! A matrix product by `gemm-f32`, the part of the `gemm` crate for `f32`. The call is `unsafe` code, because it takes
//! pointers.

use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::lower::tiling::cut;
use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

/// The distance between contiguous columns, in numbers, whose multiples collide in the cache. A kernel reads up to 64 columns
/// together. A cache has 64 sets, each for 8 to 12 lines of 64 bytes. Columns that are a multiple of 2 KB apart share two of
/// these sets, so that no line stays in the cache until its next number is read.
const COLLIDING_STRIDE: i64 = 512;

/// The numbers that are copied together, and the fewest columns. The copy then stays in the second-level cache.
const PANEL: usize = 1 << 18;
const MIN_PANEL_COLUMNS: usize = 256;

/// The fewest numbers for a task that copies.
const NUMBERS_PER_TASK: usize = 1 << 14;

/// The numbers between the columns of a copy: a line of the cache.
const PADDING: usize = 16;

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
pub fn multiply(
    [m, n, k]: [usize; 3],
    out: &mut [f32],
    row_stride: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    (add, threads): (bool, bool),
) {
    let is_large = n.min(k) >= PADDING && row_stride >= n;
    let is_colliding =
        b.strides[0] == 1 && b.strides[1] > 0 && b.strides[1] % COLLIDING_STRIDE == 0;
    if !(is_large && is_colliding) {
        return multiply_in_place([m, n, k], out, row_stride, a, b, (add, threads));
    }
    assert!(b.inside(k, n));
    for (first, past) in cut(n, (PANEL / k).max(MIN_PANEL_COLUMNS)) {
        let numbers = pad_columns(b, first, [k, past - first], threads);
        let b = Matrix { data: &numbers, offset: 0, strides: [1, (k + PADDING) as i64] };
        let size = [m, past - first, k];
        multiply_in_place(size, &mut out[first..], row_stride, a, b, (add, threads));
    }
}

/// Copies contiguous columns from `first` on, with numbers between them, so that they do not collide in the cache.
fn pad_columns(b: Matrix<'_>, first: usize, [k, n]: [usize; 2], threads: bool) -> Vec<f32> {
    let stride = k + PADDING;
    let mut copy = vec![0f32; n * stride];
    let columns_per_task = (NUMBERS_PER_TASK / k).max(1);
    let copy_columns = |(task, copy): (usize, &mut [f32])| {
        for (i, column) in copy.chunks_exact_mut(stride).enumerate() {
            let at = b.position(0, first + task * columns_per_task + i);
            column[..k].copy_from_slice(&b.data[at..][..k]);
        }
    };
    let tasks = copy.chunks_mut(columns_per_task * stride).enumerate();
    match threads {
        true => parallel::for_each(tasks.collect(), copy_columns),
        false => tasks.for_each(copy_columns),
    }
    copy
}

/// Computes the same without a copy of `b`.
#[allow(unsafe_code)]
fn multiply_in_place(
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
