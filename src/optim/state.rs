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

/// What is there of the whole.
const STEPS: &str = "steps";

/// Of mixed precision: what losses are multiplied by, and the good steps in a row.
const SCALE: &str = "loss_scale";
const GOOD: &str = "good_steps";
/// Of mixed precision, the steps of each group that were not skipped.
const TAKEN: &str = "taken_steps";

/// Of each parameter, the sum of gradients that wait for the next step.
const ACCUMULATED: &str = "accumulated_gradient";

const OP: &str = "load_state_dict";

fn missing(name: &str) -> Error {
    Error::data(format!("{OP}: the state must have `{name}`, got none"))
}

/// The name of a parameter's value in the n-th average.
fn averaged(n: usize, (group, parameter): (usize, usize)) -> String {
    format!("average.{n}.{group}.{parameter}")
}

/// What a state has and was not taken yet.
struct Given<'a>(BTreeMap<&'a str, &'a Tensor>);

impl Given<'_> {
    /// Takes what has this name, if it is there.
    ///
    /// # Errors
    /// `Shape` if it has another shape.
    fn find(&mut self, name: &str, wanted: &[usize], dtype: DType) -> Result<Option<Tensor>> {
        let Some(found) = self.0.remove(name) else { return Ok(None) };
        let shape = found.shape();
        if shape != wanted {
            let message = format!("{OP}: `{name}` must have shape {wanted:?}, got {shape:?}");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Some(found.cast(dtype)?.detach()))
    }

    /// The same, which must be there.
    fn take(&mut self, name: &str, wanted: &[usize], dtype: DType) -> Result<Tensor> {
        self.find(name, wanted, dtype)?.ok_or_else(|| missing(name))
    }
}

/// Numbers of steps, on a device.
fn counts(device: &Device, steps: impl Iterator<Item = u64>) -> Result<Tensor> {
    let steps: Vec<i32> = steps.map(|count| i32::try_from(count).unwrap_or(i32::MAX)).collect();
    device.tensor(&steps, &[steps.len()])
}

/// One line of tensors of any shapes.
fn line(parts: &[Tensor]) -> Result<Tensor> {
    let lines: Result<Vec<Tensor>> = parts.iter().map(|part| part.reshape(&[-1])).collect();
    Ok(Tensor::concat(&lines?, 0)?.detach())
}

impl Optimizer {
    /// What it remembers, by names. `0.3` is the fourth parameter of the first group.
    ///
    /// | name | what it is |
    /// | --- | --- |
    /// | `0.3.exp_avg` | what the rule remembers of a parameter |
    /// | `steps` | one `i32` for each group |
    /// | `loss_scale`, `good_steps` | the state of mixed precision |
    /// | `taken_steps` | one `i32` for each group: the steps that mixed precision did not skip |
    /// | `0.3.accumulated_gradient` | the gradient that [`Optimizer::accumulate`] added up for the next step, if there is one |
    /// | `average.0.0.3` | the parameter in the first [`WeightAverage`](super::WeightAverage) that there is |
    ///
    /// Together with the parameters' values a training that loads it goes on to the same bits. Learning rates are not in it,
    /// nor are the other numbers of rules: they are set as they were.
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
        for (group, first, shard) in self.numbered() {
            let name = |i: usize, what: &str| format!("{group}.{}.{what}", first + i);
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
                    state.insert(averaged(n, (group, first + i)), part);
                }
            }
        }
        Ok(state)
    }

    /// Takes what [`Optimizer::state_dict`] gave of an optimizer of the same rules, parameters and averages. Gradients that
    /// were added up before are dropped unless the state has them; those that `backward` left stay. An average that is not
    /// in the state begins again with the parameters' values of now. A `steps` of one number is that of all groups.
    ///
    /// # Errors
    /// `Data` that names what is missing or surplus, `Shape` if one has another shape: then nothing was taken. As
    /// [`Tensor::read`].
    pub async fn load_state_dict(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let steps = Optimizer::saved_steps(state).await?;
        self.restore(state, &steps)
    }

    /// How many steps a state says that each group made.
    pub(crate) async fn saved_steps(state: &BTreeMap<String, Tensor>) -> Result<Vec<u64>> {
        let steps = state.get(STEPS).ok_or_else(|| missing(STEPS))?.read::<i32>().await?;
        Ok(steps.into_iter().map(|count| u64::try_from(count).unwrap_or(0)).collect())
    }

    /// Takes a state of after so many steps of each group, or of all.
    pub(crate) fn restore(
        &mut self,
        state: &BTreeMap<String, Tensor>,
        steps: &[u64],
    ) -> Result<()> {
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
            // States of before there was a count of them have none: all steps were taken, as far as they know.
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
        let mut pending = Vec::new();
        for (group, first, shard) in self.numbered() {
            let (dtype, count) = (shard.flat.dtype(), shard.shapes.len());
            let name = |i: usize, what: &str| format!("{group}.{}.{what}", first + i);
            for ((what, _), variable) in self.groups[group].rule.state().iter().zip(&shard.state) {
                let part = |i: usize| given.take(&name(i, what), &shard.shapes[i], dtype);
                let parts: Vec<Tensor> = (0..count).map(part).collect::<Result<_>>()?;
                all.push((variable.clone(), line(&parts)?));
            }
            for (n, pairs) in averages.iter().enumerate() {
                let Some(average) = shard.average(pairs) else { continue };
                let value = if is_there(n) {
                    let place = |i: usize| averaged(n, (group, first + i));
                    let part = |i: usize| given.take(&place(i), &shard.shapes[i], dtype);
                    line(&(0..count).map(part).collect::<Result<Vec<_>>>()?)?
                } else {
                    copy(&shard.flat)?
                };
                all.push((average.clone(), value));
            }
            let gradient = |i: usize| given.find(&name(i, ACCUMULATED), &shard.shapes[i], dtype);
            let gradients = (0..count).map(gradient).collect::<Result<Vec<_>>>()?;
            pending.push(shard.joined(&gradients)?.map(Pending::new).transpose()?);
        }
        if let Some(name) = given.0.keys().next() {
            return Err(Error::data(format!(
                "{OP}: the state must have no other names, got `{name}`"
            )));
        }
        // From here on nothing fails.
        drop(Assignment::new(all)?.commit());
        for (shard, pending) in self.shards_mut().zip(pending) {
            shard.pending = pending;
        }
        self.losses.clear();
        for (group, &count) in self.groups.iter_mut().zip(steps.iter().cycle()) {
            group.steps = count;
        }
        Ok(())
    }

    /// The learning rate of each group, and the one that schedules multiply.
    pub(crate) fn rates(&self) -> Vec<[f64; 2]> {
        self.groups.iter().map(|group| [group.lr, group.base_lr]).collect()
    }

    /// Takes [`Optimizer::rates`] of as many groups.
    pub(crate) fn set_rates(&mut self, rates: &[[f64; 2]]) {
        for (group, &[lr, base_lr]) in self.groups.iter_mut().zip(rates) {
            (group.lr, group.base_lr) = (lr, base_lr);
        }
    }

    /// All shards, with the number of their group and that of their first parameter in it.
    fn numbered(&self) -> Vec<(usize, usize, &Shard)> {
        let mut all = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            let mut first = 0;
            for shard in &group.shards {
                all.push((g, first, shard));
                first += shard.shapes.len();
            }
        }
        all
    }
}

impl Shard {
    /// What a variable as flat as the parameters has of each of them.
    fn parts(&self, flat: &Variable) -> Result<Vec<Tensor>> {
        let (all, mut parts, mut start) = (flat.value(), Vec::new(), 0);
        for shape in &self.shapes {
            let count = shape.iter().product::<usize>() as isize;
            parts.push(all.slice(0, start..start + count)?.reshape(&shape[..])?);
            start += count;
        }
        Ok(parts)
    }

    /// The average of its parameters, if they are among these.
    fn average<'a>(&self, pairs: &'a [(Variable, Variable)]) -> Option<&'a Variable> {
        let own = pairs.iter().find(|(flat, _)| flat.is_same(&self.flat));
        own.map(|(_, average)| average)
    }
}
