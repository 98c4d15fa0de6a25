//! The model of a trainer: a layer of two parameters and a buffer, its data, its position, and its checkpoints.
//!
//! The parameters are the variables in slots 0 and 1, the buffer is the variable in slot 2, and the optimizer is in slot 0. The
//! other actions access all of them there.
//!
//! With several ranks, each performs the same actions and has a model. Only the batches of the trainer differ by rank. So a
//! step is one on the joined batches of all ranks, and the loss is that of this rank's batch.

use super::super::actions::{Action, Stopping, EPOCHS, EXAMPLES, SIZE, STOPPING};
use super::super::reference::array::Array;
use super::super::reference::number::Number;
use super::super::reference::optimizer::{Optimizer, ACCUMULATED};
use super::super::reference::tape::{self, Tensor};
use super::optimizers::apart;
use super::tensors::array;
use super::{Fault, Made, Model, Output, Why, FAILS};
use std::collections::BTreeMap;

/// The seeds of initial values, and of data.
pub const WEIGHT: usize = 100;
pub const BIAS: usize = 101;
pub const FEATURES: usize = 102;
pub const TARGETS: usize = 103;

#[derive(Clone, Debug)]
pub struct Trainer {
    pub optimizer: usize,
    /// The weight, the bias and the buffer.
    pub variables: [usize; 3],
    rule: usize,
    pub steps: u64,
    pub epoch: u64,
    batch: usize,
    /// The losses of the epoch, with the number of examples of each.
    losses: Vec<(Number, f64)>,
    /// Whether there were steps on other batches, which may be part of the mean loss of the epoch.
    has_own: bool,
    pub history: u64,
    /// The number of draws from the generator: one per step.
    pub draws: u64,
    stopping: Option<Stopping>,
    best: Best,
}

/// The state of early stopping.
#[derive(Clone, Debug, Default)]
struct Best {
    /// The best mean loss of an epoch.
    loss: Option<Number>,
    /// The number of epochs in a row that were worse.
    worse: u64,
    /// The values of the best epoch, and whether the training has ended and restored them.
    values: Option<[Array; 3]>,
    is_restored: bool,
}

impl Best {
    /// Adds an epoch. Returns whether it is the best. Skips a comparison that depends on rounding.
    fn take(&mut self, rule: Stopping, loss: Number) -> Made<bool> {
        let Some(best) = self.loss.replace(loss) else { return Ok(true) };
        let gain =
            if rule.is_max { loss - best } else { best - loss } - Number::exact(rule.min_delta);
        if gain.value.abs() <= gain.error {
            return Err(Why::Skip);
        }
        let is_better = gain.value > 0.0;
        if is_better {
            self.worse = 0;
        } else {
            (self.loss, self.worse) = (Some(best), self.worse + 1);
        }
        Ok(is_better)
    }
}

impl Trainer {
    /// Whether there are no more steps.
    pub fn is_over(&self) -> bool {
        let is_out = |rule: Stopping| self.best.worse >= rule.patience;
        self.epoch >= EPOCHS || self.stopping.is_some_and(is_out)
    }
}

/// The contents of a checkpoint.
#[derive(Clone, Debug)]
pub struct File {
    trainer: Trainer,
    scaled: bool,
    optimizer: Optimizer,
    averages: BTreeMap<String, Array>,
    values: Vec<Array>,
    gradients: Vec<Option<Array>>,
}

/// Returns the rows of a batch.
pub fn rows(batch: usize) -> (usize, usize) {
    let start = batch * SIZE;
    (start, SIZE.min(EXAMPLES - start))
}

/// The number of batches of an epoch.
pub const BATCHES: usize = EXAMPLES.div_ceil(SIZE);

impl Model {
    pub(super) fn act_on_trainers(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Trainer { rule, scaled, stopping } => {
                let shapes: [(&[usize], usize); 2] = [(&[3, 2], WEIGHT), (&[2], BIAS)];
                let mut variables = [0; 3];
                for (at, (shape, seed)) in shapes.into_iter().enumerate() {
                    variables[at] = self.new_variable(tape::constant(array(shape, seed)));
                }
                variables[2] = self.new_variable(tape::constant(Array::zeros(&[2])));
                let optimizer = self.new_optimizer(*rule, 0, *scaled, &variables[..2])?;
                for (slot, &at) in variables.iter().enumerate() {
                    self.variables[slot] = Some(at);
                }
                self.optimizers[0] = Some(optimizer);
                self.trainer = Some(Trainer {
                    optimizer,
                    variables,
                    rule: *rule,
                    steps: 0,
                    epoch: 0,
                    batch: 0,
                    losses: Vec::new(),
                    has_own: false,
                    history: 0,
                    draws: 0,
                    stopping: STOPPING[stopping % STOPPING.len()],
                    best: Best::default(),
                });
                Ok(Vec::new())
            }
            Action::NextStep => self.next_step(),
            Action::OwnStep { seed } => {
                let before = self.trainer()?;
                if before.stopping.is_some() && !before.is_over() {
                    // The mean loss of the epoch, which decides, would be unknown.
                    return Err(Why::Skip);
                }
                let all = (0..self.setting.ranks()).map(|rank| own_batch(*seed, rank));
                let loss = self.train(all.collect(), self.setting.rank)?.0;
                let trainer = self.trainer.as_mut().ok_or(Why::Skip)?;
                trainer.has_own = true;
                Ok(vec![("loss".into(), loss.value.clone())])
            }
            Action::Evaluate => {
                let trainer = self.trainer()?;
                let [w, b, _] = trainer.variables.map(|at| self.all[at].value.clone());
                let (x, y) = (array(&[2, 3], 7), array(&[2, 2], 8));
                let (loss, _) = forward(&w, &b, &x, &y);
                self.evaluate_all();
                Ok(vec![("loss".into(), loss.value.clone())])
            }
            Action::Save => {
                self.file = Some(self.saved()?);
                self.evaluate_all();
                Ok(Vec::new())
            }
            Action::Load => {
                let file = self.file.clone().ok_or(Why::Skip)?;
                self.load(file)
            }
            Action::Replay { steps } => {
                let file = self.saved()?;
                for _ in 0..*steps {
                    self.next_step().map_err(|_| Why::Skip)?;
                }
                let outcome = |file: File| (file.values, file.optimizer.state());
                let first = outcome(self.saved()?);
                self.load(file)?;
                for _ in 0..*steps {
                    self.next_step().map_err(|_| Why::Skip)?;
                }
                // A file has no history. A parameter that was assigned a result of another one is data after loading.
                match outcome(self.saved()?) == first {
                    true => Ok(Vec::new()),
                    false => Err(Why::Skip),
                }
            }
            _ => Err(Why::Skip),
        }
    }

    fn trainer(&self) -> Made<Trainer> {
        self.trainer.clone().ok_or(Why::Skip)
    }

    /// Takes a step on the batches of all ranks. Returns the losses of this rank's batch, and of all together.
    fn train(&mut self, batches: Vec<(Array, Array)>, own: usize) -> Made<(Tensor, Tensor)> {
        let trainer = self.trainer()?;
        let [w, b, buffer] = trainer.variables.map(|at| self.all[at].value.clone());
        let (own, mut mean) = forward(&w, &b, &batches[own].0, &batches[own].1);
        let (x, y): (Vec<&Array>, Vec<&Array>) = batches.iter().map(|(x, y)| (x, y)).unzip();
        let mut loss = forward(&w, &b, &Array::concat(&x), &Array::concat(&y)).0;
        if self.setting.fault == Fault::OwnGradients {
            loss = own.clone();
        }
        if self.setting.others > 0 {
            mean = b.value.clone();
        }
        let running = buffer.value.zip(&mean, |before, now| before * 0.5 + now * 0.5);
        // The buffer is assigned when the loss is computed, before the step. The step may change the buffer, too.
        let buffer = trainer.variables[2];
        let before = self.all[buffer].clone();
        self.assign(buffer, tape::constant(running))?;
        if let Err(why) = self.minimize(trainer.optimizer, &loss) {
            self.all[buffer] = before;
            return Err(why);
        }
        let trainer = self.trainer.as_mut().ok_or(Why::Skip)?;
        trainer.steps += 1;
        trainer.draws += 1;
        trainer.best.is_restored = false;
        Ok((own, loss))
    }

    fn next_step(&mut self) -> Made<Output> {
        let before = self.trainer()?;
        let number = |name: &str, x: f64| (name.to_string(), Array::scalar(x));
        if before.is_over() {
            self.restore_best()?;
            return Ok(vec![number("over", 1.0)]);
        }
        let taken = before.batch..BATCHES.min(before.batch + self.setting.ranks());
        let batch = |n: usize| {
            let (start, len) = rows(n);
            let x = array(&[EXAMPLES, 3], FEATURES).slice(start, len);
            (x, array(&[EXAMPLES, 2], TARGETS).slice(start, len))
        };
        let len: usize = taken.clone().map(|n| rows(n).1).sum();
        // A rank for which no batch is left repeats the last one.
        let own = self.setting.rank.min(taken.len() - 1);
        let (loss, joined) = self.train(taken.clone().map(batch).collect(), own)?;
        let lr = self.made[before.optimizer].groups[0].lr;
        let trainer = self.trainer.as_mut().ok_or(Why::Skip)?;
        trainer.losses.push((joined.value.data[0], len as f64));
        trainer.batch = taken.end;
        let mut output = vec![
            number("over", 0.0),
            ("loss".into(), loss.value.clone()),
            number("step", before.steps as f64),
            number("epoch", before.epoch as f64),
            number("lr", lr),
        ];
        if trainer.batch == BATCHES {
            let total = Number::sum(trainer.losses.iter().map(|(loss, count)| *loss * *count));
            let mut mean = total * (1.0 / EXAMPLES as f64);
            if trainer.has_own {
                mean.error = f64::INFINITY;
            }
            (trainer.epoch, trainer.batch, trainer.has_own) = (before.epoch + 1, 0, false);
            trainer.losses.clear();
            trainer.history += 1;
            output.push(("mean loss".into(), Array::full(&[], mean)));
            self.end_epoch(mean)?;
        }
        Ok(output)
    }

    /// Keeps the values of an epoch if it is the best, and restores the best ones if it is the last.
    fn end_epoch(&mut self, mean: Number) -> Made<()> {
        let mut trainer = self.trainer()?;
        let Some(rule) = trainer.stopping else { return Ok(()) };
        if trainer.best.take(rule, mean)? && rule.restores_best {
            let of = |at: usize| self.all[at].value.value.clone();
            trainer.best.values = Some(trainer.variables.map(of));
        }
        let is_over = trainer.is_over();
        self.trainer = Some(trainer);
        if is_over {
            self.restore_best()?;
        }
        Ok(())
    }

    /// Restores the best values, once.
    fn restore_best(&mut self) -> Made<()> {
        let trainer = self.trainer()?;
        let Some(best) = trainer.best.values.filter(|_| !trainer.best.is_restored) else {
            return Ok(());
        };
        if self.made[trainer.optimizer].variables()[..] != trainer.variables[..2] {
            // Parameters that were added are part of the best values, too.
            return Err(Why::Skip);
        }
        if self.setting.fault != Fault::LastWeights {
            for (at, value) in trainer.variables.into_iter().zip(best) {
                self.assign(at, tape::constant(value))?;
            }
        }
        let trainer = self.trainer.as_mut().ok_or(Why::Skip)?;
        trainer.best.is_restored = true;
        Ok(())
    }

    fn saved(&self) -> Made<File> {
        let trainer = self.trainer()?;
        if self.lost(trainer.optimizer).is_some() {
            return Err(Why::Skip);
        }
        let optimizer = self.made[trainer.optimizer].clone();
        if optimizer.groups.iter().any(|group| group.lr < 0.0) {
            return Err(Why::Skip);
        }
        let of = |at: usize| &self.all[at];
        Ok(File {
            scaled: optimizer.scaling.is_some(),
            averages: apart(self.state_of(trainer.optimizer)?).0,
            optimizer,
            values: trainer.variables.map(|at| of(at).value.value.clone()).to_vec(),
            gradients: trainer
                .variables
                .map(|at| of(at).gradient.as_ref().map(|x| x.value.clone()))
                .to_vec(),
            trainer,
        })
    }

    fn load(&mut self, file: File) -> Made<Output> {
        let trainer = self.trainer()?;
        let at = trainer.optimizer;
        if self.lost(at).is_some() || file.trainer.stopping != trainer.stopping {
            // The contract requires the settings of the training that was saved.
            return Err(Why::Skip);
        }
        // Rules with even numbers train on a loader, the others on an iterator. In the middle of an epoch, both must have the
        // same kind of data.
        if file.trainer.batch > 0 && file.trainer.rule % 2 != trainer.rule % 2 {
            return Err(FAILS);
        }
        let same_groups = self.made[at].groups.len() == file.optimizer.groups.len();
        let is_sum = |name: &String| name.ends_with(ACCUMULATED);
        let lasting = |mut state: BTreeMap<String, Array>| {
            state.retain(|name, _| !is_sum(name));
            state
        };
        let own = lasting(self.made[at].state());
        let alike = |(name, array): (&String, &Array)| {
            own.get(name).is_some_and(|own| own.shape == array.shape)
        };
        let state = lasting(file.optimizer.state());
        let fits = same_groups && state.len() == own.len() && state.iter().all(alike);
        let fits = fits && self.fits_average(at, &file.averages)?;
        if !fits || file.scaled != self.made[at].scaling.is_some() {
            return Err(FAILS);
        }
        let variables = self.made[at].variables();
        if variables[..] != trainer.variables[..2] {
            // Other parameters are not part of the model that is saved.
            return Err(Why::Skip);
        }
        let mut optimizer = file.optimizer;
        let own = self.made[at].groups.iter();
        for (group, own) in optimizer.groups.iter_mut().zip(own) {
            group.rule = own.rule;
            for (member, own) in group.members.iter_mut().zip(&own.members) {
                member.variable = own.variable;
            }
        }
        optimizer.clip = self.made[at].clip;
        self.made[at] = optimizer;
        self.accumulated[at].clear();
        for ((&v, value), gradient) in trainer.variables.iter().zip(file.values).zip(file.gradients)
        {
            self.assign(v, tape::constant(value))?;
            self.all[v].gradient = gradient.map(tape::constant);
        }
        self.set_average(at, &file.averages)?;
        let (rule, variables) = (trainer.rule, trainer.variables);
        self.trainer = Some(Trainer { optimizer: at, variables, rule, ..file.trainer });
        self.evaluate_all();
        Ok(Vec::new())
    }
}

/// Returns a rank's batch for a step on other data. The ranks have different numbers of examples.
pub fn own_batch(seed: usize, rank: usize) -> (Array, Array) {
    let examples = 2 + rank;
    (array(&[examples, 3], seed + rank), array(&[examples, 2], seed + rank + 1))
}

/// Returns the loss of a batch, and the mean of the predictions.
fn forward(w: &Tensor, b: &Tensor, x: &Array, y: &Array) -> (Tensor, Array) {
    let fits = "the layer fits the data";
    let (x, y) = (tape::constant(x.clone()), tape::constant(y.clone()));
    let product = tape::matmul(&x, w).expect(fits);
    let predicted = tape::tanh(&tape::add(&product, b).expect(fits));
    let squares = tape::square(&tape::sub(&predicted, &y).expect(fits));
    let loss = tape::scale(&tape::sum(&squares), 1.0 / squares.value.data.len() as f64);
    let rows = x.shape()[0] as f64;
    let mean = predicted.value.sum_to(&[1, 2]).map(|x| x * (1.0 / rows)).reshape(&[2]);
    (loss, mean)
}
