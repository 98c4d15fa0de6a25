//! Strided walks: the elements of a buffer that a run of consecutive coordinates accesses.

use super::region::Side;
use crate::kernel::{Atom, Index};

/// The coordinates of a space or a region in a chosen order. They are counted as one number, and the last dimension is the
/// fastest.
#[derive(Clone, Debug)]
pub struct Order {
    /// The dimensions, slowest first. Each has its number in the space, its extent, and the coordinates that a step moves by.
    dims: Vec<(u32, usize, i64)>,
    /// The region's first coordinates.
    first: Vec<usize>,
}

impl Order {
    /// Creates an order. `order` has the numbers of dimensions of `dims`.
    pub fn new(dims: &[usize], order: impl Iterator<Item = usize>) -> Order {
        Order { dims: order.map(|d| (d as u32, dims[d], 1)).collect(), first: Vec::new() }
    }

    /// Moves the coordinates, so that `first` is the first one.
    pub fn from(self, first: &[usize]) -> Order {
        Order { first: first.to_vec(), ..self }
    }

    /// Orders the coordinates in squares along two dimensions. Their extents must be multiples of the squares' lengths.
    pub fn squares(self, sides: [Side; 2]) -> Order {
        let length = |d: u32| sides.iter().find(|side| side.dim == d as usize).map(|s| s.length);
        let coarse = |&(d, extent, times): &(u32, usize, i64)| match length(d) {
            Some(length) => (d, extent / length, times * length as i64),
            None => (d, extent, times),
        };
        let fine = self.dims.iter().filter_map(|&(d, _, times)| Some((d, length(d)?, times)));
        let dims = self.dims.iter().map(coarse).chain(fine).collect();
        Order { dims, ..self }
    }
}

/// The part of an [`Index`] that depends on coordinates, as a function of an [`Order`]'s count.
#[derive(Clone, Debug)]
pub struct Walk {
    pub offset: i64,
    /// The extents and strides, slowest first. Dimensions that continue each other are merged, and at least one is left.
    pub dims: Vec<(usize, i64)>,
}

impl Walk {
    /// Creates the walk of `index`, without its value terms.
    pub fn new(index: &Index, order: &Order) -> Walk {
        let stride = |d: u32| {
            let of = |term: &&(Atom, i64)| term.0 == Atom::Coord(d);
            index.terms.iter().filter(of).map(|term| term.1).sum()
        };
        let first = order.first.iter().enumerate();
        let offset = first.map(|(d, &at)| (at as i64).wrapping_mul(stride(d as u32)));
        let offset = offset.fold(index.offset, i64::wrapping_add);
        let step = |&(d, extent, times): &(u32, usize, i64)| (extent, stride(d) * times);
        Walk::strided(offset, order.dims.iter().map(step))
    }

    /// Creates a walk over extents with their strides, slowest first.
    pub fn strided(offset: i64, dims: impl Iterator<Item = (usize, i64)>) -> Walk {
        let mut merged: Vec<(usize, i64)> = Vec::new();
        for (extent, stride) in dims.filter(|d| d.0 != 1) {
            match merged.last_mut() {
                Some(last) if last.1 == stride.wrapping_mul(extent as i64) => {
                    *last = (last.0 * extent, stride);
                }
                _ => merged.push((extent, stride)),
            }
        }
        if merged.is_empty() {
            merged.push((1, 0));
        }
        Walk { offset, dims: merged }
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().map(|d| d.0).product()
    }

    /// Returns the lowest and the highest position, or `None` for an empty walk.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (self.offset, self.offset);
        for &(extent, stride) in &self.dims {
            let span = stride.saturating_mul(i64::try_from(extent).ok()?.checked_sub(1)?);
            if extent == 0 {
                return None;
            }
            low = low.saturating_add(span.min(0));
            high = high.saturating_add(span.max(0));
        }
        Some((low, high))
    }

    /// Whether all positions are inside a buffer of `len` elements.
    pub fn inside(&self, len: usize) -> bool {
        self.bounds().is_none_or(|(low, high)| low >= 0 && high < len as i64)
    }

    /// Whether higher counts always have higher positions, so that a cut of the counts cuts the buffer.
    pub fn ascends(&self) -> bool {
        let mut reach = 0i64;
        self.dims.iter().rev().all(|&(extent, stride)| {
            let beyond = extent <= 1 || stride > reach;
            reach = reach.saturating_add(stride.saturating_mul(extent.max(1) as i64 - 1));
            beyond
        })
    }

    /// Returns the first position if all `count` elements are contiguous and in order.
    pub fn offset_if_contiguous(&self, count: usize) -> Option<usize> {
        let contiguous = matches!(self.dims[..], [(extent, 1)] if extent == count) || count == 1;
        usize::try_from(self.offset).ok().filter(|_| contiguous)
    }

    /// Returns the position at `count`.
    pub fn position(&self, mut count: usize) -> i64 {
        let mut position = self.offset;
        for &(extent, stride) in self.dims.iter().rev() {
            let extent = extent.max(1);
            position = position.wrapping_add((count % extent) as i64 * stride);
            count /= extent;
        }
        position
    }

    /// Returns the position of the first of `len` elements from `start` on, if they are contiguous.
    pub fn contiguous(&self, start: usize, len: usize) -> Option<i64> {
        let &(extent, stride) = self.dims.last()?;
        let at = start % extent.max(1);
        ((stride == 1 || len == 1) && at + len <= extent).then(|| self.position(start))
    }
}
