//! Optimizers: groups of parameters, each with a rule and a learning rate, and the processing of gradients before the rules.
//!
//! The parameters are numbers of variables, and their values come from outside. An optimizer holds only its state.

use super::array::{count, Array};
use super::number::Number;
use super::rules::Rule;
use std::collections::BTreeMap;

/// The clipping of large gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    Norm(f64),
    Value(f64),
}

/// The scale of losses, and the counts that change it.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    pub scale: Number,
    pub good: f64,
}

/// The initial scale of losses, its factor after `INTERVAL` good steps in a row, and its factor after a skipped step.
pub const SCALE: f64 = 8.0;
pub const GROWTH: f64 = 2.0;
pub const INTERVAL: u32 = 2;
pub const BACKOFF: f64 = 0.5;

/// The name in a state of accumulated gradients.
pub const ACCUMULATED: &str = "accumulated_gradient";

#[derive(Clone, Debug)]
pub struct Group {
    pub rule: Rule,
    pub lr: f64,
    pub base_lr: f64,
    pub steps: u64,
    /// The number of steps that were not skipped.
    pub taken: u64,
    pub members: Vec<Member>,
}

/// A parameter with its state.
#[derive(Clone, Debug)]
pub struct Member {
    pub variable: usize,
    pub shape: Vec<usize>,
    pub memory: Vec<Array>,
    /// The sum of the accumulated gradients.
    pub pending: Option<Array>,
}

#[derive(Clone, Debug)]
pub struct Optimizer {
    pub groups: Vec<Group>,
    pub clip: Option<Clip>,
    pub scaling: Option<Scaling>,
}

impl Group {
    pub fn new(rule: Rule, lr: f64, parameters: &[(usize, Vec<usize>)]) -> Group {
        let members = parameters.iter().map(|(variable, shape)| {
            let memory = rule.memory().into_iter();
            let memory = memory.map(|(_, first)| Array::full(shape, Number::exact(first)));
            let (variable, shape, memory) = (*variable, shape.clone(), memory.collect());
            Member { variable, shape, memory, pending: None }
        });
        Group { rule, lr, base_lr: lr, steps: 0, taken: 0, members: members.collect() }
    }
}

impl Optimizer {
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.groups.iter().flat_map(|group| &group.members)
    }

    pub fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.groups.iter_mut().flat_map(|group| &mut group.members)
    }

    /// Returns the numbers of all parameters.
    pub fn variables(&self) -> Vec<usize> {
        self.members().map(|member| member.variable).collect()
    }

    /// Returns the factor of losses.
    pub fn scale(&self) -> Number {
        self.scaling.map_or(Number::exact(1.0), |scaling| scaling.scale)
    }

    /// Takes a step with these gradients, which are scaled as losses are, and the accumulated ones. Returns the new values of
    /// the parameters that have a gradient.
    pub fn step(&mut self, gradients: Vec<Option<Array>>, values: &[Array]) -> Vec<Option<Array>> {
        let mut all = gradients;
        for (gradient, member) in all.iter_mut().zip(self.members_mut()) {
            *gradient = sum(gradient.take(), member.pending.take());
        }
        let inverse = Number::exact(1.0) / self.scale();
        for gradient in all.iter_mut().flatten() {
            *gradient = gradient.map(|g| if self.scaling.is_some() { g * inverse } else { g });
        }
        let finite = |a: &Array| a.data.iter().all(|g| g.value.is_finite());
        let good = self.scaling.is_none() || all.iter().flatten().all(finite);
        if good {
            self.clip(&mut all);
        }
        let (mut gradients, mut values) = (all.into_iter(), values.iter());
        let mut results = Vec::new();
        for group in &mut self.groups {
            group.steps += 1;
            group.taken += u64::from(good);
            for member in &mut group.members {
                let (gradient, value) = (gradients.next().flatten(), values.next());
                let value = value.expect("one for each parameter");
                results.push(gradient.map(|gradient| match good {
                    true => stepped(group.rule, (group.lr, group.taken), value, &gradient, member),
                    false => value.clone(),
                }));
            }
        }
        if let Some(scaling) = &mut self.scaling {
            scaling.follow(good);
        }
        results
    }

    fn clip(&self, gradients: &mut [Option<Array>]) {
        match self.clip {
            Some(Clip::Norm(max)) => {
                let all = gradients.iter().flatten().flat_map(|a| a.data.clone());
                let norm = Number::sum(all.map(Number::square)).sqrt();
                let factor = (Number::exact(max) / (norm + 1e-6)).min(Number::exact(1.0));
                for gradient in gradients.iter_mut().flatten() {
                    *gradient = gradient.map(|g| g * factor);
                }
            }
            Some(Clip::Value(max)) => {
                let (low, high) = (Number::exact(-max), Number::exact(max));
                for gradient in gradients.iter_mut().flatten() {
                    *gradient = gradient.map(|g| g.max(low).min(high));
                }
            }
            None => {}
        }
    }

    /// Returns the state, by the names of `state_dict`.
    pub fn state(&self) -> BTreeMap<String, Array> {
        let line = |count: &dyn Fn(&Group) -> u64| {
            let all = self.groups.iter().map(|group| Number::exact(count(group) as f64));
            Array::new(&[self.groups.len()], all.collect())
        };
        let mut state = BTreeMap::from([("steps".to_string(), line(&|group| group.steps))]);
        if let Some(scaling) = &self.scaling {
            let good = Number::exact(scaling.good);
            state.insert("loss_scale".into(), Array::full(&[1], scaling.scale));
            state.insert("good_steps".into(), Array::full(&[1], good));
            state.insert("taken_steps".into(), line(&|group| group.taken));
        }
        for (g, group) in self.groups.iter().enumerate() {
            for (m, member) in group.members.iter().enumerate() {
                for ((name, _), memory) in group.rule.memory().iter().zip(&member.memory) {
                    state.insert(format!("{g}.{m}.{name}"), memory.clone());
                }
                if let Some(sum) = &member.pending {
                    state.insert(format!("{g}.{m}.{ACCUMULATED}"), sum.clone());
                }
            }
        }
        state
    }

    /// Loads a state of an optimizer with the same rules and parameters. Changes nothing if the state does not fit.
    pub fn load(&mut self, state: &BTreeMap<String, Array>) -> bool {
        let own = self.state();
        let counts = (own["steps"].data.len(), state["steps"].data.len());
        // Sums of gradients need not exist on both sides, but must have the shapes of their parameters.
        let is_sum = |name: &String| name.ends_with(ACCUMULATED);
        let count = |all: &BTreeMap<String, Array>| all.keys().filter(|name| !is_sum(name)).count();
        let fits = |name: &String, array: &Array| {
            name == "steps" || state.get(name).is_some_and(|other| other.shape == array.shape)
        };
        let mut sums = state.keys().filter(|name| is_sum(name)).count();
        for (g, group) in self.groups.iter().enumerate() {
            for (m, member) in group.members.iter().enumerate() {
                let sum = state.get(&format!("{g}.{m}.{ACCUMULATED}"));
                sums -= usize::from(sum.is_some_and(|sum| sum.shape == member.shape));
            }
        }
        let alike = count(&own) == count(state)
            && sums == 0
            && (counts.1 == 1 || counts.0 == counts.1)
            && own.iter().all(|(name, array)| is_sum(name) || fits(name, array));
        if !alike {
            return false;
        }
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.steps = state["steps"].data[g % counts.1].value as u64;
            group.taken = match self.scaling {
                Some(_) => state["taken_steps"].data[g].value as u64,
                None => group.steps,
            };
            for (m, member) in group.members.iter_mut().enumerate() {
                for ((name, _), memory) in group.rule.memory().iter().zip(&mut member.memory) {
                    *memory = state[&format!("{g}.{m}.{name}")].clone();
                }
                member.pending = state.get(&format!("{g}.{m}.{ACCUMULATED}")).cloned();
            }
        }
        if let Some(scaling) = &mut self.scaling {
            scaling.scale = state["loss_scale"].data[0];
            scaling.good = state["good_steps"].data[0].value;
        }
        true
    }
}

impl Scaling {
    fn follow(&mut self, good: bool) {
        self.good = if good { self.good + 1.0 } else { 0.0 };
        if !good {
            self.scale = self.scale * BACKOFF;
        } else if self.good >= f64::from(INTERVAL) {
            (self.scale, self.good) = (self.scale * GROWTH, 0.0);
        }
    }
}

/// Returns the new value of a parameter.
fn stepped(
    rule: Rule,
    (lr, steps): (f64, u64),
    value: &Array,
    gradient: &Array,
    member: &mut Member,
) -> Array {
    let mut new = value.clone();
    for n in 0..count(&value.shape) {
        let mut memory: Vec<Number> = member.memory.iter().map(|array| array.data[n]).collect();
        new.data[n] = rule.update(value.data[n], gradient.data[n], &mut memory, lr, steps);
        for (array, number) in member.memory.iter_mut().zip(memory) {
            array.data[n] = number;
        }
    }
    new
}

/// Returns the sum of both, or the one that exists.
pub fn sum(a: Option<Array>, b: Option<Array>) -> Option<Array> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.zip(&b, |a, b| a + b)),
        (a, b) => a.or(b),
    }
}
