//! One matrix product, by the `gemm` crate. This is `unsafe` code: `gemm` takes pointers.

/// A matrix of numbers that lie in a slice: `data[offset + row * strides[0] + column * strides[1]]`.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub offset: i64,
    pub strides: [i64; 2],
}

impl Matrix<'_> {
    /// Where a number lies.
    pub fn position(&self, row: usize, column: usize) -> usize {
        (self.offset + row as i64 * self.strides[0] + column as i64 * self.strides[1]) as usize
    }

    /// Rows as columns.
    pub fn transposed(self) -> Self {
        Matrix { strides: [self.strides[1], self.strides[0]], ..self }
    }

    /// Whether all of a matrix of `rows` times `columns` numbers lies in the slice.
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

/// `out = a * b`, or `out += a * b` where `add`; a is m times k, b is k times n. Row i of `out` is
/// `out[i * row_stride..][..n]`. `threads` spreads it over the pool. Panics if something does not lie in its slice;
/// callers have checked that it does.
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
    let parallelism = parallelism(threads);
    // SAFETY: all numbers of a, b and out lie inside their slices, as asserted above; out is borrowed mutably, its
    // rows do not overlap, and gemm reads and writes nothing else.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            row_stride as isize,
            add,
            a.data.as_ptr().offset(a.offset as isize),
            a.strides[1] as isize,
            a.strides[0] as isize,
            b.data.as_ptr().offset(b.offset as isize),
            b.strides[1] as isize,
            b.strides[0] as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn parallelism(threads: bool) -> gemm::Parallelism {
    match threads {
        true => gemm::Parallelism::Rayon(0),
        false => gemm::Parallelism::None,
    }
}

#[cfg(target_arch = "wasm32")]
fn parallelism(_: bool) -> gemm::Parallelism {
    gemm::Parallelism::None
}
