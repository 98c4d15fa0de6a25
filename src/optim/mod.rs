//! Optimisers: how parameters follow gradients. The parameters of an optimiser are parts of one flat variable (of few, where a
//! device's buffers are too small for one), and so is what it remembers of them. So the gradients are written into one
//! tensor, and an update is one kernel, however many parameters there are.

mod adam;
mod average;
mod elementwise;
mod matrices;
mod mixed;
mod rule;
mod schedule;
mod state;

pub use adam::{Adam, AdamW, Adamax, NAdam, RAdam};
pub use average::WeightAverage;
pub use elementwise::{Adadelta, Adagrad, Lion, RmsProp, Sgd};
pub use matrices::{Lamb, Muon};
pub use mixed::LossScale;
pub use rule::{Rule, Update};
pub use schedule::{
    Anneal, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, ExponentialLr, LinearLr,
    MultiStepLr, OneCycleLr, OneCycleOptions, PlateauMode, PlateauOptions, PolynomialLr,
    ReduceLrOnPlateau, Schedule, SequentialLr, StepLr, ThresholdMode,
};

use crate::error::{Error, Result};
use crate::tensor::{Tensor, Variable};
use mixed::Scaling;

/// Changes parameters by their gradients, by a [`Rule`] such as [`Adam`].
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// # use warpweft::nn::{Generator, Layer, Linear, Module};
/// # use warpweft::optim::{Adam, Optimizer};
/// # let device = Device::with(Preference::Cpu).await?;
/// let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
/// let mut optimizer = Optimizer::new(Adam::new(0.1), &model.parameters())?;
/// let x = device.linspace(-1.0, 1.0, 32)?.reshape(&[32, 1])?;
/// let y = x.mul(3)?.add(1)?;
/// for _ in 0..200 {
///     let loss = model.forward(&x)?.sub(&y)?.square().mean(())?;
///     optimizer.minimize(&loss)?; // One submission: the loss, its gradients and the new values.
/// }
/// assert!((model.weight.value().item::<f32>().await? - 3.0).abs() < 0.01);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub struct Optimizer {
    groups: Vec<Group>,
    steps: u64,
    clip: Option<Clip>,
    scaling: Option<Scaling>,
}

/// Parameters that one rule changes.
struct Group {
    rule: Box<dyn Rule>,
    lr: f64,
    /// The rate that it was given, which schedules multiply.
    base_lr: f64,
    shards: Vec<Shard>,
}

/// Parameters in one flat variable.
struct Shard {
    parameters: Vec<Variable>,
    shapes: Vec<Vec<usize>>,
    flat: Variable,
    /// What the rule remembers, as flat as the parameters.
    memory: Vec<Variable>,
    /// Gradients that were added up and not taken yet.
    pending: Option<Variable>,
}

/// What is done with gradients that are too large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clip {
    Norm(f64),
    Value(f64),
}

impl Optimizer {
    /// An optimiser of these parameters, whose values move into one flat variable ([`Variable::flatten`]) and are computed, so
    /// that all steps are alike. It takes a parameter over from an optimiser before it, whose steps are an error from then on.
    ///
    /// # Errors
    /// `Data` if there are none, one is there twice, or they live on two devices; `Limit`, `Memory`; what the rule refuses.
    pub fn new(rule: impl Rule + 'static, parameters: &[Variable]) -> Result<Optimizer> {
        let mut optimizer = Optimizer { groups: Vec::new(), steps: 0, clip: None, scaling: None };
        optimizer.add_group(rule, parameters)?;
        Ok(optimizer)
    }

    /// Further parameters, by a rule of their own.
    ///
    /// # Errors
    /// As [`Optimizer::new`]; `Data` also if one is in a group already.
    pub fn add_group(&mut self, rule: impl Rule + 'static, parameters: &[Variable]) -> Result<()> {
        let known = || self.shards().flat_map(|shard| &shard.parameters);
        if let Some(i) = parameters.iter().position(|new| known().any(|old| old.is_same(new))) {
            return Err(Error::data(format!("optimizer: parameter {i} is in a group already")));
        }
        let mut shards = Vec::new();
        for parameters in sharded(parameters)? {
            let shard = Shard::new(&rule, parameters)?;
            // The first step finds it where the others do, and is planned as they are.
            shard.flat.value().run()?;
            shards.push(shard);
        }
        let lr = rule.lr();
        self.groups.push(Group { rule: Box::new(rule), lr, base_lr: lr, shards });
        Ok(())
    }

    /// Takes all groups of another one, which has none then, and can not be used any more.
    #[cfg(feature = "js-nn")]
    pub(crate) fn take_groups(&mut self, other: &mut Optimizer) -> Result<()> {
        if other.steps > 0 || other.shards().any(|shard| shard.pending.is_some()) {
            return Err(Error::data("optimizer: the other has begun to train"));
        }
        let known =
            |new: &Variable| self.shards().flat_map(|s| &s.parameters).any(|x| x.is_same(new));
        if let Some(i) = other.shards().flat_map(|shard| &shard.parameters).position(known) {
            return Err(Error::data(format!("optimizer: parameter {i} is in a group already")));
        }
        let device = |of: &Optimizer| of.groups[0].shards[0].flat.value().device().clone();
        if !device(self).is_same(&device(other)) {
            return Err(Error::data("optimizer: the other lives on another device"));
        }
        self.groups.append(&mut other.groups);
        Ok(())
    }

    /// Before an update all gradients are multiplied by one number, so that their norm, over all of them, is at most `max`
    /// (Pascanu and others 2013).
    pub fn clip_norm(mut self, max: f64) -> Optimizer {
        self.clip = Some(Clip::Norm(max));
        self
    }

    /// The same as a setting.
    #[cfg(feature = "js-nn")]
    pub(crate) fn set_clip(&mut self, clip: Clip) {
        self.clip = Some(clip);
    }

    /// Before an update each element of a gradient is brought between `-max` and `max`.
    pub fn clip_value(mut self, max: f64) -> Optimizer {
        self.clip = Some(Clip::Value(max));
        self
    }

    /// The learning rate of the first group.
    pub fn lr(&self) -> f64 {
        self.groups[0].lr
    }

    /// Sets the learning rate of all groups. It is data: nothing is planned again.
    pub fn set_lr(&mut self, lr: f64) {
        self.groups.iter_mut().for_each(|group| (group.lr, group.base_lr) = (lr, lr));
    }

    /// Sets the learning rate of the first group to what a schedule says, and multiplies those of the others by as much, so
    /// that they keep their ratios to it. (PyTorch's schedulers.)
    pub fn schedule_lr(&mut self, lr: f64) {
        let first = self.groups[0].base_lr;
        for (n, group) in self.groups.iter_mut().enumerate() {
            group.lr = if n == 0 || first == 0.0 { lr } else { group.base_lr / first * lr };
        }
    }

    /// Sets the learning rate of one group, in the order in which they were added.
    ///
    /// # Errors
    /// `Data` if there is no such group.
    pub fn set_group_lr(&mut self, group: usize, lr: f64) -> Result<()> {
        let count = self.groups.len();
        let no = || Error::data(format!("optimizer: there is no group {group} of {count}"));
        let group = self.groups.get_mut(group).ok_or_else(no)?;
        (group.lr, group.base_lr) = (lr, lr);
        Ok(())
    }

    /// How many updates were made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Takes a step against the gradients of `loss`, a single number, and submits all that was recorded for it, the loss
    /// included; reading the loss afterwards only waits.
    ///
    /// # Errors
    /// As [`Tensor::grad`], [`Optimizer::step`].
    pub fn minimize(&mut self, loss: &Tensor) -> Result<()> {
        let gradients = self.gradients(loss)?;
        self.update(gradients)
    }

    /// Adds the gradients of `loss` to those of the next step, and submits: a batch that is too large for the memory is
    /// computed in parts, each loss divided by their number.
    ///
    /// # Errors
    /// As [`Tensor::grad`].
    pub fn accumulate(&mut self, loss: &Tensor) -> Result<()> {
        let gradients = self.gradients(loss)?;
        for (shard, gradient) in self.shards_mut().zip(gradients) {
            match &shard.pending {
                Some(pending) => pending.replace(&pending.value().add(&gradient)?.fixed()?)?,
                None => shard.pending = Some(Variable::new(&gradient.fixed()?)),
            }
        }
        loss.device().flush()
    }

    /// Takes a step against the gradients that [`Optimizer::accumulate`] added up, and those that [`Tensor::backward`] left
    /// with the parameters, which are taken; a parameter without one has zeros.
    ///
    /// # Errors
    /// `Data` if there are no gradients at all, or a parameter belongs to another optimiser now; `Limit`, `Memory`.
    pub fn step(&mut self) -> Result<()> {
        let mut gradients = Vec::new();
        for shard in self.shards_mut() {
            let pending = shard.pending.take().map(|pending| pending.value());
            gradients.push(match (shard.left()?, pending) {
                (Some(left), Some(pending)) => Some(left.add(&pending)?),
                (left, pending) => left.or(pending),
            });
        }
        if gradients.iter().all(Option::is_none) {
            let message = "optimizer: there are no gradients; `backward` leaves some";
            return Err(Error::data(message.to_string()));
        }
        let whole = |(gradient, shard): (Option<Tensor>, &Shard)| match gradient {
            Some(gradient) => Ok(gradient),
            None => shard.flat.value().device().zeros((&shard.flat.shape(), shard.flat.dtype())),
        };
        let gradients: Vec<Tensor> =
            gradients.into_iter().zip(self.shards()).map(whole).collect::<Result<_>>()?;
        self.update(gradients)
    }

    /// The gradients by the parameters of each shard, flat.
    fn gradients(&self, loss: &Tensor) -> Result<Vec<Tensor>> {
        let values: Vec<Tensor> =
            self.shards().flat_map(|s| &s.parameters).map(Variable::value).collect();
        let all = self.scale_loss(loss)?.grad(&values.iter().collect::<Vec<_>>())?;
        let mut rest = &all[..];
        let mut flat = Vec::new();
        for shard in self.shards() {
            let (own, others) = rest.split_at(shard.parameters.len());
            rest = others;
            let lines: Result<Vec<Tensor>> = own.iter().map(|x| x.reshape(&[-1])).collect();
            flat.push(Tensor::concat(&lines?, 0)?);
        }
        Ok(flat)
    }

    /// Takes a step, and submits it.
    fn update(&mut self, gradients: Vec<Tensor>) -> Result<()> {
        let device = self.groups[0].shards[0].flat.value().device().clone();
        // What is held when the batch is made would be kept.
        self.record(gradients)?;
        device.flush()
    }

    /// Records a step.
    fn record(&mut self, gradients: Vec<Tensor>) -> Result<()> {
        for shard in self.shards() {
            shard.check()?;
        }
        let (plain, finite) = match &self.scaling {
            Some(scaling) => {
                scaling.undo(&gradients).map(|(plain, finite)| (plain, Some(finite)))?
            }
            None => (gradients, None),
        };
        let factor = match self.clip {
            Some(Clip::Norm(max)) => Some(shrinking(&plain, max)?),
            _ => None,
        };
        let number = self.steps + 1;
        let mut gradients = plain.iter();
        for group in &self.groups {
            for (shard, gradient) in group.shards.iter().zip(&mut gradients) {
                let gradient = match (self.clip, &factor) {
                    (Some(Clip::Value(max)), _) => gradient.clamp(-max, max)?,
                    (_, Some(factor)) => gradient.mul(factor)?,
                    _ => gradient.clone(),
                };
                let memory: Vec<Tensor> = shard.memory.iter().map(Variable::value).collect();
                let (value, memory) = group.rule.update(&Update {
                    value: shard.flat.value(),
                    gradient,
                    memory: &memory,
                    shapes: &shard.shapes,
                    lr: group.lr,
                    step: number,
                })?;
                // What led to them is past: no gradient goes back into an earlier step.
                let set = |variable: &Variable, value: Tensor| match &finite {
                    Some(finite) => {
                        variable.replace(&finite.where_cond(&value, variable.value())?.fixed()?)
                    }
                    None => variable.replace(&value.fixed()?),
                };
                set(&shard.flat, value)?;
                for (variable, value) in shard.memory.iter().zip(memory) {
                    set(variable, value)?;
                }
            }
        }
        if let (Some(scaling), Some(finite)) = (&self.scaling, &finite) {
            scaling.follow(finite)?;
        }
        self.steps = number;
        Ok(())
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.groups.iter().flat_map(|group| &group.shards)
    }

    fn shards_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.groups.iter_mut().flat_map(|group| &mut group.shards)
    }
}

impl Shard {
    fn new(rule: &dyn Rule, parameters: Vec<Variable>) -> Result<Shard> {
        let shapes: Vec<Vec<usize>> = parameters.iter().map(Variable::shape).collect();
        rule.check(&shapes)?;
        let flat = Variable::flatten(&parameters)?;
        let (value, shape) = (flat.value(), flat.shape());
        let begin = |&(_, first): &(&str, f64)| {
            Ok(Variable::new(&value.device().full(&shape, first, value.dtype())?))
        };
        let memory = rule.memory().iter().map(begin).collect::<Result<_>>()?;
        Ok(Shard { parameters, shapes, flat, memory, pending: None })
    }

    /// The gradients that were left with the parameters, flat: zeros where there are none, nothing if there are none at all.
    fn left(&self) -> Result<Option<Tensor>> {
        let left: Vec<Option<Tensor>> =
            self.parameters.iter().map(Variable::take_gradient).collect();
        if left.iter().all(Option::is_none) {
            return Ok(None);
        }
        let (device, dtype) = (self.flat.value().device().clone(), self.flat.dtype());
        let line = |(gradient, shape): (Option<Tensor>, &Vec<usize>)| match gradient {
            Some(gradient) => gradient.reshape(&[-1]),
            None => device.zeros((&[shape.iter().product::<usize>()], dtype)),
        };
        let lines: Result<Vec<Tensor>> = left.into_iter().zip(&self.shapes).map(line).collect();
        Tensor::concat(&lines?, 0).map(Some)
    }

    /// Another optimiser may have taken a parameter over.
    fn check(&self) -> Result<()> {
        match self.parameters.iter().position(|x| x.start_in(&self.flat).is_none()) {
            Some(i) => {
                let message = format!("optimizer: parameter {i} belongs to another optimiser now");
                Err(Error::data(message))
            }
            None => Ok(()),
        }
    }
}

/// Parameters of one type, of as many elements as a buffer of their device has.
fn sharded(parameters: &[Variable]) -> Result<Vec<Vec<Variable>>> {
    let mut shards: Vec<(usize, Vec<Variable>)> = Vec::new();
    for parameter in parameters {
        let count = parameter.shape().iter().product::<usize>();
        let value = parameter.value();
        let most = value.device().limits().binding_bytes / value.dtype().size() as u64;
        let fits = |(filled, others): &&mut (usize, Vec<Variable>)| {
            others[0].dtype() == value.dtype() && (*filled + count) as u64 <= most
        };
        match shards.iter_mut().find(fits) {
            Some((filled, others)) => {
                *filled += count;
                others.push(parameter.clone());
            }
            None => shards.push((count, vec![parameter.clone()])),
        }
    }
    if shards.is_empty() {
        return Err(Error::data("optimizer: no parameters".to_string()));
    }
    Ok(shards.into_iter().map(|(_, parameters)| parameters).collect())
}

/// What gradients are multiplied by, so that the norm of all of them is at most `max`.
fn shrinking(gradients: &[Tensor], max: f64) -> Result<Tensor> {
    let squares: Result<Vec<Tensor>> =
        gradients.iter().map(|x| x.cast(crate::dtype::DType::F32)?.square().sum(())).collect();
    let norm = Tensor::stack(&squares?, 0)?.sum(())?.sqrt();
    norm.add(1e-6)?.reciprocal().mul(max)?.clamp_max(1.0)
}
