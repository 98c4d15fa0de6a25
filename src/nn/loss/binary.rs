//! Losses of two classes: of probabilities, of scores, and of targets that are 1 and -1.

use super::{compute_in_f32, need_floats, need_like, rest, to_f32, weigh, LossReduction};
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The cross entropy between probabilities and targets from 0 to 1: the mean of
    /// `-(target log(x) + (1 - target) log(1 - x))`, where the logarithms are at least -100. The weight broadcasts to this.
    /// (`F.binary_cross_entropy` of PyTorch.)
    ///
    /// The gradient is `(x - target) / max(x (1 - x), 1e-12)`, as PyTorch's: 1e12 at most (65504 for `f16`). Further
    /// gradients of elements that are 0 or 1 are 0. An element outside, which PyTorch refuses, gives NaN.
    ///
    /// # Errors
    /// `Shape` unless the target has this shape and the weight broadcasts to it; `DType` unless all are of one float type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[0.0f32, 1.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, 1.0], &[2])?;
    /// let loss = x.binary_cross_entropy(&target, None, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [100.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(weight, reduction = LossReduction::Mean)))]
    pub fn binary_cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "binary_cross_entropy";
        need_like(name, self, target, "target")?;
        need_floats(name, self, weight.as_slice())?;
        // The least number whose inverse the type has.
        let least = if self.dtype() == DType::F16 { 1.0 / 65504.0 } else { 1e-12 };
        compute_in_f32(name, self, |x| {
            let (target, fixed) = (to_f32(target)?, x.detach());
            let at_end = x.mul(rest(x)?)?.lt(least)?;
            // Logarithms have no use for gradients at the ends: they are infinite, or 0 times that.
            let inner = at_end.where_cond(&fixed, x)?;
            let log = inner.log().clamp_min(-100.0)?;
            let log_rest = inner.neg().log1p().clamp_min(-100.0)?;
            let loss = target.mul(log)?.add(rest(&target)?.mul(log_rest)?)?.neg();
            // It is 0, and its gradient is what theirs is not.
            let slope = fixed.sub(&target.detach())?.div(least)?;
            let correction = at_end.where_cond(x.sub(&fixed)?.mul(slope)?, 0.0)?;
            reduction.of(&weigh(name, loss.add(correction)?, weight)?)
        })
    }

    /// [`Tensor::binary_cross_entropy`] of the sigmoid of this, without overflow: the mean of
    /// `(1 - target) x - (1 + (pos_weight - 1) target) log(sigmoid(x))`. The weight broadcasts to this, and so does the weight
    /// of targets that are 1, `pos_weight`. (`F.binary_cross_entropy_with_logits` of PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::binary_cross_entropy`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[-1000.0f32, 1000.0], &[2])?;
    /// let target = device.tensor(&[1.0f32, 1.0], &[2])?;
    /// let loss = x.binary_cross_entropy_with_logits(&target, None, None, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [1000.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(weight, pos_weight, reduction = LossReduction::Mean)))]
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        pos_weight: Option<&Tensor>,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "binary_cross_entropy_with_logits";
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

    /// The logistic loss of scores and targets that are 1 or -1: the mean of `log(1 + exp(-target x))`, without overflow.
    /// (`F.soft_margin_loss` of PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`].
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

    /// A loss of distances: the mean of `x` where the target is 1, and of `max(0, margin - x)` where it is -1. Other
    /// targets get the sum of both, as PyTorch's. PyTorch's margin is 1. (`F.hinge_embedding_loss` of PyTorch.)
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`].
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
