//! Moving elements without copying them: shapes, orders of axes, slices. All are views, which cost nothing until a kernel
//! reads through them.

use super::{within, Axes, Extents, Tensor};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Margin, Op, Span, Start, Windows};
use crate::shape::Shape;
use std::ops::{Bound, RangeBounds};

/// A range as it was written, for messages.
fn written(range: &impl RangeBounds<isize>) -> String {
    let start = match range.start_bound() {
        Bound::Included(start) => start.to_string(),
        Bound::Excluded(start) => format!("{start}<"),
        Bound::Unbounded => String::new(),
    };
    match range.end_bound() {
        Bound::Included(end) => format!("{start}..={end}"),
        Bound::Excluded(end) => format!("{start}..{end}"),
        Bound::Unbounded => format!("{start}.."),
    }
}

/// A range of `count` positions, negative ones counted from the end; `None` if it does not lie within them.
fn resolve(range: &impl RangeBounds<isize>, count: usize) -> Option<(usize, usize)> {
    let count = count as isize;
    let position = |&p: &isize| if p < 0 { p.checked_add(count) } else { Some(p) };
    let after = |p: &isize| position(p)?.checked_add(1);
    let start = match range.start_bound() {
        Bound::Included(start) => position(start)?,
        Bound::Excluded(start) => after(start)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => after(end)?,
        Bound::Excluded(end) => position(end)?,
        Bound::Unbounded => count,
    };
    let inside = 0 <= start && start <= end && end <= count;
    inside.then_some((start as usize, end as usize))
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The same elements, row-major in another shape. One extent may be -1: it follows from the number of elements.
    ///
    /// # Errors
    /// `Shape` if the number of elements differs, or if there is no one extent that -1 can stand for.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2, 3, 4])?;
    /// assert_eq!(x.reshape(&[6, -1])?.shape(), [6, 4]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "view")]
    pub fn reshape(&self, shape: impl Into<Extents>) -> Result<Tensor> {
        let shape = shape.into().sharing("reshape", &self.shape)?;
        self.apply(Op::Reshape(shape), &[])
    }

    /// All elements along one axis, row-major.
    pub fn ravel(&self) -> Tensor {
        self.reshape(&[self.numel()]).unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// These neighbouring axes as one: `..` is all of them, `1..` all but the first. Negative axes count from the end. A
    /// single number becomes a vector of one element. [`Tensor::ravel`] is the same as `..` and cannot fail.
    ///
    /// # Errors
    /// `Shape` if the range has no axis, or one that does not exist.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2, 3, 4])?;
    /// assert_eq!(x.flatten(1..)?.shape(), [2, 12]);
    /// assert_eq!(x.flatten(..2)?.shape(), [6, 4]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn flatten(&self, axes: impl RangeBounds<isize>) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.reshape(&[1]);
        }
        let Some((start, end)) = resolve(&axes, self.rank()).filter(|(start, end)| start < end)
        else {
            let axes = written(&axes);
            return Err(Error::shape(format!("flatten: axes {axes} of shape {}", self.shape)));
        };
        let (before, rest) = self.shape.split_at(start);
        let (joined, after) = rest.split_at(end - start);
        within("flatten", || self.reshape([before, &[joined.iter().product()], after].concat()))
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
    #[cfg_attr(feature = "js", js(default(a = -2, b = -1)))]
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        if self.as_line(a)?.is_some() && self.as_line(b)?.is_some() {
            return Ok(self.clone());
        }
        let (a, b) = (self.shape.axis("transpose", a)?, self.shape.axis("transpose", b)?);
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.apply(Op::Permute(order), &[])
    }

    /// Broadcast to a shape: axes of extent 1 are repeated, axes are added in front. -1 is the extent that is there.
    ///
    /// # Errors
    /// `Shape` if it does not broadcast to that.
    #[doc(alias = "broadcast_to")]
    pub fn expand(&self, shape: impl Into<Extents>) -> Result<Tensor> {
        let shape = shape.into().over("expand", &self.shape)?;
        self.apply(Op::Expand(shape), &[])
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

    /// Without these axes, which have extent 1; without all axes of extent 1 if none is named.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or has another extent.
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let axes = axes.into();
        let mut dims = self.shape.to_vec();
        if axes.list().is_empty() {
            dims.retain(|&extent| extent != 1);
            return self.reshape(dims);
        }
        for &at in axes.within("squeeze", &self.shape)?.iter().rev() {
            if dims.remove(at) != 1 {
                let message = format!("squeeze: axis {at} of shape {} is not 1", self.shape);
                return Err(Error::shape(message));
            }
        }
        self.reshape(dims)
    }

    /// The elements along `axis` within a range of positions. Either end may be open, and negative positions count from
    /// the end of the axis: `-1..` is the last element, `..-1` all but that.
    ///
    /// # Errors
    /// `Shape` if the range does not lie within the axis.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[4])?;
    /// assert_eq!(x.slice(0, 1..3)?.read::<f32>().await?, [2.0, 3.0]);
    /// assert_eq!(x.slice(0, -1..)?.read::<f32>().await?, [4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "narrow")]
    #[cfg_attr(feature = "js", js(skip))]
    pub fn slice(&self, axis: isize, range: impl RangeBounds<isize>) -> Result<Tensor> {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`-th of the elements along `axis` within a range of positions, as [`Tensor::slice`]; `step` is at least
    /// 1.
    ///
    /// # Errors
    /// `Shape` if the range does not lie within the axis or the step is 0.
    #[cfg_attr(feature = "js", js(skip))]
    pub fn slice_step(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<Tensor> {
        let (at, span) = self.ranged(axis, range, step)?;
        self.part(at, span, 1)
    }

    /// The elements at one position along `axis`, without that axis. Negative positions count from the end.
    ///
    /// # Errors
    /// `Shape` if the axis or the position does not exist.
    pub fn select(&self, axis: isize, index: isize) -> Result<Tensor> {
        let at = self.shape.axis("select", axis)?;
        let extent = self.shape[at] as isize;
        if index < -extent || index >= extent {
            let message = format!("select: {index} along axis {axis} of shape {}", self.shape);
            return Err(Error::shape(message));
        }
        let start = index.rem_euclid(extent) as usize;
        self.part(at, Span::at(start, 1, 1), 1)?.squeeze(at as isize)
    }

    /// The elements along each of `axes` in reverse; nothing is reversed if none is named.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice.
    pub fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        let axes = match axes {
            [] => Vec::new(),
            axes => Axes::from(axes).within("flip", &self.shape)?,
        };
        let span = |(axis, &extent): (usize, &usize)| match axes.contains(&axis) && extent > 0 {
            true => Span::at(extent - 1, extent, -1),
            false => Span::whole(extent),
        };
        let spans = self.shape.iter().enumerate().map(span).collect();
        self.apply(Op::Slice(spans), &[])
    }

    /// The windows over an axis, in its place, their elements along a new last axis: `size` of them, `dilation` apart,
    /// from every `step`-th position on, as far as they fit. A view.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, no window fits or the rank would exceed 8; `size`, `step` and `dilation`
    /// are at least 1.
    #[cfg_attr(feature = "js", js(default(step = 1, dilation = 1)))]
    pub fn unfold(&self, axis: isize, size: usize, step: usize, dilation: usize) -> Result<Tensor> {
        if let Some(line) = self.as_line(axis)? {
            return line.unfold(0, size, step, dilation)?.squeeze(0);
        }
        let axis = self.shape.axis("unfold", axis)?;
        if size == 0 || step == 0 || dilation == 0 {
            let numbers = [size, step, dilation];
            return Err(Error::shape(format!(
                "unfold: size, step and dilation {numbers:?} must be at least 1"
            )));
        }
        let mut windows = Windows { axis, size, step, dilation };
        if windows.count(self.shape[axis]).is_some() {
            // Beyond the axis all steps are alike.
            let most = self.shape[axis].max(1);
            (windows.step, windows.dilation) = (step.min(most), dilation.min(most));
        }
        self.apply(Op::Unfold(windows), &[])
    }

    /// The main diagonal of a matrix, or the one that lies `diagonal` places to the right of it (to the left where it is
    /// negative); of a vector, the matrix of zeros that has it there.
    ///
    /// # Errors
    /// `Shape` unless the rank is 1 or 2; `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.diag(0)?.read::<f32>().await?, [1.0, 4.0]);
    /// assert_eq!(x.diag(0)?.diag(0)?.read::<f32>().await?, [1.0, 0.0, 0.0, 4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(diagonal = 0)))]
    pub fn diag(&self, diagonal: i32) -> Result<Tensor> {
        let (right, down) = (diagonal.max(0) as usize, diagonal.min(0).unsigned_abs() as usize);
        match self.shape[..] {
            [rows, columns] => {
                let count = rows.saturating_sub(down).min(columns.saturating_sub(right));
                let start = if count > 0 { right + down * columns } else { 0 };
                let span = Span::at(start, count, (columns + 1) as isize);
                within("diag", || self.ravel().part(0, span, 1))
            }
            [count] => within("diag", || {
                let rows = count.saturating_add(right.max(down));
                let whole = Shape::new("diag", &[rows, rows])?;
                if count == 0 {
                    return self.device.zeros((&whole[..], self.dtype));
                }
                // From one element to the next it is a row and a column.
                let spread = self.unsqueeze(1)?.pad_out(&[(0, 0), (0, rows)], 0.0)?.ravel();
                let length = (count - 1) * (rows + 1) + 1;
                let spread = spread.spans(0, Span::at(0, length, 1))?;
                let before = Start::At(right + down * rows);
                let margin = Margin { before, more: rows * rows - length };
                spread.padded(vec![margin], 0.0)?.reshape(&*whole)
            }),
            _ => {
                let message = format!("diag: shape {} is no vector and no matrix", self.shape);
                Err(Error::shape(message))
            }
        }
    }

    /// Turned by `k` quarter turns in the plane of two axes, from the first towards the second.
    ///
    /// # Errors
    /// `Shape` if the axes do not exist or are one.
    #[cfg_attr(feature = "js", js(default(k = 1, axes = (0, 1))))]
    pub fn rot90(&self, k: i32, axes: (isize, isize)) -> Result<Tensor> {
        let (a, b) = axes;
        self.shape.axes("rot90", &[a, b])?;
        within("rot90", || match k.rem_euclid(4) {
            0 => Ok(self.clone()),
            1 => self.flip(&[b])?.transpose(a, b),
            2 => self.flip(&[a, b]),
            _ => self.transpose(a, b)?.flip(&[b]),
        })
    }

    /// An axis, and what a range is of it.
    fn ranged(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<(usize, Span)> {
        let at = self.shape.axis("slice", axis)?;
        let Some((start, end)) = resolve(&range, self.shape[at]).filter(|_| step > 0) else {
            let (range, shape) = (written(&range), &self.shape);
            let message = format!("slice: {range} step {step} along axis {axis} of shape {shape}");
            return Err(Error::shape(message));
        };
        let len = (end - start).div_ceil(step);
        // A step beyond the axis is like any other that is.
        let step = step.min(self.shape[at].max(1)) as isize;
        Ok((at, Span::at(start, len, step)))
    }

    /// As [`Tensor::slice_step`], of a range that is structure.
    pub(super) fn cut(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<Tensor> {
        let (at, span) = self.ranged(axis, range, step)?;
        self.spans(at, span)
    }

    /// A part of an axis, whose place is structure.
    pub(super) fn spans(&self, axis: usize, span: Span) -> Result<Tensor> {
        let mut spans: Vec<Span> = self.shape.iter().map(|&len| Span::whole(len)).collect();
        spans[axis] = span;
        self.apply(Op::Slice(spans), &[])
    }

    /// A part of an axis, whose place is data: a multiple of `unit`.
    pub(super) fn part(&self, axis: usize, span: Span, unit: usize) -> Result<Tensor> {
        let mut spans: Vec<Span> = self.shape.iter().map(|&len| Span::whole(len)).collect();
        spans[axis] = span;
        self.parts(spans, unit)
    }

    /// Parts of the axes, whose places are data where there is a choice: multiples of `unit`.
    pub(super) fn parts(&self, mut spans: Vec<Span>, unit: usize) -> Result<Tensor> {
        let mut numbers = Vec::new();
        for (span, &extent) in spans.iter_mut().zip(self.shape.iter()) {
            if span.len > 0 && span.latest(extent).is_some_and(|latest| latest > 0) {
                span.start = self.given(span.start, unit, &mut numbers);
            }
        }
        self.apply(Op::Slice(spans), &numbers.iter().collect::<Vec<_>>())
    }

    /// A start as data: so many times `unit`, which becomes one more of `numbers`.
    pub(super) fn given(&self, start: Start, unit: usize, numbers: &mut Vec<Tensor>) -> Start {
        let Start::At(at) = start else { return start };
        let node = self.device.scalar(DType::I32, (at / unit) as u32);
        numbers.push(Tensor::adopt(&self.device, node));
        Start::Times(unit)
    }
}
