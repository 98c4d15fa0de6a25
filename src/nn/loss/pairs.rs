//! Losses that compare two or three inputs: rankings, cosine similarity, and triplets.

use super::{compute_in_f32, need_floats, need_like, to_f32, LossReduction};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Options of [`Tensor::triplet_margin_loss`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletMarginOptions {
    /// The required difference between the distances of the negative and the positive. The default is 1.
    pub margin: f64,
    /// The order of the norm that measures distances. The default is 2.
    pub p: f64,
    /// Added to each difference of coordinates for numerical stability. The default is 1e-6.
    pub eps: f64,
    /// Whether the distance between positive and negative replaces the negative's distance if it is smaller (Balntas et al.
    /// 2016). The default is `false`.
    pub swap: bool,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

impl Default for TripletMarginOptions {
    fn default() -> TripletMarginOptions {
        let reduction = LossReduction::Mean;
        TripletMarginOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the margin ranking loss: the mean of `max(0, -target (x - other) + margin)`. A target of 1 means that this
    /// input should be larger, and -1 means that `other` should be. PyTorch's default margin is 0. (`F.margin_ranking_loss`
    /// of PyTorch.)
    ///
    /// # Errors
    /// `Shape` unless all have one shape. `DType` unless all are of one float type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let other = device.tensor(&[3.0f32, 1.0], &[2])?;
    /// let loss = x.margin_ranking_loss(&other, &device.ones(&[2])?, 0.0, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [2.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(margin = 0.0, reduction = LossReduction::Mean)))]
    pub fn margin_ranking_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "margin_ranking_loss";
        need_like(name, self, other, "other input")?;
        need_like(name, self, target, "target")?;
        compute_in_f32(name, self, |x| {
            let ahead = to_f32(other)?.sub(x)?.mul(to_f32(target)?)?;
            reduction.of(&ahead.add(margin)?.relu())
        })
    }

    /// Returns the cosine embedding loss of vectors along the last axis. A target of 1 gives `1 - cos`, and -1 gives `max(0,
    /// cos - margin)`. Other targets give 0, as in PyTorch. The target has this shape without the last axis. PyTorch's
    /// default margin is 0. (`F.cosine_embedding_loss` of PyTorch.)
    ///
    /// # Errors
    /// `Shape` unless both inputs have one shape of rank 1 or more, and the target has that shape without the last axis.
    /// `DType` unless all are of one float type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 0.0, 2.0, 0.0], &[2, 2])?;
    /// let other = device.tensor(&[0.0f32, 3.0, 1.0, 0.0], &[2, 2])?;
    /// let target = device.tensor(&[1.0f32, -1.0], &[2])?;
    /// let loss = x.cosine_embedding_loss(&other, &target, 0.5, LossReduction::None)?;
    /// assert_eq!(loss.read::<f32>().await?, [1.0, 0.5]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(margin = 0.0, reduction = LossReduction::Mean)))]
    pub fn cosine_embedding_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "cosine_embedding_loss";
        need_like(name, self, other, "other input")?;
        need_floats(name, self, &[target])?;
        if self.shape().split_last().map(|(_, outer)| outer) != Some(target.shape()) {
            let must = "the target must have the input's shape without its last axis";
            return Err(Error::shapes(name, must, self.shape(), target.shape()));
        }
        compute_in_f32(name, self, |x| {
            let other = to_f32(other)?;
            // PyTorch adds this number, too, so that vectors of zeros do not give NaN.
            let length = |x: &Tensor| x.square().sum(-1)?.add(1e-12).map(|sum| sum.sqrt());
            let cosine = x.mul(&other)?.sum(-1)?.div(length(x)?)?.div(length(&other)?)?;
            let near = target.eq(1.0)?.where_cond(cosine.neg().add(1.0)?, 0.0)?;
            let apart = target.eq(-1.0)?.where_cond(cosine.sub(margin)?.relu(), 0.0)?;
            reduction.of(&near.add(apart)?)
        })
    }

    /// Returns the triplet margin loss of vectors along the last axis: the mean of `max(0, d(x, positive) - d(x, negative) +
    /// margin)`. This tensor has the anchors `x`. The distance `d(x, y)` is the `p`-norm of `x - y + eps`.
    /// (`F.triplet_margin_loss` of PyTorch.)
    ///
    /// # Errors
    /// `Shape` unless all have one shape of rank 1 or more. `DType` unless all are of one float type. `InvalidArgument` if `p`
    /// is NaN.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::TripletMarginOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let anchor = device.zeros(&[1, 2])?;
    /// let positive = device.tensor(&[3.0f32, 4.0], &[1, 2])?;
    /// let negative = device.tensor(&[0.0f32, 2.0], &[1, 2])?;
    /// let loss = anchor.triplet_margin_loss(&positive, &negative, TripletMarginOptions::default())?;
    /// assert!((loss.item::<f32>().await? - 4.0).abs() < 1e-5);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        options: TripletMarginOptions,
    ) -> Result<Tensor> {
        let name = "triplet_margin_loss";
        need_like(name, self, positive, "positive")?;
        need_like(name, self, negative, "negative")?;
        if self.rank() == 0 {
            return Err(Error::wrong_shape(name, "the input must have an axis of vectors", &[]));
        }
        let TripletMarginOptions { margin, p, eps, swap, reduction } = options;
        compute_in_f32(name, self, |x| {
            let (positive, negative) = (to_f32(positive)?, to_f32(negative)?);
            let distance = |x: &Tensor, y: &Tensor| x.sub(y)?.add(eps)?.norm(p, -1);
            let near = distance(x, &positive)?;
            let mut far = distance(x, &negative)?;
            if swap {
                far = far.minimum(distance(&positive, &negative)?)?;
            }
            reduction.of(&near.sub(far)?.add(margin)?.relu())
        })
    }
}
