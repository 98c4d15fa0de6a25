//! Shapes of up to eight extents, with broadcasting and axes.

use crate::error::{brief, Error, ErrorKind, Result};
use crate::sorted;
use std::fmt;
use std::ops::Deref;

/// Returns the elements of a list at these positions.
pub fn pick(list: &[usize], positions: &[usize]) -> Vec<usize> {
    let mut picked = Vec::with_capacity(positions.len());
    for &at in positions {
        picked.push(list[at]);
    }
    picked
}

/// The largest rank of a tensor.
pub const MAX_RANK: usize = 8;

/// The most elements of a tensor, because every device indexes them with 32-bit signed integers.
pub const MAX_ELEMENTS: usize = i32::MAX as usize;

/// A tensor's extents, outermost first. Rank 0 is a single number; an extent of 0 makes the tensor empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    rank: u8,
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// Creates a shape. Rejects ranks above 8 and more than 2^31-1 elements. Errors name `op`.
    pub fn new(op: &str, dims: &[usize]) -> Result<Shape> {
        if dims.len() > MAX_RANK {
            let rank = dims.len();
            let dims = brief(dims);
            let message = format!("{op}: rank must be at most {MAX_RANK}, got {rank}: {dims}");
            return Err(Error::shape(message));
        }
        // An extent of zero must not hide an overflow of the others.
        let mut count = 1usize;
        for &extent in dims {
            count = count.saturating_mul(extent.max(1));
        }
        if count > MAX_ELEMENTS {
            let message = format!(
                "{op}: a tensor must have at most {MAX_ELEMENTS} elements, got shape {dims:?}"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let mut shape = Shape { rank: dims.len() as u8, dims: [0; MAX_RANK] };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// The shape of a single number.
    pub const SCALAR: Shape = Shape { rank: 0, dims: [0; MAX_RANK] };

    /// The number of extents.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Returns the number of elements, which is 1 for rank 0.
    pub fn numel(&self) -> usize {
        self.iter().product()
    }

    /// Returns row-major strides, in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.rank()];
        for i in (1..self.rank()).rev() {
            strides[i - 1] = strides[i] * self[i];
        }
        strides
    }

    /// Returns the broadcast shape by NumPy's rule: shapes are aligned at the end, and extents must be equal or 1.
    pub fn broadcast(op: &str, a: &[usize], b: &[usize]) -> Result<Shape> {
        let rank = a.len().max(b.len());
        let extent = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
        let mut dims = Vec::with_capacity(rank);
        for i in 0..rank {
            match (extent(a, i), extent(b, i)) {
                (x, y) if x == y => dims.push(x),
                (1, y) => dims.push(y),
                (x, 1) => dims.push(x),
                _ => return Err(Error::shapes(op, "the shapes must broadcast", a, b)),
            }
        }
        Shape::new(op, &dims)
    }

    /// Returns `axis` counted from the front. Negative values count from the end, so -1 is the last axis.
    pub fn axis(&self, op: &str, axis: isize) -> Result<usize> {
        let rank = self.rank() as isize;
        if axis < -rank || axis >= rank {
            let must = match rank {
                0 => "a number has no axes: the axis must be left out".to_string(),
                _ => format!("axis must be in [{}, {}]", -rank, rank - 1),
            };
            return Err(Error::shape(format!("{op}: {must}, got {axis} for shape {self}")));
        }
        Ok(axis.rem_euclid(rank) as usize)
    }

    /// Returns each of `axes` counted from the front, sorted. Rejects duplicates. An empty list means all axes.
    pub fn axes(&self, op: &str, axes: &[isize]) -> Result<Vec<usize>> {
        if axes.is_empty() {
            return Ok((0..self.rank()).collect());
        }
        let mut out = Vec::with_capacity(axes.len());
        for &axis in axes {
            let axis = self.axis(op, axis)?;
            if out.contains(&axis) {
                let message =
                    format!("{op}: axes must be distinct, got axis {axis} of shape {self} twice");
                return Err(Error::shape(message));
            }
            out.push(axis);
        }
        sorted::sort(&mut out);
        Ok(out)
    }

    /// Returns the shape with `extent` at `axis`.
    pub fn with(mut self, axis: usize, extent: usize) -> Shape {
        self.dims[..self.rank as usize][axis] = extent;
        self
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
