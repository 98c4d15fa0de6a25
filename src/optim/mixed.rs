//! Mixed precision (Micikevicius and others 2018): losses are multiplied by a number, so that gradients in `f16` neither vanish
//! nor overflow, and the number follows what is found.

use super::number::Number;
use super::Optimizer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Tensor, Variable};

/// How the number follows that losses are multiplied by. (`torch.amp.GradScaler`, with its defaults.)
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    /// What it begins with.
    pub initial: f64,
    /// What it is multiplied by after `interval` good steps in a row.
    pub growth: f64,
    /// How many good steps in a row let it grow.
    pub interval: u32,
    /// What it is multiplied by after a step whose gradients are not finite, which is skipped.
    pub backoff: f64,
}

impl Default for LossScale {
    fn default() -> LossScale {
        LossScale { initial: 65536.0, growth: 2.0, interval: 2000, backoff: 0.5 }
    }
}

/// The state of it, on the device: nothing is read.
pub(super) struct Scaling {
    rule: LossScale,
    /// `f32` of `[1]`.
    pub scale: Variable,
    /// Good steps in a row: `i32` of `[1]`.
    pub good: Variable,
    /// Of each group, how many steps were not skipped since it was added: `i32` of `[1]`.
    pub taken: Vec<Variable>,
}

impl Optimizer {
    /// Trains with gradients of 16 bits. The parameters stay what they are, in `f32`; layers compute in the type of their
    /// input, so that a model whose input is cast to `f16` computes in that, forwards and backwards. What comes out is cast
    /// back before the loss.
    ///
    /// Losses are multiplied by a number before their gradients are taken, and gradients divided by it. A step
    /// where one is not finite is skipped: parameters, and what the rule remembers, stay as they are, and the number becomes
    /// smaller. Rules that count steps, as Adam does, do not count it. Nothing is read for it: a step stays one submission.
    ///
    /// # Errors
    /// `Unsupported` where the device has no `f16`; `Data` unless the numbers are positive.
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

    /// The same as a setting.
    pub(crate) fn set_mixed_precision(&mut self, rule: LossScale) -> Result<()> {
        let name = "mixed_precision";
        let device = self.groups[0].shards[0].flat.value().device().clone();
        if !device.limits().f16 {
            let message = format!("{name}: the device must have f16, got {}", device.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let LossScale { initial, growth, interval, backoff } = rule;
        let numbers = [
            ("initial", initial),
            ("growth", growth),
            ("interval", f64::from(interval)),
            ("backoff", backoff),
        ];
        if let Some((field, x)) = numbers.iter().find(|(_, x)| !(*x > 0.0 && x.is_finite())) {
            let message = format!("{name}: {field} must be positive and finite, got {x}");
            return Err(Error::data(message));
        }
        self.scaling = Some(Scaling {
            rule,
            scale: Variable::new(&device.tensor(&[initial as f32], &[1])?),
            good: counter(&device, 0)?,
            taken: self.groups.iter().map(|x| counter(&device, x.steps)).collect::<Result<_>>()?,
        });
        Ok(())
    }

    /// The number that losses are multiplied by now, `f32` of `[1]`; nothing without [`Optimizer::mixed_precision`].
    pub fn loss_scale(&self) -> Option<Tensor> {
        self.scaling.as_ref().map(|scaling| scaling.scale.value())
    }

    /// A loss times [`Optimizer::loss_scale`], for [`Tensor::backward`] by hand; [`Optimizer::minimize`] and
    /// [`Optimizer::accumulate`] do it by themselves.
    ///
    /// # Errors
    /// `Shape` unless it is a single number.
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
    /// Gradients as they are without the scale, and whether all are finite: `bool` of `[1]`.
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
            finite.ok_or_else(|| Error::data("optimizer: there must be gradients, got none"))?;
        Ok((plain, finite))
    }

    /// Makes a counter for the steps of another group.
    pub fn counter(&self) -> Result<Variable> {
        counter(&self.good.device(), 0)
    }

    /// The number of a group's next step.
    pub fn step(&self, group: usize) -> Result<Number> {
        Ok(Number::Computed(self.taken[group].value().cast(DType::F32)?.add(1)?))
    }

    /// What the state is after a step whose gradients were finite, or not.
    pub fn follow(&self, finite: &Tensor) -> Result<Vec<(Variable, Tensor)>> {
        let LossScale { growth, interval, backoff, .. } = self.rule;
        let (scale, good) = (self.scale.value(), self.good.value().add(1)?);
        let full = good.ge(interval.min(i32::MAX as u32))?;
        let grown = full.where_cond(&scale.mul(growth)?, &scale)?;
        // A scale that overflows itself would stay so.
        let grown = grown.is_finite().where_cond(&grown, &scale)?;
        let after = finite.where_cond(&grown, &scale.mul(backoff)?)?;
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

/// A number of steps on the device: `i32` of `[1]`.
fn counter(device: &Device, steps: u64) -> Result<Variable> {
    Ok(Variable::new(&device.tensor(&[i32::try_from(steps).unwrap_or(i32::MAX)], &[1])?))
}
