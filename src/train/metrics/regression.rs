//! Regression metrics.

use super::Metric;
use crate::dtype::{DType, FLOATS};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Returns the error for a metric without batches.
fn no_batches(name: &str) -> Error {
    Error::state(format!("{name}: there must be a batch, got none"))
}

/// Casts both to `f32`. Rejects tensors that are not floats of one shape with a first axis.
fn pair(name: &str, prediction: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    if prediction.shape() != target.shape() || target.shape().is_empty() {
        let must = "predictions and targets must have one shape (they do not broadcast)";
        return Err(Error::shapes(name, must, prediction.shape(), target.shape()));
    }
    match [prediction, target].iter().find(|x| !x.dtype().is_float()) {
        Some(x) => Err(Error::wrong_dtype(name, FLOATS, x.dtype())),
        None => Ok((prediction.cast(DType::F32)?, target.cast(DType::F32)?)),
    }
}

/// The mean over all elements of all batches. It is updated with each batch's mean, weighted by the batch's share, because a
/// long sum would lose precision.
#[derive(Clone, Debug, Default)]
struct Mean {
    mean: Option<Tensor>,
    all: usize,
}

impl Mean {
    fn add(&mut self, values: &Tensor) -> Result<()> {
        let count = values.numel();
        if count == 0 {
            return Ok(());
        }
        let mean = values.mean(())?;
        let share = count as f64 / (self.all + count) as f64;
        self.mean = Some(match &self.mean {
            Some(before) => before.add(&mean.sub(before)?.mul(share)?)?.detach(),
            None => mean.detach(),
        });
        self.all += count;
        Ok(())
    }
}

macro_rules! means {
    ($(#[$doc:meta])* $name:ident, $word:literal, |$difference:ident| $value:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name(Mean);

        impl $name {
            /// Creates the metric without batches.
            pub fn new() -> $name {
                $name::default()
            }
        }

        impl Metric for $name {
            fn name(&self) -> String {
                $word.into()
            }

            fn reset(&mut self) {
                self.0 = Mean::default();
            }

            fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
                let (prediction, target) = pair($word, prediction, target)?;
                let $difference = prediction.sub(&target)?;
                self.0.add(&$value)
            }

            fn value(&self) -> Result<Tensor> {
                self.0.mean.clone().ok_or_else(|| no_batches($word))
            }
        }
    };
}

means! {
    /// The mean absolute difference of predictions and targets (`mean_absolute_error`). Both have the same shape.
    MeanAbsoluteError, "mean_absolute_error", |difference| difference.abs()
}
means! {
    /// The mean squared difference of predictions and targets (`mean_squared_error`). Both have the same shape.
    MeanSquaredError, "mean_squared_error", |difference| difference.square()
}

/// The coefficient of determination (`r2_score`), which is the part of the targets' variance that the predictions explain. A
/// perfect prediction gives 1, and predicting the mean gives 0.
///
/// For targets of several columns, the result is the mean over the columns. A constant column counts as 1 if it was predicted
/// exactly, and as 0 otherwise. The result is NaN for one example.
#[derive(Clone, Debug, Default)]
pub struct R2 {
    sums: Option<Sums>,
    all: usize,
}

/// Sums for each column.
#[derive(Clone, Debug)]
struct Sums {
    mean: Tensor,
    /// The sum of squared differences of the targets from their mean.
    around: Tensor,
    /// The sum of squared differences of the predictions from the targets.
    apart: Tensor,
}

impl R2 {
    /// Creates the metric without batches.
    pub fn new() -> R2 {
        R2::default()
    }
}

impl Metric for R2 {
    fn name(&self) -> String {
        "r2_score".into()
    }

    fn reset(&mut self) {
        *self = R2::default();
    }

    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
        let (prediction, target) = pair("r2_score", prediction, target)?;
        let count = target.shape()[0];
        if count == 0 {
            return Ok(());
        }
        let mean = target.mean(0)?;
        let around = target.sub(&mean)?.square().sum(0)?;
        let apart = prediction.sub(&target)?.square().sum(0)?;
        let (before, all) = (self.all as f64, (self.all + count) as f64);
        let sums = match &self.sums {
            None => Sums { mean, around, apart },
            Some(sums) if sums.mean.shape() != mean.shape() => {
                let must = "all batches must have the same columns";
                return Err(Error::shapes("r2_score", must, sums.mean.shape(), mean.shape()));
            }
            // Combines the squares of two parts around their means, and adds the part between the means (Chan, Golub and
            // LeVeque 1979).
            Some(sums) => {
                let apart_means = mean.sub(&sums.mean)?;
                let between = apart_means.square().mul(before * count as f64 / all)?;
                Sums {
                    mean: sums.mean.add(&apart_means.mul(count as f64 / all)?)?,
                    around: sums.around.add(&around)?.add(&between)?,
                    apart: sums.apart.add(&apart)?,
                }
            }
        };
        let Sums { mean, around, apart } = sums;
        self.sums =
            Some(Sums { mean: mean.detach(), around: around.detach(), apart: apart.detach() });
        self.all += count;
        Ok(())
    }

    fn value(&self) -> Result<Tensor> {
        let Sums { around, apart, .. } =
            self.sums.as_ref().ok_or_else(|| no_batches("r2_score"))?;
        if self.all < 2 {
            return apart.device().full(&[], f64::NAN, DType::F32);
        }
        let varies = around.gt(0.0)?;
        let explained = apart.div(varies.where_cond(around, 1.0)?)?.neg().add(1.0)?;
        let met = apart.eq(0.0)?.cast(DType::F32)?;
        varies.where_cond(&explained, &met)?.mean(())
    }
}
