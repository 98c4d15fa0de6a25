//! Low-rank adaptation (LoRA).

use super::linear::linear;
use super::{init, Generator, Layer, Linear, Members, Module};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, Variable};

/// A frozen linear layer plus a learned product of two narrow matrices (Hu et al. 2021): `x W^T + b + (alpha / rank) x A^T
/// B^T`. B is initialized to zeros, so the initial result is that of the frozen layer.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// # use warpweft::nn::{Generator, Layer, Linear, Lora, Module};
/// # let device = Device::with(Preference::Cpu).await?;
/// let generator = Generator::new(&device, 0);
/// let lora = Lora::new(&generator, Linear::new(&generator, 64, 32)?, 4, 8.0)?;
/// assert_eq!(lora.parameter_count(), 4 * 64 + 32 * 4);
/// assert_eq!(lora.merge()?.forward(&device.ones(&[64])?)?.shape(), [32]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Lora {
    base: Linear,
    /// `[rank, inputs]`.
    pub a: Variable,
    /// `[outputs, rank]`.
    pub b: Variable,
    scale: f64,
}

impl Lora {
    /// Creates an adapter around `base`.
    ///
    /// # Errors
    /// `InvalidArgument` if the rank is 0 or alpha is not finite. `Shape` if the weight of `base` is not a matrix. `Limit`.
    pub fn new(generator: &Generator, base: Linear, rank: usize, alpha: f64) -> Result<Lora> {
        if rank == 0 || !alpha.is_finite() {
            return Err(Error::argument(format!(
                "lora: rank must be at least 1 and alpha finite, got rank {rank} and alpha {alpha}"
            )));
        }
        let shape = base.weight.shape();
        let [outputs, inputs] = shape[..] else {
            return Err(Error::shape(format!(
                "lora: the weight must be a matrix, got shape {shape:?}"
            )));
        };
        let a =
            init::kaiming_uniform(generator, &[rank, inputs], init::Gain::LeakyRelu(5f64.sqrt()))?;
        let b = generator.device().zeros(&[outputs, rank])?;
        let scale = alpha / rank as f64;
        Ok(Lora { base, a: Variable::new(&a), b: Variable::new(&b), scale })
    }

    /// Merges the adapter into the weight, and returns a linear layer that computes the same function.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn merge(&self) -> Result<Linear> {
        let change = self.b.value().matmul(&self.a.value())?.mul(self.scale)?;
        let weight = self.base.weight.value().add(&change)?.detach();
        let bias = self.base.bias.as_ref().map(|bias| Variable::new(&bias.value().detach()));
        Ok(Linear { weight: Variable::new(&weight), bias })
    }
}

impl Module for Lora {
    fn members(&self, members: &mut Members) {
        members.buffer("base.weight", &self.base.weight);
        if let Some(bias) = &self.base.bias {
            members.buffer("base.bias", bias);
        }
        members.parameter("lora_A.weight", &self.a).parameter("lora_B.weight", &self.b);
    }
}

impl Layer for Lora {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let low = linear(x, &self.a.value(), None)?;
        let change = linear(&low, &self.b.value(), None)?.mul(self.scale)?;
        self.base.forward(x)?.add(&change)
    }
}
