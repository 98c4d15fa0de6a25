//! Slices, windows, and writing to slices.
//!
//! The start of a slice is data, so that another start reuses the plan. The extents are structure.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Offset, Op, PadAmount, Span, Windows};
use crate::tensor::Tensor;
use std::ops::{Bound, RangeBounds};

/// Formats a range as the user wrote it, for messages.
pub(super) fn display_range(range: &impl RangeBounds<isize>) -> String {
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

/// Resolves a range of `count` positions, where negative ones count from the end. Returns `None` if the range is not
/// inside.
pub(super) fn resolve_range(
    range: &impl RangeBounds<isize>,
    count: usize,
) -> Option<(usize, usize)> {
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
    /// Returns the elements along `axis` within a range of positions.
    ///
    /// Either end may be open, and negative positions count from the end of the axis. `-1..` is the last element, and
    /// `..-1` is all but the last. The start is data, so a slice of the same length at another position reuses the plan.
    ///
    /// # Errors
    /// `Shape` if the range is not inside the axis.
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

    /// Returns every `step`-th element along `axis` within a range of positions, like [`Tensor::slice`].
    ///
    /// # Errors
    /// `Shape` if the range is not inside the axis or the step is 0.
    #[cfg_attr(feature = "js", js(skip))]
    pub fn slice_step(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<Tensor> {
        let open = range.end_bound() == Bound::Unbounded && step == 1;
        // With an open end, the length determines the start, so the start need not be data.
        let follows = open || range.start_bound() == Bound::Unbounded;
        let (at, span) = self.resolve_span(axis, range, step)?;
        match follows {
            true => self.span_static(at, span),
            false => self.span_dynamic(at, span, 1),
        }
    }

    /// Returns the elements at one position along `axis`, without that axis. Negative positions count from the end.
    ///
    /// # Errors
    /// `Shape` if the axis or the position does not exist.
    pub fn select(&self, axis: isize, index: isize) -> Result<Tensor> {
        let at = self.shape.axis("select", axis)?;
        let extent = self.shape[at] as isize;
        if index < -extent || index >= extent {
            let message = format!(
                "select: the index must be inside axis {axis}, got {index} for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        let start = index.rem_euclid(extent) as usize;
        self.span_dynamic(at, Span::at(start, 1, 1), 1)?.squeeze(at as isize)
    }

    /// Replaces the elements along `axis` from `start` on by those of `source`.
    ///
    /// The source has the shape of this tensor, but may be shorter along the axis. A negative start counts from the end.
    /// The start is data, so another start reuses the plan. (`slice_scatter` in PyTorch, `dynamic_update_slice` in JAX.)
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, the shapes do not fit or the source is not inside the axis; `DType` if the
    /// source has another type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[4])?;
    /// let y = x.slice_scatter(0, 1, &device.tensor(&[8.0f32, 9.0], &[2])?)?;
    /// assert_eq!(y.read::<f32>().await?, [1.0, 8.0, 9.0, 4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "dynamic_update_slice")]
    pub fn slice_scatter(&self, axis: isize, start: isize, source: &Tensor) -> Result<Tensor> {
        let name = "slice_scatter";
        if let (Some(line), 0) = (self.scalar_as_vector(axis)?, source.rank()) {
            return line.slice_scatter(0, start, &source.reshape(&[1])?)?.reshape(());
        }
        let at = self.shape.axis(name, axis)?;
        if source.dtype != self.dtype {
            let (from, to) = (source.dtype, self.dtype);
            return Err(Error::dtype(format!(
                "{name}: the source must be {to}, got {from}; cast it"
            )));
        }
        let extent = self.shape[at];
        if source.rank() != self.rank() || source.shape.with(at, extent) != self.shape {
            let must = format!("the shapes must be equal except along axis {at}");
            return Err(Error::shapes(name, &must, &self.shape, &source.shape));
        }
        let first = if start < 0 { start.checked_add(extent as isize) } else { Some(start) };
        let first = first.and_then(|first| usize::try_from(first).ok());
        let more = extent.checked_sub(source.shape[at]);
        let (Some(first), Some(more)) = (first, more.filter(|&more| first <= Some(more))) else {
            let (len, shape) = (source.shape[at], &self.shape);
            let message =
                format!("{name}: the range must be inside axis {axis} of shape {shape}, got {len} elements from {start} on");
            return Err(Error::shape(message));
        };
        let mut margins = vec![PadAmount::of(0, 0); self.rank()];
        let mut numbers = Vec::new();
        margins[at] = PadAmount { before: Offset::Static(first), more };
        if more > 0 {
            margins[at].before = self.dynamic_start(Offset::Static(first), 1, &mut numbers);
        }
        let others = [&[self][..], &numbers.iter().collect::<Vec<_>>()].concat();
        source.apply(Op::Pad(margins), &others)
    }

    /// Returns a view of the windows along an axis. The axis then counts windows, and a new last axis has the elements of
    /// each.
    ///
    /// A window has `size` elements that are `dilation` apart. Windows start at every `step`-th position, as long as they
    /// fit.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, no window fits, the rank would exceed 8, or `size`, `step` or `dilation` is 0.
    #[cfg_attr(feature = "js", js(default(step = 1, dilation = 1)))]
    pub fn unfold(&self, axis: isize, size: usize, step: usize, dilation: usize) -> Result<Tensor> {
        if let Some(line) = self.scalar_as_vector(axis)? {
            return line.unfold(0, size, step, dilation)?.squeeze(0);
        }
        let axis = self.shape.axis("unfold", axis)?;
        if size == 0 || step == 0 || dilation == 0 {
            let numbers = [size, step, dilation];
            return Err(Error::shape(format!(
                "unfold: size, step and dilation must be at least 1, got {numbers:?}"
            )));
        }
        let mut windows = Windows { axis, size, step, dilation };
        if windows.count(self.shape[axis]).is_some() {
            // All values beyond the axis are equivalent, so they are limited to its extent.
            let most = self.shape[axis].max(1);
            (windows.step, windows.dilation) = (step.min(most), dilation.min(most));
        }
        self.apply(Op::Unfold(windows), &[])
    }

    /// Returns the axis counted from the front, and the span of a range along it.
    fn resolve_span(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<(usize, Span)> {
        let at = self.shape.axis("slice", axis)?;
        let Some((start, end)) = resolve_range(&range, self.shape[at]).filter(|_| step > 0) else {
            let (range, shape) = (display_range(&range), &self.shape);
            let message = format!("slice: the range must be inside axis {axis} of shape {shape}, got {range} step {step}");
            return Err(Error::shape(message));
        };
        let len = (end - start).div_ceil(step);
        // All steps beyond the axis are equivalent, so they are limited to its extent.
        let step = step.min(self.shape[at].max(1)) as isize;
        Ok((at, Span::at(start, len, step)))
    }

    /// Slices like [`Tensor::slice_step`], but the range is part of the structure of the plan.
    pub(super) fn slice_static(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: usize,
    ) -> Result<Tensor> {
        let (at, span) = self.resolve_span(axis, range, step)?;
        self.span_static(at, span)
    }

    /// Returns a span of an axis, whose start is part of the structure of the plan.
    pub(super) fn span_static(&self, axis: usize, span: Span) -> Result<Tensor> {
        let mut spans: Vec<Span> = self.shape.iter().map(|&len| Span::whole(len)).collect();
        spans[axis] = span;
        self.apply(Op::Slice(spans), &[])
    }

    /// Returns a span of an axis, whose start is data: a multiple of `unit`.
    pub(super) fn span_dynamic(&self, axis: usize, span: Span, unit: usize) -> Result<Tensor> {
        let mut spans: Vec<Span> = self.shape.iter().map(|&len| Span::whole(len)).collect();
        spans[axis] = span;
        self.spans_dynamic(spans, unit)
    }

    /// Returns spans of all axes. Their starts are data, as multiples of `unit`, if more than one start is possible.
    pub(super) fn spans_dynamic(&self, mut spans: Vec<Span>, unit: usize) -> Result<Tensor> {
        let mut numbers = Vec::new();
        for (span, &extent) in spans.iter_mut().zip(self.shape.iter()) {
            if span.len > 0 && span.latest(extent).is_some_and(|latest| latest > 0) {
                span.start = self.dynamic_start(span.start, unit, &mut numbers);
            }
        }
        self.apply(Op::Slice(spans), &numbers.iter().collect::<Vec<_>>())
    }

    /// Returns `len` elements along `axis` from `start` on, which is an `i32` tensor of rank 0. The slice must be inside
    /// the axis.
    #[cfg(feature = "model")]
    pub(crate) fn slice_from(&self, axis: usize, start: &Tensor, len: usize) -> Result<Tensor> {
        if len == self.shape[axis] {
            return Ok(self.clone());
        }
        let mut spans: Vec<Span> = self.shape.iter().map(|&len| Span::whole(len)).collect();
        spans[axis] = Span { start: Offset::Dynamic(1), len, step: 1 };
        self.apply(Op::Slice(spans), &[start])
    }

    /// Replaces a slice like [`Tensor::slice_scatter`], but `start` is an `i32` tensor of rank 0. The source must fit
    /// inside the axis.
    #[cfg(feature = "model")]
    pub(crate) fn slice_scatter_from(
        &self,
        axis: usize,
        start: &Tensor,
        source: &Tensor,
    ) -> Result<Tensor> {
        let more = self.shape[axis] - source.shape[axis];
        if more == 0 {
            return Ok(source.clone());
        }
        let mut margins = vec![PadAmount::of(0, 0); self.rank()];
        margins[axis] = PadAmount { before: Offset::Dynamic(1), more };
        source.apply(Op::Pad(margins), &[self, start])
    }

    /// Turns a start into data, in units of `unit`. Appends its tensor to `numbers`.
    pub(super) fn dynamic_start(
        &self,
        start: Offset,
        unit: usize,
        numbers: &mut Vec<Tensor>,
    ) -> Offset {
        let Offset::Static(at) = start else { return start };
        let node = self.device.scalar(DType::I32, (at / unit) as u32);
        numbers.push(Tensor::adopt(&self.device, node));
        Offset::Dynamic(unit)
    }

    /// Returns `length` elements along an axis from `start` on, like [`Tensor::slice`] of `start..start + length`. A
    /// negative start counts from the end.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or the range is not inside it.
    pub fn narrow(&self, axis: isize, start: isize, length: usize) -> Result<Tensor> {
        let name = "narrow";
        let at = self.shape.axis(name, axis)?;
        let extent = self.shape[at] as isize;
        let first = if start < 0 { start.saturating_add(extent) } else { start };
        let fits = first >= 0 && length <= self.shape[at] && first <= extent - length as isize;
        if !fits {
            let shape = &self.shape;
            let message =
                format!("{name}: the range must be inside axis {axis} of shape {shape}, got {length} elements from {start} on");
            return Err(Error::shape(message));
        }
        self.span_dynamic(at, Span::at(first as usize, length, 1), 1)
    }
}
