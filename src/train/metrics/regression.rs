//! Metrics of numbers.

use super::Metric;
use crate::dtype::{DType, FLOATS};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What a metric without batches says.
fn no_batches(name: &str) -> Error {
    Error::data(format!("{name}: there must be a batch, got none"))
}

/// Both as `f32`, if they are floats of one shape with a first axis.
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

/// A mean over all elements of all batches. It takes each batch's mean in by its share, which keeps digits that a long sum
/// would lose.
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
            /// Of no batches yet.
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
    /// The mean distance of predictions from targets of their shape. (`mean_absolute_error`.)
    MeanAbsoluteError, "mean_absolute_error", |difference| difference.abs()
}
means! {
    /// The mean square of that distance. (`mean_squared_error`.)
    MeanSquaredError, "mean_squared_error", |difference| difference.square()
}

/// How much of the targets' variance predictions explain: 1 is all, 0 what their mean would. (`r2_score`.) Of targets of
/// several columns it is the mean over these; a constant column counts 1 if it was met and 0 if not. NaN for one example.
#[derive(Clone, Debug, Default)]
pub struct R2 {
    sums: Option<Sums>,
    all: usize,
}

/// Of each column.
#[derive(Clone, Debug)]
struct Sums {
    mean: Tensor,
    /// The squares of the targets' distances from their mean.
    around: Tensor,
    /// The squares of the predictions' distances from the targets.
    apart: Tensor,
}

impl R2 {
    /// Of no batches yet.
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
            // Two parts' squares around their own means, and those of the means (Chan, Golub and LeVeque 1979).
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
