//! Softmax and the normalisations, written as what they mean; the planner makes one kernel of each.

use super::{within, Tensor};
use crate::error::{Error, Result};

impl Tensor {
    /// `exp(x) / sum(exp(x))` along `axis`, without overflow.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `DType` unless it is of floats.
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        self.shape.axis("softmax", axis)?;
        self.need_float("softmax")?;
        let exp = self.sub(&self.max_keepdim(&[axis])?.fixed()?)?.exp();
        exp.div(&exp.sum_keepdim(&[axis])?)
    }

    /// The logarithm of [`Tensor::softmax`], accurate where that is nearly 0.
    ///
    /// # Errors
    /// The same.
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        self.shape.axis("log_softmax", axis)?;
        self.need_float("log_softmax")?;
        let distance = self.sub(&self.max_keepdim(&[axis])?.fixed()?)?;
        distance.sub(&distance.exp().sum_keepdim(&[axis])?.log())
    }

    /// `(x - mean) / sqrt(variance + epsilon) * weight + bias` over these axes (Ba et al. 2016). Weight and bias
    /// broadcast; epsilon is usually 1e-5.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or weight or bias do not broadcast; `DType` unless all are of one float type.
    pub fn layer_norm(
        &self,
        axes: &[isize],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        self.shape.axes("layer_norm", axes)?;
        self.need_float("layer_norm")?;
        let distance = self.sub(&self.mean_keepdim(axes)?)?;
        let variance = distance.square().mean_keepdim(axes)?;
        let normal = distance.mul(&variance.add(epsilon)?.rsqrt())?;
        normal.scaled("layer_norm", weight, bias)
    }

    /// `x / sqrt(mean(x^2) + epsilon) * weight` over these axes (Zhang and Sennrich 2019). The weight broadcasts.
    ///
    /// # Errors
    /// As [`Tensor::layer_norm`].
    pub fn rms_norm(
        &self,
        axes: &[isize],
        weight: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        self.shape.axes("rms_norm", axes)?;
        self.need_float("rms_norm")?;
        let mean = self.square().mean_keepdim(axes)?;
        self.mul(&mean.add(epsilon)?.rsqrt())?.scaled("rms_norm", weight, None)
    }

    /// Times the weight, plus the bias; neither may widen the shape.
    fn scaled(&self, name: &str, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
        let fits = |other: &&Tensor| {
            let joint = crate::shape::Shape::broadcast(name, &self.shape, &other.shape);
            joint.is_ok_and(|joint| joint == self.shape)
        };
        for other in weight.iter().chain(&bias) {
            if !fits(other) {
                let why = "weight and bias must broadcast to the input";
                return Err(Error::shapes(name, &self.shape, &other.shape, why));
            }
        }
        within(name, || {
            let scaled = weight.map_or_else(|| Ok(self.clone()), |weight| self.mul(weight))?;
            bias.map_or_else(|| Ok(scaled.clone()), |bias| scaled.add(bias))
        })
    }
}
