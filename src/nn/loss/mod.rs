//! Losses as methods of [`Tensor`], with the names, formulas and defaults of `torch.nn.functional`. Losses consist of
//! ordinary operations, so a loss and its gradient are a few kernels.
//!
//! A target never broadcasts. Input and target must have equal shapes. Their values are not checked, so each loss documents
//! its result for values that PyTorch rejects.

mod binary;
mod classes;
mod pairs;
mod regression;

pub use binary::{BinaryCrossEntropyOptions, BinaryCrossEntropyWithLogitsOptions};
pub use classes::{CrossEntropyOptions, NllOptions};
pub use pairs::TripletMarginOptions;
pub use regression::{GaussianNllOptions, PoissonNllOptions};

use crate::dtype::FLOATS;
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};

/// The reduction of the elements' losses (`reduction` of PyTorch's losses).
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossReduction {
    /// Returns the losses without a reduction.
    None,
    /// The mean. With weights of classes it is the weighted mean, which divides the sum by the sum of the targets' weights.
    #[default]
    Mean,
    /// The sum.
    Sum,
    /// The sum, divided by the first extent of the losses' shape. This is the mean over the batch alone.
    #[cfg_attr(feature = "js", js(name = "batchmean"))]
    BatchMean,
}

impl LossReduction {
    /// Reduces losses of equal weight.
    fn of(self, loss: &Tensor) -> Result<Tensor> {
        match self {
            LossReduction::None => Ok(loss.clone()),
            LossReduction::Mean => loss.mean(()),
            LossReduction::Sum => loss.sum(()),
            LossReduction::BatchMean => {
                loss.sum(())?.div(loss.shape().first().copied().unwrap_or(1))
            }
        }
    }

    /// Reduces losses that are already multiplied by these weights.
    fn weighted(self, loss: &Tensor, weights: &Tensor) -> Result<Tensor> {
        match self {
            LossReduction::Mean => loss.sum(())?.div(weights.sum(())?),
            _ => self.of(loss),
        }
    }
}

/// Computes a loss in `f32`, and rounds the result once to the type of `input`. Errors contain the name of the loss.
fn compute_in_f32(
    name: &str,
    input: &Tensor,
    losses: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    with_op_name(name, || losses(&to_f32(input)?)?.cast(input.dtype()))
}

/// Casts floats of fewer than 32 bits to `f32`, and returns other tensors unchanged.
fn to_f32(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_float() {
        true => x.cast(x.dtype().compute()),
        false => Ok(x.clone()),
    }
}

/// Rejects an input that is not of floats, and `others` of a different type.
fn need_floats(name: &str, input: &Tensor, others: &[&Tensor]) -> Result<()> {
    let dtype = input.dtype();
    if !dtype.is_float() {
        return Err(Error::wrong_dtype(name, FLOATS, dtype));
    }
    match others.iter().map(|other| other.dtype()).find(|&other| other != dtype) {
        Some(other) => Err(Error::mixed_dtypes(name, dtype, other)),
        None => Ok(()),
    }
}

/// Rejects a target, or another input called `what`, without the input's float type and shape.
fn need_like(name: &str, input: &Tensor, other: &Tensor, what: &str) -> Result<()> {
    need_floats(name, input, &[other])?;
    if input.shape() == other.shape() {
        return Ok(());
    }
    let must = format!("the {what} must have the input's shape (it does not broadcast)");
    Err(Error::shapes(name, &must, input.shape(), other.shape()))
}

/// Rejects a number that is not above 0. With `or_zero`, 0 is allowed.
fn need_positive(name: &str, what: &str, number: f64, or_zero: bool) -> Result<()> {
    if number > 0.0 || or_zero && number == 0.0 {
        return Ok(());
    }
    let least = if or_zero { "at least" } else { "above" };
    Err(Error::argument(format!("{name}: {what} must be {least} 0, got {number}")))
}

/// Returns `1 - x`.
fn rest(x: &Tensor) -> Result<Tensor> {
    x.neg().add(1.0)
}

/// Multiplies the losses by the weight, if there is one. The weight broadcasts to the losses.
fn weigh(name: &str, loss: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(weight) = weight else { return Ok(loss) };
    if weight.expand(loss.shape()).is_err() {
        let must = "the weight must broadcast to the input";
        return Err(Error::shapes(name, must, loss.shape(), weight.shape()));
    }
    loss.mul(to_f32(weight)?)
}
