//! `pad` and `pad_with`: padding with a number or with the elements of the tensor, and cropping.

use crate::error::{Error, ErrorKind, Result};
use crate::op::{Op, PadAmount, Span};
use crate::shape::MAX_ELEMENTS;
use crate::tensor::{with_op_name, Amounts, Tensor};

/// The most elements of an axis that `Symmetric` pads, because twice as many must be positions.
const MAX_MIRRORED: usize = MAX_ELEMENTS / 2;

/// The elements outside a tensor that is padded with its own elements.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadMode {
    /// The mirror image, without repeating the outermost element.
    Reflect,
    /// The mirror image, starting with the outermost element.
    Symmetric,
    /// The outermost element.
    Edge,
    /// The elements of the opposite end.
    Wrap,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Pads with `value`. `amounts[axis]` is the number of elements before and after an axis. Negative amounts remove
    /// elements.
    ///
    /// # Errors
    /// `Shape` unless there is one pair for each axis, or if more elements are removed than exist; `DType` if the
    /// tensor's type cannot represent the value.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
    /// assert_eq!(x.pad(&[(1, -1)], 0.0)?.read::<f32>().await?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(value = 0.0)))]
    pub fn pad(&self, amounts: impl Into<Amounts>, value: f64) -> Result<Tensor> {
        let (cropped, amounts) = self.crop_negative("pad", &amounts.into().pairs)?;
        cropped.pad_dynamic(PadAmount::all(&amounts), value)
    }

    /// Pads with `value`. The amounts are part of the structure of the plan.
    pub(super) fn pad_static(&self, amounts: &[(usize, usize)], value: f64) -> Result<Tensor> {
        self.with_number(Op::Pad(PadAmount::all(amounts)), value, &[])
    }

    /// Pads with `value`. The amounts before the elements are data, so that other amounts reuse the plan.
    pub(super) fn pad_dynamic(&self, mut margins: Vec<PadAmount>, value: f64) -> Result<Tensor> {
        let mut numbers = Vec::new();
        for margin in &mut margins {
            // An amount that is too large cannot be data. The operation rejects it.
            if margin.more > 0 && margin.more < MAX_ELEMENTS {
                margin.before = self.dynamic_start(margin.before, 1, &mut numbers);
            }
        }
        self.with_number(Op::Pad(margins), value, &numbers.iter().collect::<Vec<_>>())
    }

    /// Crops by the negative amounts. Returns the rest and the positive amounts.
    fn crop_negative(
        &self,
        name: &str,
        amounts: &[(isize, isize)],
    ) -> Result<(Tensor, Vec<(usize, usize)>)> {
        if amounts.len() != self.rank() {
            let (pairs, shape) = (amounts.len(), &self.shape);
            let message = format!(
                "{name}: there must be one pair for each axis of shape {shape}, got {pairs} pairs"
            );
            return Err(Error::shape(message));
        }
        let (mut spans, mut more) = (Vec::new(), Vec::new());
        for (&(before, after), &extent) in amounts.iter().zip(self.shape.iter()) {
            let off = |amount: isize| amount.min(0).unsigned_abs();
            let Some(len) = extent.checked_sub(off(before).saturating_add(off(after))) else {
                let message = format!(
                    "{name}: an axis of {extent} must keep an element, got ({before}, {after})"
                );
                return Err(Error::shape(message));
            };
            spans.push(Span::at(off(before), len, 1));
            more.push((before.max(0) as usize, after.max(0) as usize));
        }
        let whole = spans.iter().zip(self.shape.iter()).all(|(span, &extent)| span.len == extent);
        let rest = if whole { self.clone() } else { self.spans_dynamic(spans, 1)? };
        Ok((rest, more))
    }

    /// Pads with elements of the tensor. `amounts[axis]` is the number of elements before and after an axis. Negative
    /// amounts remove elements.
    ///
    /// # Errors
    /// `Shape` unless there is one pair for each axis, if an empty axis is padded, or if a reflection is as long as the
    /// axis; `Limit` if the result is too large, or if `Symmetric` pads an axis of 2^30 elements or more.
    pub fn pad_with(&self, amounts: impl Into<Amounts>, mode: PadMode) -> Result<Tensor> {
        let fits = |(&(before, after), &extent): (&(usize, usize), &usize)| match mode {
            _ if (before, after) == (0, 0) => true,
            PadMode::Reflect => before < extent && after < extent,
            PadMode::Symmetric | PadMode::Edge | PadMode::Wrap => extent > 0,
        };
        let (mut padded, amounts) = self.crop_negative("pad_with", &amounts.into().pairs)?;
        if !amounts.iter().zip(padded.shape.iter()).all(fits) {
            let shape = &padded.shape;
            let must = match mode {
                PadMode::Reflect => "amounts of a reflection must be below the extents",
                PadMode::Symmetric | PadMode::Edge | PadMode::Wrap => {
                    "padded axes must not be empty"
                }
            };
            let message = format!("pad_with: {must}, got {amounts:?} for shape {shape}");
            return Err(Error::shape(message));
        }
        for (axis, (before, after)) in amounts.into_iter().enumerate() {
            if (before, after) == (0, 0) {
                continue;
            }
            let extent = padded.shape[axis];
            if mode == PadMode::Symmetric && extent > MAX_MIRRORED {
                let message = format!(
                    "pad_with: a mirrored axis must have at most {MAX_MIRRORED} elements, got {extent}"
                );
                return Err(Error::new(ErrorKind::Limit, message));
            }
            let all = extent.saturating_add(before).saturating_add(after);
            padded = with_op_name("pad_with", || {
                let (last, extent) = (extent as i32 - 1, extent as i32);
                let at = self.device.iota(&[all], 0)?.sub(before as i32)?;
                let at = match mode {
                    PadMode::Reflect => at.abs().sub(last)?.abs().neg().add(last)?,
                    PadMode::Symmetric => {
                        // The axis is followed by its mirror image, and both repeat.
                        let at = at.remainder(2 * extent)?;
                        at.minimum(&at.neg().add(2 * extent - 1)?)?
                    }
                    PadMode::Edge => at.maximum(0)?.minimum(last)?,
                    PadMode::Wrap => at.remainder(extent)?,
                };
                padded.index_select_raw(axis, &at)
            })?;
        }
        Ok(padded)
    }
}
