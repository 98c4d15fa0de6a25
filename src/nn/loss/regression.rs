//! Losses of numbers: of their distance, or of what a distribution gives for them.

use super::{compute_in_f32, need_like, need_positive, to_f32, LossReduction};
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};
use std::f64::consts::TAU;

/// Parameters of [`Tensor::poisson_nll_loss`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonNllOptions {
    /// Whether the input is the logarithm of the rate. The default is `true`.
    pub log_input: bool,
    /// Whether Stirling's approximation of `log(target!)` is added. The default is `false`.
    pub full: bool,
    /// What is added to a rate before its logarithm is taken. The default is 1e-8.
    pub epsilon: f64,
    /// What becomes of the losses. The default is their mean.
    pub reduction: LossReduction,
}

impl Default for PoissonNllOptions {
    fn default() -> PoissonNllOptions {
        let reduction = LossReduction::Mean;
        PoissonNllOptions { log_input: true, full: false, epsilon: 1e-8, reduction }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The mean squared error: the mean of `(x - target)^2`. (`F.mse_loss` of PyTorch.)
    ///
    /// # Errors
    /// `Shape` unless both have one shape; `DType` unless both are of one float type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, 5.0], &[2])?;
    /// let loss = x.mse_loss(&target, LossReduction::Mean)?;
    /// assert_eq!(loss.item::<f32>().await?, 4.5);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(reduction = LossReduction::Mean)))]
    pub fn mse_loss(&self, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
        let name = "mse_loss";
        need_like(name, self, target, "target")?;
        compute_in_f32(name, self, |x| reduction.of(&x.squared_difference(to_f32(target)?)?))
    }

    /// The mean absolute error: the mean of `|x - target|`. Its gradient where both are equal is 0. (`F.l1_loss` of
    /// PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, 5.0], &[2])?;
    /// assert_eq!(x.l1_loss(&target, LossReduction::Sum)?.item::<f32>().await?, 3.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(reduction = LossReduction::Mean)))]
    pub fn l1_loss(&self, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
        let name = "l1_loss";
        need_like(name, self, target, "target")?;
        compute_in_f32(name, self, |x| reduction.of(&x.sub(to_f32(target)?)?.abs()))
    }

    /// The mean of `d^2 / (2 beta)` where the distance `d = |x - target|` is less than `beta`, and of `d - beta / 2`
    /// elsewhere (Girshick 2015); [`Tensor::l1_loss`] for `beta` 0. PyTorch's beta is 1. (`F.smooth_l1_loss` of PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`]; `Data` if `beta` is below 0.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let target = device.tensor(&[2.0f32, 6.0], &[2])?;
    /// let loss = x.smooth_l1_loss(&target, 2.0, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [0.25, 3.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(beta = 1.0, reduction = LossReduction::Mean)))]
    pub fn smooth_l1_loss(
        &self,
        target: &Tensor,
        beta: f64,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "smooth_l1_loss";
        need_like(name, self, target, "target")?;
        need_positive(name, "beta", beta, true)?;
        compute_in_f32(name, self, |x| {
            let target = to_f32(target)?;
            if beta == 0.0 {
                return x.l1_loss(&target, reduction);
            }
            let distance = x.sub(target)?.abs();
            let near = distance.square().mul(0.5 / beta)?;
            let far = distance.sub(0.5 * beta)?;
            reduction.of(&distance.lt(beta)?.where_cond(near, far)?)
        })
    }

    /// The mean of `d^2 / 2` where the distance `d = |x - target|` is at most `delta`, and of `delta (d - delta / 2)`
    /// elsewhere (Huber 1964). PyTorch's delta is 1. (`F.huber_loss` of PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`]; `Data` unless `delta` is above 0.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let target = device.tensor(&[2.0f32, 6.0], &[2])?;
    /// let loss = x.huber_loss(&target, 2.0, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [0.5, 6.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(delta = 1.0, reduction = LossReduction::Mean)))]
    pub fn huber_loss(
        &self,
        target: &Tensor,
        delta: f64,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "huber_loss";
        need_like(name, self, target, "target")?;
        need_positive(name, "delta", delta, false)?;
        compute_in_f32(name, self, |x| {
            let distance = x.sub(to_f32(target)?)?.abs();
            let near = distance.square().mul(0.5)?;
            let far = distance.sub(0.5 * delta)?.mul(delta)?;
            reduction.of(&distance.le(delta)?.where_cond(near, far)?)
        })
    }

    /// The negative logarithm of a normal distribution's density, of which this is the mean and `variance` the variance:
    /// the mean of `(log(v) + (x - target)^2 / v) / 2` with `v = max(variance, epsilon)` (Nix and Weigend 1994). With
    /// `full` the constant `log(2 pi) / 2` is added. The variance has the shape of this, or one number for the last axis:
    /// extent 1 there, or the axis left out. The target broadcasts. PyTorch's epsilon is 1e-6. (`F.gaussian_nll_loss` of
    /// PyTorch.)
    ///
    /// The gradient by a variance below epsilon is that at epsilon, as PyTorch's. Variances below 0, which PyTorch
    /// refuses, count as epsilon.
    ///
    /// # Errors
    /// `Shape` unless the target broadcasts and the variance has one of those; `DType` unless all are of one float type;
    /// `Data` unless `epsilon` is above 0.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[1, 2])?;
    /// let target = device.tensor(&[2.0f32, 2.0], &[1, 2])?;
    /// let variance = device.ones(&[1])?;
    /// let loss = x.gaussian_nll_loss(&target, &variance, false, 1e-6, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [0.5, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(full = false, epsilon = 1e-6, reduction = LossReduction::Mean)))]
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        variance: &Tensor,
        full: bool,
        epsilon: f64,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "gaussian_nll_loss";
        super::need_floats(name, self, &[target, variance])?;
        need_positive(name, "epsilon", epsilon, false)?;
        let variance = self.one_for_each(name, variance)?;
        compute_in_f32(name, self, |x| {
            let variance = to_f32(&variance)?;
            // Added to what is 0, so that gradients pass.
            let least = variance.sub(&variance.detach())?.add(epsilon)?;
            let variance = variance.lt(epsilon)?.where_cond(least, &variance)?;
            let distance = x.squared_difference(to_f32(target)?)?.div(&variance)?;
            let mut loss = variance.log().add(distance)?.mul(0.5)?;
            if full {
                loss = loss.add(0.5 * TAU.ln())?;
            }
            reduction.of(&loss)
        })
    }

    /// Variances in a shape that broadcasts to this.
    fn one_for_each(&self, name: &str, variance: &Tensor) -> Result<Tensor> {
        let shape = variance.shape();
        if shape == self.shape() {
            return Ok(variance.clone());
        }
        if let Some((_, outer)) = self.shape().split_last() {
            if shape == outer {
                return with_op_name(name, || variance.unsqueeze(-1));
            }
            if shape.split_last() == Some((&1, outer)) {
                return Ok(variance.clone());
            }
        }
        let must = "the variance must have the input's shape, or one number for its last axis";
        Err(Error::shapes(name, must, self.shape(), shape))
    }

    /// The negative logarithm of a Poisson distribution's probability, of which this is the rate's logarithm: the mean of
    /// `exp(x) - target x`; without `log_input` this is the rate itself: `x - target log(x + epsilon)`. With `full`,
    /// Stirling's approximation of `log(target!)`, which is `t log(t) - t + log(2 pi t) / 2`, is added where the target is
    /// above 1. (`F.poisson_nll_loss` of PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::PoissonNllOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2])?;
    /// let target = device.tensor(&[2.0f32, 3.0], &[2])?;
    /// let loss = x.poisson_nll_loss(&target, PoissonNllOptions::default())?;
    /// assert_eq!(loss.item::<f32>().await?, 1.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn poisson_nll_loss(&self, target: &Tensor, options: PoissonNllOptions) -> Result<Tensor> {
        let name = "poisson_nll_loss";
        need_like(name, self, target, "target")?;
        let PoissonNllOptions { log_input, full, epsilon, reduction } = options;
        compute_in_f32(name, self, |x| {
            let target = to_f32(target)?;
            let mut loss = if log_input {
                x.exp().sub(target.mul(x)?)?
            } else {
                x.sub(target.mul(x.add(epsilon)?.log())?)?
            };
            if full {
                // Those that get nothing as 1: the gradient of a logarithm at 0 would be NaN.
                let large = target.gt(1.0)?;
                let t = large.where_cond(&target, 1.0)?;
                let log = t.mul(t.log())?.sub(&t)?.add(t.mul(TAU)?.log().mul(0.5)?)?;
                loss = loss.add(large.where_cond(log, 0.0)?)?;
            }
            reduction.of(&loss)
        })
    }
}
