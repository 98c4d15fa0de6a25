//! Gradients of movement operations: elements are moved back, and repeated elements are added up.

use super::{Contribution, Slice, Tape};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::NodeId;
use crate::op::{Offset, Op, PadAmount, Pointwise, Routine, Span, Windows};
use crate::shape::Shape;

/// The most positions that are numbered with one digit. More are numbered with two.
const MAX_ONE_DIGIT_POSITIONS: usize = 128;

/// The approximate number of elements of an operand of a scatter product.
const ELEMENTS_PER_OPERAND: usize = 1 << 24;

impl Tape<'_> {
    /// Sums over the axes that were broadcast from shape `to`.
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

    /// Adds zeros before and after each axis. Negative amounts cut elements off.
    pub(super) fn place(&mut self, g: NodeId, ends: &[(isize, isize)]) -> Result<NodeId> {
        let (mut grow, mut placed, mut grows) = (Vec::with_capacity(ends.len()), g, false);
        for &(a, b) in ends {
            grow.push((a.max(0) as usize, b.max(0) as usize));
            grows |= a > 0 || b > 0;
        }
        if grows {
            let zero = self.number(g, 0.0)?;
            placed = self.push(Op::Pad(PadAmount::all(&grow)), &[g, zero])?;
        }
        for (axis, &(a, b)) in ends.iter().enumerate() {
            let (start, end) = (a.min(0).unsigned_abs(), b.min(0).unsigned_abs());
            let len = self.shape(placed)[axis] - start - end;
            placed = self.part(placed, axis, start, len)?;
        }
        Ok(placed)
    }

    /// Inserts `step - 1` zeros between the elements of a non-empty axis.
    pub(super) fn dilate(&mut self, g: NodeId, axis: usize, step: usize) -> Result<NodeId> {
        let mut dims = self.shape(g).to_vec();
        let len = dims[axis];
        if step <= 1 || len <= 1 {
            return Ok(g);
        }
        // As [before, axis, after], because every rank has room for these dimensions.
        let (before, after) =
            (dims[..axis].iter().product::<usize>(), dims[axis + 1..].iter().product::<usize>());
        let apart = self.reshape(g, &[before, len, 1, after])?;
        let apart = self.place(apart, &[(0, 0), (0, 0), (0, step as isize - 1), (0, 0)])?;
        let flat = self.reshape(apart, &[before, len * step, after])?;
        dims[axis] = (len - 1) * step + 1;
        let flat = self.part(flat, 1, 0, dims[axis])?;
        self.reshape(flat, &dims)
    }

    /// Returns the gradient of a slice: the elements spread by the step, with the padding that moves them back. `starts` are
    /// the dynamic starts.
    pub(super) fn unslice(
        &mut self,
        g: NodeId,
        from: &Shape,
        spans: &[Span],
        starts: &[NodeId],
    ) -> Result<Contribution> {
        if spans.iter().any(|span| span.step == 0 && span.len > 1) {
            let message = "slice: step must not be 0 for a gradient, got 0";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut g = g;
        if spans.iter().any(|span| span.step < 0) {
            g = self.slice(g, &|axis, len| match spans[axis].step < 0 {
                true => Span::at(len - 1, len, -1),
                false => Span::whole(len),
            })?;
        }
        let mut margins = Vec::with_capacity(spans.len());
        for (axis, span) in spans.iter().enumerate() {
            let step = span.step.unsigned_abs();
            g = self.dilate(g, axis, step)?;
            let reach = (span.len - 1) * step;
            let before = match span.start {
                Offset::Static(last) if span.step < 0 => Offset::Static(last - reach),
                start => start,
            };
            let more = from[axis] - reach - 1;
            margins.push(PadAmount { before, more });
        }
        Ok(Contribution::Slice(Slice { node: g, margins, starts: starts.to_vec() }))
    }

    /// Returns the gradient of windows: each element is added at its source.
    pub(super) fn fold(&mut self, g: NodeId, from: &Shape, windows: &Windows) -> Result<NodeId> {
        let &Windows { axis, size, step, dilation } = windows;
        let (extent, count) = (from[axis], self.shape(g)[axis]);
        let before: usize = from[..axis].iter().product();
        let after: usize = from[axis + 1..].iter().product();
        let apart = self.reshape(g, &[before, count, after, size])?;
        // Windows that do not overlap are concatenated without additions.
        if dilation == 1 && step >= size {
            let rows = self.permute(apart, &[0, 1, 3, 2])?;
            let rows = self.place(rows, &[(0, 0), (0, 0), (0, (step - size) as isize), (0, 0)])?;
            let flat = self.reshape(rows, &[before, count * step, after])?;
            let missing = extent as isize - (count * step) as isize;
            let flat = self.place(flat, &[(0, 0), (0, missing), (0, 0)])?;
            return self.reshape(flat, from);
        }
        let apart = self.permute(apart, &[0, 3, 1, 2])?;
        let apart = self.dilate(apart, 2, step)?;
        // The n-th elements of the windows are shifted by n times the dilation. Rows that are longer than the axis by the
        // dilation, read as rows of the axis's length, have this shift.
        let long = extent + dilation;
        let missing = (long - self.shape(apart)[2]) as isize;
        let rows = self.place(apart, &[(0, 0), (0, 0), (0, missing), (0, 0)])?;
        let flat = self.reshape(rows, &[before, size * long, after])?;
        let flat = self.part(flat, 1, 0, size * extent)?;
        let shifted = self.reshape(flat, &[before, size, extent, after])?;
        let sum = self.sum(shifted, vec![1])?;
        self.reshape(sum, from)
    }

    /// Returns the gradient of the padded operand: the part at its position. `starts` are the dynamic starts.
    pub(super) fn unpad(
        &mut self,
        g: NodeId,
        from: &Shape,
        margins: &[PadAmount],
        starts: &[NodeId],
    ) -> Result<NodeId> {
        let span =
            |(&len, margin): (&usize, &PadAmount)| Span { start: margin.before, len, step: 1 };
        let spans = from.iter().zip(margins).map(span).collect();
        self.push(Op::Slice(spans), &[&[g], starts].concat())
    }

    /// Returns the gradient of the fill value: the gradient outside of `x`. For a number it is summed.
    pub(super) fn border(
        &mut self,
        g: NodeId,
        (x, fill): (NodeId, Shape),
        margins: &[PadAmount],
        starts: &[NodeId],
    ) -> Result<NodeId> {
        let shape = self.shape(x);
        let (inside, outside) =
            (self.fill(shape, DType::Bool, 1.0)?, self.fill(Shape::SCALAR, DType::Bool, 0.0)?);
        let pad = Op::Pad(margins.to_vec());
        let inside = self.push(pad, &[&[inside, outside], starts].concat())?;
        let zero = self.number(g, 0.0)?;
        let around = self.row(Pointwise::where_cond, &[inside, zero, g])?;
        self.shrink(around, &fill)
    }

    /// Returns the gradient of a gather: each element is added at its index. This is a product with a matrix of ones at the
    /// indices. The ones are not stored, but the product takes as many steps as indices times positions.
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
        // Rows with separate indices are separate matrices.
        let mut own = Vec::new();
        if paired {
            own.push(before);
            (count, before) = (count / before, 1);
        }
        let sized = |dims: &[usize]| [&own[..], dims].concat();
        let matmul = Op::Routine(Routine::Matmul);
        if after > 1 {
            // One row for each position.
            let index = self.reshape(index, &sized(&[1, count]))?;
            let ones = self.ones(index, 0, positions, self.dtype(g))?;
            let columns = match before {
                1 => self.reshape(g, &sized(&[count, after]))?,
                _ => self.reshape(g, &[before, count, after])?,
            };
            let sums = self.push(matmul, &[ones, columns])?;
            return self.reshape(sums, from);
        }
        let index = self.reshape(index, &sized(&[count, 1]))?;
        let rows = self.reshape(g, &sized(&[before, count]))?;
        if before > 1 || positions <= MAX_ONE_DIGIT_POSITIONS {
            let ones = self.ones(index, 1, positions, self.dtype(g))?;
            let sums = self.push(matmul, &[rows, ones])?;
            return self.reshape(sums, from);
        }
        // Some devices store the operands of the products, so their size is limited.
        let rank = self.shape(rows).rank();
        let piece =
            (ELEMENTS_PER_OPERAND / positions.isqrt() / own.iter().product::<usize>()).max(1);
        let mut sums = None;
        for start in (0..count).step_by(piece) {
            let length = piece.min(count - start);
            let rows = self.part(rows, rank - 1, start, length)?;
            let index = self.part(index, rank - 2, start, length)?;
            let part = self.scatter_wide(rows, index, positions)?;
            sums = Some(match sums {
                Some(before) => self.row(Pointwise::add, &[before, part])?,
                None => part,
            });
        }
        self.reshape(sums.unwrap_or(rows), from)
    }

    /// Scatters as a product of two matrices, with the same number of steps. Positions are written with two digits. Each
    /// element is placed in the row of its index's first digit, and is multiplied with a one in the column of the second digit.
    /// Maps `[.., 1, count]` and indices `[.., count, 1]` to `[.., 1, positions]`.
    fn scatter_wide(&mut self, rows: NodeId, index: NodeId, positions: usize) -> Result<NodeId> {
        let bits = positions.ilog2().div_ceil(2);
        let columns = 1 << bits;
        let lines = positions.div_ceil(columns);
        let mask = self.number(index, (columns - 1) as f64)?;
        let bits = self.number(index, f64::from(bits))?;
        let last = self.row(Pointwise::bitwise_and, &[index, mask])?;
        let first = self.row(Pointwise::bitwise_right_shift, &[index, bits])?;
        let first = self.transpose(first)?;
        let here = self.ones(first, 0, lines, DType::Bool)?;
        let zero = self.number(rows, 0.0)?;
        let spread = self.row(Pointwise::where_cond, &[here, rows, zero])?;
        let ones = self.ones(last, 1, columns, self.dtype(rows))?;
        let sums = self.push(Op::Routine(Routine::Matmul), &[spread, ones])?;
        let mut dims = self.shape(rows).to_vec();
        let (rank, whole) = (dims.len(), lines * columns);
        dims[rank - 1] = whole;
        let sums = self.reshape(sums, &dims)?;
        self.part(sums, rank - 1, 0, positions)
    }

    /// Records ones where an index equals its position along an axis of extent 1, counted from the second last, and zeros
    /// elsewhere.
    fn ones(
        &mut self,
        index: NodeId,
        axis: usize,
        positions: usize,
        dtype: DType,
    ) -> Result<NodeId> {
        let mut dims = self.shape(index).to_vec();
        let from = dims.len() - 2;
        dims[from + axis] = positions;
        dims.drain(..from);
        let shape = Shape::new("grad", &dims)?;
        let position = self.push(Op::Iota { shape, axis }, &[])?;
        let ones = self.row(Pointwise::eq, &[index, position])?;
        self.cast(ones, dtype)
    }
}
