//! Losses over classes and distributions: cross entropy, negative log likelihood, and Kullback-Leibler divergence.

use super::{compute_in_f32, need_floats, need_like, to_f32, LossReduction};
use crate::dtype::{DType, INDICES};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Options of [`Tensor::cross_entropy`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyOptions<'a> {
    /// The weights of the classes, one number for each. The default is none.
    pub weight: Option<&'a Tensor>,
    /// The class whose targets are ignored. It has no effect on targets of probabilities. The default is -100.
    pub ignore_index: i32,
    /// The part of the target, from 0 to 1, that is distributed evenly over all classes (Szegedy et al. 2016). The default is
    /// 0.
    pub label_smoothing: f64,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

impl Default for CrossEntropyOptions<'_> {
    fn default() -> Self {
        let (weight, reduction) = (None, LossReduction::Mean);
        CrossEntropyOptions { weight, ignore_index: -100, label_smoothing: 0.0, reduction }
    }
}

/// Options of [`Tensor::nll_loss`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug)]
pub struct NllOptions<'a> {
    /// The weights of the classes, one number for each. The default is none.
    pub weight: Option<&'a Tensor>,
    /// The class whose targets are ignored. The default is -100.
    pub ignore_index: i32,
    /// The reduction of the losses. The default is the mean.
    pub reduction: LossReduction,
}

impl Default for NllOptions<'_> {
    fn default() -> Self {
        NllOptions { weight: None, ignore_index: -100, reduction: LossReduction::Mean }
    }
}

/// An input with its axis of classes, and the weights of the classes.
struct Classes<'a> {
    name: &'static str,
    axis: usize,
    count: usize,
    input: &'a Tensor,
    /// A weight for each class, in a shape that broadcasts to the input.
    weight: Option<Tensor>,
}

impl<'a> Classes<'a> {
    /// Takes the second axis as the classes, or the only axis. Rejects an input without axes, and a weight without one number
    /// for each class.
    fn new(name: &'static str, input: &'a Tensor, weight: Option<&Tensor>) -> Result<Classes<'a>> {
        need_floats(name, input, weight.as_slice())?;
        let axis = usize::from(input.rank() > 1);
        let Some(&count) = input.shape().get(axis) else {
            let must = "the input must have an axis of classes";
            return Err(Error::wrong_shape(name, must, input.shape()));
        };
        let classes = Classes { name, axis, count, input, weight: None };
        let Some(weight) = weight else { return Ok(classes) };
        if weight.shape() != [count] {
            let must = "the weight must have one number for each class";
            return Err(Error::shapes(name, must, input.shape(), weight.shape()));
        }
        Ok(Classes { weight: Some(classes.spread(&to_f32(weight)?)?), ..classes })
    }

    /// Reshapes one number for each class so that it broadcasts to the input.
    fn spread(&self, numbers: &Tensor) -> Result<Tensor> {
        let mut dims = vec![1; self.input.rank()];
        dims[self.axis] = self.count;
        numbers.reshape(&dims)
    }

    /// Multiplies `x` by the weight of each class.
    fn weigh(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.as_ref().map_or_else(|| Ok(x.clone()), |weight| x.mul(weight))
    }

    /// Returns the negative sum over the classes.
    fn minus_sum(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.sum(self.axis as isize)?.neg())
    }

    /// Returns the input's shape without the axis of classes, which is the shape of the target.
    fn places(&self) -> Vec<usize> {
        let mut dims = self.input.shape().to_vec();
        dims.remove(self.axis);
        dims
    }

    /// Compares targets of class indices with all classes.
    fn targets(&self, target: &Tensor, ignore_index: i32) -> Result<Targets<'_>> {
        let (name, dtype) = (self.name, target.dtype());
        if !dtype.is_int() {
            let message = format!("{name}: targets must be {INDICES}, got {dtype}; cast them");
            return Err(Error::dtype(message));
        }
        if target.shape() != self.places() {
            let must = "the target must have the input's shape without the axis of classes";
            return Err(Error::shapes(name, must, self.input.shape(), target.shape()));
        }
        let target = target.cast(DType::I32)?;
        let ignored = usize::try_from(ignore_index).is_ok_and(|class| class < self.count);
        let mut valid = target.ge(0)?.logical_and(target.lt(self.count)?)?;
        if ignored {
            valid = valid.logical_and(target.ne(ignore_index)?)?;
        }
        let numbers = self.spread(&target.device().iota(&[self.count], 0)?)?;
        // A target that is not a class index equals none of these numbers.
        let mut chosen = target.unsqueeze(self.axis as isize)?.eq(&numbers)?;
        if ignored {
            chosen = chosen.logical_and(numbers.ne(ignore_index)?)?;
        }
        Ok(Targets { classes: self, chosen, valid })
    }
}

/// Targets of class indices.
struct Targets<'a> {
    classes: &'a Classes<'a>,
    /// Whether a class is the target, in the input's shape.
    chosen: Tensor,
    /// Whether the target is a class and is not ignored.
    valid: Tensor,
}

impl Targets<'_> {
    /// Returns the weighted negative logarithm of the target's probability, or 0 if the target is not a class.
    // Comparing with all classes fuses into the kernel that computes the logarithms. Gathering would take two more kernels.
    fn losses(&self, log: &Tensor) -> Result<Tensor> {
        let weighed = self.classes.weigh(log)?;
        self.classes.minus_sum(&self.chosen.where_cond(weighed, 0.0)?)
    }

    /// Returns the weights of the targets, or 0 where the target is not a class.
    fn weights(&self) -> Result<Tensor> {
        match &self.classes.weight {
            Some(weight) => self.chosen.where_cond(weight, 0.0)?.sum(self.classes.axis as isize),
            None => self.valid.cast(self.classes.input.dtype().compute()),
        }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the cross entropy of scores (logits) and a target: the negative logarithm of the softmax at the target's
    /// class. The classes are axis 1 of `[batch, classes, ...]`, or the only axis. (`F.cross_entropy` of PyTorch.)
    ///
    /// An integer target has the indices of the classes, `[batch, ...]`. A float target has the probability of each class, in
    /// the shape of this tensor. The weight has one number for each class.
    ///
    /// The mean over indices divides by the sum of the targets' weights. The mean over probabilities divides by the number of
    /// positions. With [`label_smoothing`](crate::nn::CrossEntropyOptions::label_smoothing) `s` the target becomes `(1 - s)
    /// target + s / classes`.
    ///
    /// An index that is not a class, which PyTorch rejects, is ignored like
    /// [`ignore_index`](crate::nn::CrossEntropyOptions::ignore_index). The mean is NaN if all targets are ignored, as in
    /// PyTorch.
    ///
    /// # Errors
    /// `Shape` unless target and weight have the shapes above. `DType` unless this tensor and the weight are of one float
    /// type, and the target is of that type, `i32` or `u32`. `InvalidArgument` unless the label smoothing is in `[0, 1]`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::CrossEntropyOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let scores = device.tensor(&[0.0f32, 0.0, 100.0, 0.0], &[2, 2])?;
    /// let target = device.tensor(&[1i32, 0], &[2])?;
    /// let loss = scores.cross_entropy(&target, CrossEntropyOptions::default())?;
    /// assert!((loss.item::<f32>().await? - 2f32.ln() / 2.0).abs() < 1e-6);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn cross_entropy(
        &self,
        target: &Tensor,
        options: CrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        let name = "cross_entropy";
        let CrossEntropyOptions { weight, ignore_index, label_smoothing, reduction } = options;
        if !(0.0..=1.0).contains(&label_smoothing) {
            let message =
                format!("{name}: label_smoothing must be in [0, 1], got {label_smoothing}");
            return Err(Error::argument(message));
        }
        let classes = Classes::new(name, self, weight)?;
        let (kept, each) = (1.0 - label_smoothing, label_smoothing / classes.count.max(1) as f64);
        if target.dtype().is_float() {
            let (dtype, shape) = (target.dtype(), target.shape());
            if shape == classes.places() {
                return Err(Error::dtype(format!(
                    "{name}: class indices must be i32 or u32, got {dtype} of shape {shape:?}; cast the target"
                )));
            }
            need_like(name, self, target, "target of probabilities")?;
            return compute_in_f32(name, self, |x| {
                let target = to_f32(target)?;
                let log = classes.weigh(&x.log_softmax(classes.axis as isize)?)?;
                let smooth = match label_smoothing > 0.0 {
                    true => target.mul(kept)?.add(each)?,
                    false => target.clone(),
                };
                reduction.of(&classes.minus_sum(&log.mul(smooth)?)?)
            });
        }
        compute_in_f32(name, self, |x| {
            let targets = classes.targets(target, ignore_index)?;
            let log = x.log_softmax(classes.axis as isize)?;
            let mut losses = targets.losses(&log)?;
            if label_smoothing > 0.0 {
                let all = classes.minus_sum(&classes.weigh(&log)?)?;
                let all = targets.valid.where_cond(all, 0.0)?;
                losses = losses.mul(kept)?.add(all.mul(each)?)?;
            }
            reduction.weighted(&losses, &targets.weights()?)
        })
    }

    /// Returns the negative log likelihood: the negative element of the target's class. This tensor has logarithms of
    /// probabilities, for example from [`Tensor::log_softmax`]. Shapes, weights, ignored targets and the mean are as in
    /// [`Tensor::cross_entropy`]. (`F.nll_loss` of PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::cross_entropy`] for integer targets.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::NllOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[-1.0f32, -2.0, -3.0, -4.0], &[2, 2])?;
    /// let target = device.tensor(&[1i32, 0], &[2])?;
    /// let loss = x.nll_loss(&target, NllOptions::default())?;
    /// assert_eq!(loss.item::<f32>().await?, 2.5);
    /// let weight = device.tensor(&[3.0f32, 1.0], &[2])?;
    /// let options = NllOptions { weight: Some(&weight), ..Default::default() };
    /// assert_eq!(x.nll_loss(&target, options)?.item::<f32>().await?, 2.75);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn nll_loss(&self, target: &Tensor, options: NllOptions<'_>) -> Result<Tensor> {
        let name = "nll_loss";
        let NllOptions { weight, ignore_index, reduction } = options;
        let classes = Classes::new(name, self, weight)?;
        compute_in_f32(name, self, |x| {
            let targets = classes.targets(target, ignore_index)?;
            reduction.weighted(&targets.losses(x)?, &targets.weights()?)
        })
    }

    /// Returns the Kullback-Leibler divergence from this tensor to a target: the mean over all elements of `target
    /// (log(target) - x)`. This tensor has logarithms of probabilities, and the target has probabilities. With `log_target`
    /// the target has logarithms, too. A target of 0 gives 0.
    ///
    /// [`LossReduction::BatchMean`] gives the divergence of the distributions as it is defined. (`F.kl_div` of PyTorch.)
    ///
    /// # Errors
    /// Same as [`Tensor::mse_loss`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, nn::LossReduction};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[0.5f32, 0.5], &[1, 2])?.log();
    /// let target = device.tensor(&[0.0f32, 1.0], &[1, 2])?;
    /// let loss = x.kl_div(&target, false, LossReduction::BatchMean)?;
    /// assert!((loss.item::<f32>().await? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(log_target = false, reduction = LossReduction::Mean)))]
    pub fn kl_div(
        &self,
        target: &Tensor,
        log_target: bool,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let name = "kl_div";
        need_like(name, self, target, "target")?;
        compute_in_f32(name, self, |x| {
            let target = to_f32(target)?;
            let losses = if log_target {
                target.exp().mul(target.sub(x)?)?
            } else {
                // 0 times the logarithm of 0 would be NaN.
                let positive = target.eq(0.0)?.where_cond(1.0, &target)?;
                target.mul(positive.log())?.sub(target.mul(x)?)?
            };
            reduction.of(&losses)
        })
    }
}
