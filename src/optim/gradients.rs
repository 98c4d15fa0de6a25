//! The gradients of a step. They come from a loss, from accumulation, and from `backward`, and may be clipped.

use super::{Optimizer, Shard};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Tensor, Variable, WeakTensor};

/// The gradients of a shard's parameters.
pub(crate) struct Gradient {
    /// The gradients in one flat tensor, with zeros for parameters without a gradient.
    pub flat: Tensor,
    /// Whether each parameter has a gradient. The step skips the others.
    pub has: Vec<bool>,
}

/// Accumulated gradients that wait for a step.
#[derive(Clone)]
pub(super) struct Pending {
    sum: Variable,
    has: Vec<bool>,
}

impl Pending {
    /// Stores a gradient for the next step.
    pub fn new(gradient: Gradient) -> Result<Pending> {
        Ok(Pending { sum: Variable::new(&gradient.flat.into_detached()?), has: gradient.has })
    }

    fn gradient(&self) -> Gradient {
        Gradient { flat: self.sum.value(), has: self.has.clone() }
    }
}

/// Accumulated gradients as a weak reference. A batch that uses the sum keeps it alive.
pub(super) struct Parked {
    sum: WeakTensor,
    has: Vec<bool>,
}

impl Parked {
    /// Restores the accumulated gradients, if the sum still exists.
    pub fn restore(self) -> Option<Pending> {
        let sum = Variable::new(&self.sum.upgrade()?);
        Some(Pending { sum, has: self.has })
    }
}

/// The gradients that a step took, as weak references.
pub(super) struct Taken {
    left: Vec<Option<WeakTensor>>,
    pending: Option<Parked>,
}

/// The method of gradient clipping, with its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clip {
    Norm(f64),
    Value(f64),
}

impl Optimizer {
    /// Computes the gradients of a loss for each shard.
    ///
    /// # Errors
    /// `InvalidArgument` if no parameter has a gradient. Also the errors of [`Tensor::grad`].
    pub(super) fn gradients(&self, op: &str, loss: &Tensor) -> Result<Vec<Option<Gradient>>> {
        let all = self.gradients_by_parameter(op, loss)?;
        let mut rest = &all[..];
        let mut gradients = Vec::new();
        for shard in self.shards() {
            let (own, others) = rest.split_at(shard.parameters.len());
            rest = others;
            gradients.push(shard.joined(own)?);
        }
        Ok(gradients)
    }
}

impl Optimizer {
    /// Computes the gradient of a loss by each parameter, in the order of the shards.
    pub(super) fn gradients_by_parameter(
        &self,
        op: &str,
        loss: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let parameters: Vec<&Variable> = self.parameters().collect();
        let all = self.scale_loss(loss)?.gradients_by(op, "parameter", &parameters)?;
        match all.iter().all(Option::is_none) {
            true => Err(Error::argument(format!(
                "{op}: the loss must depend on a parameter, got one that depends on none"
            ))),
            false => Ok(all),
        }
    }
}

impl Gradient {
    /// Returns the sum of both.
    fn plus(self, other: Gradient) -> Result<Gradient> {
        let has = either(&self.has, &other.has);
        Ok(Gradient { flat: self.flat.add(&other.flat)?, has })
    }
}

/// Returns for each parameter whether it has a gradient in either list.
fn either(one: &[bool], other: &[bool]) -> Vec<bool> {
    one.iter().zip(other).map(|(a, b)| *a || *b).collect()
}

impl Shard {
    /// Joins the parameters' gradients into one flat gradient. Returns `None` if there are no gradients.
    pub(super) fn joined(&self, parts: &[Option<Tensor>]) -> Result<Option<Gradient>> {
        if parts.iter().all(Option::is_none) {
            return Ok(None);
        }
        let (device, dtype) = (self.flat.value().device().clone(), self.flat.dtype());
        let line = |(part, shape): (&Option<Tensor>, &Vec<usize>)| match part {
            Some(gradient) => gradient.reshape(&[-1]),
            None => device.zeros((&[shape.iter().product::<usize>()], dtype)),
        };
        let lines: Result<Vec<Tensor>> = parts.iter().zip(&self.shapes).map(line).collect();
        let has = parts.iter().map(Option::is_some).collect();
        Ok(Some(Gradient { flat: Tensor::concat(&lines?, 0)?, has }))
    }

    /// Returns the sum of all gradients for a step: `now`, those of `backward`, and the accumulated ones.
    pub(super) fn all(&self, now: Option<Gradient>) -> Result<Option<Gradient>> {
        let left: Vec<Option<Tensor>> = self.parameters.iter().map(Variable::gradient).collect();
        let pending = self.pending.as_ref().map(Pending::gradient);
        let mut sum = now;
        for other in [self.joined(&left)?, pending].into_iter().flatten() {
            sum = Some(match sum {
                Some(before) => before.plus(other)?,
                None => other,
            });
        }
        Ok(sum)
    }

    /// Returns the accumulated gradients with `gradient` added. If a sum already exists, its new value is pushed to `all`.
    pub(super) fn sum_with(
        &self,
        gradient: Option<Gradient>,
        all: &mut Vec<(Variable, Tensor)>,
    ) -> Result<Option<Pending>> {
        match (&self.pending, gradient) {
            (Some(pending), Some(gradient)) => {
                let Gradient { flat, has } = pending.gradient().plus(gradient)?;
                all.push((pending.sum.clone(), flat.into_detached()?));
                Ok(Some(Pending { sum: pending.sum.clone(), has }))
            }
            (Some(pending), None) => Ok(Some(pending.clone())),
            (None, gradient) => gradient.map(Pending::new).transpose(),
        }
    }

    /// Releases the accumulated gradients. They can be restored as long as another node needs them.
    pub(super) fn park(&mut self) -> Option<Parked> {
        let Pending { sum, has } = self.pending.take()?;
        Some(Parked { sum: sum.value().weak()?, has })
    }

    /// Takes the gradients of `backward` and the accumulated gradients, for a step.
    pub(super) fn take(&mut self) -> Taken {
        let left = |parameter: &Variable| parameter.take_gradient().and_then(|x| x.weak());
        Taken { left: self.parameters.iter().map(left).collect(), pending: self.park() }
    }

    /// Returns the accumulated gradients with the indices of their parameters.
    pub(super) fn accumulated(&self) -> Result<Vec<(usize, Tensor)>> {
        let Some(Pending { sum, has }) = &self.pending else { return Ok(Vec::new()) };
        let (all, mut found, mut start) = (sum.value(), Vec::new(), 0);
        for (i, shape) in self.shapes.iter().enumerate() {
            let count = shape.iter().product::<usize>() as isize;
            if has[i] {
                found.push((i, all.slice(0, start..start + count)?.reshape(&shape[..])?));
            }
            start += count;
        }
        Ok(found)
    }

    /// Restores the gradients after a failed step.
    pub(super) fn restore(&mut self, taken: Taken) {
        self.pending = taken.pending.and_then(Parked::restore);
        for (parameter, left) in self.parameters.iter().zip(taken.left) {
            if let Some(gradient) = left.and_then(|left| left.upgrade()) {
                parameter.set_gradient(Some(gradient));
            }
        }
    }

    /// Returns a flat `bool` mask of the elements whose parameter has a gradient, or `None` if all have one.
    pub(super) fn mask(&self, has: &[bool]) -> Result<Option<Tensor>> {
        if has.iter().all(|has| *has) {
            return Ok(None);
        }
        let mut runs: Vec<(bool, usize)> = Vec::new();
        for (&has, shape) in has.iter().zip(&self.shapes) {
            let count = shape.iter().product::<usize>();
            match runs.last_mut() {
                Some((same, length)) if *same == has => *length += count,
                _ => runs.push((has, count)),
            }
        }
        let device = self.flat.value().device().clone();
        let line = |(has, length): (bool, usize)| match has {
            true => device.ones((&[length], DType::Bool)),
            false => device.zeros((&[length], DType::Bool)),
        };
        let lines: Result<Vec<Tensor>> = runs.into_iter().map(line).collect();
        Tensor::concat(&lines?, 0).map(Some)
    }
}

impl Clip {
    /// Rejects a bound that is not above 0.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check(self, op: &str) -> Result<()> {
        let (name, max) = match self {
            Clip::Norm(max) => ("clip_norm", max),
            Clip::Value(max) => ("clip_value", max),
        };
        match max > 0.0 {
            true => Ok(()),
            false => Err(Error::argument(format!("{op}: {name} must be above 0, got {max}"))),
        }
    }

    /// Returns the clipped gradients, which are `f32`.
    pub(super) fn apply(self, gradients: Vec<Tensor>) -> Result<Vec<Tensor>> {
        match self {
            Clip::Norm(max) => {
                let factor = shrinking(&gradients, max)?;
                gradients.iter().map(|gradient| gradient.mul(&factor)).collect()
            }
            Clip::Value(max) => {
                gradients.iter().map(|gradient| gradient.clamp(-max, max)).collect()
            }
        }
    }
}

/// Returns the factor that reduces the norm of all gradients to at most `max`.
fn shrinking(gradients: &[Tensor], max: f64) -> Result<Tensor> {
    let squares: Result<Vec<Tensor>> =
        gradients.iter().map(|gradient| gradient.square().sum(())).collect();
    let norm = Tensor::stack(&squares?, 0)?.sum(())?.sqrt();
    norm.add(1e-6)?.reciprocal().mul(max)?.clamp_max(1.0)
}
