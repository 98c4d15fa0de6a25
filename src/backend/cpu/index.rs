//! Strided walks: which elements of a buffer a run of consecutive coordinates touches.

use crate::kernel::{Atom, Index};

/// The coordinates of a space in a chosen order, counted as one number that the last dimension moves fastest.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Each dimension's number in the space and its extent, slowest first.
    dims: Vec<(u32, usize)>,
}

impl Order {
    /// `order` numbers dimensions of `dims`.
    pub fn new(dims: &[usize], order: impl Iterator<Item = usize>) -> Order {
        Order { dims: order.map(|d| (d as u32, dims[d])).collect() }
    }
}

/// The part of an [`Index`] that coordinates decide, as a function of an [`Order`]'s count.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    offset: i64,
    /// Extents and strides, slowest first; neighbours that continue each other are one, and there is at least one.
    dims: Vec<(usize, i64)>,
}

impl Walk {
    /// The walk of `index`, without its value terms.
    pub fn new(index: &Index, order: &Order) -> Walk {
        let stride = |d: u32| {
            let of = |term: &&(Atom, i64)| term.0 == Atom::Coord(d);
            index.terms.iter().filter(of).map(|term| term.1).sum()
        };
        Walk::strided(index.offset, order.dims.iter().map(|&(d, extent)| (extent, stride(d))))
    }

    /// A walk over extents with their strides, slowest first.
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

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().map(|d| d.0).product()
    }

    /// The lowest and highest position, unless there is none.
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

    /// Whether all positions lie in a buffer of `len` elements.
    pub fn inside(&self, len: usize) -> bool {
        self.bounds().is_none_or(|(low, high)| low >= 0 && high < len as i64)
    }

    /// Whether later counts always have higher positions, so that cutting the count cuts the buffer.
    pub fn ascends(&self) -> bool {
        let mut reach = 0i64;
        self.dims.iter().rev().all(|&(extent, stride)| {
            let beyond = extent <= 1 || stride > reach;
            reach = reach.saturating_add(stride.saturating_mul(extent.max(1) as i64 - 1));
            beyond
        })
    }

    /// The first position, if all `count` elements lie side by side in order.
    pub fn offset_if_contiguous(&self, count: usize) -> Option<usize> {
        let contiguous = matches!(self.dims[..], [(extent, 1)] if extent == count) || count == 1;
        usize::try_from(self.offset).ok().filter(|_| contiguous)
    }

    /// The position at `count`.
    pub fn position(&self, mut count: usize) -> i64 {
        let mut position = self.offset;
        for &(extent, stride) in self.dims.iter().rev() {
            let extent = extent.max(1);
            position = position.wrapping_add((count % extent) as i64 * stride);
            count /= extent;
        }
        position
    }

    /// The position of the first of `len` elements that lie side by side from `start` on, if they do.
    pub fn contiguous(&self, start: usize, len: usize) -> Option<i64> {
        let &(extent, stride) = self.dims.last()?;
        let at = start % extent.max(1);
        ((stride == 1 || len == 1) && at + len <= extent).then(|| self.position(start))
    }

    /// Calls `visit(done, position, length, stride)` for each run along the last dimension.
    #[inline(always)]
    pub fn runs(&self, start: usize, len: usize, mut visit: impl FnMut(usize, i64, usize, i64)) {
        let Some((&(extent, stride), slower)) = self.dims.split_last() else { return };
        if len == 0 || extent == 0 {
            return;
        }
        let (mut at, mut rest) = (start % extent, start / extent);
        let mut first = len.min(extent - at);
        let mut position = self.offset.wrapping_add(at as i64 * stride);
        if first == len && slower.is_empty() {
            return visit(0, position, len, stride);
        }
        let (mut few, mut many) = ([0usize; 8], Vec::new());
        let coords = match few.get_mut(..slower.len()) {
            Some(coords) => coords,
            None => {
                many.resize(slower.len(), 0);
                &mut many[..]
            }
        };
        for (coord, &(extent, stride)) in coords.iter_mut().zip(slower).rev() {
            *coord = rest % extent;
            rest /= extent;
            position = position.wrapping_add(*coord as i64 * stride);
        }
        let mut done = 0;
        loop {
            visit(done, position, first, stride);
            done += first;
            if done >= len {
                return;
            }
            position = position.wrapping_sub(at as i64 * stride);
            at = 0;
            first = extent.min(len - done);
            for (coord, &(extent, stride)) in coords.iter_mut().zip(slower).rev() {
                *coord += 1;
                position = position.wrapping_add(stride);
                if *coord < extent {
                    break;
                }
                *coord = 0;
                position = position.wrapping_sub(extent as i64 * stride);
            }
        }
    }

    /// Reads the elements from `start` on into `out`; whatever lies outside `data` reads as 0.
    pub fn load<T: Copy>(
        &self,
        start: usize,
        data: &[T],
        out: &mut [u32],
        word: impl Fn(T) -> u32 + Copy,
    ) {
        self.runs(start, out.len(), |done, position, len, stride| {
            let out = &mut out[done..done + len];
            let last = position.wrapping_add(stride.wrapping_mul(len as i64 - 1));
            let range = 0..data.len() as i64;
            if !range.contains(&position) || !range.contains(&last) {
                for (i, out) in out.iter_mut().enumerate() {
                    let at = position.wrapping_add(i as i64 * stride);
                    let value = usize::try_from(at).ok().and_then(|at| data.get(at));
                    *out = value.map_or(0, |&x| word(x));
                }
                return;
            }
            let position = position as usize;
            match stride {
                0 => out.fill(word(data[position])),
                1 => {
                    for (out, &x) in out.iter_mut().zip(&data[position..]) {
                        *out = word(x);
                    }
                }
                2.. => {
                    for (out, &x) in
                        out.iter_mut().zip(data[position..].iter().step_by(stride as usize))
                    {
                        *out = word(x);
                    }
                }
                _ => {
                    let back =
                        data[..=position].iter().rev().step_by(stride.unsigned_abs() as usize);
                    for (out, &x) in out.iter_mut().zip(back) {
                        *out = word(x);
                    }
                }
            }
        });
    }

    /// The positions from `start` on.
    pub fn positions(&self, start: usize, out: &mut [i64]) {
        self.runs(start, out.len(), |done, position, len, stride| {
            for (i, out) in out[done..done + len].iter_mut().enumerate() {
                *out = position.wrapping_add(i as i64 * stride);
            }
        });
    }

    /// The positions from `start` on, as `i32` values.
    pub fn indices(&self, start: usize, out: &mut [u32]) {
        self.runs(start, out.len(), |done, position, len, stride| {
            let (position, stride) = (position as u32, stride as u32);
            for (i, out) in out[done..done + len].iter_mut().enumerate() {
                *out = position.wrapping_add((i as u32).wrapping_mul(stride));
            }
        });
    }

    /// Writes `values` to the elements from `start` on; `out` begins at position `base`.
    pub fn store<T: Copy>(
        &self,
        start: usize,
        base: i64,
        values: &[u32],
        out: &mut [T],
        element: impl Fn(u32) -> T + Copy,
    ) {
        self.runs(start, values.len(), |done, position, len, stride| {
            let values = &values[done..done + len];
            let at = position.wrapping_sub(base);
            if stride == 1 {
                let range = usize::try_from(at).ok().and_then(|at| out.get_mut(at..at + len));
                let Some(range) = range else { return };
                for (out, &value) in range.iter_mut().zip(values) {
                    *out = element(value);
                }
                return;
            }
            for (i, &value) in values.iter().enumerate() {
                let at = at.wrapping_add(i as i64 * stride);
                if let Some(out) = usize::try_from(at).ok().and_then(|at| out.get_mut(at)) {
                    *out = element(value);
                }
            }
        });
    }
}
