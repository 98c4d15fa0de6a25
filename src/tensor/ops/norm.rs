//! `softmax` and normalizations. Each is composed of elementary operations, which the planner fuses into one kernel.

use super::reduce::Moments;
use crate::error::{Error, Result};
use crate::tensor::{keepdim, with_op_name, Axes, Tensor};

/// Options of the normalizations that subtract a mean, such as [`Tensor::layer_norm`] and [`Tensor::group_norm`].
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::NormOptions};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 3.0], &[1, 2])?;
/// let weight = device.tensor(&[2.0f32, 5.0], &[2])?;
/// let options = NormOptions { weight: Some(&weight), eps: 0.0, ..Default::default() };
/// assert_eq!(x.layer_norm(-1, options)?.read::<f32>().await?, [-2.0, 5.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug)]
pub struct NormOptions<'a> {
    /// A factor of the result. The default is none.
    pub weight: Option<&'a Tensor>,
    /// A number that is added to the result. The default is none.
    pub bias: Option<&'a Tensor>,
    /// Added to the variance for numerical stability. The default is 1e-5.
    pub eps: f64,
}

impl Default for NormOptions<'_> {
    fn default() -> Self {
        NormOptions { weight: None, bias: None, eps: 1e-5 }
    }
}

/// Options of [`Tensor::rms_norm`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug)]
pub struct RmsNormOptions<'a> {
    /// A factor of the result. The default is none.
    pub weight: Option<&'a Tensor>,
    /// Added to the mean of the squares for numerical stability. The default is the machine epsilon of `f32`, 2^-23.
    pub eps: f64,
}

impl Default for RmsNormOptions<'_> {
    fn default() -> Self {
        RmsNormOptions { weight: None, eps: f32::EPSILON.into() }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns `exp(x) / sum(exp(x))` along `axis`, without overflow.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        if let Some(line) = self.scalar_as_vector(axis)? {
            return line.softmax(0)?.squeeze(0);
        }
        self.shape.axis("softmax", axis)?;
        self.check_float("softmax")?;
        self.compute_in_f32(|x| {
            let exp = x.sub(&x.max(keepdim(axis))?.into_detached()?)?.exp();
            exp.div(&exp.sum(keepdim(axis))?)
        })
    }

    /// Returns the logarithm of [`Tensor::softmax`], which is accurate where the softmax is nearly 0.
    ///
    /// # Errors
    /// The errors of [`Tensor::softmax`].
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        if let Some(line) = self.scalar_as_vector(axis)? {
            return line.log_softmax(0)?.squeeze(0);
        }
        self.shape.axis("log_softmax", axis)?;
        self.check_float("log_softmax")?;
        self.compute_in_f32(|x| {
            let distance = x.sub(&x.max(keepdim(axis))?.into_detached()?)?;
            distance.sub(&distance.exp().sum(keepdim(axis))?.log())
        })
    }

    /// Returns `(x - mean) / sqrt(variance + eps) * weight + bias` over these axes (Ba et al. 2016). Weight and bias
    /// broadcast.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist, or if weight or bias does not broadcast; `DType` unless all have one float
    /// type.
    #[cfg_attr(feature = "js", js(options(axes = -1), spread(options)))]
    pub fn layer_norm(&self, axes: impl Into<Axes>, options: NormOptions<'_>) -> Result<Tensor> {
        let axes = &keepdim(axes);
        let all = axes.resolve("layer_norm", &self.shape)?;
        self.check_float("layer_norm")?;
        let count = all.iter().map(|&axis| self.shape[axis]).product();
        let NormOptions { weight, bias, eps } = options;
        self.normalize_and_scale("layer_norm", weight, bias, |x| {
            let Moments { mean, variance } = Moments::of(x, axes, count)?;
            x.sub(&mean)?.mul(&variance.add(eps)?.rsqrt())
        })
    }

    /// Returns `x / sqrt(mean(x^2) + eps) * weight` over these axes (Zhang and Sennrich 2019). The weight broadcasts.
    ///
    /// # Errors
    /// The errors of [`Tensor::layer_norm`].
    #[cfg_attr(feature = "js", js(options(axes = -1), spread(options)))]
    pub fn rms_norm(&self, axes: impl Into<Axes>, options: RmsNormOptions<'_>) -> Result<Tensor> {
        let axes = &keepdim(axes);
        axes.resolve("rms_norm", &self.shape)?;
        self.check_float("rms_norm")?;
        let RmsNormOptions { weight, eps } = options;
        self.normalize_and_scale("rms_norm", weight, None, |x| {
            x.mul(&x.square().mean(axes)?.add(eps)?.rsqrt())
        })
    }

    /// Returns `(x - mean) / sqrt(variance + eps) * weight + bias`, with one number of each for each channel, the
    /// second axis (Ioffe and Szegedy 2015).
    ///
    /// Mean and variance are running statistics, or `x.mean(..)` and `x.var(.., 0)` over all axes except the channels.
    ///
    /// # Errors
    /// `Shape` below rank 2, or unless the others have rank 1 and one number for each channel; `DType` unless all have
    /// one float type.
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn batch_norm(
        &self,
        mean: &Tensor,
        variance: &Tensor,
        options: NormOptions<'_>,
    ) -> Result<Tensor> {
        let name = "batch_norm";
        self.check_float(name)?;
        let (mean, variance) =
            (self.reshape_per_channel(name, mean)?, self.reshape_per_channel(name, variance)?);
        let NormOptions { weight, bias, eps } = options;
        let weight = weight.map(|weight| self.reshape_per_channel(name, weight)).transpose()?;
        let bias = bias.map(|bias| self.reshape_per_channel(name, bias)).transpose()?;
        self.check_same_dtype(name, &[&mean, &variance])?;
        self.normalize_and_scale(name, weight.as_ref(), bias.as_ref(), |x| {
            let wide = x.dtype();
            let scale = variance.cast(wide)?.add(eps)?.rsqrt();
            x.sub(&mean.cast(wide)?)?.mul(&scale)
        })
    }

    /// Applies [`Tensor::layer_norm`] to each of `groups` groups of channels, the second axis, in each batch element (Wu
    /// and He 2018). Weight and bias have one number for each channel. With one channel in each group it is instance
    /// norm.
    ///
    /// # Errors
    /// `Shape` below rank 2, if the groups do not divide the channels, or unless weight and bias have rank 1 and one
    /// number for each channel; `DType` unless all have one float type; `Limit` for too many groups of no channels.
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn group_norm(&self, groups: usize, options: NormOptions<'_>) -> Result<Tensor> {
        let name = "group_norm";
        self.check_float(name)?;
        let channels = self.shape.get(1).copied().unwrap_or(0);
        if self.rank() < 2 || groups == 0 || channels % groups != 0 {
            let message =
                format!("{name}: the channels must be a multiple of the groups, got shape {} and {groups} groups", self.shape);
            return Err(Error::shape(message));
        }
        let NormOptions { weight, bias, eps } = options;
        let weight = weight.map(|weight| self.reshape_per_channel(name, weight)).transpose()?;
        let bias = bias.map(|bias| self.reshape_per_channel(name, bias)).transpose()?;
        // Without channels, any number of groups divides them, so the product may overflow. The result is 0 then.
        let each = self.numel() / self.shape[0].saturating_mul(groups).max(1);
        self.normalize_and_scale(name, weight.as_ref(), bias.as_ref(), |x| {
            let apart = x.reshape(&[x.shape[0], groups, each])?;
            apart.layer_norm(2, NormOptions { eps, ..Default::default() })?.reshape(&x.shape)
        })
    }

    /// Applies [`Tensor::group_norm`] with one group for each channel (Ulyanov et al. 2016).
    ///
    /// # Errors
    /// The errors of [`Tensor::group_norm`].
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn instance_norm(&self, options: NormOptions<'_>) -> Result<Tensor> {
        let channels = self.shape.get(1).copied().unwrap_or(0);
        let norm = self.group_norm(channels.max(1), options);
        norm.map_err(|error| error.within("instance_norm"))
    }

    /// Reshapes a vector of one number for each channel so that it broadcasts.
    fn reshape_per_channel(&self, name: &str, numbers: &Tensor) -> Result<Tensor> {
        if self.rank() < 2 || numbers.shape[..] != self.shape[1..2] {
            let must = "there must be one number for each channel (axis 1)";
            return Err(Error::shapes(name, must, &self.shape, &numbers.shape));
        }
        let mut dims = vec![1; self.rank() - 1];
        dims[0] = self.shape[1];
        numbers.reshape(&dims)
    }

    /// Computes `normalize(x) * weight + bias` in `f32`. Weight and bias must not widen the shape.
    fn normalize_and_scale(
        &self,
        name: &str,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        normalize: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let fits = |other: &&Tensor| {
            let joint = crate::shape::Shape::broadcast(name, &self.shape, &other.shape);
            joint.is_ok_and(|joint| joint == self.shape)
        };
        for other in weight.iter().chain(&bias) {
            if !fits(other) {
                let must = "weight and bias must broadcast to the input";
                return Err(Error::shapes(name, must, &self.shape, &other.shape));
            }
        }
        let others: Vec<&Tensor> = weight.into_iter().chain(bias).collect();
        self.check_same_dtype(name, &others)?;
        with_op_name(name, || {
            self.compute_in_f32(|x| {
                let mut y = normalize(x)?;
                if let Some(weight) = weight {
                    y = y.mul(weight.cast(x.dtype())?)?;
                }
                if let Some(bias) = bias {
                    y = y.add(bias.cast(x.dtype())?)?;
                }
                Ok(y)
            })
        })
    }
}
