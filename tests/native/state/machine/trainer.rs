//! Trainers of the library, and calls that must fail.

use super::super::actions::{Action, Refusal, Slot, Stopping, EPOCHS, EXAMPLES, SIZE, STOPPING};
use super::super::model::tensors::data;
use super::super::model::trainer::{rows, BATCHES, BIAS, FEATURES, TARGETS, WEIGHT};
use super::state::optimizer;
use super::{filled, read, Machine, Read};
use pollster::block_on;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::nn::{Generator, Members, Mode, Module};
use warpweft::optim::{Adam, Optimizer, PlateauMode, Sgd, WeightAverage};
use warpweft::tensor::{Tensor, Variable};
use warpweft::train::{Batch, DataLoader, DataParallelOptions, Dataset, EarlyStopping, Trainer};

/// A layer with a running mean of its predictions.
pub struct Net {
    weight: Variable,
    bias: Variable,
    buffer: Variable,
    mode: Mode,
    generator: Generator,
    /// Whether several ranks train. Then the buffer is a mean of the bias, because the predictions differ by rank.
    is_shared: bool,
}

impl Module for Net {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight).parameter("bias", &self.bias);
        members.buffer("buffer", &self.buffer).mode(&self.mode).generator(&self.generator);
    }
}

impl Net {
    /// Returns the number of draws from the generator.
    pub fn draws(&self) -> u32 {
        self.generator.drawn()
    }
}

/// The trainer of a program, and its checkpoint.
pub type Training = Trainer<Net, Rc<RefCell<Optimizer>>>;

fn tensor(device: &Device, shape: &[usize], seed: usize) -> Result<Tensor> {
    let numbers: Vec<f32> = data(shape, seed).iter().map(|&x| x as f32).collect();
    device.tensor(&numbers, shape)
}

fn forward(net: &Net, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let predicted = x.matmul(&net.weight.value())?.add(&net.bias.value())?.tanh();
    if net.mode.training() {
        net.generator.draw();
        let mean = if net.is_shared { net.bias.value() } else { predicted.mean(0)? }.mul(0.5)?;
        net.buffer.assign(&net.buffer.value().mul(0.5)?.add(&mean)?.detach())?;
    }
    predicted.sub(y)?.square().mean(())
}

/// Returns all batches of an epoch, created from data each time.
fn batches(device: &Device) -> impl Fn(u64) -> std::vec::IntoIter<Result<Batch>> + 'static {
    let device = device.clone();
    move |_| {
        let one = |n: usize| {
            let (start, len) = rows(n);
            let range = start as isize..(start + len) as isize;
            let x = tensor(&device, &[EXAMPLES, 3], FEATURES)?.slice(0, range.clone())?;
            Ok((x, tensor(&device, &[EXAMPLES, 2], TARGETS)?.slice(0, range)?))
        };
        (0..BATCHES).map(one).collect::<Vec<_>>().into_iter()
    }
}

impl Machine {
    pub(super) fn on_trainers(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Trainer { rule, scaled, stopping } => {
                self.new_trainer(*rule, *scaled, *stopping)?;
            }
            Action::NextStep => {
                let Some(step) = block_on(self.trainer()?.next_step())? else {
                    return Ok(vec![("over".into(), vec![1.0])]);
                };
                let number = |name: &str, x: f64| (name.to_string(), vec![x]);
                let mut all = vec![
                    number("over", 0.0),
                    ("loss".into(), read(&step.loss)?),
                    number("step", step.step as f64),
                    number("epoch", step.epoch as f64),
                    number("lr", step.lr),
                ];
                all.extend(step.ended.map(|ended| number("mean loss", ended.loss)));
                return Ok(all);
            }
            Action::OwnStep { seed } => {
                let device = self.device().clone();
                let rank = self.trainer()?.rank();
                let x = tensor(&device, &[2 + rank, 3], *seed + rank)?;
                let y = tensor(&device, &[2 + rank, 2], *seed + rank + 1)?;
                let step = block_on(self.trainer()?.step(&x, &y))?;
                return Ok(vec![("loss".into(), read(&step.loss)?)]);
            }
            Action::Evaluate => {
                let device = self.device().clone();
                let (x, y) = (tensor(&device, &[2, 3], 7)?, tensor(&device, &[2, 2], 8)?);
                let loader = DataLoader::new(&Dataset::new(&x, &y)?, 1)?;
                let scores = block_on(self.trainer()?.evaluate(&loader))?;
                return Ok(vec![("loss".into(), vec![scores.loss])]);
            }
            Action::Save => {
                let file = block_on(self.trainer()?.save(&BTreeMap::new()))?;
                self.file = Some(file);
            }
            Action::Load => {
                let file = self.file.clone().ok_or_else(|| Error::state("fuzz: no file"))?;
                block_on(self.trainer()?.load(&file))?;
            }
            Action::Replay { steps } => self.replay(*steps)?,
            _ => unreachable!("it is one of the others"),
        }
        Ok(Vec::new())
    }

    fn trainer(&mut self) -> Result<&mut Training> {
        self.trainer.as_mut().ok_or_else(|| Error::state("fuzz: no trainer"))
    }

    fn new_trainer(&mut self, rule: usize, scaled: bool, stopping: usize) -> Result<()> {
        let device = self.device().clone();
        let weight = Variable::new(&tensor(&device, &[3, 2], WEIGHT)?);
        let bias = Variable::new(&tensor(&device, &[2], BIAS)?);
        let buffer = Variable::new(&device.zeros(&[2])?);
        let made = optimizer(rule, 0, scaled, &[weight.clone(), bias.clone()])?;
        let made = Rc::new(RefCell::new(made));
        let all = [&weight, &bias, &buffer].map(Clone::clone);
        let (mode, generator) = (Mode::default(), Generator::new(&device, 1));
        let is_shared = self.equipment.team.is_some();
        let net = Net { weight, bias, buffer, mode, generator, is_shared };
        let trainer = match rule % 2 {
            0 => {
                let x = tensor(&device, &[EXAMPLES, 3], FEATURES)?;
                let y = tensor(&device, &[EXAMPLES, 2], TARGETS)?;
                let loader = DataLoader::new(&Dataset::new(&x, &y)?, SIZE)?;
                Trainer::new(net, made.clone(), loader, forward)?
            }
            _ => Trainer::new(net, made.clone(), batches(&device), forward)?,
        };
        let mut trainer = trainer.epochs(EPOCHS).detect_anomaly(rule % 3 == 2);
        if let Some(rule) = STOPPING[stopping % STOPPING.len()] {
            let Stopping { patience, min_delta, is_max, restores_best } = rule;
            let mode = if is_max { PlateauMode::Max } else { PlateauMode::Min };
            trainer = trainer.early_stopping(EarlyStopping {
                monitor: "loss".into(),
                patience,
                min_delta,
                mode,
                restore_best: restores_best,
            });
        }
        if let Some(team) = &self.equipment.team {
            let world = team.worlds.open(self.opened, team.rank, Duration::ZERO)?;
            (self.opened, self.world) = (self.opened + 1, Some(world.clone()));
            // Every parameter is a bucket.
            let options = DataParallelOptions { bucket_bytes: 4 };
            trainer = trainer.data_parallel_with(&world, options)?;
        }
        self.trainer = Some(trainer);
        for (slot, variable) in all.into_iter().enumerate() {
            self.variables[slot] = Some(variable);
        }
        self.optimizers[0] = Some(made);
        Ok(())
    }

    /// Takes steps from a checkpoint twice.
    fn replay(&mut self, steps: usize) -> Result<()> {
        let trainer = self.trainer()?;
        let file = block_on(trainer.save(&BTreeMap::new()))?;
        let mut all = Vec::new();
        for n in 0..2 {
            if n == 1 {
                block_on(trainer.load(&file))?;
            }
            for _ in 0..steps {
                block_on(trainer.next_step())?;
            }
            let mut values: Vec<Vec<u8>> = Vec::new();
            for x in trainer.model.state_dict().values() {
                values.push(block_on(x.read_bytes())?);
            }
            let state = trainer.optimizer.borrow().state_dict()?;
            for x in state.values() {
                values.push(block_on(x.read_bytes())?);
            }
            all.push((values, trainer.steps(), trainer.epoch()));
        }
        match all[0] == all[1] {
            true => Ok(()),
            false => Err(Error::state("fuzz: the steps after loading give other bits")),
        }
    }

    /// Performs a call that must fail.
    pub(super) fn refused(&mut self, what: Refusal, (t, v, o): (Slot, Slot, Slot)) -> Result<Read> {
        let device = self.device().clone();
        match what {
            Refusal::AssignIntegers => {
                let variable = self.variable(v)?;
                let shape = variable.shape();
                let integers = self.tensor(t)?.sum(())?.cast(DType::I32)?.expand(&shape[..])?;
                variable.assign(&integers)?;
            }
            Refusal::AssignFromOtherDevice => {
                let there = block_on(self.variable(v)?.value().to(&self.equipment.other))?;
                self.variable(v)?.assign(&there)?;
            }
            Refusal::AssignSliceOutside => {
                let variable = self.variable(v)?;
                variable.assign_slice(0, 5, &variable.value())?;
            }
            Refusal::GradOfIntegers => {
                let t = self.tensor(t)?;
                t.cast(DType::I32)?.sum(())?.grad(&[&t])?;
            }
            Refusal::GradOfSeveral => drop(self.tensor(t)?.grad(&[&self.tensor(t)?])?),
            Refusal::OptimizerOfIntegers => {
                let integers = Variable::new(&self.tensor(t)?.cast(DType::I32)?);
                Optimizer::new(Sgd::new(0.1), &[self.variable(v)?, integers])?;
            }
            Refusal::OptimizerOfNothing => drop(Optimizer::new(Sgd::new(0.1), &[])?),
            Refusal::OptimizerOfNonsense => {
                Optimizer::new(Adam { eps: -1.0, ..Adam::default() }, &[self.variable(v)?])?;
            }
            Refusal::GroupOfNonsense => {
                let optimizer = filled(&self.optimizers, o)?;
                let rule = Adam { betas: (1.5, 0.5), ..Adam::default() };
                optimizer.borrow_mut().add_group(rule, &[self.variable(v)?])?;
            }
            Refusal::MinimizeConstant => {
                let loss = self.tensor(t)?.detach().sum(())?;
                filled(&self.optimizers, o)?.borrow_mut().minimize(&loss)?;
            }
            Refusal::AccumulateConstant => {
                let loss = self.tensor(t)?.detach().sum(())?;
                filled(&self.optimizers, o)?.borrow_mut().accumulate(&loss)?;
            }
            Refusal::StateWithoutSteps | Refusal::StateWithSurplus => {
                let optimizer = filled(&self.optimizers, o)?;
                let mut optimizer = optimizer.borrow_mut();
                let mut state = optimizer.state_dict()?;
                match what {
                    Refusal::StateWithoutSteps => drop(state.remove("steps")),
                    _ => drop(state.insert("more".into(), device.zeros(&[1])?)),
                }
                block_on(optimizer.load_state_dict(&state))?;
            }
            Refusal::FlattenTwice => {
                Variable::flatten(&[self.variable(v)?, self.variable(v)?])?;
            }
            Refusal::AverageOfNonsense => {
                WeightAverage::new(&filled(&self.optimizers, o)?.borrow(), 2.0)?;
            }
            Refusal::LoadNonsense => {
                let mut file = block_on(self.trainer()?.save(&BTreeMap::new()))?;
                let end = file.len() - 5;
                file.truncate(end);
                block_on(self.trainer()?.load(&file))?;
            }
        }
        Ok(Vec::new())
    }
}
