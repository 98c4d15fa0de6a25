//! Smaller operations made of others: limits, norms, similarities, activations with weights, patches of images.

use crate::error::{Error, Result};
use crate::tensor::{kept, within, Axes, Conv2dOptions, Operand, Tensor};

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// `x`, but no less than `min`; NaN stays NaN. The gradient goes to the larger one, half to each where they are equal.
    ///
    /// # Errors
    /// As [`Tensor::maximum`].
    pub fn clamp_min(&self, min: impl Into<Operand>) -> Result<Tensor> {
        within("clamp_min", || self.maximum(min))
    }

    /// `x`, but no more than `max`; NaN stays NaN. The gradient goes to the smaller one, half to each where they are equal.
    ///
    /// # Errors
    /// As [`Tensor::minimum`].
    pub fn clamp_max(&self, max: impl Into<Operand>) -> Result<Tensor> {
        within("clamp_max", || self.minimum(max))
    }

    /// The `p`-norm over these axes, `sum(|x|^p)^(1/p)`: of the largest absolute value for infinity, of the smallest for
    /// minus infinity, the number of elements that are not 0 for 0. Its gradient where the norm is 0 is 0.
    ///
    /// # Errors
    /// As [`Tensor::mean`]; `Data` if `p` is NaN.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, -4.0], &[2])?;
    /// assert_eq!(x.norm(2.0, ())?.item::<f32>().await?, 5.0);
    /// assert_eq!(x.norm(f64::INFINITY, ())?.item::<f32>().await?, 4.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(keepdims, default(p = 2.0)))]
    pub fn norm(&self, p: f64, axes: impl Into<Axes>) -> Result<Tensor> {
        if p.is_nan() {
            return Err(Error::data("norm: p must be a number, got NaN"));
        }
        self.need_float("norm")?;
        let axes = axes.into();
        within("norm", || {
            self.widely(|x| {
                if p == 1.0 {
                    x.norm_l1(axes)
                } else if p == 2.0 {
                    x.norm_l2(axes)
                } else if p == f64::INFINITY {
                    x.norm_linf(axes)
                } else if p == f64::NEG_INFINITY {
                    x.abs().min(axes)
                } else if p == 0.0 {
                    x.ne(0.0)?.cast(x.dtype)?.sum(axes)
                } else {
                    x.powers(p, axes)
                }
            })
        })
    }

    /// The norm of a power that is none of the simple ones, of elements that are at most 1, so that none overflows.
    fn powers(&self, p: f64, axes: Axes) -> Result<Tensor> {
        let size = self.abs();
        let scale = if p > 0.0 { size.max(kept(&axes))? } else { size.min(kept(&axes))? };
        let scale = scale.fixed()?;
        let flat = scale.eq(0.0)?.logical_or(scale.is_inf())?;
        let scale = flat.where_cond(1.0, scale)?;
        let size = size.div(&scale)?;
        // A power's gradient at 0 is infinite or NaN below 1: no direction is better.
        let none = size.eq(0.0)?;
        let part = none.where_cond(1.0, size)?.pow(p)?;
        let part = if p > 0.0 {
            none.where_cond(0.0, part)?
        } else {
            none.where_cond(f64::INFINITY, part)?
        };
        let sum = part.sum(kept(&axes))?;
        let none = sum.eq(0.0)?;
        let root = none.where_cond(1.0, sum)?.pow(1.0 / p)?;
        let norm = none.where_cond(if p > 0.0 { 0.0 } else { f64::INFINITY }, root)?.mul(&scale)?;
        // What is kept has been reduced already: the sum of one element.
        norm.sum(axes)
    }

    /// `x` above 0, else `weight * x`. The weight is one number, or one for each channel, the second axis. He et al. 2015.
    ///
    /// # Errors
    /// `Shape` for a weight of another shape; `DType` unless both are of one float type.
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        self.need_float("prelu")?;
        let channels = self.shape.get(1).copied().unwrap_or(1);
        let mut dims = vec![1; self.rank().saturating_sub(1).max(1)];
        dims[0] = weight.numel();
        if weight.rank() > 1 || weight.numel() != 1 && weight.numel() != channels {
            let must = "the weight must be one number, or one for each channel (axis 1)";
            return Err(Error::shapes("prelu", must, &self.shape, &weight.shape));
        }
        within("prelu", || {
            let weight =
                if weight.numel() == 1 { weight.reshape(())? } else { weight.reshape(dims)? };
            self.gt(0.0)?.where_cond(self, self.mul(weight)?)
        })
    }

    /// The gated linear unit: the first half of an axis times the sigmoid of the second. Dauphin et al. 2016.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has an odd extent; `DType` unless it is of floats.
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn glu(&self, axis: isize) -> Result<Tensor> {
        let at = self.shape.axis("glu", axis)?;
        self.need_float("glu")?;
        let half = (self.shape[at] / 2) as isize;
        if !self.shape[at].is_multiple_of(2) {
            let message =
                format!("glu: the extent of axis {axis} must be even, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        within("glu", || self.cut(axis, ..half, 1)?.mul(self.cut(axis, half.., 1)?.sigmoid()))
    }

    /// The windows that a convolution with these options would see, `[batch, channels, height, width]` to
    /// `[batch, channels * kernel height * kernel width, windows]`; the batch may be left out of both. The options' groups
    /// count for nothing. (`F.unfold` of PyTorch.)
    ///
    /// # Errors
    /// `Shape` for another rank, or if no window fits.
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn im2col(&self, kernel_size: [usize; 2], options: Conv2dOptions) -> Result<Tensor> {
        let name = "im2col";
        if self.rank() == 3 {
            return self.unsqueeze(0)?.im2col(kernel_size, options)?.squeeze(0);
        }
        let zero = [kernel_size, options.stride, options.dilation].concat().contains(&0);
        let &[batch, channels, ..] = &self.shape[..] else {
            return Err(Error::wrong_shape(
                name,
                "the input must have rank 2 or more",
                &self.shape,
            ));
        };
        if self.rank() != 4 || zero {
            let must =
                "the input must be [batch, channels, height, width], and kernel sizes at least 1";
            return Err(Error::shapes(name, must, &self.shape, &kernel_size));
        }
        within(name, || {
            let mut amounts = vec![(0, 0); 2];
            for (i, &size) in kernel_size.iter().enumerate() {
                let (step, dilation) = (options.stride[i], options.dilation[i]);
                let windows = crate::op::Windows { axis: 0, size, step, dilation };
                amounts.push(options.padding.ends().of(i, self.shape[2 + i], &windows));
            }
            let mut windows = match amounts.iter().all(|&pair| pair == (0, 0)) {
                true => self.clone(),
                false => self.pad_out(&amounts, 0.0)?,
            };
            for (i, &size) in kernel_size.iter().enumerate() {
                let (step, dilation) = (options.stride[i], options.dilation[i]);
                windows = windows.unfold(2 + i as isize, size, step, dilation)?;
            }
            let count = windows.shape[2] * windows.shape[3];
            let elements = channels * kernel_size[0] * kernel_size[1];
            windows.permute(&[0, 1, 4, 5, 2, 3])?.reshape([batch, elements, count])
        })
    }
}
