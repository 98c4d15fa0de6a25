//! Running sums, products, maxima and minima along an axis; differences of neighbors, and the trapezoidal rule.
//!
//! Problem: each result of a scan depends on all elements before it.
//!
//! Idea: cut a row into blocks of `BLOCK_LENGTH` elements. Each result in a block is reduced directly over the elements
//! up to it. The totals of the blocks are scanned in the same way, and combined with the blocks that follow. The cost is
//! `BLOCK_LENGTH` steps for each element, in about `2 log(n) / log(BLOCK_LENGTH)` kernels.
//!
//! Example: with blocks of 2, `[1, 2, 3, 4]` becomes `[1, 3]` and `[3, 7]`. The total 3 of the first block is added to
//! the second, which gives `[1, 3, 6, 10]`.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Reduction;
use crate::shape::MAX_ELEMENTS;
use crate::tensor::helpers::{combining_op, identity_element};
use crate::tensor::{check_output_count, with_op_name, Operand, Scan, Tensor};

/// The most elements in a block.
const BLOCK_LENGTH: usize = 16;

/// Returns the number of elements in a block of `rows` rows of `count` elements. The steps within blocks have the shape
/// `[rows, blocks, length, length]`. Blocks of large tensors are shorter, so that this shape has few enough elements.
fn block_length(rows: usize, count: usize) -> usize {
    let steps =
        |length: usize| rows.saturating_mul(count.div_ceil(length)).saturating_mul(length * length);
    let mut length = count.min(BLOCK_LENGTH);
    while length > 2 && steps(length) > MAX_ELEMENTS {
        length = (length / 2).max(2);
    }
    length
}

macro_rules! scans {
    ($($(#[doc = $doc:literal])+ $name:ident => $op:ident $(, $returns:literal)?;)*) => {
    #[cfg_attr(feature = "js", warpweft_macros::js)]
    impl Tensor { $(
        $(#[doc = $doc])+
        ///
        /// With [`Scan::exclusive`], each result excludes its own element. With [`Scan::reverse`], the operation starts
        /// at the end. The order of additions is fixed, so the same device gives the same bits again. `f16` is rounded
        /// once, at the end.
        ///
        /// # Errors
        /// `Shape` if the axis does not exist; `Limit` for more than 2^29 elements.
        #[cfg_attr(feature = "js", js($(returns = $returns)?))]
        pub fn $name(&self, axis: impl Into<Scan>) -> Result<Tensor> {
            self.scan(stringify!($name), Reduction::$op, axis.into())
        }
    )* } };
}

scans! {
    /// Returns the sum of the elements along `axis` up to each one. Integers wrap around. Integers with fewer than 32
    /// bits and `bool` give `i32`.
    cumsum => Sum, "Tensor<SumOf[D]>";
    /// Returns the product of the elements along `axis` up to each one. The gradient does not divide by elements, so
    /// zeros are safe. Integers with fewer than 32 bits and `bool` give `i32`.
    cumprod => Prod, "Tensor<SumOf[D]>";
    /// Returns the largest element along `axis` up to each one, and NaN from the first NaN on.
    cummax => Max;
    /// Returns the smallest element along `axis` up to each one, and NaN from the first NaN on.
    cummin => Min;
}

impl Tensor {
    fn scan(&self, name: &str, op: Reduction, scan: Scan) -> Result<Tensor> {
        let Scan { axis, exclusive, reverse } = scan;
        if let Some(line) = self.scalar_as_vector(axis)? {
            return line.scan(name, op, scan)?.squeeze(0);
        }
        let at = self.shape.axis(name, axis)?;
        if !self.dtype.is_number() {
            let wide = self.cast(DType::I32)?.scan(name, op, scan)?;
            return match (op, self.dtype.range()) {
                // An exclusive scan starts with a value that may be outside the range of the type.
                (Reduction::Max | Reduction::Min, Some((low, high))) => {
                    wide.clamp(low, high)?.cast(self.dtype)
                }
                _ => Ok(wide),
            };
        }
        if self.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name(name, || {
            let mut lines = self.axis_to_rows(at)?.cast(self.dtype.compute())?;
            if reverse {
                lines = lines.flip(&[1])?;
            }
            if exclusive {
                lines = lines.pad_static(&[(0, 0), (1, 0)], identity_element(op, lines.dtype))?;
                lines = lines.slice_static(1, ..-1, 1)?;
            }
            let mut sums = lines.scan_rows(op)?;
            if reverse {
                sums = sums.flip(&[1])?;
            }
            sums.cast(self.dtype)?.rows_to_axis(&self.shape, at)
        })
    }

    /// Returns the inclusive scan of each row of `[rows, n]`.
    fn scan_rows(&self, op: Reduction) -> Result<Tensor> {
        let (rows, count) = (self.shape[0], self.shape[1]);
        if count <= 1 {
            return Ok(self.clone());
        }
        let none = identity_element(op, self.dtype);
        let length = block_length(rows, count);
        let blocks = count.div_ceil(length);
        let whole = self.pad_static(&[(0, 0), (0, blocks * length - count)], none)?;
        let seen = self.device.iota(&[length, length], 1)?;
        let seen = seen.le(&self.device.iota(&[length, length], 0)?)?;
        let spread = whole.reshape(&[rows, blocks, 1, length])?;
        let nothing = self.device.constant(&[], none, self.dtype)?;
        let mut sums = seen.where_cond(&spread, &nothing)?.reduce(op, 3)?;
        if blocks > 1 {
            let totals = sums.select(2, -1)?;
            let before = totals.scan_rows(op)?.pad_static(&[(0, 0), (1, 0)], none)?;
            let before = before.slice_static(1, ..-1, 1)?.unsqueeze(-1)?;
            sums = sums.apply_row(combining_op(op), &[Operand::Tensor(before)])?;
        }
        sums.reshape(&[rows, blocks * length])?.slice_static(1, ..count as isize, 1)
    }

    /// Returns the inclusive scan of each row of `[rows, n]` by `log(exp(a) + exp(b))`.
    pub(super) fn logcumsumexp_rows(&self) -> Result<Tensor> {
        let (rows, count) = (self.shape[0], self.shape[1]);
        let none = f64::NEG_INFINITY;
        let length = block_length(rows, count);
        let blocks = count.div_ceil(length);
        let whole = self.pad_static(&[(0, 0), (0, blocks * length - count)], none)?;
        let seen = self.device.iota(&[length, length], 1)?;
        let seen = seen.le(&self.device.iota(&[length, length], 0)?)?;
        let spread = whole.reshape(&[rows, blocks, 1, length])?;
        let mut sums = seen.where_cond(&spread, none)?.logsumexp(3)?;
        if blocks > 1 {
            let totals = sums.slice_static(2, -1.., 1)?.squeeze(2)?;
            let before = totals.logcumsumexp_rows()?.pad_static(&[(0, 0), (1, 0)], none)?;
            sums = sums.logaddexp(before.slice_static(1, ..-1, 1)?.unsqueeze(-1)?)?;
        }
        sums.reshape(&[rows, blocks * length])?.slice_static(1, ..count as isize, 1)
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the differences of neighbors along an axis, each element minus the previous one. Repeats this `n` times, so
    /// the axis becomes `n` elements shorter.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has fewer than `n` elements; `DType` for `bool`; `Limit` if `n` exceeds
    /// 65,536.
    #[cfg_attr(feature = "js", js(default(n = 1, axis = -1)))]
    pub fn diff(&self, n: usize, axis: isize) -> Result<Tensor> {
        let name = "diff";
        let at = self.shape.axis(name, axis)?;
        if n > self.shape[at] {
            let message = format!(
                "{name}: n must be at most the extent of axis {axis}, got {n} for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        check_output_count(name, n)?;
        let mut done = self.reshape(&self.shape)?;
        for _ in 0..n {
            done = with_op_name(name, || {
                done.slice_static(axis, 1.., 1)?.sub(done.slice_static(axis, ..-1, 1)?)
            })?;
        }
        Ok(done)
    }

    /// Returns the integral along an axis by the trapezoidal rule, for values at a distance of `dx`.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty; `DType` unless the tensor is a float.
    #[doc(alias = "trapz")]
    #[cfg_attr(feature = "js", js(default(dx = 1.0, axis = -1)))]
    pub fn trapezoid(&self, dx: f64, axis: isize) -> Result<Tensor> {
        let name = "trapezoid";
        self.check_float(name)?;
        let at = self.shape.axis(name, axis)?;
        if self.shape[at] == 0 {
            let message =
                format!("{name}: axis {axis} must not be empty, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        with_op_name(name, || {
            self.compute_in_f32(|x| {
                let pairs = x.slice_static(axis, 1.., 1)?.add(x.slice_static(axis, ..-1, 1)?)?;
                pairs.sum(axis)?.mul(dx / 2.0)
            })
        })
    }

    /// Returns the logarithm of the sum of exponentials along an axis up to each element, without overflow.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `DType` unless the tensor is a float; `Limit` for more than 2^29 elements.
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn logcumsumexp(&self, axis: isize) -> Result<Tensor> {
        let name = "logcumsumexp";
        self.check_float(name)?;
        let at = self.shape.axis(name, axis)?;
        if self.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name(name, || {
            let lines = self.axis_to_rows(at)?.cast(self.dtype.compute())?;
            lines.logcumsumexp_rows()?.cast(self.dtype)?.rows_to_axis(&self.shape, at)
        })
    }
}
