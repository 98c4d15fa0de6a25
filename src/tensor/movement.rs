//! Moving elements: reshaping, transposing, slicing, joining, choosing. All but joining are views, which cost nothing
//! until a kernel reads through them.

use super::{pointwise, within, Pointwise, Tensor, Value};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Op, Span};
use crate::shape::Shape;

/// What lies outside of a tensor that is padded with its own elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// The mirror image, without the outermost element again.
    Reflect,
    /// The mirror image, the outermost element first.
    Symmetric,
    /// The outermost element.
    Edge,
    /// The elements from the other end on.
    Wrap,
}

impl Tensor {
    /// The same elements, row-major in another shape.
    ///
    /// # Errors
    /// `Shape` if the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        self.apply(Op::Reshape(Shape::new("reshape", shape)?), &[])
    }

    /// All elements along one axis.
    pub fn flatten(&self) -> Tensor {
        self.reshape(&[self.numel()]).unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// Axis i of the result is axis `order[i]` of this.
    ///
    /// # Errors
    /// `Shape` if `order` does not name each axis once.
    pub fn permute(&self, order: &[isize]) -> Result<Tensor> {
        let mut axes = Vec::with_capacity(order.len());
        for &axis in order {
            axes.push(self.shape.axis("permute", axis)?);
        }
        self.apply(Op::Permute(axes), &[])
    }

    /// With two axes exchanged.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let (a, b) = (self.shape.axis("transpose", a)?, self.shape.axis("transpose", b)?);
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.apply(Op::Permute(order), &[])
    }

    /// Broadcast to a shape: axes of extent 1 are repeated, axes are added in front.
    ///
    /// # Errors
    /// `Shape` if it does not broadcast to that.
    pub fn expand(&self, shape: &[usize]) -> Result<Tensor> {
        self.apply(Op::Expand(Shape::new("expand", shape)?), &[])
    }

    /// With an axis of extent 1 at `axis`; -1 puts it last.
    ///
    /// # Errors
    /// `Shape` if the rank would exceed 8 or the axis does not exist.
    pub fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        let rank = dims.len() as isize + 1;
        if axis < -rank || axis >= rank {
            let message = format!("unsqueeze: axis {axis} for shape {}", self.shape);
            return Err(Error::shape(message));
        }
        dims.insert(axis.rem_euclid(rank) as usize, 1);
        within("unsqueeze", || self.reshape(&dims))
    }

    /// Without an axis of extent 1.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has another extent.
    pub fn squeeze(&self, axis: isize) -> Result<Tensor> {
        let at = self.shape.axis("squeeze", axis)?;
        if self.shape[at] != 1 {
            let message = format!("squeeze: axis {axis} of shape {} is not 1", self.shape);
            return Err(Error::shape(message));
        }
        let mut dims = self.shape.to_vec();
        dims.remove(at);
        self.reshape(&dims)
    }

    /// The elements from `start` up to but not including `end` along `axis`; negative positions count from the end.
    ///
    /// # Errors
    /// `Shape` if the range does not lie within the axis.
    pub fn slice(&self, axis: isize, start: isize, end: isize) -> Result<Tensor> {
        self.slice_step(axis, start, end, 1)
    }

    /// Every `step`-th element from `start` up to but not including `end` along `axis`, `step` at least 1.
    ///
    /// # Errors
    /// `Shape` if the range does not lie within the axis or the step is 0.
    pub fn slice_step(&self, axis: isize, start: isize, end: isize, step: usize) -> Result<Tensor> {
        let at = self.shape.axis("slice", axis)?;
        let extent = self.shape[at] as isize;
        let position = |p: isize| if p < 0 { p.checked_add(extent) } else { Some(p) };
        let range = position(start).zip(position(end));
        let within = |&(s, e): &(isize, isize)| 0 <= s && s <= e && e <= extent;
        let Some((from, to)) = range.filter(within).filter(|_| step > 0) else {
            let message = format!(
                "slice: {start}..{end} step {step} along axis {axis} of shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        };
        let len = ((to - from) as usize).div_ceil(step);
        self.spans(at, Span { start: from as usize, len, step: step as isize })
    }

    /// The elements along each of `axes` in reverse.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice.
    pub fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        let axes = self.shape.axes("flip", axes)?;
        let span = |(axis, &extent): (usize, &usize)| match axes.contains(&axis) && extent > 0 {
            true => Span { start: extent - 1, len: extent, step: -1 },
            false => Span { start: 0, len: extent, step: 1 },
        };
        let spans = self.shape.iter().enumerate().map(span).collect();
        self.apply(Op::Slice(spans), &[])
    }

    fn spans(&self, axis: usize, span: Span) -> Result<Tensor> {
        let whole = |&len: &usize| Span { start: 0, len, step: 1 };
        let mut spans: Vec<Span> = self.shape.iter().map(whole).collect();
        spans[axis] = span;
        self.apply(Op::Slice(spans), &[])
    }

    /// `value` before and after the elements: `amounts[axis]` is how many on each side.
    ///
    /// # Errors
    /// `Shape` if there is not one pair per axis; `DType` if the value is not one of the tensor's type.
    pub fn pad(&self, amounts: &[(usize, usize)], value: f64) -> Result<Tensor> {
        self.with_number(Op::Pad(amounts.to_vec()), &[], value)
    }

    /// Padded with its own elements: `amounts[axis]` is how many on each side.
    ///
    /// # Errors
    /// `Shape` if there is not one pair per axis, if an empty axis is padded, or if a reflection is as long as the axis.
    pub fn pad_with(&self, amounts: &[(usize, usize)], mode: PadMode) -> Result<Tensor> {
        let fits = |(&(before, after), &extent): (&(usize, usize), &usize)| match mode {
            _ if (before, after) == (0, 0) => true,
            PadMode::Reflect => before < extent && after < extent,
            PadMode::Symmetric | PadMode::Edge | PadMode::Wrap => extent > 0,
        };
        if amounts.len() != self.rank() || !amounts.iter().zip(self.shape.iter()).all(fits) {
            let message =
                format!("pad_with: shape {} has not that much to show on each side", self.shape);
            return Err(Error::shape(message));
        }
        let mut padded = self.clone();
        for (axis, &(before, after)) in amounts.iter().enumerate() {
            if (before, after) == (0, 0) {
                continue;
            }
            let extent = self.shape[axis];
            let all = extent.saturating_add(before).saturating_add(after);
            padded = within("pad_with", || {
                let (last, extent) = (extent as i32 - 1, extent as i32);
                let at = self.device.iota(&[all], 0)?.sub(before as i32)?;
                let at = match mode {
                    PadMode::Reflect => at.abs().sub(last)?.abs().neg().add(last)?,
                    PadMode::Symmetric => {
                        // Twice the axis, the second time backwards, again and again.
                        let at = at.floor_mod(2 * extent)?;
                        at.minimum(&at.neg().add(2 * extent - 1)?)?
                    }
                    PadMode::Edge => at.maximum(0)?.minimum(last)?,
                    PadMode::Wrap => at.floor_mod(extent)?,
                };
                padded.index_select(axis as isize, &at)
            })?;
        }
        Ok(padded)
    }

    /// Joined with others along an axis that exists.
    ///
    /// # Errors
    /// `Shape` if they differ along another axis, `DType` if their types differ.
    pub fn concat(&self, others: &[&Tensor], axis: isize) -> Result<Tensor> {
        let axis = self.shape.axis("concat", axis)?;
        self.apply(Op::Concat { axis }, others)
    }

    /// Joined with others of the same shape along a new axis.
    ///
    /// # Errors
    /// `Shape` if the shapes differ, `DType` if their types differ.
    pub fn stack(&self, others: &[&Tensor], axis: isize) -> Result<Tensor> {
        if let Some(other) = others.iter().find(|o| o.shape != self.shape) {
            return Err(Error::shapes("stack", &self.shape, &other.shape, "they must be equal"));
        }
        within("stack", || {
            let mut spread = Vec::with_capacity(others.len());
            for other in others {
                spread.push(other.unsqueeze(axis)?);
            }
            self.unsqueeze(axis)?.concat(&spread.iter().collect::<Vec<_>>(), axis)
        })
    }

    /// Cut into pieces of these lengths along an axis.
    ///
    /// # Errors
    /// `Shape` if the lengths do not add up to the axis.
    pub fn split(&self, lengths: &[usize], axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("split", axis)?;
        let total = lengths.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
        if total != Some(self.shape[at]) {
            let message = format!("split: {lengths:?} along axis {axis} of shape {}", self.shape);
            return Err(Error::shape(message));
        }
        let mut start = 0;
        let mut piece = |&len: &usize| {
            let piece = self.spans(at, Span { start, len, step: 1 });
            start += len;
            piece
        };
        lengths.iter().map(&mut piece).collect()
    }

    /// Cut into `count` pieces along an axis: of equal length but for the last, which is shorter where they do not come
    /// out even. They may be fewer, as PyTorch's are.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or `count` is 0.
    pub fn chunk(&self, count: usize, axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("chunk", axis)?;
        if count == 0 {
            let message = format!("chunk: no pieces of shape {}", self.shape);
            return Err(Error::shape(message));
        }
        let extent = self.shape[at];
        let length = extent.div_ceil(count).max(1);
        let mut lengths = vec![length; extent / length];
        let rest = extent % length;
        if rest > 0 || extent == 0 {
            lengths.push(rest);
        }
        within("chunk", || self.split(&lengths, axis))
    }

    /// Moved by `shift` along `axis`, to the end where it is positive; what leaves it there comes in at the other side.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit` beyond 2^30 elements.
    pub fn roll(&self, shift: isize, axis: isize) -> Result<Tensor> {
        let at = self.shape.axis("roll", axis)?;
        let extent = self.shape[at] as isize;
        if self.numel() == 0 || shift % extent == 0 {
            return self.reshape(&self.shape);
        }
        let mut twice = vec![1; self.rank()];
        twice[at] = 2;
        let start = extent - shift.rem_euclid(extent);
        within("roll", || self.tile(&twice)?.slice(axis, start, start + extent))
    }

    /// The elements of this along `axis` at the positions in `index` (`i32` or `u32`); the index's axes take that
    /// axis's place. Positions outside give 0.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or the rank would exceed 8; `DType` if the index is not of integers.
    pub fn index_select(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let axis = self.shape.axis("index_select", axis)?;
        within("index_select", || self.apply(Op::Gather { axis, paired: false }, &[index]))
    }

    /// The matrices of the last two axes with 0 above the `diagonal`-th diagonal (positive ones lie to the right).
    ///
    /// # Errors
    /// `Shape` below rank 2.
    pub fn tril(&self, diagonal: i32) -> Result<Tensor> {
        self.triangle("tril", diagonal, Pointwise::le)
    }

    /// The matrices of the last two axes with 0 below the `diagonal`-th diagonal.
    ///
    /// # Errors
    /// `Shape` below rank 2.
    pub fn triu(&self, diagonal: i32) -> Result<Tensor> {
        self.triangle("triu", diagonal, Pointwise::ge)
    }

    /// Keeps the elements whose column compares so with the row and the diagonal.
    fn triangle(&self, name: &str, diagonal: i32, compare: Pointwise) -> Result<Tensor> {
        if self.rank() < 2 {
            let message = format!("{name}: shape {} has no matrices", self.shape);
            return Err(Error::shape(message));
        }
        let matrix = &self.shape[self.rank() - 2..];
        let row = self.device.iota(matrix, 0)?.add(diagonal)?;
        let column = self.device.iota(matrix, 1)?;
        let keep = pointwise(compare, &[Value::Tensor(&column), Value::Tensor(&row)])?;
        let zero = self.device.full(self.dtype, 0.0, &[])?;
        keep.select(self, &zero)
    }

    /// 1.0 where a new last axis of extent `classes` equals the element, else 0.0, as `f32`. For `i32` and `u32`.
    ///
    /// # Errors
    /// `DType` for other types; `Limit`.
    pub fn one_hot(&self, classes: usize) -> Result<Tensor> {
        if !self.dtype.is_int() {
            let message = format!("one_hot: does not take {}; cast it to i32", self.dtype);
            return Err(Error::dtype(message));
        }
        within("one_hot", || {
            let index = self.cast(DType::I32)?.unsqueeze(-1)?;
            index.eq(&self.device.iota(&[classes], 0)?)?.cast(DType::F32)
        })
    }

    /// Repeated `repeats[axis]` times along each axis.
    ///
    /// # Errors
    /// `Shape` if there is not one number per axis; `Limit`.
    pub fn tile(&self, repeats: &[usize]) -> Result<Tensor> {
        if repeats.len() != self.rank() {
            let message = format!("tile: {repeats:?} for shape {}", self.shape);
            return Err(Error::shape(message));
        }
        within("tile", || {
            let mut tiled = self.clone();
            for (axis, &repeat) in repeats.iter().enumerate().filter(|(_, r)| **r != 1) {
                // Axis by axis as [before, repeat, the rest], which any rank has room for.
                let mut dims = tiled.shape.to_vec();
                let before: usize = dims[..axis].iter().product();
                let rest: usize = dims[axis..].iter().product();
                let spread = tiled.reshape(&[before, 1, rest])?.expand(&[before, repeat, rest])?;
                dims[axis] = dims[axis].saturating_mul(repeat);
                tiled = spread.reshape(&dims)?;
            }
            Ok(tiled)
        })
    }
}
