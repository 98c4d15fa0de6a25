//! Gradients of what moves elements: they move them back, and add up what was repeated.

use super::Tape;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::NodeId;
use crate::op::{Op, Pointwise, Routine, Span, Windows};
use crate::shape::Shape;

impl Tape<'_> {
    /// The sum over what was broadcast from the shape `to`.
    pub(super) fn shrink(&mut self, g: NodeId, to: &Shape) -> Result<NodeId> {
        let wide = self.shape(g);
        let more = wide.rank() - to.rank();
        let mut axes = Vec::new();
        for axis in 0..wide.rank() {
            if wide[axis] != 1 && (axis < more || to[axis - more] == 1) {
                axes.push(axis);
            }
        }
        let sum = if axes.is_empty() { g } else { self.sum(g, axes)? };
        self.reshape(sum, to)
    }

    /// With zeros before and after each axis; negative numbers cut off.
    pub(super) fn place(&mut self, g: NodeId, ends: &[(isize, isize)]) -> Result<NodeId> {
        let (mut grow, mut placed, mut grows) = (Vec::with_capacity(ends.len()), g, false);
        for &(a, b) in ends {
            grow.push((a.max(0) as usize, b.max(0) as usize));
            grows |= a > 0 || b > 0;
        }
        if grows {
            let zero = self.number(g, 0.0)?;
            placed = self.push(Op::Pad(grow), &[g, zero])?;
        }
        for (axis, &(a, b)) in ends.iter().enumerate() {
            let (start, end) = (a.min(0).unsigned_abs(), b.min(0).unsigned_abs());
            let len = self.shape(placed)[axis] - start - end;
            placed = self.part(placed, axis, start, len)?;
        }
        Ok(placed)
    }

    /// With `step - 1` zeros between the elements of an axis that is not empty.
    pub(super) fn dilate(&mut self, g: NodeId, axis: usize, step: usize) -> Result<NodeId> {
        let mut dims = self.shape(g).to_vec();
        let len = dims[axis];
        if step <= 1 || len <= 1 {
            return Ok(g);
        }
        // As [before, axis, after], which any rank has room for.
        let (before, after) =
            (dims[..axis].iter().product::<usize>(), dims[axis + 1..].iter().product::<usize>());
        let apart = self.reshape(g, &[before, len, 1, after])?;
        let apart = self.place(apart, &[(0, 0), (0, 0), (0, step as isize - 1), (0, 0)])?;
        let flat = self.reshape(apart, &[before, len * step, after])?;
        dims[axis] = (len - 1) * step + 1;
        let flat = self.part(flat, 1, 0, dims[axis])?;
        self.reshape(flat, &dims)
    }

    /// Of a slice: the elements where they came from, zeros elsewhere.
    pub(super) fn unslice(&mut self, g: NodeId, from: &Shape, spans: &[Span]) -> Result<NodeId> {
        if spans.iter().any(|span| span.step == 0 && span.len > 1) {
            let message = "slice: a step of 0 has no gradient";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut g = g;
        if spans.iter().any(|span| span.step < 0) {
            g = self.slice(g, &|axis, len| match spans[axis].step < 0 {
                true => Span { start: len - 1, len, step: -1 },
                false => Span { start: 0, len, step: 1 },
            })?;
        }
        let mut ends = Vec::with_capacity(spans.len());
        for (axis, span) in spans.iter().enumerate() {
            let step = span.step.unsigned_abs();
            g = self.dilate(g, axis, step)?;
            let reach = (span.len - 1) * step;
            let first = if span.step < 0 { span.start - reach } else { span.start };
            ends.push((first as isize, (from[axis] - first - reach - 1) as isize));
        }
        self.place(g, &ends)
    }

    /// Of windows: each element is added where it came from.
    pub(super) fn fold(&mut self, g: NodeId, from: &Shape, windows: &Windows) -> Result<NodeId> {
        let &Windows { axis, size, step, dilation } = windows;
        let (extent, count) = (from[axis], self.shape(g)[axis]);
        let before: usize = from[..axis].iter().product();
        let after: usize = from[axis + 1..].iter().product();
        let apart = self.reshape(g, &[before, count, after, size])?;
        let apart = self.permute(apart, &[0, 3, 1, 2])?;
        let apart = self.dilate(apart, 2, step)?;
        // The n-th elements lie n times the dilation further on. Rows that are longer than the axis by the dilation,
        // read as rows of the axis's length, are shifted so.
        let long = extent + dilation;
        let missing = (long - self.shape(apart)[2]) as isize;
        let rows = self.place(apart, &[(0, 0), (0, 0), (0, missing), (0, 0)])?;
        let flat = self.reshape(rows, &[before, size * long, after])?;
        let flat = self.part(flat, 1, 0, size * extent)?;
        let shifted = self.reshape(flat, &[before, size, extent, after])?;
        let sum = self.sum(shifted, vec![1])?;
        self.reshape(sum, from)
    }

    /// Of the value that was padded with: the sum of what lies outside of `x`.
    pub(super) fn border(
        &mut self,
        g: NodeId,
        x: NodeId,
        amounts: &[(usize, usize)],
    ) -> Result<NodeId> {
        let shape = self.shape(x);
        let (inside, outside) =
            (self.fill(shape, DType::Bool, 1.0)?, self.fill(Shape::SCALAR, DType::Bool, 0.0)?);
        let inside = self.push(Op::Pad(amounts.to_vec()), &[inside, outside])?;
        let zero = self.number(g, 0.0)?;
        let around = self.row(Pointwise::select, &[inside, zero, g])?;
        self.shrink(around, &Shape::SCALAR)
    }

    /// Of a gather: each element is added where its index points, as a product with ones at the indices. The ones are
    /// never in memory, but the product takes as many steps as there are indices times positions.
    pub(super) fn scatter(
        &mut self,
        g: NodeId,
        from: &Shape,
        (axis, paired): (usize, bool),
        index: NodeId,
    ) -> Result<NodeId> {
        let (mut count, positions) = (self.shape(index).numel(), from[axis]);
        let mut before: usize = from[..axis].iter().product();
        let after: usize = from[axis + 1..].iter().product();
        let index = self.cast(index, DType::I32)?;
        // Rows that have their own indices are matrices of their own.
        let mut own = Vec::new();
        if paired {
            own.push(before);
            (count, before) = (count / before, 1);
        }
        let sized = |dims: &[usize]| [&own[..], dims].concat();
        // One row for each position; or one column, where nothing follows the axis.
        let (spread, dims, place) = match after {
            1 => ([count, 1], [count, positions], 1),
            _ => ([1, count], [positions, count], 0),
        };
        let index = self.reshape(index, &sized(&spread))?;
        let position =
            self.push(Op::Iota { shape: Shape::new("grad", &dims)?, axis: place }, &[])?;
        let ones = self.row(Pointwise::eq, &[index, position])?;
        let ones = self.cast(ones, self.dtype(g))?;
        let matmul = Op::Routine(Routine::Matmul);
        let sums = if after == 1 {
            let rows = self.reshape(g, &sized(&[before, count]))?;
            self.push(matmul, &[rows, ones])?
        } else {
            let columns = match before {
                1 => self.reshape(g, &sized(&[count, after]))?,
                _ => self.reshape(g, &[before, count, after])?,
            };
            self.push(matmul, &[ones, columns])?
        };
        self.reshape(sums, from)
    }
}
