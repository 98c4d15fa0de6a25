//! The model: the effect of each action on tensors, variables, optimizers and so on, by the contract, in the reference.
//!
//! `apply` changes the model as if the action succeeds, and returns what is expected of the library. It is called on a copy.
//! The copy is dropped if the library rightly fails, so a failed call has changed nothing.
//!
//! Some gradients may be an error that depends on the history. A tensor that was computed and is no longer held is freed, and
//! gradients that would pass it are an error. The library may keep such a tensor longer. The model therefore notes which
//! tensors may have been computed, and accepts either this error or the right value if one of them is on the path.

pub mod optimizers;
pub mod programs;
pub mod tensors;
pub mod trainer;
mod variables;

use super::actions::{Action, Refusal, Slot, AVERAGES, OPTIMIZERS, PROGRAMS, TENSORS, VARIABLES};
use super::reference::array::Array;
use super::reference::optimizer::Optimizer;
use super::reference::tape::{self, Op, Tensor};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Larger values are skipped, because `f32` would differ too much.
const LARGEST: f64 = 1e3;

/// The number of batches from which on an intermediate tensor may be stored: the second batch writes it to memory.
const BATCHES: u8 = 2;

/// The reason why an action returns nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The action is not performed: a slot is empty, or a value would be too large.
    Skip,
    /// The library must return an error. The message names one of the variables or parameters at these indices, if there are
    /// any.
    Fails(Vec<usize>),
}

pub type Made<T> = Result<T, Why>;

/// An error without a name in its message.
pub const FAILS: Why = Why::Fails(Vec::new());

/// The expected behavior of the library.
#[derive(Clone, Debug)]
pub struct Plan {
    pub outcome: Outcome,
    /// Whether the error may also be that data was freed, or that memory is short.
    pub or_is_gone: bool,
    pub or_lacks_memory: bool,
    /// The values that the action reads, with a name each.
    pub output: Output,
}

pub type Output = Vec<(String, Array)>;

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Skip,
    Works,
    Fails(Vec<usize>),
}

/// A variable: its value, the ids of its former values, and the gradient that `backward` stored.
#[derive(Clone, Debug)]
pub struct Variable {
    pub value: Tensor,
    pub former: Vec<usize>,
    pub gradient: Option<Tensor>,
    /// The newest optimizer of the variable.
    owner: Option<usize>,
    /// Whether the variable is a part of the program's flat variable.
    is_flat: bool,
}

/// Whether a tensor was read, and the number of batches that used it.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    asked: bool,
    batches: u8,
}

/// The features of a device, and a fault that is made on purpose so that the test must find it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    pub f16: bool,
    pub fault: Fault,
    /// The number of this rank, and of the other ranks that train with it.
    pub rank: usize,
    pub others: usize,
}

impl Setting {
    pub fn ranks(self) -> usize {
        self.others + 1
    }
}

/// A wrong rule in the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    #[default]
    None,
    /// Gradients by a variable include the path through the tensor that was assigned to it.
    SharedVariables,
    /// Programs capture the contents of the slots when they run.
    LateCapture,
    /// Momentum is ignored.
    NoMomentum,
    /// `tanh` passes its gradient unchanged.
    Tanh,
    /// A run of a program does not move the generator.
    NoDraws,
    /// The end of the training keeps the last weights.
    LastWeights,
    /// Averages work after another optimizer took their parameters.
    LostAverages,
    /// Each rank trains with its own gradients.
    OwnGradients,
}

#[derive(Clone, Debug)]
pub struct Model {
    setting: Setting,
    /// The position of the generator.
    draws: Cell<u32>,
    tensors: Vec<Option<Tensor>>,
    variables: Vec<Option<usize>>,
    all: Vec<Variable>,
    optimizers: Vec<Option<usize>>,
    made: Vec<Optimizer>,
    /// The losses that were passed to `accumulate`, by optimizer.
    accumulated: Vec<Vec<Tensor>>,
    programs: Vec<Option<programs::Program>>,
    flat: Option<variables::Flat>,
    averages: Vec<Option<optimizers::Average>>,
    state: Option<BTreeMap<String, Array>>,
    trainer: Option<trainer::Trainer>,
    file: Option<trainer::File>,
    marks: HashMap<usize, Mark>,
    /// For each tensor that a step consumed, the parameter values that the step changed.
    used: HashMap<usize, HashSet<usize>>,
    /// The results of checkpoints and programs, and gradients. The contract does not define the derivatives of these by each
    /// other.
    again: HashSet<usize>,
    gradients: HashSet<usize>,
    may_be_gone: bool,
    may_lack_memory: bool,
}

impl Model {
    pub fn new(setting: Setting) -> Model {
        Model {
            setting,
            draws: Cell::new(0),
            tensors: vec![None; TENSORS],
            variables: vec![None; VARIABLES],
            all: Vec::new(),
            optimizers: vec![None; OPTIMIZERS],
            made: Vec::new(),
            accumulated: Vec::new(),
            programs: vec![None; PROGRAMS],
            flat: None,
            averages: vec![None; AVERAGES],
            state: None,
            trainer: None,
            file: None,
            marks: HashMap::new(),
            used: HashMap::new(),
            again: HashSet::new(),
            gradients: HashSet::new(),
            may_be_gone: false,
            may_lack_memory: false,
        }
    }

    /// Performs an action.
    pub fn apply(&mut self, action: &Action) -> Plan {
        (self.may_be_gone, self.may_lack_memory) = (false, false);
        let (outcome, output) = match self.act(action) {
            Ok(output) => (Outcome::Works, output),
            Err(Why::Skip) => (Outcome::Skip, Vec::new()),
            Err(Why::Fails(names)) => (Outcome::Fails(names), Vec::new()),
        };
        let (or_is_gone, or_lacks_memory) = (self.may_be_gone, self.may_lack_memory);
        Plan { outcome, or_is_gone, or_lacks_memory, output }
    }

    fn act(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Starved(inner) => {
                self.may_lack_memory = true;
                self.act(inner)
            }
            Action::Profiled(inner) => {
                self.evaluate_all();
                let output = self.act(inner)?;
                self.evaluate_all();
                Ok(output)
            }
            Action::Refused { what, t, v, o } => self.refused(*what, (*t, *v, *o)),
            _ => self.act_on_tensors(action),
        }
    }

    /// Checks the requirements of a call that must fail.
    fn refused(&self, what: Refusal, (t, v, o): (Slot, Slot, Slot)) -> Made<Output> {
        match what {
            Refusal::AssignIntegers | Refusal::AssignFromOtherDevice => {
                self.tensor(t)?;
                self.variable(v)?;
            }
            Refusal::AssignSliceOutside | Refusal::FlattenTwice => drop(self.variable(v)?),
            Refusal::OptimizerOfIntegers | Refusal::OptimizerOfNonsense => {
                self.tensor(t)?;
                self.variable(v)?;
            }
            Refusal::GradOfIntegers => drop(self.tensor(t)?),
            Refusal::GradOfSeveral if self.tensor(t)?.value.data.len() == 1 => {
                return Err(Why::Skip);
            }
            Refusal::OptimizerOfNothing | Refusal::GradOfSeveral => {}
            Refusal::GroupOfNonsense => {
                self.optimizer(o)?;
                self.variable(v)?;
            }
            Refusal::MinimizeConstant | Refusal::AccumulateConstant => {
                self.tensor(t)?;
                self.optimizer(o)?;
            }
            Refusal::StateWithoutSteps | Refusal::StateWithSurplus | Refusal::AverageOfNonsense => {
                self.optimizer(o)?;
            }
            Refusal::LoadNonsense => drop(self.trainer.as_ref().ok_or(Why::Skip)?),
        }
        Err(FAILS)
    }

    /// Returns numbers that must agree with the library after each action.
    pub fn summary(&self) -> Vec<(String, f64)> {
        let mut all = vec![("draws".into(), f64::from(self.draws.get()))];
        for (o, optimizer) in self.optimizers.iter().enumerate() {
            if let Some(optimizer) = optimizer.map(|at| &self.made[at]) {
                all.push((format!("steps of o{o}"), optimizer.groups[0].steps as f64));
                all.push((format!("lr of o{o}"), optimizer.groups[0].lr));
            }
        }
        if let Some(trainer) = &self.trainer {
            all.push(("steps of the trainer".into(), trainer.steps as f64));
            all.push(("epoch of the trainer".into(), trainer.epoch as f64));
            all.push(("history of the trainer".into(), trainer.history as f64));
            all.push(("draws of the trainer".into(), trainer.draws as f64));
            all.push(("the trainer is over".into(), f64::from(u8::from(trainer.is_over()))));
        }
        for (v, variable) in self.variables.iter().enumerate() {
            if let Some(at) = *variable {
                let variable = &self.all[at];
                let has = variable.gradient.is_some();
                all.push((format!("v{v} has a gradient"), f64::from(u8::from(has))));
                all.push((format!("size of v{v}"), variable.value.value.data.len() as f64));
            }
        }
        all
    }

    /// Drops the trainer. After an error, several ranks cannot train on.
    pub fn drop_trainer(&mut self) {
        self.trainer = None;
    }

    /// Returns the tensor in a slot.
    pub fn tensor(&self, slot: Slot) -> Made<Tensor> {
        self.tensors[slot % TENSORS].clone().ok_or(Why::Skip)
    }

    /// Returns the number of the variable in a slot.
    fn variable(&self, slot: Slot) -> Made<usize> {
        self.variables[slot % VARIABLES].ok_or(Why::Skip)
    }

    /// Returns the value of the variable in a slot.
    pub fn value(&self, slot: Slot) -> Made<&Tensor> {
        Ok(&self.all[self.variable(slot)?].value)
    }

    /// Returns the number of the optimizer in a slot.
    fn optimizer(&self, slot: Slot) -> Made<usize> {
        self.optimizers[slot % OPTIMIZERS].ok_or(Why::Skip)
    }

    /// Returns the filled slots of tensors, variables, optimizers, programs and averages.
    pub fn filled(&self) -> [Vec<Slot>; 5] {
        fn of<T>(all: &[Option<T>]) -> Vec<Slot> {
            (0..all.len()).filter(|&slot| all[slot].is_some()).collect()
        }
        [
            of(&self.tensors),
            of(&self.variables),
            of(&self.optimizers),
            of(&self.programs),
            of(&self.averages),
        ]
    }

    fn put(&mut self, slot: Slot, tensor: Tensor) -> Made<Output> {
        tame(&tensor)?;
        self.tensors[slot % TENSORS] = Some(tensor);
        Ok(Vec::new())
    }

    /// Whether any object holds a variable.
    fn is_alive(&self, variable: usize) -> bool {
        let trainer = self.trainer.as_ref();
        let optimizers = self.optimizers.iter().flatten().copied();
        let mut optimizers = optimizers.chain(trainer.map(|trainer| trainer.optimizer));
        self.variables.contains(&Some(variable))
            || optimizers.any(|at| self.made[at].variables().contains(&variable))
            || trainer.is_some_and(|trainer| trainer.variables.contains(&variable))
    }

    /// Returns the tensors that are held.
    fn held(&self) -> HashSet<usize> {
        let mut held: HashSet<usize> = self.tensors.iter().flatten().map(|x| x.id).collect();
        for (at, variable) in self.all.iter().enumerate() {
            if !self.is_alive(at) {
                continue;
            }
            held.extend(variable.gradient.iter().map(|x| x.id));
            held.insert(variable.value.id);
        }
        held
    }

    /// Returns the values of variables that are held.
    fn live_values(&self) -> Vec<Tensor> {
        let alive = (0..self.all.len()).filter(|&at| self.is_alive(at));
        alive.map(|at| self.all[at].value.clone()).collect()
    }

    /// Marks these tensors and their history as computed. The values of variables are computed together with any other tensor.
    fn evaluate(&mut self, roots: &[Tensor]) {
        let roots = [roots, &self.live_values()[..]].concat();
        let held = self.held();
        let marks = &self.marks;
        let is_data =
            |x: &Tensor| held.contains(&x.id) && marks.get(&x.id).is_some_and(|mark| mark.asked);
        let computed = tape::ancestors(&roots, |x| !is_data(x));
        for x in computed {
            let mark = self.marks.entry(x.id).or_default();
            mark.batches = mark.batches.saturating_add(1);
        }
        for x in &roots {
            self.marks.entry(x.id).or_default().asked = true;
        }
    }

    /// Marks everything that is held as computed.
    fn evaluate_all(&mut self) {
        let mut roots: Vec<Tensor> = self.tensors.iter().flatten().cloned().collect();
        roots.extend(self.all.iter().filter_map(|variable| variable.gradient.clone()));
        self.evaluate(&roots);
    }

    /// Searches the path of gradients from `of` for tensors that were computed and freed. The history behind such a tensor is
    /// unknown, so gradients by everything older may be an error.
    fn look_for_gone(&mut self, of: &Tensor, wrt: &[Tensor]) {
        let oldest = |x: &Tensor| {
            let mut x = x;
            while let (Op::Identity, [inner]) = (x.op, &x.operands[..]) {
                x = inner;
            }
            x.id
        };
        let Some(oldest) = wrt.iter().map(oldest).min() else { return };
        let held = self.held();
        let is_gone = |x: &Tensor| {
            let mark = self.marks.get(&x.id).copied().unwrap_or_default();
            let is_computed = mark.asked || mark.batches >= BATCHES;
            is_computed && !tape::same(x, of) && !held.contains(&x.id)
        };
        let way = tape::ancestors(std::slice::from_ref(of), |x| x.id > oldest && !is_gone(x));
        self.may_be_gone |= way.iter().any(|x| x.id > oldest && is_gone(x));
    }

    /// Checks whether the path of gradients from `of` to `wrt` may be freed, or must be an error.
    fn check_path(&mut self, of: &Tensor, wrt: &[Tensor]) -> Made<()> {
        self.look_for_gone(of, wrt);
        let on = tape::path(of, &|x| wrt.iter().any(|y| tape::same(x, y)), &|_| false);
        let has_no_gradient = |x: &&Tensor| {
            let is_passed = x.operands.iter().any(|operand| on.contains_key(&operand.id));
            matches!(x.op, Op::Slope(_)) && is_passed
        };
        if on.values().any(|x| has_no_gradient(&x)) {
            return Err(FAILS);
        }
        let through = |used: &HashSet<usize>| used.iter().any(|leaf| on.contains_key(leaf));
        if self.used.get(&of.id).is_some_and(through) {
            return Err(FAILS);
        }
        self.may_be_gone |= on.keys().any(|id| self.used.contains_key(id));
        Ok(())
    }

    /// Returns gradients by tensors, with zeros if there are none.
    fn gradients(&mut self, of: &Tensor, seed: &Tensor, wrt: &[Tensor]) -> Made<Vec<Tensor>> {
        self.check_path(of, wrt)?;
        // A gradient may be the same tensor as another gradient or as an operand, so its dependents are undefined.
        if wrt.iter().any(|x| self.gradients.contains(&x.id)) {
            return Err(Why::Skip);
        }
        let found = self.found(of, seed, wrt)?.into_iter().zip(wrt);
        let whole = |(gradient, x): (Option<Tensor>, &Tensor)| {
            gradient.unwrap_or_else(|| tape::constant(Array::zeros(x.shape())))
        };
        Ok(found.map(whole).collect())
    }

    /// Returns gradients, with the fault that is made on purpose.
    fn found(&mut self, of: &Tensor, seed: &Tensor, wrt: &[Tensor]) -> Made<Vec<Option<Tensor>>> {
        if wrt.iter().any(|x| self.again.contains(&x.id)) {
            let all = tape::ancestors(std::slice::from_ref(of), |_| true);
            if all.iter().any(|x| self.gradients.contains(&x.id)) {
                return Err(Why::Skip);
            }
        }
        let inner = |x: &Tensor| match (x.op, &x.operands[..], self.setting.fault) {
            (Op::Identity, [inner], Fault::SharedVariables) => inner.clone(),
            _ => x.clone(),
        };
        let wrt: Vec<Tensor> = wrt.iter().map(inner).collect();
        let found = tape::gradients(of, seed, &wrt);
        self.gradients.extend(found.iter().flatten().map(|x| x.id));
        Ok(found)
    }
}

/// Skips values that `f32` cannot follow.
fn tame(x: &Tensor) -> Made<()> {
    let fits = x.value.data.iter().all(|x| x.value.abs() <= LARGEST);
    if fits {
        Ok(())
    } else {
        Err(Why::Skip)
    }
}

/// Reduces a tensor to a single number: itself, or its sum.
fn total(x: &Tensor) -> Tensor {
    if x.value.data.len() == 1 {
        x.clone()
    } else {
        tape::sum(x)
    }
}

/// Returns ones, the weight of the gradient of a single number.
fn ones(x: &Tensor) -> Tensor {
    tape::constant(x.value.map(|_| super::reference::number::Number::exact(1.0)))
}

/// Queries of the generator.
impl Model {
    /// Whether the tensor in a slot depends on the one in another.
    pub fn depends(&self, of: Slot, on: Slot) -> bool {
        match (self.tensor(of), self.tensor(on)) {
            (Ok(of), Ok(on)) => reaches(&of, &on),
            _ => false,
        }
    }

    /// Whether the tensor in a slot depends on the current value of a variable.
    pub fn depends_on_variable(&self, of: Slot, v: Slot) -> bool {
        match (self.tensor(of), self.value(v)) {
            (Ok(of), Ok(value)) => reaches(&of, value),
            _ => false,
        }
    }

    /// Returns the slots of variables that are parameters of an optimizer.
    pub fn parameters(&self, o: Slot) -> Vec<Slot> {
        let Ok(at) = self.optimizer(o) else { return Vec::new() };
        let of = self.made[at].variables();
        let is_one = |v: &Slot| self.variables[*v].is_some_and(|at| of.contains(&at));
        (0..VARIABLES).filter(is_one).collect()
    }

    /// Whether there is a trainer.
    pub fn has_trainer(&self) -> bool {
        self.trainer.is_some()
    }

    /// Returns the extents of the inputs of a program.
    pub fn inputs(&self, p: Slot) -> Vec<Vec<super::actions::Extent>> {
        let program = self.programs[p % PROGRAMS].as_ref();
        program.map(|program| program.inputs.clone()).unwrap_or_default()
    }
}

fn reaches(of: &Tensor, on: &Tensor) -> bool {
    !tape::path(of, &|x| tape::same(x, on), &|_| false).is_empty()
}
