//! Random tensors. The n-th element is a function of the seed and n only. So the same seed gives the same numbers on
//! every device and in any order of execution.

use crate::device::Device;
use crate::dtype::{rounded_to_f16, DType};
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::{capture, Operand, Pointwise, Tensor, TensorSpec};
use half::f16;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Device {
    /// Creates random 32-bit words with the generator Threefry-2x32-20 (Salmon et al. 2011). The n-th word depends only on
    /// the seed and on n.
    ///
    /// # Errors
    /// `Shape`; `Limit`.
    #[cfg_attr(feature = "js", js(options(seed = random_seed()), dtype = U32))]
    pub fn random_bits(&self, shape: &[usize], seed: u32) -> Result<Tensor> {
        self.bits("random_bits", shape, seed, 0)
    }

    /// Creates random words. The streams 0 and 1 are independent of each other.
    fn bits(&self, name: &str, shape: &[usize], seed: u32, stream: u32) -> Result<Tensor> {
        let count = Shape::new(name, shape)?.numel();
        let counter = self.iota(&[count], 0)?.cast(DType::U32)?;
        // The top bit of the counter is free, because elements are numbered below 2^31.
        let counter = counter.add(stream << 31)?;
        let seed = match capture::seed(self, seed) {
            Some(drawn_at_each_run) => Operand::from(drawn_at_each_run),
            None => Operand::from(seed),
        };
        counter.apply_row(Pointwise::random_bits, &[seed])?.reshape(shape)
    }

    /// Creates uniformly distributed numbers in `[low, high)`, or `low` if both are equal. The type is `f32`, or the one
    /// given with the shape, to which numbers are rounded.
    ///
    /// # Errors
    /// `Shape`; `Limit`; `InvalidArgument` unless both limits are finite in the type and `low <= high`; `Unsupported` for `f16`
    /// on a device without it.
    #[cfg_attr(feature = "js", js(options(low = 0.0, high = 1.0, seed = random_seed())))]
    pub fn uniform(
        &self,
        shape: impl Into<TensorSpec>,
        low: f64,
        high: f64,
        seed: u32,
    ) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = shape.into();
        let first = nearest(low, dtype);
        if !(first.is_finite() && nearest(high, dtype).is_finite() && low <= high) {
            let message = format!(
                "uniform: low and high must be finite, and low at most high, got {low} and {high}"
            );
            return Err(Error::argument(message));
        }
        let unit = self.bits("uniform", &dims, seed, 0)?.unit_float();
        // Halves are used, because `high - low` may overflow.
        let half = unit.mul(high / 2.0 - low / 2.0)?.add(low / 2.0)?;
        // Rounding may reach a limit, so the result is clamped.
        half.mul(2.0)?.minimum(below(high, dtype))?.maximum(first)?.cast(dtype)
    }

    /// Creates normally distributed numbers with this mean and standard deviation, by the Box-Muller transform of two
    /// uniform numbers. The type is `f32`, or the one given with the shape, to which numbers are rounded.
    ///
    /// # Errors
    /// `Shape`; `Limit`; `InvalidArgument` unless both numbers are finite and `std >= 0`; `Unsupported` for `f16` on a device
    /// without it.
    #[cfg_attr(feature = "js", js(options(mean = 0.0, std = 1.0, seed = random_seed())))]
    pub fn normal(
        &self,
        shape: impl Into<TensorSpec>,
        mean: f64,
        std: f64,
        seed: u32,
    ) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = shape.into();
        if !(mean.is_finite() && std.is_finite() && std >= 0.0) {
            return Err(Error::argument(format!(
                "normal: mean must be finite, and std finite and at least 0, got {mean} and {std}"
            )));
        }
        // 1 - u is in (0, 1], so its logarithm is finite.
        let radius = self.bits("normal", &dims, seed, 0)?.unit_float().mul(-1.0)?.add(1.0)?;
        let radius = radius.log().mul(-2.0)?.sqrt();
        let angle = self.bits("normal", &dims, seed, 1)?.unit_float().mul(std::f64::consts::TAU)?;
        radius.mul(&angle.cos())?.mul(std)?.add(mean)?.cast(dtype)
    }

    /// Creates numbers that are 1 with probability `p`, otherwise 0. The type is `f32`, or the one given with the shape.
    ///
    /// # Errors
    /// `Shape`; `Limit`; `InvalidArgument` unless p is in `[0, 1]`; `Unsupported` for `f16` on a device without it.
    #[cfg_attr(feature = "js", js(options(seed = random_seed())))]
    pub fn bernoulli(&self, shape: impl Into<TensorSpec>, p: f64, seed: u32) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = shape.into();
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument(format!("bernoulli: p must be in [0, 1], got {p}")));
        }
        self.bits("bernoulli", &dims, seed, 0)?.unit_float().lt(p)?.cast(dtype)
    }
}

/// Returns the nearest number of the type, or of `f32` for types other than floats.
fn nearest(x: f64, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => rounded_to_f16(x as f32),
        _ => x as f32,
    }
}

/// Returns the largest number of the type that is less than `x`, or of `f32` for types other than floats.
fn below(x: f64, dtype: DType) -> f32 {
    let near = nearest(x, dtype);
    match dtype {
        _ if f64::from(near) < x => near,
        DType::F16 => {
            let bits = f16::from_f32(near).to_bits();
            let bits = match near {
                x if x > 0.0 => bits - 1,
                x if x < 0.0 => bits + 1,
                _ => 0x8001,
            };
            f16::from_bits(bits).to_f32()
        }
        _ => near.next_down(),
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Replaces each element by 0 with probability `p`, and divides the others by `1 - p`. All are 0 if `p` is 1.
    ///
    /// # Errors
    /// `InvalidArgument` unless p is in `[0, 1]`; `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(default(seed = random_seed())))]
    pub fn dropout(&self, p: f64, seed: u32) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument(format!("dropout: p must be in [0, 1], got {p}")));
        }
        self.check_float("dropout")?;
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        let kept = self.device.bits("dropout", &self.shape, seed, 0)?.unit_float().ge(p)?;
        let zero = self.device.constant(&[], 0.0, self.dtype)?;
        kept.where_cond(&self.mul(scale)?, &zero)
    }
}
