//! The first few elements of long rows in order, without sorting the rows.
//!
//! A row is cut into chunks. Its first k elements are all in the k chunks whose own first elements come first: any element
//! of another chunk comes after the first elements of those k chunks. So the chunks are selected by their first elements,
//! and the elements among those of the selected chunks. Both are the same problem with about `sqrt(n k)` elements, and are
//! solved in the same way until a row is short. An element of a short row has as its place how many others come before it.
//!
//! For 64 of 262,144 elements this is 4,096 chunks of 64 elements, and then 4,096 elements of 64 chunks. Each of these two is
//! 512 chunks of 8 elements, and then 512 elements of 64 chunks.
//!
//! Elements are compared as `i32` keys, the larger the earlier. Selected positions stay in ascending order until the end, so
//! that of equal elements the first ones are taken.

use crate::dtype::{DType, Numbers};
use crate::error::Result;
use crate::tensor::Tensor;

/// Rows that are no longer than this are ranked by comparing each element with each.
const RANKED: usize = 1024;

/// More elements than these are found by sorting.
const FEW: usize = 256;

/// So are those of rows that are not this many times as long.
const MANY: usize = 8;

/// Comparisons of a kernel, at most: many rows keep a device busy while they are sorted.
const COMPARISONS: usize = 1 << 26;

/// Whether `most` elements of each row of `count` are to be selected.
pub(super) fn are_few(rows: usize, count: usize, most: usize) -> bool {
    let each = count.min(RANKED) * count.min(RANKED);
    most <= FEW && count / MANY >= most && rows.saturating_mul(each) <= COMPARISONS
}

impl Tensor {
    /// The positions of each row's first `most` elements in order: `[rows, n] -> [rows, most]`.
    pub(super) fn first_few(&self, descending: bool, most: usize) -> Result<Tensor> {
        self.keys(descending)?.stored()?.first_keys(most, true)
    }

    /// Numbers whose order is the elements': the larger, the earlier.
    fn keys(&self, descending: bool) -> Result<Tensor> {
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

    /// The positions of each row's `most` largest keys: the largest first, or as they are in the row.
    fn first_keys(&self, most: usize, ordered: bool) -> Result<Tensor> {
        let (rows, count) = (self.shape[0], self.shape[1]);
        if count <= RANKED {
            return self.ranked(most, ordered);
        }
        let chunk = 1usize << (count / most).ilog2().div_ceil(2);
        let more = count.next_multiple_of(chunk) - count;
        let keys = match more {
            0 => self.clone(),
            _ => self.pad_out(&[(0, 0), (0, more)], f64::from(i32::MIN))?,
        };
        let chunks = keys.reshape(&[rows, (count + more) / chunk, chunk])?;
        let first = chunks.max(2)?.stored()?.first_keys(most, false)?;
        let near = chunks.take_rows(&first)?.reshape(&[rows, most * chunk])?.stored()?;
        let found = near.first_keys(most, ordered)?;
        let (at, within) =
            (found.floor_divide(chunk as f64)?, found.bitwise_and(chunk as f64 - 1.0)?);
        first.take_rows(&at)?.mul(chunk as f64)?.add(&within)?.stored()
    }

    /// The same by comparing each key with each.
    fn ranked(&self, most: usize, ordered: bool) -> Result<Tensor> {
        let count = self.shape[1];
        let (own, other) = (self.unsqueeze(2)?, self.unsqueeze(1)?);
        let position = self.device.iota(&[count], 0)?;
        let before = position.lt(&position.unsqueeze(1)?)?;
        let earlier = other.gt(&own)?.logical_or(&other.eq(&own)?.logical_and(&before)?)?;
        let rank = earlier.cast(DType::I32)?.sum(2)?.stored()?;
        let taken = rank.lt(most as f64)?;
        let place = match ordered {
            true => rank,
            false => {
                let taken = taken.unsqueeze(1)?.logical_and(&before)?;
                taken.cast(DType::I32)?.sum(2)?.stored()?
            }
        };
        let slot = self.device.iota(&[most, 1], 0)?;
        let here = place.unsqueeze(1)?.eq(&slot)?.logical_and(&taken.unsqueeze(1)?)?;
        here.where_cond(&position, 0)?.sum(2)?.stored()
    }
}
