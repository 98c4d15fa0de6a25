//! Saving and loading the state of an optimizer.

use super::average::copy;
use super::gradients::Pending;
use super::{Optimizer, Shard};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::sorted;
use crate::tensor::{Assignment, Tensor, Variable};
use std::collections::BTreeMap;

/// The name of the step counts of all groups.
const STEPS: &str = "steps";

/// The names of mixed precision's scale and of its number of finite steps in a row.
const SCALE: &str = "loss_scale";
const GOOD: &str = "good_steps";
/// The name of the groups' counts of steps that mixed precision did not skip.
const TAKEN: &str = "taken_steps";

/// The name of a parameter's accumulated gradient for the next step.
const ACCUMULATED: &str = "accumulated_gradient";

const OP: &str = "load_state_dict";

fn missing(name: &str) -> Error {
    Error::format(format!("{OP}: the state must have `{name}`, got none"))
}

/// Returns the name of a parameter's value in the n-th average.
fn averaged(n: usize, (group, parameter): (usize, usize)) -> String {
    format!("average.{n}.{group}.{parameter}")
}

/// The entries of a state that have not been taken yet.
struct Given<'a>(BTreeMap<&'a str, &'a Tensor>);

impl Given<'_> {
    /// Takes the entry of this name, if there is one.
    ///
    /// # Errors
    /// `Shape` if its shape differs.
    fn find(&mut self, name: &str, wanted: &[usize], dtype: DType) -> Result<Option<Tensor>> {
        let Some(found) = self.0.remove(name) else { return Ok(None) };
        let shape = found.shape();
        if shape != wanted {
            let message = format!("{OP}: `{name}` must have shape {wanted:?}, got {shape:?}");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Some(found.cast(dtype)?.detach()))
    }

    /// Takes the entry of this name, or returns an error if it is missing.
    fn take(&mut self, name: &str, wanted: &[usize], dtype: DType) -> Result<Tensor> {
        self.find(name, wanted, dtype)?.ok_or_else(|| missing(name))
    }
}

/// Returns step counts as a tensor.
fn counts(device: &Device, steps: impl Iterator<Item = u64>) -> Result<Tensor> {
    let steps: Vec<i32> = steps.map(|count| i32::try_from(count).unwrap_or(i32::MAX)).collect();
    device.tensor(&steps, &[steps.len()])
}

/// Concatenates tensors of any shapes to one flat tensor.
fn line(parts: &[Tensor]) -> Result<Tensor> {
    let lines: Result<Vec<Tensor>> = parts.iter().map(|part| part.reshape(&[-1])).collect();
    Ok(Tensor::concat(&lines?, 0)?.detach())
}

/// A state that fits an optimizer.
pub(crate) struct CheckedState {
    values: Assignment,
    /// Averages that the state lacks, with the flat parameters from which they restart.
    restarted: Vec<(Variable, Variable)>,
    /// The accumulated gradient of each shard.
    pending: Vec<Option<Pending>>,
    /// The number of steps of each group.
    steps: Vec<u64>,
}

impl Optimizer {
    /// Returns the optimizer's state by names. `0.3` is the fourth parameter of the first group.
    ///
    /// | name | value |
    /// | --- | --- |
    /// | `0.3.exp_avg` | the rule's state of a parameter |
    /// | `steps` | one `i32` for each group |
    /// | `loss_scale`, `good_steps` | the state of mixed precision |
    /// | `taken_steps` | one `i32` for each group: the steps that mixed precision did not skip |
    /// | `0.3.accumulated_gradient` | the gradient that [`Optimizer::accumulate`] stored for the next step, if there is one |
    /// | `average.0.0.3` | the parameter in the first [`WeightAverage`](super::WeightAverage) that still exists |
    ///
    /// Training continues with the same bits after this state and the parameters' values are loaded. Learning rates and other
    /// hyperparameters are not included, so set them again.
    ///
    /// # Errors
    /// `Limit`.
    pub fn state_dict(&self) -> Result<BTreeMap<String, Tensor>> {
        let steps = counts(&self.device(), self.groups.iter().map(|group| group.steps))?;
        let mut state = BTreeMap::from([(STEPS.to_string(), steps)]);
        if let Some(scaling) = &self.scaling {
            state.insert(SCALE.to_string(), scaling.scale.value());
            state.insert(GOOD.to_string(), scaling.good.value());
            let taken: Vec<Tensor> = scaling.taken.iter().map(Variable::value).collect();
            state.insert(TAKEN.to_string(), Tensor::concat(&taken, 0)?);
        }
        let averages = self.averages.all();
        for (group, shard) in self.numbered() {
            let name = |i: usize, what: &str| format!("{group}.{}.{what}", shard.numbers[i]);
            for ((what, _), variable) in self.groups[group].rule.state().iter().zip(&shard.state) {
                for (i, part) in shard.parts(variable)?.into_iter().enumerate() {
                    state.insert(name(i, what), part);
                }
            }
            for (i, gradient) in shard.accumulated()? {
                state.insert(name(i, ACCUMULATED), gradient);
            }
            for (n, pairs) in averages.iter().enumerate() {
                let Some(average) = shard.average(pairs) else { continue };
                for (i, part) in shard.parts(average)?.into_iter().enumerate() {
                    state.insert(averaged(n, (group, shard.numbers[i])), part);
                }
            }
        }
        Ok(state)
    }

    /// Loads a state from [`Optimizer::state_dict`] of an optimizer with the same rules, parameters and averages. If `steps`
    /// has one number, it applies to all groups.
    ///
    /// Accumulated gradients are replaced by those of the state. Gradients of `backward` are kept. An average that is not in
    /// the state restarts from the current values of the parameters.
    ///
    /// # Errors
    /// `Format` with the name that is missing or unexpected. `Shape` if a shape differs. Also the errors of [`Tensor::read`].
    /// After an error, nothing has changed.
    pub async fn load_state_dict(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let steps = Optimizer::saved_steps(state).await?;
        self.restore(state, &steps)
    }

    /// Reads the number of steps of each group from a state.
    pub(crate) async fn saved_steps(state: &BTreeMap<String, Tensor>) -> Result<Vec<u64>> {
        let steps = state.get(STEPS).ok_or_else(|| missing(STEPS))?.read::<i32>().await?;
        Ok(steps.into_iter().map(|count| u64::try_from(count).unwrap_or(0)).collect())
    }

    /// Loads a state after `steps` steps, with one number for each group or one for all groups.
    pub(crate) fn restore(
        &mut self,
        state: &BTreeMap<String, Tensor>,
        steps: &[u64],
    ) -> Result<()> {
        let checked = self.check_state(state, steps)?;
        self.apply_state(checked)
    }

    /// Checks that a state fits this optimizer, and prepares loading it after `steps` steps.
    pub(crate) fn check_state(
        &self,
        state: &BTreeMap<String, Tensor>,
        steps: &[u64],
    ) -> Result<CheckedState> {
        let groups = self.groups.len();
        if steps.len() != 1 && steps.len() != groups {
            let saved = steps.len();
            let message = format!(
                "{OP}: `{STEPS}` must have {groups} numbers, one for each group, got {saved}"
            );
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let mut given = Given(sorted::map(state.iter().map(|(name, x)| (&name[..], x))));
        given.0.remove(STEPS);
        let mut all: Vec<(Variable, Tensor)> = Vec::new();
        for (variable, name) in
            self.scaling.iter().flat_map(|own| [(&own.scale, SCALE), (&own.good, GOOD)])
        {
            let value = given.0.remove(name).ok_or_else(|| missing(name))?;
            all.push((variable.clone(), value.cast(variable.dtype())?.reshape(&[1])?.detach()));
        }
        if let Some(scaling) = &self.scaling {
            // States from before this count existed do not have it. All of their steps count as taken.
            let taken = match given.find(TAKEN, &[groups], DType::I32)? {
                Some(taken) => taken,
                None => counts(&self.device(), steps.iter().copied().cycle().take(groups))?,
            };
            for (n, own) in scaling.taken.iter().enumerate() {
                all.push((own.clone(), taken.slice(0, n as isize..n as isize + 1)?.detach()));
            }
        }
        let averages = self.averages.all();
        let is_there = |n: usize| {
            let begin = format!("average.{n}.");
            state.keys().any(|name| name.starts_with(&begin))
        };
        let (mut pending, mut restarted) = (Vec::new(), Vec::new());
        for (group, shard) in self.numbered() {
            let (dtype, count) = (shard.flat.dtype(), shard.shapes.len());
            let name = |i: usize, what: &str| format!("{group}.{}.{what}", shard.numbers[i]);
            for ((what, _), variable) in self.groups[group].rule.state().iter().zip(&shard.state) {
                let wide = variable.dtype();
                let part = |i: usize| given.take(&name(i, what), &shard.shapes[i], wide);
                let parts: Vec<Tensor> = (0..count).map(part).collect::<Result<_>>()?;
                all.push((variable.clone(), line(&parts)?));
            }
            for (n, pairs) in averages.iter().enumerate() {
                let Some(average) = shard.average(pairs) else { continue };
                if !is_there(n) {
                    restarted.push((average.clone(), shard.flat.clone()));
                    continue;
                }
                let place = |i: usize| averaged(n, (group, shard.numbers[i]));
                let part = |i: usize| given.take(&place(i), &shard.shapes[i], dtype);
                let parts = (0..count).map(part).collect::<Result<Vec<_>>>()?;
                all.push((average.clone(), line(&parts)?));
            }
            let gradient = |i: usize| given.find(&name(i, ACCUMULATED), &shard.shapes[i], dtype);
            let gradients = (0..count).map(gradient).collect::<Result<Vec<_>>>()?;
            pending.push(shard.joined(&gradients)?.map(Pending::new).transpose()?);
        }
        if let Some(name) = given.0.keys().next() {
            return Err(Error::format(format!(
                "{OP}: the state must have no other names, got `{name}`"
            )));
        }
        let steps = steps.iter().copied().cycle().take(groups).collect();
        Ok(CheckedState { values: Assignment::new(all)?, restarted, pending, steps })
    }

    /// Loads a state that [`Optimizer::check_state`] of this optimizer returned.
    ///
    /// # Errors
    /// `Limit` if averages restart from the parameters. After an error, nothing has changed.
    pub(crate) fn apply_state(&mut self, checked: CheckedState) -> Result<()> {
        let CheckedState { values, restarted, pending, steps } = checked;
        let copied = restarted.into_iter().map(|(average, flat)| Ok((average, copy(&flat)?)));
        let restarted = Assignment::new(copied.collect::<Result<_>>()?)?;
        // Nothing fails from here on.
        drop(values.commit());
        drop(restarted.commit());
        for (shard, pending) in self.shards_mut().zip(pending) {
            shard.pending = pending;
        }
        self.losses.clear();
        for (group, count) in self.groups.iter_mut().zip(steps) {
            group.steps = count;
        }
        Ok(())
    }

    /// Returns each group's current learning rate and its base rate.
    pub(crate) fn rates(&self) -> Vec<[f64; 2]> {
        self.groups.iter().map(|group| [group.lr, group.base_lr]).collect()
    }

    /// Sets the rates that [`Optimizer::rates`] returned for the same number of groups.
    pub(crate) fn set_rates(&mut self, rates: &[[f64; 2]]) {
        for (group, &[lr, base_lr]) in self.groups.iter_mut().zip(rates) {
            (group.lr, group.base_lr) = (lr, base_lr);
        }
    }

    /// Returns all shards with the numbers of their groups.
    fn numbered(&self) -> Vec<(usize, &Shard)> {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(g, group)| group.shards.iter().map(move |shard| (g, shard))).collect()
    }
}

impl Shard {
    /// Splits a variable with the layout of the flat parameters into the parts of the parameters.
    fn parts(&self, flat: &Variable) -> Result<Vec<Tensor>> {
        let (all, mut parts, mut start) = (flat.value(), Vec::new(), 0);
        for shape in &self.shapes {
            let count = shape.iter().product::<usize>() as isize;
            parts.push(all.slice(0, start..start + count)?.reshape(&shape[..])?);
            start += count;
        }
        Ok(parts)
    }

    /// Returns the average of this shard's parameters, if `pairs` has one.
    fn average<'a>(&self, pairs: &'a [(Variable, Variable)]) -> Option<&'a Variable> {
        let own = pairs.iter().find(|(flat, _)| flat.is_same(&self.flat));
        own.map(|(_, average)| average)
    }
}
