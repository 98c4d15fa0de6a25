//! Saving and loading what an optimiser remembers.

use super::gradients::Pending;
use super::{Group, Optimizer};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Assignment, Tensor, Variable};
use std::collections::BTreeMap;

/// What is there of the whole.
const STEPS: &str = "steps";

/// Of mixed precision: what losses are multiplied by, and the good steps in a row.
const SCALE: &str = "loss_scale";
const GOOD: &str = "good_steps";

/// Of each parameter, the sum of gradients that wait for the next step.
const ACCUMULATED: &str = "accumulated_gradient";

const OP: &str = "load_state_dict";

fn missing(name: &str) -> Error {
    Error::data(format!("{OP}: missing: `{name}`"))
}

impl Optimizer {
    /// What it remembers, by group, number of the parameter and name: `0.3.exp_avg`; and `steps`, one `i32` for each group; in
    /// mixed precision `loss_scale` and `good_steps`; and the gradients that [`Optimizer::accumulate`] added up for the next
    /// step, as `0.3.accumulated_gradient`. Together with the parameters' values a training that loads it goes on to
    /// the same bits. Learning rates are not in it, nor are the other numbers of rules: they are set as they were.
    ///
    /// # Errors
    /// `Limit`.
    pub fn state_dict(&self) -> Result<BTreeMap<String, Tensor>> {
        let device = self.groups[0].shards[0].flat.value().device().clone();
        let count = |group: &Group| i32::try_from(group.steps).unwrap_or(i32::MAX);
        let steps: Vec<i32> = self.groups.iter().map(count).collect();
        let steps = device.tensor(&steps, &[steps.len()])?;
        let mut state = BTreeMap::from([(STEPS.to_string(), steps)]);
        if let Some(scaling) = &self.scaling {
            state.insert(SCALE.to_string(), scaling.scale.value());
            state.insert(GOOD.to_string(), scaling.good.value());
        }
        for (name, shard, memory, at) in self.places() {
            let (start, shape) = (at.0 as isize, &shard.shapes[at.1]);
            let count = shape.iter().product::<usize>() as isize;
            let flat = shard.memory[memory].value();
            state.insert(name, flat.slice(0, start..start + count)?.reshape(&shape[..])?);
        }
        for (g, group) in self.groups.iter().enumerate() {
            let mut first = 0;
            for shard in &group.shards {
                for (i, gradient) in shard.accumulated()? {
                    state.insert(format!("{g}.{}.{ACCUMULATED}", first + i), gradient);
                }
                first += shard.shapes.len();
            }
        }
        Ok(state)
    }

    /// Takes what [`Optimizer::state_dict`] gave of an optimiser of the same rules and parameters. A `steps` of one number is
    /// that of all groups. Gradients that waited for a step are dropped.
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
            let message = format!("{OP}: `{STEPS}` has {saved} numbers, here are {groups} groups");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let mut given: BTreeMap<&str, &Tensor> =
            state.iter().map(|(name, x)| (&name[..], x)).collect();
        given.remove(STEPS);
        let mut scaled = Vec::new();
        for (variable, name) in
            self.scaling.iter().flat_map(|own| [(&own.scale, SCALE), (&own.good, GOOD)])
        {
            let value = given.remove(name).ok_or_else(|| missing(name))?;
            let value = value.cast(variable.dtype())?.reshape(&[1])?.detach();
            scaled.push((variable, value));
        }
        let mut parts: Vec<Tensor> = Vec::new();
        for (name, shard, _, at) in self.places() {
            let part = given.remove(&name[..]).ok_or_else(|| missing(&name))?;
            let (wanted, shape) = (&shard.shapes[at.1], part.shape());
            if shape != &wanted[..] {
                let message = format!("{OP}: `{name}` has shape {wanted:?}, given was {shape:?}");
                return Err(Error::new(ErrorKind::Shape, message));
            }
            parts.push(part.cast(shard.flat.dtype())?.reshape(&[-1])?);
        }
        let mut pending = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            let mut first = 0;
            for shard in &group.shards {
                let mut gradients = Vec::with_capacity(shard.shapes.len());
                for (i, wanted) in shard.shapes.iter().enumerate() {
                    let name = format!("{g}.{}.{ACCUMULATED}", first + i);
                    let gradient = given.remove(&name[..]);
                    let shape = gradient.map(Tensor::shape);
                    if let Some(shape) = shape.filter(|shape| *shape != &wanted[..]) {
                        let message =
                            format!("{OP}: `{name}` has shape {wanted:?}, given was {shape:?}");
                        return Err(Error::new(ErrorKind::Shape, message));
                    }
                    let dtype = shard.flat.dtype();
                    gradients.push(gradient.map(|x| x.cast(dtype)).transpose()?);
                }
                pending.push(shard.joined(&gradients)?.map(Pending::new).transpose()?);
                first += shard.shapes.len();
            }
        }
        if let Some(name) = given.keys().next() {
            return Err(Error::data(format!("{OP}: surplus: `{name}`")));
        }
        let mut all: Vec<(Variable, Tensor)> =
            scaled.into_iter().map(|(variable, value)| (variable.clone(), value)).collect();
        let mut rest = &parts[..];
        for shard in self.shards() {
            for memory in &shard.memory {
                let (own, others) = rest.split_at(shard.shapes.len());
                rest = others;
                all.push((memory.clone(), Tensor::concat(own, 0)?.detach()));
            }
        }
        // From here on nothing fails.
        drop(Assignment::new(all)?.commit());
        for (shard, pending) in self.shards_mut().zip(pending) {
            shard.forget();
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

    /// The name of each thing remembered, its shard, its number there, and where the parameter begins and its number: by
    /// shards, then things, then parameters.
    fn places(&self) -> Vec<(String, &super::Shard, usize, (usize, usize))> {
        let mut places = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            let mut first = 0;
            for shard in &group.shards {
                for (m, (what, _)) in group.rule.memory().iter().enumerate() {
                    let mut start = 0;
                    for (i, shape) in shard.shapes.iter().enumerate() {
                        places.push((format!("{g}.{}.{what}", first + i), shard, m, (start, i)));
                        start += shape.iter().product::<usize>();
                    }
                }
                first += shard.shapes.len();
            }
        }
        places
    }
}
