//! The first few elements of rows in order: `topk` and `kthvalue`. Long rows are not sorted.
//!
//! Problem: sorting a row of n elements to get k of them takes many passes.
//!
//! Idea: cut the row into chunks. The first k elements are all in the k chunks whose own first elements come first. Any
//! element of another chunk comes after the first elements of those k chunks. So the chunks are selected by their first
//! elements, and then the elements in the selected chunks.
//!
//! Both selections are the same problem with about `sqrt(n k)` elements, and are solved recursively until a row is short.
//! In a short row, the position of an element is the number of elements that come before it.
//!
//! Example: 64 of 262,144 elements are selected from 4,096 chunks of 64 elements, and then from the 4,096 elements of 64
//! chunks. Each of these two steps uses 512 chunks of 8 elements, and then the 512 elements of 64 chunks.
//!
//! Elements are compared as `i32` keys, and a larger key comes earlier. Selected positions stay in ascending order until
//! the end, so that of equal elements the first ones are selected.

use crate::dtype::{DType, Numbers};
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};

/// The longest rows that are ranked by comparing all pairs of elements.
const MAX_RANKED: usize = 1024;

/// The largest number of elements that are selected. Larger numbers are found by sorting.
const MAX_SELECTED: usize = 256;

/// Rows must be at least this many times as long as the selection. Shorter rows are sorted.
const MIN_LENGTH_RATIO: usize = 8;

/// The most comparisons in one kernel. With more rows than that, sorting keeps the device busy.
const MAX_COMPARISONS: usize = 1 << 26;

/// Whether `most` elements of each row of `count` are selected instead of sorted.
pub(super) fn are_few(rows: usize, count: usize, most: usize) -> bool {
    let each = count.min(MAX_RANKED) * count.min(MAX_RANKED);
    most <= MAX_SELECTED
        && count / MIN_LENGTH_RATIO >= most
        && rows.saturating_mul(each) <= MAX_COMPARISONS
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the `k` largest elements along `axis`, the largest first, and their positions, as `i32`. Without
    /// `largest`, it returns the smallest elements, the smallest first. Of equal elements the first ones are taken, and
    /// NaN is taken last.
    ///
    /// If k is small, elements are selected and not sorted. The positions take one kernel on the CPU. On a GPU they take
    /// about 3 to 30 kernels for a few rows, if k is at most 256 and an eighth of the axis. Otherwise they take about
    /// `log(n) log(k) / 3` kernels. Read both results in one batch, as with [`Tensor::sort`].
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has fewer elements; the errors of [`Tensor::sort`].
    #[doc(alias = "top_k")]
    #[cfg_attr(feature = "js", js(options(axis = -1, largest = true), returns(values, indices), returns = "Ordered<D>"))]
    pub fn topk(&self, k: usize, axis: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        if let Some(line) = self.scalar_as_vector(axis)?.filter(|_| k == 1) {
            let (values, indices) = line.topk(1, 0, largest)?;
            return Ok((values.squeeze(0)?, indices.squeeze(0)?));
        }
        let at = self.shape.axis("topk", axis)?;
        if k > self.shape[at] {
            let message = format!(
                "topk: k must be at most the extent of axis {axis}, got {k} for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        self.check_sortable("topk", at)?;
        let mut dims = self.shape.to_vec();
        dims[at] = k;
        let indices = with_op_name("topk", || match dims.contains(&0) {
            true => self.device.iota(&dims, axis),
            false => {
                let order = self.detach().axis_to_rows(at)?.sorted_positions(largest, k)?;
                order.slice_static(1, ..k as isize, 1)?.rows_to_axis(&self.shape, at)
            }
        })?;
        Ok((with_op_name("topk", || self.gather_raw(axis, &indices))?, indices))
    }

    /// Returns the `k`-th smallest element along `axis`, counted from 1, and its position, as `i32`. Equal elements are
    /// ordered as in [`Tensor::sort`].
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has no `k`-th element; the errors of [`Tensor::sort`].
    #[cfg_attr(feature = "js", js(default(axis = -1), returns(values, indices), returns = "Ordered<D>"))]
    pub fn kthvalue(&self, k: usize, axis: isize) -> Result<(Tensor, Tensor)> {
        let extent = match self.scalar_as_vector(axis)? {
            Some(_) => 1,
            None => self.shape[self.shape.axis("kthvalue", axis)?],
        };
        if k == 0 || k > extent {
            let message = format!(
                "kthvalue: k must be in [1, {extent}], got {k} for axis {axis} of shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        if self.rank() == 0 {
            return with_op_name("kthvalue", || self.sort(axis, false));
        }
        with_op_name("kthvalue", || {
            let (values, indices) = self.topk(k, axis, false)?;
            Ok((values.select(axis, -1)?, indices.select(axis, -1)?))
        })
    }
}

impl Tensor {
    /// Returns the positions of the first `most` elements of each sorted row: `[rows, n] -> [rows, most]`.
    pub(super) fn select_first(&self, descending: bool, most: usize) -> Result<Tensor> {
        self.sort_keys(descending)?.materialize()?.select_largest_keys(most, true)
    }

    /// Converts elements to integers in the same order: a larger key comes earlier.
    fn sort_keys(&self, descending: bool) -> Result<Tensor> {
        if !self.dtype.is_float() {
            let ascending = match self.dtype.numbers() {
                Numbers::Unsigned => {
                    self.bitwise_xor(f64::from(1u32 << 31))?.bitcast(DType::I32)?
                }
                _ => self.cast(DType::I32)?,
            };
            return if descending { Ok(ascending) } else { Ok(ascending.bitwise_not()) };
        }
        let bits = self.cast(DType::F32)?.bitcast(DType::I32)?;
        let magnitude = bits.bitwise_and(f64::from(i32::MAX))?;
        let negative = bits.lt(0)?;
        let below = magnitude.neg();
        let key = match descending {
            true => negative.where_cond(&below, &magnitude)?,
            false => negative.where_cond(&magnitude, &below)?,
        };
        let nan = magnitude.gt(f64::from(f32::INFINITY.to_bits()))?;
        nan.where_cond(-f64::from(i32::MAX), &key)
    }

    /// Returns the positions of the `most` largest keys of each row, sorted by key or by position.
    fn select_largest_keys(&self, most: usize, ordered: bool) -> Result<Tensor> {
        let (rows, count) = (self.shape[0], self.shape[1]);
        if count <= MAX_RANKED {
            return self.rank_by_comparison(most, ordered);
        }
        let chunk = 1usize << (count / most).ilog2().div_ceil(2);
        let more = count.next_multiple_of(chunk) - count;
        let keys = match more {
            0 => self.clone(),
            _ => self.pad_static(&[(0, 0), (0, more)], f64::from(i32::MIN))?,
        };
        let chunks = keys.reshape(&[rows, (count + more) / chunk, chunk])?;
        let first = chunks.max(2)?.materialize()?.select_largest_keys(most, false)?;
        let near = chunks.gather_rows(&first)?.reshape(&[rows, most * chunk])?.materialize()?;
        let found = near.select_largest_keys(most, ordered)?;
        let (at, within) =
            (found.floor_divide(chunk as f64)?, found.bitwise_and(chunk as f64 - 1.0)?);
        first.gather_rows(&at)?.mul(chunk as f64)?.add(&within)?.materialize()
    }

    /// Selects like `select_largest_keys`, by comparing all pairs of keys.
    fn rank_by_comparison(&self, most: usize, ordered: bool) -> Result<Tensor> {
        let count = self.shape[1];
        let (own, other) = (self.unsqueeze(2)?, self.unsqueeze(1)?);
        let position = self.device.iota(&[count], 0)?;
        let before = position.lt(&position.unsqueeze(1)?)?;
        let earlier = other.gt(&own)?.logical_or(&other.eq(&own)?.logical_and(&before)?)?;
        let rank = earlier.cast(DType::I32)?.sum(2)?.materialize()?;
        let taken = rank.lt(most as f64)?;
        let place = match ordered {
            true => rank,
            false => {
                let taken = taken.unsqueeze(1)?.logical_and(&before)?;
                taken.cast(DType::I32)?.sum(2)?.materialize()?
            }
        };
        let slot = self.device.iota(&[most, 1], 0)?;
        let here = place.unsqueeze(1)?.eq(&slot)?.logical_and(&taken.unsqueeze(1)?)?;
        here.where_cond(&position, 0)?.sum(2)?.materialize()
    }
}
