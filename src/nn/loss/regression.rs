//! Regression losses: distances to a target, and negative log likelihoods of normal and Poisson distributions.

use super::{compute_in_f32, need_like, need_positive, to_f32, LossReduction};
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};
use std::f64::consts::TAU;

/// Options of [`Tensor::gaussian_nll_loss`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianNllOptions {
    /// Whether the constant `log(2 pi) / 2` is added. The default is `false`.
    pub full: bool,
    /// The smallest variance, for numerical stability. The default is 1e-6.
    pub eps: f64,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

impl Default for GaussianNllOptions {
    fn default() -> GaussianNllOptions {
        GaussianNllOptions { full: false, eps: 1e-6, reduction: LossReduction::Mean }
    }
}

/// Options of [`Tensor::poisson_nll_loss`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonNllOptions {
    /// Whether the input is the logarithm of the rate. The default is `true`.
    pub log_input: bool,
    /// Whether Stirling's approximation of `log(target!)` is added. The default is `false`.
    pub full: bool,
    /// Added to a rate before its logarithm for numerical stability. The default is 1e-8.
    pub eps: f64,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

impl Default for PoissonNllOptions {
    fn default() -> PoissonNllOptions {
        let reduction = LossReduction::Mean;
        PoissonNllOptions { log_input: true, full: false, eps: 1e-8, reduction }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the mean squared error: the mean of `(x - target)^2`. (`F.mse_loss` of PyTorch.)
    ///
    /// # Errors
    /// `Shape` unless both have one shape. `DType` unless both are of one float type.
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

    /// Returns the mean absolute error: the mean of `|x - target|`. The gradient is 0 where both are equal. (`F.l1_loss` of
    /// PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`].
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

    /// Returns the smooth L1 loss (Girshick 2015). With the distance `d = |x - target|`, it is the mean of `d^2 / (2 beta)`
    /// where `d < beta`, and of `d - beta / 2` elsewhere. A `beta` of 0 gives [`Tensor::l1_loss`]. PyTorch's default is 1.
    /// (`F.smooth_l1_loss` of PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`]. `InvalidArgument` if `beta` is below 0.
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

    /// Returns the Huber loss (Huber 1964). With the distance `d = |x - target|`, it is the mean of `d^2 / 2` where `d <=
    /// delta`, and of `delta (d - delta / 2)` elsewhere. PyTorch's default delta is 1. (`F.huber_loss` of PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`]. `InvalidArgument` unless `delta` is above 0.
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

    /// Returns the negative log likelihood of a normal distribution (Nix and Weigend 1994). This tensor is the mean of the
    /// distribution. The loss is the mean of `(log(v) + (x - target)^2 / v) / 2` with `v = max(variance, eps)`. With
    /// `full` the constant `log(2 pi) / 2` is added. (`F.gaussian_nll_loss` of PyTorch.)
    ///
    /// The variance has the shape of this tensor, or one number for the last axis. In the second case, the last extent is 1
    /// or the axis is missing. The target broadcasts.
    ///
    /// The gradient of a variance below `eps` is the gradient at `eps`, as in PyTorch. Variances below 0, which PyTorch
    /// rejects, count as `eps`.
    ///
    /// # Errors
    /// `Shape` unless the target broadcasts and the variance has one of these shapes. `DType` unless all are of one float
    /// type. `InvalidArgument` unless `eps` is above 0.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::GaussianNllOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[1, 2])?;
    /// let target = device.tensor(&[2.0f32, 2.0], &[1, 2])?;
    /// let variance = device.ones(&[1])?;
    /// let loss = x.gaussian_nll_loss(&target, &variance, GaussianNllOptions::default())?;
    /// assert_eq!(loss.item::<f32>().await?, 0.25);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        variance: &Tensor,
        options: GaussianNllOptions,
    ) -> Result<Tensor> {
        let name = "gaussian_nll_loss";
        let GaussianNllOptions { full, eps, reduction } = options;
        super::need_floats(name, self, &[target, variance])?;
        need_positive(name, "eps", eps, false)?;
        let variance = self.one_for_each(name, variance)?;
        compute_in_f32(name, self, |x| {
            let variance = to_f32(&variance)?;
            // `eps` is added to 0, which depends on the variance, so that gradients pass.
            let least = variance.sub(&variance.detach())?.add(eps)?;
            let variance = variance.lt(eps)?.where_cond(least, &variance)?;
            let distance = x.squared_difference(to_f32(target)?)?.div(&variance)?;
            let mut loss = variance.log().add(distance)?.mul(0.5)?;
            if full {
                loss = loss.add(0.5 * TAU.ln())?;
            }
            reduction.of(&loss)
        })
    }

    /// Reshapes the variance so that it broadcasts to this tensor.
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

    /// Returns the negative log likelihood of a Poisson distribution. With `log_input`, this tensor is the logarithm of the
    /// rate, and the loss is the mean of `exp(x) - target x`. Without it, this tensor is the rate, and the loss is the mean
    /// of `x - target log(x + eps)`. (`F.poisson_nll_loss` of PyTorch.)
    ///
    /// With `full`, Stirling's approximation of `log(target!)` is added where the target `t` is above 1: `t log(t) - t +
    /// log(2 pi t) / 2`.
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`].
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
        let PoissonNllOptions { log_input, full, eps, reduction } = options;
        compute_in_f32(name, self, |x| {
            let target = to_f32(target)?;
            let mut loss = if log_input {
                x.exp().sub(target.mul(x)?)?
            } else {
                x.sub(target.mul(x.add(eps)?.log())?)?
            };
            if full {
                // Targets without this term count as 1, because the gradient of a logarithm at 0 would be NaN.
                let large = target.gt(1.0)?;
                let t = large.where_cond(&target, 1.0)?;
                let log = t.mul(t.log())?.sub(&t)?.add(t.mul(TAU)?.log().mul(0.5)?)?;
                loss = loss.add(large.where_cond(log, 0.0)?)?;
            }
            reduction.of(&loss)
        })
    }
}
