//! Normalization layers.

use super::module::{like, like_if};
use super::{Generator, Layer, Members, Mode, Module};
use crate::dtype::FLOATS;
use crate::error::{Error, Result};
use crate::tensor::{NormOptions, RmsNormOptions, Tensor, Variable};

/// Returns a weight of ones and a bias of zeros.
fn scales(generator: &Generator, shape: &[usize]) -> Result<(Variable, Variable)> {
    let device = generator.device();
    Ok((Variable::new(&device.ones(shape)?), Variable::new(&device.zeros(shape)?)))
}

/// Returns the last `count` axes, as negative numbers.
fn last(count: usize) -> Vec<isize> {
    (1..=count as isize).rev().map(|axis| -axis).collect()
}

/// Batch normalization of each channel (Ioffe and Szegedy 2015). The result is `(x - mean) / sqrt(variance + eps) *
/// weight + bias`. The channels are the second axis.
///
/// In training, mean and variance are those of the batch, and the running statistics are updated. In evaluation, the running
/// statistics are used. The layer accepts any number of axes, so it covers PyTorch's `BatchNorm1d`, `2d` and `3d`.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// `[channels]`.
    pub weight: Variable,
    /// `[channels]`.
    pub bias: Variable,
    /// `[channels]`. A buffer.
    pub running_mean: Variable,
    /// `[channels]`. A buffer.
    pub running_var: Variable,
    /// Added to the variance for numerical stability.
    pub eps: f64,
    /// The weight of a batch in the update of the running statistics.
    pub momentum: f64,
    mode: Mode,
}

impl BatchNorm {
    /// Creates a layer with an `eps` of 1e-5 and a momentum of 0.1.
    ///
    /// # Errors
    /// `Limit`.
    pub fn new(generator: &Generator, channels: usize) -> Result<BatchNorm> {
        let (weight, bias) = scales(generator, &[channels])?;
        let (running_var, running_mean) = scales(generator, &[channels])?;
        let (eps, momentum) = (1e-5, 0.1);
        let mode = Mode::default();
        Ok(BatchNorm { weight, bias, running_mean, running_var, eps, momentum, mode })
    }

    /// Normalizes `x`, which is `f32`, because sums of squares would overflow in `f16`.
    fn normalize(&self, x: &Tensor) -> Result<Tensor> {
        if !self.mode.training() {
            let (weight, bias) = (like(self.weight.value(), x)?, like(self.bias.value(), x)?);
            let options = NormOptions { weight: Some(&weight), bias: Some(&bias), eps: self.eps };
            let mean = like(self.running_mean.value(), x)?;
            let variance = like(self.running_var.value(), x)?;
            return x.batch_norm(&mean, &variance, options);
        }
        let channels = x.shape().get(1).copied().unwrap_or(0);
        let each = x.numel() / channels.max(1);
        if x.rank() < 2 || each < 2 {
            let shape = x.shape();
            let message = format!(
                "batch_norm: a channel must have more than one number in training, got shape {shape:?}"
            );
            return Err(Error::shape(message));
        }
        let axes: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
        self.normalize_by(x, &x.mean(&axes)?, &x.var(&axes, 0.0)?, each as f64)
    }

    /// Normalizes `x` in training by the statistics of a batch with `count` numbers in each channel, and follows these.
    pub(super) fn normalize_by(
        &self,
        x: &Tensor,
        mean: &Tensor,
        variance: &Tensor,
        count: f64,
    ) -> Result<Tensor> {
        let (weight, bias) = (like(self.weight.value(), x)?, like(self.bias.value(), x)?);
        let options = NormOptions { weight: Some(&weight), bias: Some(&bias), eps: self.eps };
        let y = x.batch_norm(mean, variance, options)?;
        self.follow(&self.running_mean, mean)?;
        self.follow(&self.running_var, &variance.mul(count / (count - 1.0))?)?;
        Ok(y)
    }

    /// Whether the layer is in training mode.
    #[cfg_attr(not(feature = "distributed"), allow(dead_code))]
    pub(super) fn is_training(&self) -> bool {
        self.mode.training()
    }

    fn follow(&self, running: &Variable, batch: &Tensor) -> Result<()> {
        let kept = running.value().mul(1.0 - self.momentum)?;
        let batch = batch.detach().cast(running.dtype())?;
        running.assign(&kept.add(&batch.mul(self.momentum)?)?.detach())
    }
}

impl Module for BatchNorm {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight).parameter("bias", &self.bias);
        members.buffer("running_mean", &self.running_mean);
        members.buffer("running_var", &self.running_var).mode(&self.mode);
    }
}

impl Layer for BatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if !x.dtype().is_float() {
            return Err(Error::wrong_dtype("batch_norm", FLOATS, x.dtype()));
        }
        self.normalize(&x.cast(x.dtype().compute())?)?.cast(x.dtype())
    }
}

/// [`Tensor::layer_norm`] over the last axes, with a learned weight and bias of their shape.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// The weight, of the normalized shape.
    pub weight: Variable,
    /// The bias, of the normalized shape.
    pub bias: Variable,
    /// Added to the variance for numerical stability.
    pub eps: f64,
}

impl LayerNorm {
    /// Creates a layer with an `eps` of 1e-5.
    ///
    /// # Errors
    /// `Limit`.
    pub fn new(generator: &Generator, normalized_shape: &[usize]) -> Result<LayerNorm> {
        let (weight, bias) = scales(generator, normalized_shape)?;
        Ok(LayerNorm { weight, bias, eps: 1e-5 })
    }
}

impl Module for LayerNorm {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight).parameter("bias", &self.bias);
    }
}

impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (like(self.weight.value(), x)?, like(self.bias.value(), x)?);
        fits("layer_norm", x, &weight)?;
        let options = NormOptions { weight: Some(&weight), bias: Some(&bias), eps: self.eps };
        x.layer_norm(&last(weight.rank()), options)
    }
}

/// [`Tensor::rms_norm`] over the last axes, with a learned weight of their shape.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// The weight, of the normalized shape.
    pub weight: Variable,
    /// Added to the mean of the squares for numerical stability.
    pub eps: f64,
}

impl RmsNorm {
    /// Creates a layer with PyTorch's `eps`, the machine epsilon of `f32` (2^-23).
    ///
    /// # Errors
    /// `Limit`.
    pub fn new(generator: &Generator, normalized_shape: &[usize]) -> Result<RmsNorm> {
        let weight = generator.device().ones(normalized_shape)?;
        Ok(RmsNorm { weight: Variable::new(&weight), eps: f32::EPSILON.into() })
    }
}

impl Module for RmsNorm {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight);
    }
}

impl Layer for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = like(self.weight.value(), x)?;
        fits("rms_norm", x, &weight)?;
        let options = RmsNormOptions { weight: Some(&weight), eps: self.eps };
        x.rms_norm(&last(weight.rank()), options)
    }
}

/// Rejects an input whose last axes differ from the weight's shape. The weight does not broadcast here.
fn fits(name: &str, x: &Tensor, weight: &Tensor) -> Result<()> {
    if x.shape().ends_with(weight.shape()) {
        return Ok(());
    }
    let (x, weight) = (x.shape(), weight.shape());
    Err(Error::shape(format!(
        "{name}: the input must end with the normalized shape {weight:?}, got shape {x:?}"
    )))
}

/// [`Tensor::group_norm`] with a learned weight and bias for each channel.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// `[channels]`.
    pub weight: Variable,
    /// `[channels]`.
    pub bias: Variable,
    /// The number of groups of channels.
    pub groups: usize,
    /// Added to the variance for numerical stability.
    pub eps: f64,
}

impl GroupNorm {
    /// Creates a layer with an `eps` of 1e-5.
    ///
    /// # Errors
    /// `Limit`.
    pub fn new(generator: &Generator, groups: usize, channels: usize) -> Result<GroupNorm> {
        let (weight, bias) = scales(generator, &[channels])?;
        Ok(GroupNorm { weight, bias, groups, eps: 1e-5 })
    }
}

impl Module for GroupNorm {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight).parameter("bias", &self.bias);
    }
}

impl Layer for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (like(self.weight.value(), x)?, like(self.bias.value(), x)?);
        let options = NormOptions { weight: Some(&weight), bias: Some(&bias), eps: self.eps };
        x.group_norm(self.groups, options)
    }
}

/// [`Tensor::instance_norm`]. By default it has no weight and no bias, as in PyTorch.
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    /// `[channels]`.
    pub weight: Option<Variable>,
    /// `[channels]`.
    pub bias: Option<Variable>,
    /// Added to the variance for numerical stability.
    pub eps: f64,
}

impl Default for InstanceNorm {
    fn default() -> InstanceNorm {
        InstanceNorm { weight: None, bias: None, eps: 1e-5 }
    }
}

impl InstanceNorm {
    /// Creates a layer with a learned weight and bias (`affine=True`).
    ///
    /// # Errors
    /// `Limit`.
    pub fn affine(generator: &Generator, channels: usize) -> Result<InstanceNorm> {
        let (weight, bias) = scales(generator, &[channels])?;
        Ok(InstanceNorm { weight: Some(weight), bias: Some(bias), eps: 1e-5 })
    }
}

impl Module for InstanceNorm {
    fn members(&self, members: &mut Members) {
        members.parameter_if("weight", &self.weight).parameter_if("bias", &self.bias);
    }
}

impl Layer for InstanceNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = like_if(self.weight.as_ref(), x)?;
        let bias = like_if(self.bias.as_ref(), x)?;
        let (weight, bias) = (weight.as_ref(), bias.as_ref());
        x.instance_norm(NormOptions { weight, bias, eps: self.eps })
    }
}
