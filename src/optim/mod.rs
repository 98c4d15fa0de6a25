//! Optimizers: they update parameters from gradients.
//!
//! The parameters of an optimizer are parts of one flat variable, and its state is flat, too. The gradients are therefore
//! written into one tensor, and an update is one kernel for any number of parameters. If a flat variable would exceed the
//! device's buffer size, or if parameters have two types, the optimizer uses a few flat variables instead.

mod adam;
mod average;
mod buckets;
mod elementwise;
mod gradients;
mod matrices;
mod mixed;
mod number;
mod rule;
mod schedule;
mod state;

pub use adam::{AdaBelief, Adam, AdamW, Adamax, NAdam, RAdam, Yogi};
pub use average::WeightAverage;
pub(crate) use buckets::{Bucket, BucketedGradients};
pub use elementwise::{Adadelta, Adagrad, Asgd, Lion, RmsProp, Rprop, Sgd};
pub(crate) use gradients::{Clip, Gradient};
pub use matrices::{Lamb, Muon};
pub use mixed::LossScale;
pub use number::Number;
pub use rule::{Rule, Update};
pub use schedule::{
    Anneal, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, ExponentialLr, LinearLr,
    LinearLrOptions, MultiStepLr, OneCycleLr, OneCycleOptions, PlateauMode, PlateauOptions,
    PolynomialLr, ReduceLrOnPlateau, Schedule, SequentialLr, StepLr, ThresholdMode,
    WarmRestartsOptions,
};

use crate::debug::{shows, Debug};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::tensor::{Assignment, Tensor, Variable, WeakTensor};
use average::Averages;
use gradients::{Pending, Taken};
use mixed::Scaling;

/// Updates parameters from their gradients with a [`Rule`], such as [`Adam`].
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
    clip: Option<Clip>,
    scaling: Option<Scaling>,
    /// The losses whose gradients were accumulated since the last step.
    losses: Vec<WeakTensor>,
    averages: Averages,
}

/// Parameters that one rule updates.
struct Group {
    rule: Box<dyn Rule>,
    lr: f64,
    /// The rate that was set, from which [`Optimizer::schedule_lr`] derives the groups' ratios.
    base_lr: f64,
    /// The number of updates since the group was added.
    steps: u64,
    shards: Vec<Shard>,
}

/// Parameters in one flat variable.
struct Shard {
    parameters: Vec<Variable>,
    /// The number of each parameter in its group. Names of the state have it, so that they do not depend on the shards.
    numbers: Vec<usize>,
    shapes: Vec<Vec<usize>>,
    flat: Variable,
    /// The state of the rule, in the layout of `flat`.
    state: Vec<Variable>,
    pending: Option<Pending>,
}

impl Optimizer {
    /// Creates an optimizer of these parameters. Their values are computed and moved into one flat variable
    /// ([`Variable::flatten`]), so that all steps have the same structure.
    ///
    /// A parameter belongs to the newest optimizer that was created with it. Steps of its previous optimizer are errors from
    /// then on, even after the newer optimizer is dropped.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no parameters, if one occurs twice, if they are on two devices, or if a hyperparameter is
    /// out of range. `DType` unless the parameters are floats. `Limit`, `Memory`, and the errors of the rule's check.
    pub fn new(rule: impl Rule + 'static, parameters: &[Variable]) -> Result<Optimizer> {
        let (groups, losses, averages) = Default::default();
        let mut optimizer = Optimizer { groups, clip: None, scaling: None, losses, averages };
        optimizer.add_group(rule, parameters)?;
        Ok(optimizer)
    }

    /// Adds a group of parameters with a separate rule. The group counts its own steps from now on.
    ///
    /// # Errors
    /// Same as [`Optimizer::new`]. `InvalidArgument` also if a parameter is already in a group.
    pub fn add_group(&mut self, rule: impl Rule + 'static, parameters: &[Variable]) -> Result<()> {
        self.add_boxed(Box::new(rule), parameters)
    }

    // Not generic, so that it is compiled once, not once for each rule.
    fn add_boxed(&mut self, rule: Box<dyn Rule>, parameters: &[Variable]) -> Result<()> {
        let known = || self.shards().flat_map(|shard| &shard.parameters);
        if let Some(i) = parameters.iter().position(|new| known().any(|old| old.is_same(new))) {
            return Err(Error::argument(format!(
                "optimizer: a parameter must be in one group, got parameter {i} twice"
            )));
        }
        for (i, parameter) in parameters.iter().enumerate() {
            if let Some(first) = parameters[..i].iter().position(|other| other.is_same(parameter)) {
                return Err(Error::argument(format!(
                    "optimizer: parameters must be distinct, got parameter {first} again as parameter {i}"
                )));
            }
        }
        if let Some(i) = parameters.iter().position(|new| !new.dtype().is_float()) {
            let dtype = parameters[i].dtype();
            return Err(Error::dtype(format!(
                "optimizer: parameters must be f32 or f16, got {dtype} for parameter {i}"
            )));
        }
        let number = |one: &Variable| parameters.iter().position(|given| given.is_same(one));
        let parts = sharded(parameters)?;
        for parameters in &parts {
            rule.check(&parameters.iter().map(Variable::shape).collect::<Vec<_>>())?;
        }
        // Fallible work comes first. The flat values are computed before the first parameter moves.
        let states = parts.iter().map(|parameters| Shard::initial_state(&*rule, parameters));
        let states: Vec<Vec<Variable>> = states.collect::<Result<_>>()?;
        let counters = self.counters(1)?;
        let lists: Vec<&[Variable]> = parts.iter().map(|parameters| &parameters[..]).collect();
        let flats = Variable::flatten_all(&lists)?;
        let mut shards = Vec::new();
        for ((parameters, flat), state) in parts.into_iter().zip(flats).zip(states) {
            let numbers = parameters.iter().filter_map(number).collect();
            let shapes = parameters.iter().map(Variable::shape).collect();
            shards.push(Shard { parameters, numbers, shapes, flat, state, pending: None });
        }
        if let Some(scaling) = &mut self.scaling {
            scaling.taken.extend(counters);
        }
        let lr = rule.lr();
        self.groups.push(Group { rule, lr, base_lr: lr, steps: 0, shards });
        Ok(())
    }

    /// Creates step counters for further groups, if losses are scaled.
    fn counters(&self, groups: usize) -> Result<Vec<Variable>> {
        let Some(scaling) = &self.scaling else { return Ok(Vec::new()) };
        (0..groups).map(|_| scaling.counter()).collect()
    }

    /// Moves all groups of `other` into this optimizer. `other` has no groups afterwards and cannot be used any more.
    /// Clipping and mixed precision of `other` would be lost, so they are rejected.
    #[cfg(feature = "js-nn")]
    pub(crate) fn take_groups(&mut self, other: &mut Optimizer) -> Result<()> {
        if other.clip.is_some() || other.scaling.is_some() {
            let must = "the other optimizer must not clip gradients or train in mixed precision, got one that does";
            return Err(Error::argument(format!("optimizer: {must}; set that on this optimizer")));
        }
        if other.steps() > 0 || other.shards().any(|shard| shard.pending.is_some()) {
            let must = "the other optimizer must not have taken steps or stored gradients";
            return Err(Error::state(format!("optimizer: {must}, got one that has")));
        }
        let known =
            |new: &Variable| self.shards().flat_map(|s| &s.parameters).any(|x| x.is_same(new));
        if let Some(i) = other.shards().flat_map(|shard| &shard.parameters).position(known) {
            return Err(Error::argument(format!(
                "optimizer: a parameter must be in one group, got parameter {i} twice"
            )));
        }
        let device = |of: &Optimizer| of.groups[0].shards[0].flat.value().device().clone();
        if !device(self).is_same(&device(other)) {
            return Err(Error::wrong_device("optimizer", "the other"));
        }
        let counters = self.counters(other.groups.len())?;
        if let Some(scaling) = &mut self.scaling {
            scaling.taken.extend(counters);
        }
        self.groups.append(&mut other.groups);
        self.averages.take(&other.averages);
        Ok(())
    }

    /// Clips the norm of all gradients together to at most `max`, by multiplying them by one number before an update (Pascanu
    /// et al. 2013). A step fails unless `max` is above 0.
    pub fn clip_norm(mut self, max: f64) -> Optimizer {
        self.clip = Some(Clip::Norm(max));
        self
    }

    /// Same as [`Optimizer::clip_norm`] and [`Optimizer::clip_value`], as a setter.
    #[cfg(feature = "js-nn")]
    pub(crate) fn set_clip(&mut self, clip: Clip) {
        self.clip = Some(clip);
    }

    /// Clips each element of the gradients to `[-max, max]` before an update. A step fails unless `max` is above 0.
    pub fn clip_value(mut self, max: f64) -> Optimizer {
        self.clip = Some(Clip::Value(max));
        self
    }

    /// Returns the learning rate of the first group.
    pub fn lr(&self) -> f64 {
        self.groups[0].lr
    }

    /// Sets the learning rate of all groups. A new rate reuses the plan. A step fails if the rate is negative or NaN.
    pub fn set_lr(&mut self, lr: f64) {
        self.groups.iter_mut().for_each(|group| (group.lr, group.base_lr) = (lr, lr));
    }

    /// Sets the learning rate of the first group to `lr`, and scales the rates of the other groups so that their ratios stay
    /// the same. Call it with the rate of a schedule (PyTorch's schedulers).
    pub fn schedule_lr(&mut self, lr: f64) {
        let first = self.groups[0].base_lr;
        for (n, group) in self.groups.iter_mut().enumerate() {
            group.lr = if n == 0 || first == 0.0 { lr } else { group.base_lr / first * lr };
        }
    }

    /// Sets the learning rate of one group. Groups are numbered in the order in which they were added.
    ///
    /// # Errors
    /// `InvalidArgument` if the group does not exist, or if the rate is negative or NaN.
    pub fn set_group_lr(&mut self, group: usize, lr: f64) -> Result<()> {
        check_lr("set_group_lr", lr)?;
        let count = self.groups.len();
        let no = || {
            Error::argument(format!("optimizer: the group must be less than {count}, got {group}"))
        };
        let group = self.groups.get_mut(group).ok_or_else(no)?;
        (group.lr, group.base_lr) = (lr, lr);
        Ok(())
    }

    /// Returns the number of updates, including those that [`Optimizer::mixed_precision`] skipped.
    ///
    /// Rules that use the number of a step, such as Adam, count differently. They count the updates since their group was
    /// added that were not skipped, even if some parameters had no gradient.
    pub fn steps(&self) -> u64 {
        self.groups[0].steps
    }

    /// Takes a step with the gradients of `loss`, a single number. The gradients of earlier [`Optimizer::accumulate`] and
    /// [`Tensor::backward`] calls are added and cleared. Everything recorded for the step is submitted, including the loss,
    /// so a later read of the loss only waits. A parameter without a gradient keeps its value and its state.
    ///
    /// The step uses up the loss. The loss and the tensors it was computed from keep their values. Gradients through the
    /// parameters' earlier values are errors afterwards, as after `backward` in PyTorch.
    ///
    /// # Errors
    /// `InvalidArgument` if the loss depends on none of the parameters. `InvalidState` if it depends on a value that a
    /// parameter had before it was assigned. Also the errors of [`Tensor::grad`] and [`Optimizer::step`]. After an error,
    /// nothing has changed.
    pub fn minimize(&mut self, loss: &Tensor) -> Result<()> {
        self.minimize_after(loss, None, || ())
    }

    /// Same as [`Optimizer::minimize`]. If there are `reduced` gradients, the step takes these instead of those of the loss and
    /// the stored ones. Calls `begin` after the checks, before the step is recorded.
    pub(crate) fn minimize_after(
        &mut self,
        loss: &Tensor,
        reduced: Option<Vec<Option<Gradient>>>,
        begin: impl FnOnce(),
    ) -> Result<()> {
        self.check("minimize")?;
        let gradients = match reduced {
            Some(gradients) => gradients,
            None => {
                let now = self.gradients("minimize", loss)?;
                self.with_stored(now)?
            }
        };
        begin();
        self.update("minimize", gradients, Some(loss))
    }

    /// Adds the gradients of `loss` to those of the next step, and submits them. Use it to compute a batch that is too large
    /// for the memory in parts. Divide each loss by the number of parts. The next step uses up the loss, as in
    /// [`Optimizer::minimize`].
    ///
    /// # Errors
    /// `InvalidArgument` if the loss depends on none of the parameters, `InvalidState` if on an earlier value of one, or on an
    /// input of a program. Also the errors of [`Tensor::grad`] and of submitting. After an error, nothing was added.
    pub fn accumulate(&mut self, loss: &Tensor) -> Result<()> {
        loss.own_node("accumulate")?;
        let gradients = self.gradients("accumulate", loss)?;
        // Fallible work comes first.
        let (mut sums, mut all) = (Vec::new(), Vec::new());
        for (shard, gradient) in self.shards().zip(gradients) {
            sums.push(shard.sum_with(gradient, &mut all)?);
        }
        let assignment = Assignment::new(all)?;
        let device = self.device();
        device.freeze_history(true);
        let undo = assignment.commit();
        let exchange = |(shard, sum): (&mut Shard, &mut Option<Pending>)| {
            std::mem::swap(&mut shard.pending, sum);
        };
        self.shards_mut().zip(&mut sums).for_each(exchange);
        let submitted = loss.device().submit();
        match submitted {
            Ok(()) => self.losses.extend(loss.weak()),
            Err(_) => {
                self.shards_mut().zip(&mut sums).for_each(exchange);
                undo.roll_back();
            }
        }
        device.freeze_history(false);
        submitted
    }

    /// Takes a step with the gradients of earlier [`Optimizer::accumulate`] and [`Tensor::backward`] calls, and clears them.
    /// A parameter without a gradient keeps its value and its state.
    ///
    /// # Errors
    /// `InvalidState` if there are no gradients, or if a parameter belongs to another optimizer. `InvalidArgument` if a
    /// learning rate or a clipping bound is out of range. `Limit`, `Memory`. After an error, nothing has changed, and the
    /// gradients are still stored.
    pub fn step(&mut self) -> Result<()> {
        self.check("step")?;
        let gradients = self.with_stored(self.shards().map(|_| None).collect())?;
        self.update("step", gradients, None)
    }

    /// Adds the stored gradients to the gradients `now` of each shard.
    fn with_stored(&self, now: Vec<Option<Gradient>>) -> Result<Vec<Option<Gradient>>> {
        self.shards().zip(now).map(|(shard, now)| shard.all(now)).collect()
    }

    /// Rejects an invalid step before anything is recorded.
    fn check(&self, op: &str) -> Result<()> {
        let mut parameters = self.shards().flat_map(Shard::are_own);
        if let Some(i) = parameters.position(|is_own| !is_own) {
            let message = format!(
                "{op}: parameters must belong to this optimizer, got parameter {i} of another"
            );
            return Err(Error::state(message));
        }
        self.groups.iter().try_for_each(|group| check_lr(op, group.lr))?;
        self.clip.map_or(Ok(()), |clip| clip.check(op))
    }

    /// Takes a step with these gradients of each shard, and submits it. The new values are assigned before the
    /// submission, and rolled back if it fails. Holding the new values next to the old ones would take memory.
    fn update(
        &mut self,
        op: &str,
        gradients: Vec<Option<Gradient>>,
        loss: Option<&Tensor>,
    ) -> Result<()> {
        if gradients.iter().all(Option::is_none) {
            let message = format!(
                "{op}: there must be gradients, got none; call `backward` or `accumulate` first"
            );
            return Err(Error::state(message));
        }
        let device = self.device();
        let values = self.used_values(&gradients);
        let assignment = self.record(gradients)?;
        let now = loss.and_then(Tensor::weak);
        let losses: Vec<NodeId> = self.losses.iter().chain(&now).map(WeakTensor::node).collect();
        let used = device.use_up(&losses, &values);
        device.freeze_history(true);
        let undo = assignment.commit();
        // Tensors that are held when the batch is planned become results. The gradients are not needed afterwards, so they
        // are released.
        let parked: Vec<Taken> = self.shards_mut().map(Shard::take).collect();
        let submitted = device.submit();
        device.finish_consume(&used, submitted.is_ok());
        match submitted {
            Ok(()) => {
                self.losses.clear();
                self.groups.iter_mut().for_each(|group| group.steps += 1);
            }
            Err(_) => {
                for (shard, taken) in self.shards_mut().zip(parked) {
                    shard.restore(taken);
                }
                undo.roll_back();
            }
        }
        device.freeze_history(false);
        submitted
    }

    /// Whether one of these variables is a parameter of this optimizer.
    pub(crate) fn has_any(&self, of: &[Variable]) -> bool {
        self.parameters().any(|own| of.iter().any(|x| x.is_same(own)))
    }

    /// Returns the parameters of all groups in the order in which they were given.
    pub(crate) fn parameters_in_order(&self) -> Vec<Variable> {
        let mut all = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            for shard in &group.shards {
                let numbered = shard.numbers.iter().zip(&shard.parameters);
                all.extend(numbered.map(|(&number, one)| (g, number, one.clone())));
            }
        }
        all.sort_by_key(|&(g, number, _)| (g, number));
        all.into_iter().map(|(_, _, one)| one).collect()
    }

    /// Returns the parameters of all groups, in the order of the shards.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Variable> {
        self.shards().flat_map(|shard| &shard.parameters)
    }

    fn device(&self) -> Device {
        self.groups[0].shards[0].flat.device()
    }

    /// Returns the values of the parameters that have gradients.
    fn used_values(&self, gradients: &[Option<Gradient>]) -> Vec<NodeId> {
        let mut values = Vec::new();
        for (shard, gradient) in self.shards().zip(gradients) {
            let Some(gradient) = gradient else { continue };
            for (parameter, has) in shard.parameters.iter().zip(&gradient.has) {
                values.extend(parameter.known_value().filter(|_| *has));
            }
        }
        values
    }

    /// Records a step, and returns the assignment of the new values and states.
    fn record(&self, mut gradients: Vec<Option<Gradient>>) -> Result<Assignment> {
        // A step computes in `f32`. As `f16`, the `eps` of Adam would be 0.
        let wide = |x: &Tensor| x.cast(x.dtype().compute());
        let flat: Result<Vec<Tensor>> = gradients.iter().flatten().map(|x| wide(&x.flat)).collect();
        let flat = flat?;
        let (flat, finite) = match &self.scaling {
            Some(scaling) => scaling.undo(&flat).map(|(flat, finite)| (flat, Some(finite)))?,
            None => (flat, None),
        };
        let flat = match self.clip {
            Some(clip) => clip.apply(flat)?,
            None => flat,
        };
        for (gradient, flat) in gradients.iter_mut().flatten().zip(flat) {
            gradient.flat = flat;
        }
        let (mut all, mut unchanged) = (Vec::new(), Vec::new());
        let mut gradients = gradients.into_iter();
        for (n, group) in self.groups.iter().enumerate() {
            let step = match &self.scaling {
                Some(scaling) => scaling.step(n)?,
                None => Number::Known((group.steps + 1) as f64),
            };
            for (shard, gradient) in group.shards.iter().zip(&mut gradients) {
                let Some(Gradient { flat, has }) = gradient else { continue };
                let names = group.rule.state().into_iter().map(|(name, _)| name);
                let state: Vec<(&str, Tensor)> =
                    names.zip(shard.state.iter().map(Variable::value)).collect();
                let (value, state) = group.rule.update(&Update {
                    value: wide(&shard.flat.value())?,
                    gradient: flat,
                    state: &state,
                    shapes: &shard.shapes,
                    lr: group.lr,
                    step: step.clone(),
                })?;
                let taken = match (shard.mask(&has)?, &finite) {
                    (Some(mask), Some(finite)) => Some(mask.logical_and(finite)?),
                    (mask, finite) => mask.or_else(|| finite.clone()),
                };
                // Detached, so that no gradient flows back into an earlier step.
                let mut set = |variable: &Variable, value: Tensor| {
                    let value = value.cast(variable.dtype())?;
                    let value = match &taken {
                        Some(taken) => {
                            taken.where_cond(&value, variable.value())?.into_detached()?
                        }
                        None => value.into_detached()?,
                    };
                    all.push((variable.clone(), value));
                    Ok::<(), Error>(())
                };
                set(&shard.flat, value)?;
                for (variable, value) in shard.state.iter().zip(state) {
                    set(variable, value)?;
                }
                let without = (0..has.len()).filter(|&n| !has[n]).collect();
                unchanged.push((all.len() - 1 - shard.state.len(), without));
            }
        }
        if let (Some(scaling), Some(finite)) = (&self.scaling, &finite) {
            all.extend(scaling.follow(finite)?);
        }
        let mut assignment = Assignment::new(all)?;
        for (n, parts) in unchanged {
            assignment.leave(n, parts);
        }
        Ok(assignment)
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.groups.iter().flat_map(|group| &group.shards)
    }

    fn shards_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.groups.iter_mut().flat_map(|group| &mut group.shards)
    }
}

impl Shard {
    /// Creates the initial state of a rule for these parameters.
    fn initial_state(rule: &dyn Rule, parameters: &[Variable]) -> Result<Vec<Variable>> {
        let count: usize = parameters.iter().map(|x| x.shape().iter().product::<usize>()).sum();
        let (device, dtype) = (parameters[0].device(), parameters[0].dtype().compute());
        let begin =
            |&(_, first): &(&str, f64)| Ok(Variable::new(&device.full(&[count], first, dtype)?));
        rule.state().iter().map(begin).collect()
    }

    /// Returns for each parameter whether it still belongs to this optimizer.
    fn are_own(&self) -> impl Iterator<Item = bool> {
        self.parameters.iter().map(|x| x.start_in(&self.flat).is_some())
    }
}

/// Groups parameters into shards of one type each. A shard has at most as many elements as a buffer of the device.
fn sharded(parameters: &[Variable]) -> Result<Vec<Vec<Variable>>> {
    let mut shards: Vec<(usize, Vec<Variable>)> = Vec::new();
    for parameter in parameters {
        let count = parameter.shape().iter().product::<usize>();
        let dtype = parameter.dtype();
        let most = parameter.device().limits().binding_bytes / dtype.size() as u64;
        let fits = |(filled, others): &&mut (usize, Vec<Variable>)| {
            let room = (*filled + count) as u64 <= most && !shows(Debug::NoFlat);
            others[0].dtype() == dtype && room
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
        return Err(Error::argument("optimizer: there must be a parameter, got none".to_string()));
    }
    Ok(shards.into_iter().map(|(_, parameters)| parameters).collect())
}

/// Rejects a learning rate that is negative or NaN.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_lr(op: &str, lr: f64) -> Result<()> {
    match lr >= 0.0 {
        true => Ok(()),
        false => Err(Error::argument(format!("{op}: lr must be at least 0, got {lr}"))),
    }
}
