//! Losses for two classes: cross entropy of probabilities or logits, and losses with targets of 1 and -1.

use super::{compute_in_f32, need_floats, need_like, rest, to_f32, weigh, LossReduction};
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

/// Options of [`Tensor::binary_cross_entropy`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BinaryCrossEntropyOptions<'a> {
    /// A factor of each loss. The default is none.
    pub weight: Option<&'a Tensor>,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

/// Options of [`Tensor::binary_cross_entropy_with_logits`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BinaryCrossEntropyWithLogitsOptions<'a> {
    /// A factor of each loss. The default is none.
    pub weight: Option<&'a Tensor>,
    /// The weight of targets that are 1. The default is none.
    pub pos_weight: Option<&'a Tensor>,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the binary cross entropy of probabilities and targets from 0 to 1: the mean of `-(target log(x) + (1 - target)
    /// log(1 - x))`. The logarithms are clamped to at least -100. The weight broadcasts to this tensor.
    /// (`F.binary_cross_entropy` of PyTorch.)
    ///
    /// The gradient is `(x - target) / max(x (1 - x), 1e-12)`, as in PyTorch. For `f16`, the minimum is 1 / 65504. Where the
    /// minimum applies, higher derivatives are 0. An element outside `[0, 1]`, which PyTorch rejects, gives NaN.
    ///
    /// # Errors
    /// `Shape` unless the target has this shape and the weight broadcasts to it. `DType` unless all are of one float type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::{BinaryCrossEntropyOptions, LossReduction}};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[0.0f32, 1.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, 1.0], &[2])?;
    /// let options = BinaryCrossEntropyOptions { reduction: LossReduction::None, ..Default::default() };
    /// let loss = x.binary_cross_entropy(&target, options)?;
    /// assert_eq!(loss.read::<f32>().await?, [100.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn binary_cross_entropy(
        &self,
        target: &Tensor,
        options: BinaryCrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        let name = "binary_cross_entropy";
        let BinaryCrossEntropyOptions { weight, reduction } = options;
        need_like(name, self, target, "target")?;
        need_floats(name, self, weight.as_slice())?;
        // The smallest number whose inverse the type can represent.
        let least = if self.dtype() == DType::F16 { 1.0 / 65504.0 } else { 1e-12 };
        compute_in_f32(name, self, |x| {
            let (target, fixed) = (to_f32(target)?, x.detach());
            let at_end = x.mul(rest(x)?)?.lt(least)?;
            // At the ends, the logarithm's gradient is infinite, or infinity times 0. Detached values avoid it.
            let inner = at_end.where_cond(&fixed, x)?;
            let log = inner.log().clamp_min(-100.0)?;
            let log_rest = inner.neg().log1p().clamp_min(-100.0)?;
            let loss = target.mul(log)?.add(rest(&target)?.mul(log_rest)?)?.neg();
            // The correction's value is 0. Its gradient is the clamped gradient that the detached values lack.
            let slope = fixed.sub(&target.detach())?.div(least)?;
            let correction = at_end.where_cond(x.sub(&fixed)?.mul(slope)?, 0.0)?;
            reduction.of(&weigh(name, loss.add(correction)?, weight)?)
        })
    }

    /// Returns [`Tensor::binary_cross_entropy`] of the sigmoid of this tensor, without overflow: the mean of `(1 - target) x
    /// - (1 + (pos_weight - 1) target) log(sigmoid(x))`. `pos_weight` is the weight of targets that are 1. Both weights
    /// broadcast to this tensor. (`F.binary_cross_entropy_with_logits` of PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::binary_cross_entropy`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::BinaryCrossEntropyWithLogitsOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[-1000.0f32, 1000.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, 1.0], &[2])?;
    /// let pos_weight = device.tensor(&[3.0f32], &[1])?;
    /// let options = BinaryCrossEntropyWithLogitsOptions {
    ///     pos_weight: Some(&pos_weight),
    ///     ..Default::default()
    /// };
    /// let loss = x.binary_cross_entropy_with_logits(&target, options)?;
    /// assert_eq!(loss.item::<f32>().await?, 1500.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        options: BinaryCrossEntropyWithLogitsOptions<'_>,
    ) -> Result<Tensor> {
        let name = "binary_cross_entropy_with_logits";
        let BinaryCrossEntropyWithLogitsOptions { weight, pos_weight, reduction } = options;
        need_like(name, self, target, "target")?;
        let weights: Vec<&Tensor> = weight.into_iter().chain(pos_weight).collect();
        need_floats(name, self, &weights)?;
        compute_in_f32(name, self, |x| {
            let (target, mut log) = (to_f32(target)?, x.log_sigmoid());
            if let Some(positive) = pos_weight {
                let more = to_f32(positive)?.sub(1.0)?;
                log = weigh(name, target.clone(), Some(&more))?.add(1.0)?.mul(log)?;
            }
            let loss = rest(&target)?.mul(x)?.sub(log)?;
            reduction.of(&weigh(name, loss, weight)?)
        })
    }

    /// Returns the logistic loss of scores and targets that are 1 or -1: the mean of `log(1 + exp(-target x))`, without
    /// overflow. (`F.soft_margin_loss` of PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1000.0f32, 1000.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, -1.0], &[2])?;
    /// let loss = x.soft_margin_loss(&target, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [0.0, 1000.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(reduction = LossReduction::Mean)))]
    pub fn soft_margin_loss(&self, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
        let name = "soft_margin_loss";
        need_like(name, self, target, "target")?;
        compute_in_f32(name, self, |x| reduction.of(&x.mul(to_f32(target)?)?.neg().softplus()))
    }

    /// Returns the hinge loss of distances: the mean of `x` where the target is 1, and of `max(0, margin - x)` where it is
    /// -1. Other targets give the sum of both, as in PyTorch. PyTorch's default margin is 1. (`F.hinge_embedding_loss` of
    /// PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[0.5f32, 0.25, 3.0], &[3])?;
    /// let target = device.tensor(&[1.0f32, -1.0, -1.0], &[3])?;
    /// let loss = x.hinge_embedding_loss(&target, 1.0, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [0.5, 0.75, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(margin = 1.0, reduction = LossReduction::Mean)))]
    pub fn hinge_embedding_loss(
        &self,
        target: &Tensor,
        margin: f64,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "hinge_embedding_loss";
        need_like(name, self, target, "target")?;
        compute_in_f32(name, self, |x| {
            let apart = x.neg().add(margin)?.relu();
            let apart = target.eq(1.0)?.where_cond(0.0, apart)?;
            let near = target.eq(-1.0)?.where_cond(0.0, x)?;
            reduction.of(&apart.add(near)?)
        })
    }
}
