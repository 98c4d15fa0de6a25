//! The model of optimizers, weight averages, and states that are saved and loaded.

use super::super::actions::{Action, Slot, AVERAGES, CLIPS, OPTIMIZERS, RATES};
use super::super::reference::array::Array;
use super::super::reference::number::Number;
use super::super::reference::optimizer::{Clip, Group, Optimizer, Scaling, SCALE};
use super::super::reference::rules::{Rule, RULES};
use super::super::reference::tape::{self, Tensor};
use super::{tame, total, Fault, Made, Model, Output, Why, FAILS};
use std::collections::BTreeMap;

/// The decay of the average at each update.
pub const DECAY: f64 = 0.5;

/// The prefix of the names of an average in a state.
const AVERAGE: &str = "average.";

/// Splits a state into its averages and the rest.
pub(super) fn apart(
    state: BTreeMap<String, Array>,
) -> (BTreeMap<String, Array>, BTreeMap<String, Array>) {
    state.into_iter().partition(|(name, _)| name.starts_with(AVERAGE))
}

/// An average of the parameters of an optimizer.
#[derive(Clone, Debug)]
pub struct Average {
    of: usize,
    /// A number that is larger than those of older averages.
    number: usize,
    values: Vec<(usize, Array)>,
}

impl Model {
    pub(super) fn act_on_optimizers(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Optimizer { o, rule, clip, scaled, variables } => {
                let variables = self.several(variables)?;
                let at = self.new_optimizer(*rule, *clip, *scaled, &variables)?;
                self.optimizers[o % OPTIMIZERS] = Some(at);
                Ok(Vec::new())
            }
            Action::AddGroup { o, rule, variables } => {
                let (at, variables) = (self.optimizer(*o)?, self.several(variables)?);
                if variables.iter().any(|v| self.made[at].variables().contains(v)) {
                    return Err(FAILS);
                }
                self.add_group(at, *rule, &variables);
                Ok(Vec::new())
            }
            Action::Minimize { o, loss } => {
                let (at, loss) = (self.optimizer(*o)?, total(&self.tensor(*loss)?));
                self.minimize(at, &loss)
            }
            Action::MinimizeInfinite { o, loss } => {
                let (at, loss) = (self.optimizer(*o)?, total(&self.tensor(*loss)?));
                if self.made[at].scaling.is_none() {
                    return Err(Why::Skip);
                }
                let loss = tape::scale(&loss, f64::INFINITY);
                // The contract does not define whether an infinity passes through a derivative of 0.
                let gradients = self.scaled(at, &loss)?;
                let is_finite = |a: &Array| a.data.iter().any(|g| g.value.is_finite());
                if gradients.iter().flatten().any(is_finite) {
                    return Err(Why::Skip);
                }
                self.minimize(at, &loss)
            }
            Action::Accumulate { o, loss } => {
                let (at, loss) = (self.optimizer(*o)?, total(&self.tensor(*loss)?));
                self.accumulate(at, &loss)
            }
            Action::Step { o } => {
                let at = self.optimizer(*o)?;
                self.check_step(at)?;
                let none = vec![None; self.made[at].variables().len()];
                self.update(at, none, None)
            }
            Action::SetRate { o, rate } => {
                let (at, lr) = (self.optimizer(*o)?, RATES[rate % RATES.len()]);
                for group in &mut self.made[at].groups {
                    (group.lr, group.base_lr) = (lr, lr);
                }
                Ok(Vec::new())
            }
            Action::ScheduleRate { o, rate } => {
                let (at, lr) = (self.optimizer(*o)?, RATES[rate % RATES.len()]);
                let first = self.made[at].groups[0].base_lr;
                if first < 0.0 {
                    return Err(Why::Skip);
                }
                for (n, group) in self.made[at].groups.iter_mut().enumerate() {
                    group.lr = if n == 0 || first == 0.0 { lr } else { group.base_lr / first * lr };
                }
                Ok(Vec::new())
            }
            _ => self.act_on_states(action),
        }
    }

    fn act_on_states(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::SaveState { o } => {
                let state = self.state_of(self.optimizer(*o)?)?;
                self.state = Some(state.clone());
                Ok(state.into_iter().collect())
            }
            Action::LoadState { o } => {
                let (at, state) = (self.optimizer(*o)?, self.state.clone().ok_or(Why::Skip)?);
                let (averages, own) = apart(state);
                if !self.fits_average(at, &averages)? || !self.made[at].load(&own) {
                    return Err(FAILS);
                }
                self.set_average(at, &averages)?;
                self.accumulated[at].clear();
                Ok(Vec::new())
            }
            Action::DropOptimizer { o } => {
                self.optimizer(*o)?;
                self.optimizers[o % OPTIMIZERS] = None;
                Ok(Vec::new())
            }
            Action::Average { a, o } => {
                let at = self.optimizer(*o)?;
                if self.lost(at).is_some() {
                    return Err(Why::Skip);
                }
                let copy = |v: usize| (v, self.all[v].value.value.clone());
                let values = self.made[at].variables().into_iter().map(copy).collect();
                let numbers = self.averages.iter().flatten().map(|average| average.number + 1);
                let number = numbers.max().unwrap_or(0);
                self.averages[a % AVERAGES] = Some(Average { of: at, number, values });
                Ok(Vec::new())
            }
            Action::UpdateAverage { a } => {
                let mut average = self.present_average(*a)?;
                for (v, mean) in &mut average.values {
                    let now = &self.all[*v].value.value;
                    *mean = now.zip(mean, |now, mean| now + (mean - now) * DECAY);
                }
                self.averages[a % AVERAGES] = Some(average);
                Ok(Vec::new())
            }
            Action::SwapAverage { a } => {
                let mut average = self.present_average(*a)?;
                for (v, mean) in &mut average.values {
                    let now = self.all[*v].value.value.clone();
                    let mean = std::mem::replace(mean, now);
                    self.assign(*v, tape::constant(mean))?;
                }
                self.averages[a % AVERAGES] = Some(average);
                Ok(Vec::new())
            }
            _ => self.act_on_programs(action),
        }
    }

    /// Returns an average. Rejects it if another optimizer owns one of its parameters since.
    fn present_average(&self, slot: Slot) -> Made<Average> {
        let average = self.averages[slot % AVERAGES].clone().ok_or(Why::Skip)?;
        let is_lost = |&(v, _): &(usize, Array)| self.all[v].owner != Some(average.of);
        if self.setting.fault != Fault::LostAverages && average.values.iter().any(is_lost) {
            Err(FAILS)
        } else {
            Ok(average)
        }
    }

    /// Returns the averages of an optimizer's parameters, oldest first, with their names in its state.
    fn averaged(&self, at: usize) -> Made<Vec<(Vec<String>, Average)>> {
        let mut averages: Vec<Average> =
            self.averages.iter().flatten().filter(|average| average.of == at).cloned().collect();
        averages.sort_by_key(|average| average.number);
        if !averages.is_empty() && self.lost(at).is_some() {
            // The contract does not define the state of an optimizer that has lost a parameter.
            return Err(Why::Skip);
        }
        let groups = self.made[at].groups.iter().enumerate();
        let places: Vec<(usize, usize)> =
            groups.flat_map(|(g, group)| (0..group.members.len()).map(move |m| (g, m))).collect();
        let named = |(n, average): (usize, Average)| {
            let name = |(g, m): &(usize, usize)| format!("{AVERAGE}{n}.{g}.{m}");
            (places.iter().take(average.values.len()).map(name).collect(), average)
        };
        Ok(averages.into_iter().enumerate().map(named).collect())
    }

    /// Returns the result of `state_dict`.
    pub(super) fn state_of(&self, at: usize) -> Made<BTreeMap<String, Array>> {
        let mut state = self.made[at].state();
        for (names, average) in self.averaged(at)? {
            state.extend(names.into_iter().zip(average.values.into_iter().map(|(_, x)| x)));
        }
        Ok(state)
    }

    /// Whether each average of this optimizer is in a state or is missing as a whole, and the state has no others.
    pub(super) fn fits_average(&self, at: usize, saved: &BTreeMap<String, Array>) -> Made<bool> {
        let mut count = 0;
        for (names, average) in self.averaged(at)? {
            let found: Vec<&Array> = names.iter().filter_map(|name| saved.get(name)).collect();
            let is_alike = |(x, v): (&&Array, &(usize, Array))| x.shape == v.1.shape;
            let fits =
                found.len() == names.len() && found.iter().zip(&average.values).all(is_alike);
            if !found.is_empty() && !fits {
                return Ok(false);
            }
            count += found.len();
        }
        Ok(count == saved.len())
    }

    /// Loads saved averages. An average that was not saved restarts from the values of the parameters.
    pub(super) fn set_average(&mut self, at: usize, saved: &BTreeMap<String, Array>) -> Made<()> {
        for (names, mut average) in self.averaged(at)? {
            for ((v, mean), name) in average.values.iter_mut().zip(&names) {
                *mean = saved.get(name).unwrap_or(&self.all[*v].value.value).clone();
            }
            let mut all = self.averages.iter_mut().flatten();
            if let Some(own) = all.find(|own| own.number == average.number) {
                *own = average;
            }
        }
        Ok(())
    }

    pub(super) fn new_optimizer(
        &mut self,
        rule: usize,
        clip: usize,
        scaled: bool,
        variables: &[usize],
    ) -> Made<usize> {
        if scaled && !self.setting.f16 {
            return Err(Why::Skip);
        }
        let scaling = scaled.then_some(Scaling { scale: Number::exact(SCALE), good: 0.0 });
        let clip = [None, Some(Clip::Norm(1.0)), Some(Clip::Value(0.5))][clip % CLIPS];
        self.made.push(Optimizer { groups: Vec::new(), clip, scaling });
        self.accumulated.push(Vec::new());
        let at = self.made.len() - 1;
        self.add_group(at, rule, variables);
        Ok(at)
    }

    fn add_group(&mut self, at: usize, rule: usize, variables: &[usize]) {
        let values = self.values(variables);
        self.evaluate(&values);
        let (mut rule, lr) = RULES[rule % RULES.len()];
        if let (Fault::NoMomentum, Rule::Sgd { momentum, .. }) = (self.setting.fault, &mut rule) {
            *momentum *= 0.75;
        }
        let mut parameters = Vec::new();
        for (&v, value) in variables.iter().zip(values) {
            self.take_out(v);
            self.all[v].owner = Some(at);
            parameters.push((v, value.shape().to_vec()));
        }
        self.made[at].groups.push(Group::new(rule, lr, &parameters));
    }

    /// Returns the index of a parameter that a newer optimizer owns.
    pub(super) fn lost(&self, at: usize) -> Option<usize> {
        self.made[at].variables().iter().position(|&v| self.all[v].owner != Some(at))
    }

    /// Rejects a step that must be an error.
    fn check_step(&self, at: usize) -> Made<()> {
        let variables = self.made[at].variables();
        let lost = |&place: &usize| self.all[variables[place]].owner != Some(at);
        let lost: Vec<usize> = (0..variables.len()).filter(lost).collect();
        if !lost.is_empty() {
            return Err(Why::Fails(self.in_groups(at, lost)));
        }
        let refused = self.made[at].groups.iter().any(|group| group.lr < 0.0);
        if refused {
            Err(FAILS)
        } else {
            Ok(())
        }
    }

    /// Adds to the indices of parameters their indices within their groups. An error may name either.
    fn in_groups(&self, at: usize, places: Vec<usize>) -> Vec<usize> {
        let inner = self.made[at].groups.iter().flat_map(|group| 0..group.members.len());
        let inner: Vec<usize> = inner.collect();
        let mut all = places.clone();
        all.extend(places.iter().map(|&place| inner[place]));
        all
    }

    /// Returns the scaled gradients of a loss by all parameters.
    fn scaled(&mut self, at: usize, loss: &Tensor) -> Made<Vec<Option<Array>>> {
        let variables = self.made[at].variables();
        let found = self.gradients_by(loss, &variables).map_err(|why| match why {
            Why::Fails(places) => Why::Fails(self.in_groups(at, places)),
            Why::Skip => Why::Skip,
        })?;
        if found.iter().all(Option::is_none) {
            return Err(FAILS);
        }
        let (scale, scales) = (self.made[at].scale(), self.made[at].scaling.is_some());
        let one = |x: Tensor| x.value.map(|g| if scales { g * scale } else { g });
        Ok(found.into_iter().map(|gradient| gradient.map(one)).collect())
    }

    pub(super) fn minimize(&mut self, at: usize, loss: &Tensor) -> Made<Output> {
        self.check_step(at)?;
        let gradients = self.scaled(at, loss)?;
        self.update(at, gradients, Some(loss))
    }

    fn accumulate(&mut self, at: usize, loss: &Tensor) -> Made<Output> {
        if self.lost(at).is_some() {
            // The contract defines an error only for a step.
            return Err(Why::Skip);
        }
        let gradients = self.scaled(at, loss)?;
        for (member, gradient) in self.made[at].members_mut().zip(gradients) {
            let sum = super::super::reference::optimizer::sum(member.pending.take(), gradient);
            member.pending = sum;
        }
        self.accumulated[at].push(loss.clone());
        self.evaluate_all();
        Ok(Vec::new())
    }

    /// Takes a step with the current gradients and all accumulated ones. The step consumes `loss`.
    fn update(
        &mut self,
        at: usize,
        mut gradients: Vec<Option<Array>>,
        loss: Option<&Tensor>,
    ) -> Made<Output> {
        let variables = self.made[at].variables();
        for (gradient, &v) in gradients.iter_mut().zip(&variables) {
            let left = self.all[v].gradient.as_ref().map(|x| x.value.clone());
            *gradient = super::super::reference::optimizer::sum(gradient.take(), left);
        }
        let pending = self.made[at].members().any(|member| member.pending.is_some());
        if !pending && gradients.iter().all(Option::is_none) {
            return Err(FAILS);
        }
        let values: Vec<Array> = self.values(&variables).iter().map(|x| x.value.clone()).collect();
        let results = self.made[at].step(gradients, &values);
        let mut losses = std::mem::take(&mut self.accumulated[at]);
        losses.extend(loss.cloned());
        let mut changed = Vec::new();
        for (&v, result) in variables.iter().zip(results) {
            self.all[v].gradient = None;
            if let Some(value) = result {
                let value = tape::constant(value);
                tame(&value)?;
                changed.push(self.all[v].value.clone());
                self.assign(v, value)?;
            }
        }
        losses.iter().for_each(|loss| self.use_up(loss, &changed));
        self.evaluate_all();
        Ok(Vec::new())
    }

    /// Makes gradients through `changed` an error from now on, for a loss and its history. The path through the value of
    /// another variable is not consumed.
    fn use_up(&mut self, loss: &Tensor, changed: &[Tensor]) {
        let mut used = Vec::new();
        for leaf in changed {
            let is_leaf = |x: &Tensor| tape::same(x, leaf);
            let all = tape::path(loss, &is_leaf, &|x| self.is_value(x));
            used.extend(all.into_keys().filter(|&id| id != leaf.id).map(|id| (id, leaf.id)));
        }
        for (id, leaf) in used {
            self.used.entry(id).or_default().insert(leaf);
        }
    }

    /// Returns the numbers of the variables in slots of a body. A variable may occur twice.
    pub(super) fn variables_of(&self, body: &super::super::actions::Body) -> Made<Vec<usize>> {
        let one = |&slot: &Slot| self.variable(slot);
        body.variables.iter().map(one).collect()
    }
}
