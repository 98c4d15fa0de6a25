//! Initial values of parameters, with the names and formulas of `torch.nn.init`.

use super::Generator;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Returns `(fan_in, fan_out)` of a weight `[out, in, kernel..]`: `in` and `out`, each multiplied by the size of the kernel.
///
/// # Errors
/// `Shape` below rank 2. `Limit` if a tensor cannot have this shape.
pub fn fans(shape: &[usize]) -> Result<(usize, usize)> {
    match shape {
        [outputs, inputs, window @ ..] => {
            // Within the limit of a tensor's elements, neither these products nor their sum overflows.
            Shape::new("init", shape)?;
            let window: usize = window.iter().product();
            Ok((inputs * window, outputs * window))
        }
        _ => Err(Error::shape(format!(
            "init: a weight must have rank 2 or more, got shape {shape:?}"
        ))),
    }
}

/// The recommended factor for the initial spread, by the function that follows the layer (`calculate_gain`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Gain {
    /// 1, for no function or a sigmoid.
    Linear,
    /// 5 / 3.
    Tanh,
    /// The square root of 2.
    Relu,
    /// The square root of 2 / (1 + slope^2).
    LeakyRelu(f64),
    /// 3 / 4.
    Selu,
}

impl Gain {
    /// Returns the factor.
    pub fn value(self) -> f64 {
        match self {
            Gain::Linear => 1.0,
            Gain::Tanh => 5.0 / 3.0,
            Gain::Relu => 2f64.sqrt(),
            Gain::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Gain::Selu => 0.75,
        }
    }
}

/// Returns uniform values in `[low, high)`.
///
/// # Errors
/// Same as [`Device::uniform`](crate::device::Device::uniform).
pub fn uniform(generator: &Generator, shape: &[usize], low: f64, high: f64) -> Result<Tensor> {
    generator.device().uniform(shape, low, high, generator.draw_now())
}

/// Returns normal values with this mean and standard deviation.
///
/// # Errors
/// Same as [`Device::normal`](crate::device::Device::normal).
pub fn normal(generator: &Generator, shape: &[usize], mean: f64, std: f64) -> Result<Tensor> {
    generator.device().normal(shape, mean, std, generator.draw_now())
}

/// Returns values of a normal distribution truncated to `[low, high]`. They are drawn with the inverse of the cumulative
/// distribution function, as in PyTorch.
///
/// # Errors
/// `InvalidArgument` unless `low < high` and the standard deviation is above 0.
pub fn trunc_normal(
    generator: &Generator,
    shape: &[usize],
    (mean, std): (f64, f64),
    (low, high): (f64, f64),
) -> Result<Tensor> {
    if !(low < high && std > 0.0) {
        let message = format!(
            "trunc_normal: std must be above 0, and low below high, got {std}, {low} and {high}"
        );
        return Err(Error::argument(message));
    }
    // erf of the limits, which is 2 cdf - 1. The device computes it, so that the values after `erfinv` stay between the
    // limits.
    let ends = generator.device().tensor(&[low, high].map(|x| ((x - mean) / std) as f32), &[2])?;
    let ends = ends.div(2f64.sqrt())?.erf();
    let (first, last) = (ends.select(0, 0)?, ends.select(0, 1)?);
    let unit = uniform(generator, shape, 0.0, 1.0)?;
    let drawn = unit.mul(&last.sub(&first)?)?.add(&first)?.erfinv();
    drawn.mul(std * 2f64.sqrt())?.add(mean)?.clamp(low, high)
}

/// Returns uniform values that balance the variance of the forward and the backward pass (Glorot and Bengio 2010).
///
/// # Errors
/// Same as [`fans`].
pub fn xavier_uniform(generator: &Generator, shape: &[usize], gain: Gain) -> Result<Tensor> {
    let (inputs, outputs) = fans(shape)?;
    let bound = gain.value() * (6.0 / (inputs + outputs).max(1) as f64).sqrt();
    uniform(generator, shape, -bound, bound)
}

/// Returns normal values with the variance of [`xavier_uniform`].
///
/// # Errors
/// Same as [`fans`].
pub fn xavier_normal(generator: &Generator, shape: &[usize], gain: Gain) -> Result<Tensor> {
    let (inputs, outputs) = fans(shape)?;
    normal(generator, shape, 0.0, gain.value() * (2.0 / (inputs + outputs).max(1) as f64).sqrt())
}

/// Returns uniform values that preserve the variance of the forward pass (He et al. 2015, `fan_in`).
///
/// # Errors
/// Same as [`fans`].
pub fn kaiming_uniform(generator: &Generator, shape: &[usize], gain: Gain) -> Result<Tensor> {
    let bound = gain.value() * (3.0 / fans(shape)?.0.max(1) as f64).sqrt();
    uniform(generator, shape, -bound, bound)
}

/// Returns normal values with the variance of [`kaiming_uniform`].
///
/// # Errors
/// Same as [`fans`].
pub fn kaiming_normal(generator: &Generator, shape: &[usize], gain: Gain) -> Result<Tensor> {
    normal(generator, shape, 0.0, gain.value() / (fans(shape)?.0.max(1) as f64).sqrt())
}

/// Returns a matrix with orthonormal rows, or with orthonormal columns if there are fewer columns (Saxe et al. 2013). Axes
/// after the first count as one axis.
///
/// # Errors
/// Same as [`fans`]. `Limit` also if both sides have more than 1,024 elements.
pub fn orthogonal(generator: &Generator, shape: &[usize], gain: f64) -> Result<Tensor> {
    fans(shape)?;
    let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
    let tall = [rows.max(columns), rows.min(columns)];
    let (q, r) = normal(generator, &tall, 0.0, 1.0)?.qr()?;
    // These signs make the distribution uniform over all orthogonal matrices.
    let q = q.mul(&r.diag(0)?.sign())?;
    let q = if rows < columns { q.transpose(0, 1)? } else { q };
    q.reshape(shape)?.mul(gain)?.cast(DType::F32)
}
