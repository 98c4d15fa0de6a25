//! Mixed precision training with dynamic loss scaling (Micikevicius et al. 2018). Losses are multiplied by a scale, so that
//! `f16` gradients neither underflow nor overflow. The scale adapts to the gradients.

use super::number::Number;
use super::Optimizer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Tensor, Variable};

/// The parameters of dynamic loss scaling. The defaults are those of `torch.amp.GradScaler`.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    /// The initial scale. The default is 65536.
    pub init_scale: f64,
    /// The factor of the scale after `growth_interval` finite steps in a row. The default is 2.
    pub growth_factor: f64,
    /// The number of finite steps in a row after which the scale grows. The default is 2000.
    pub growth_interval: u32,
    /// The factor of the scale after a step with gradients that are not finite, which is skipped. The default is 0.5.
    pub backoff_factor: f64,
}

impl Default for LossScale {
    fn default() -> LossScale {
        LossScale {
            init_scale: 65536.0,
            growth_factor: 2.0,
            growth_interval: 2000,
            backoff_factor: 0.5,
        }
    }
}

/// The state of loss scaling. It stays on the device, so that a step needs no read.
pub(super) struct Scaling {
    rule: LossScale,
    /// The scale, `f32` of `[1]`.
    pub scale: Variable,
    /// The number of finite steps in a row, `i32` of `[1]`.
    pub good: Variable,
    /// For each group, the number of steps since it was added that were not skipped, `i32` of `[1]`.
    pub taken: Vec<Variable>,
}

impl Optimizer {
    /// Enables mixed precision. The parameters stay in `f32`. Layers compute in the type of their input, so a model whose
    /// input is cast to `f16` computes in `f16`, forward and backward. Cast its result back to `f32` before the loss.
    ///
    /// Losses are multiplied by a scale before their gradients are computed, and the gradients are divided by it. A step with
    /// a gradient that is not finite is skipped. The parameters and the rule's state then keep their values, the scale is
    /// reduced, and rules such as Adam do not count the step. Nothing is read for it, so a step is still one submission.
    ///
    /// # Errors
    /// `Unsupported` if the device has no `f16`. `InvalidArgument` unless the numbers are positive and finite.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// # use warpweft::nn::{Generator, Layer, Linear, Module};
    /// # use warpweft::optim::{Adam, LossScale, Optimizer};
    /// # let device = Device::with(Preference::Cpu).await?;
    /// let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
    /// let mut optimizer = Optimizer::new(Adam::new(0.1), &model.parameters())?
    ///     .mixed_precision(LossScale::default())?;
    /// let x = device.linspace(-1.0, 1.0, 32)?.reshape(&[32, 1])?;
    /// let y = x.mul(3)?.add(1)?;
    /// for _ in 0..100 {
    ///     let prediction = model.forward(&x.cast(DType::F16)?)?.cast(DType::F32)?;
    ///     optimizer.minimize(&prediction.sub(&y)?.square().mean(())?)?;
    /// }
    /// assert!((model.weight.value().item::<f32>().await? - 3.0).abs() < 0.05);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn mixed_precision(mut self, rule: LossScale) -> Result<Optimizer> {
        self.set_mixed_precision(rule)?;
        Ok(self)
    }

    /// Same as [`Optimizer::mixed_precision`], as a setter.
    pub(crate) fn set_mixed_precision(&mut self, rule: LossScale) -> Result<()> {
        let name = "mixed_precision";
        let device = self.groups[0].shards[0].flat.value().device().clone();
        if !device.limits().f16 {
            let message = format!("{name}: the device must have f16, got {}", device.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let LossScale { init_scale, growth_factor, growth_interval, backoff_factor } = rule;
        let numbers = [
            ("init_scale", init_scale),
            ("growth_factor", growth_factor),
            ("growth_interval", f64::from(growth_interval)),
            ("backoff_factor", backoff_factor),
        ];
        if let Some((field, x)) = numbers.iter().find(|(_, x)| !(*x > 0.0 && x.is_finite())) {
            let message = format!("{name}: {field} must be positive and finite, got {x}");
            return Err(Error::argument(message));
        }
        self.scaling = Some(Scaling {
            rule,
            scale: Variable::new(&device.tensor(&[init_scale as f32], &[1])?),
            good: counter(&device, 0)?,
            taken: self.groups.iter().map(|x| counter(&device, x.steps)).collect::<Result<_>>()?,
        });
        Ok(())
    }

    /// Returns the current scale of losses, `f32` of `[1]`, or `None` without [`Optimizer::mixed_precision`].
    pub fn loss_scale(&self) -> Option<Tensor> {
        self.scaling.as_ref().map(|scaling| scaling.scale.value())
    }

    /// Returns the loss multiplied by [`Optimizer::loss_scale`]. Call it before [`Tensor::backward`]. [`Optimizer::minimize`]
    /// and [`Optimizer::accumulate`] already do it.
    ///
    /// # Errors
    /// `Shape` unless the loss is a single number.
    pub fn scale_loss(&self, loss: &Tensor) -> Result<Tensor> {
        match &self.scaling {
            Some(_) if loss.numel() != 1 => {
                let shape = loss.shape();
                Err(Error::shape(format!(
                    "optimizer: the loss must be one number, got shape {shape:?}"
                )))
            }
            Some(scaling) => loss.cast(DType::F32)?.reshape(&[1])?.mul(&scaling.scale.value()),
            None => Ok(loss.clone()),
        }
    }
}

impl Scaling {
    /// Returns the gradients divided by the scale, and whether all are finite: `bool` of `[1]`.
    pub fn undo(&self, gradients: &[Tensor]) -> Result<(Vec<Tensor>, Tensor)> {
        let inverse = self.scale.value().reciprocal();
        let mut plain = Vec::with_capacity(gradients.len());
        let mut finite: Option<Tensor> = None;
        for gradient in gradients {
            let own = gradient.is_finite().all(())?.reshape(&[1])?;
            finite = Some(match finite {
                Some(others) => others.logical_and(&own)?,
                None => own,
            });
            plain.push(gradient.mul(&inverse.cast(gradient.dtype())?)?);
        }
        let finite =
            finite.ok_or_else(|| Error::state("optimizer: there must be gradients, got none"))?;
        Ok((plain, finite))
    }

    /// Creates a step counter for another group.
    pub fn counter(&self) -> Result<Variable> {
        counter(&self.good.device(), 0)
    }

    /// Returns the number of a group's next step.
    pub fn step(&self, group: usize) -> Result<Number> {
        Ok(Number::Computed(self.taken[group].value().cast(DType::F32)?.add(1)?))
    }

    /// Returns the new state after a step. `finite` is whether its gradients were finite.
    pub fn follow(&self, finite: &Tensor) -> Result<Vec<(Variable, Tensor)>> {
        let LossScale { growth_factor, growth_interval, backoff_factor, .. } = self.rule;
        let (scale, good) = (self.scale.value(), self.good.value().add(1)?);
        let full = good.ge(growth_interval.min(i32::MAX as u32))?;
        let grown = full.where_cond(&scale.mul(growth_factor)?, &scale)?;
        // An infinite scale would stay infinite.
        let grown = grown.is_finite().where_cond(&grown, &scale)?;
        let after = finite.where_cond(&grown, &scale.mul(backoff_factor)?)?;
        let counted = finite.logical_and(&full.logical_not())?.where_cond(&good, 0)?;
        let mut all = vec![
            (self.scale.clone(), after.into_detached()?),
            (self.good.clone(), counted.into_detached()?),
        ];
        for taken in &self.taken {
            let next = taken.value().add(&finite.cast(DType::I32)?)?;
            all.push((taken.clone(), next.into_detached()?));
        }
        Ok(all)
    }
}

/// Creates a step counter on the device: `i32` of `[1]`.
fn counter(device: &Device, steps: u64) -> Result<Variable> {
    Ok(Variable::new(&device.tensor(&[i32::try_from(steps).unwrap_or(i32::MAX)], &[1])?))
}
