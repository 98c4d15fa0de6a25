//! The machine: performs actions with the library, and returns the values that it read.
//!
//! It has the same slots as the model and decides nothing: actions that the model skips are not performed.

mod state;
mod trainer;

use super::actions::{Action, Binary, Inner, Slot, Unary, OPTIMIZERS, TENSORS, VARIABLES};
use super::actions::{AVERAGES, PROGRAMS, SHAPES};
use super::model::tensors::{data, part, SEED};
use crate::distributed::threads::Worlds;
use pollster::block_on;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use warpweft::device::Device;
use warpweft::distributed::World;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::nn::Generator;
use warpweft::optim::{Optimizer, WeightAverage};
use warpweft::tensor::{ElementFunction, Program, Shader, Tensor, Variable};

/// The values that were read, with a name each.
pub type Read = Vec<(String, Vec<f64>)>;

/// A device, with objects that are created once for it.
pub struct Equipment {
    pub device: Device,
    /// The device to which tensors are copied and from which they come back.
    pub other: Device,
    /// The ranks that perform the same program, if there are several.
    pub team: Option<Team>,
    custom: OnceLock<Custom>,
}

/// A rank, and the worlds of its trainers.
pub struct Team {
    pub rank: usize,
    pub worlds: Arc<Worlds>,
}

/// Functions that users write.
#[derive(Clone)]
pub struct Custom {
    element: ElementFunction,
    shader: Shader,
}

/// Computes squares.
const SHADER: &str = "
@group(0) @binding(0) var<uniform> size: u32;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < size) { y[id.x] = x[id.x] * x[id.x]; }
}";

impl Equipment {
    pub fn new(device: Device, other: Device) -> Equipment {
        Equipment { device, other, team: None, custom: OnceLock::new() }
    }

    pub fn custom(&self) -> Result<Custom> {
        if let Some(custom) = self.custom.get() {
            return Ok(custom.clone());
        }
        let function = |source: &str| block_on(self.device.element_function(source));
        let by_a = function("fn by_a(a: f32, b: f32) -> f32 { return 2.0 * a * b; }")?;
        let by_b = function("fn by_b(a: f32, b: f32) -> f32 { return a * a; }")?;
        let element = function("fn aab(a: f32, b: f32) -> f32 { return a * a * b; }")?;
        let element = element.with_gradients(&[&by_a, &by_b])?;
        let shader = block_on(self.device.shader(SHADER))?
            .with_fallback(|x, _| Ok(vec![x[0].square()]))
            .with_gradient(|x, _, of| Ok(vec![x[0].mul(&of[0])?.mul(2)?]));
        Ok(self.custom.get_or_init(|| Custom { element, shader }).clone())
    }
}

/// The objects of a program, in slots.
pub struct Machine {
    pub equipment: Arc<Equipment>,
    pub generator: Generator,
    pub tensors: Vec<Option<Tensor>>,
    pub variables: Vec<Option<Variable>>,
    pub optimizers: Vec<Option<Rc<RefCell<Optimizer>>>>,
    pub programs: Vec<Option<Rc<Program>>>,
    pub flat: Option<Variable>,
    pub averages: Vec<Option<Rc<WeightAverage>>>,
    pub state: Option<BTreeMap<String, Tensor>>,
    pub trainer: Option<trainer::Training>,
    pub file: Option<Vec<u8>>,
    /// The world of the trainer, and the number of worlds that were opened.
    pub world: Option<World>,
    pub opened: usize,
}

/// Returns the contents of a slot. The model has checked that it is filled.
fn filled<T: Clone>(slots: &[Option<T>], slot: Slot) -> Result<T> {
    slots[slot % slots.len()].clone().ok_or_else(|| Error::state("fuzz: the slot is empty"))
}

impl Machine {
    pub fn new(equipment: &Arc<Equipment>) -> Machine {
        Machine {
            equipment: equipment.clone(),
            generator: Generator::new(&equipment.device, SEED),
            tensors: vec![None; TENSORS],
            variables: vec![None; VARIABLES],
            optimizers: vec![None; OPTIMIZERS],
            programs: vec![None; PROGRAMS],
            flat: None,
            averages: vec![None; AVERAGES],
            state: None,
            trainer: None,
            file: None,
            world: None,
            opened: 0,
        }
    }

    /// Tells the other ranks that this one ends.
    pub fn abandon(&self) {
        if let Some(world) = &self.world {
            world.fail("it has a finding");
        }
    }

    pub fn device(&self) -> &Device {
        &self.equipment.device
    }

    /// Performs an action. If it fails, no slot has changed.
    pub fn perform(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Starved(inner) => {
                let device = self.device().clone();
                device.trim();
                device.set_memory_limit(Some(device.stats().used_bytes));
                let done = self.perform(inner);
                device.set_memory_limit(None);
                done
            }
            Action::Profiled(inner) => {
                let device = self.device().clone();
                let profiled = device.profile(async { self.perform(inner) });
                Ok(block_on(profiled)?.0)
            }
            Action::Refused { what, t, v, o } => self.refused(*what, (*t, *v, *o)),
            _ => self.on_tensors(action),
        }
    }

    /// Returns numbers that must agree with the model, with the names of [`Model::summary`](super::model::Model::summary).
    pub fn summary(&self) -> Vec<(String, f64)> {
        let mut all = vec![("draws".into(), f64::from(self.generator.drawn()))];
        for (o, optimizer) in self.optimizers.iter().enumerate() {
            if let Some(optimizer) = optimizer {
                let optimizer = optimizer.borrow();
                all.push((format!("steps of o{o}"), optimizer.steps() as f64));
                all.push((format!("lr of o{o}"), optimizer.lr()));
            }
        }
        if let Some(trainer) = &self.trainer {
            all.push(("steps of the trainer".into(), trainer.steps() as f64));
            all.push(("epoch of the trainer".into(), trainer.epoch() as f64));
            all.push(("history of the trainer".into(), trainer.history().len() as f64));
            all.push(("draws of the trainer".into(), trainer.model.draws() as f64));
            all.push(("the trainer is over".into(), f64::from(u8::from(trainer.is_over()))));
        }
        for (v, variable) in self.variables.iter().enumerate() {
            if let Some(variable) = variable {
                let has = variable.gradient().is_some();
                all.push((format!("v{v} has a gradient"), f64::from(u8::from(has))));
                let size = variable.shape().iter().product::<usize>();
                all.push((format!("size of v{v}"), size as f64));
            }
        }
        all
    }

    pub fn tensor(&self, slot: Slot) -> Result<Tensor> {
        filled(&self.tensors, slot)
    }

    pub fn variable(&self, slot: Slot) -> Result<Variable> {
        filled(&self.variables, slot)
    }

    pub fn several(&self, slots: &[Slot]) -> Result<Vec<Variable>> {
        slots.iter().map(|&slot| self.variable(slot)).collect()
    }

    /// Fills a slot. A tensor that carries an error is an error.
    pub fn put(&mut self, slot: Slot, tensor: Tensor) -> Result<Read> {
        if let Some(error) = tensor.error() {
            return Err(error.clone());
        }
        self.tensors[slot % TENSORS] = Some(tensor);
        Ok(Vec::new())
    }

    pub fn put_all(&mut self, to: Slot, tensors: Vec<Tensor>) -> Result<Read> {
        if let Some(error) = tensors.iter().find_map(Tensor::error) {
            return Err(error.clone());
        }
        for (n, tensor) in tensors.into_iter().enumerate() {
            self.put(to + n, tensor)?;
        }
        Ok(Vec::new())
    }

    fn tools(&self) -> Tools<'_> {
        Tools { equipment: &self.equipment, generator: &self.generator }
    }

    /// Records an operation whose seeds this test draws. If the operation fails, gives them back.
    fn drawing(&self, work: impl FnOnce(&Machine) -> Result<Tensor>) -> Result<Tensor> {
        let drawn = self.generator.drawn();
        let made = work(self);
        if made.is_err() {
            self.generator.set_drawn(drawn);
        }
        made
    }

    fn on_tensors(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Data { to, shape, seed } => {
                let shape = SHAPES[shape % SHAPES.len()];
                let numbers: Vec<f32> = data(shape, *seed).iter().map(|&x| x as f32).collect();
                let made = self.device().tensor(&numbers, shape)?;
                self.put(*to, made)
            }
            Action::Unary { op, a, to } => {
                let x = self.tensor(*a)?;
                let made = self.drawing(|machine| unary(&machine.tools(), *op, &x))?;
                self.put(*to, made)
            }
            Action::Binary { op, a, b, to } => {
                let made = binary(&self.tools(), *op, &self.tensor(*a)?, &self.tensor(*b)?)?;
                self.put(*to, made)
            }
            Action::Where { condition, a, b, to } => {
                let condition = self.tensor(*condition)?.gt(0.0)?;
                let made = condition.where_cond(self.tensor(*a)?, self.tensor(*b)?)?;
                self.put(*to, made)
            }
            Action::Away { a, to } => {
                let there = block_on(self.tensor(*a)?.to(&self.equipment.other))?;
                let back = block_on(there.to(self.device()))?;
                self.put(*to, back)
            }
            Action::Checkpoint { a, body, to } => {
                let prepared = self.prepare(body)?;
                let x = self.tensor(*a)?;
                let work = |x: &Tensor| Ok(prepared.build(std::slice::from_ref(x))?.swap_remove(0));
                let made = self.drawing(|_| x.checkpoint(work))?;
                self.put(*to, made)
            }
            Action::SetDrawn { drawn } => {
                self.generator.set_drawn(*drawn);
                Ok(Vec::new())
            }
            Action::Drop { t } => {
                self.tensors[t % TENSORS] = None;
                Ok(Vec::new())
            }
            _ => self.on_values(action),
        }
    }

    fn on_values(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Read { t } => Ok(vec![(format!("t{t}"), read(&self.tensor(*t)?)?)]),
            Action::ReadPart { t, start, len } => {
                let x = self.tensor(*t)?;
                let (start, end) = part(x.numel(), *start, *len);
                if (x.numel(), end - start) == (1, 1) {
                    let item = f64::from(block_on(x.item::<f32>())?);
                    return Ok(vec![(format!("part of t{t}"), vec![item])]);
                }
                let part = block_on(x.read_range::<f32>(start, end - start))?;
                Ok(vec![(format!("part of t{t}"), part.into_iter().map(f64::from).collect())])
            }
            Action::Run { t } => self.tensor(*t)?.run().map(|()| Vec::new()),
            Action::RunBatch { a, b } => {
                let mut batch = self.device().batch();
                batch.add(&self.tensor(*a)?)?.add(&self.tensor(*b)?)?;
                batch.run().map(|()| Vec::new())
            }
            Action::ReadTogether { a, b } => {
                let both = [self.tensor(*a)?, self.tensor(*b)?];
                let read = self.device().read::<f32>(&[&both[0], &both[1]]);
                let names = [format!("t{a}"), format!("t{b}")].into_iter();
                let numbers = |x: Vec<f32>| x.into_iter().map(f64::from).collect();
                Ok(names.zip(block_on(read)?.into_iter().map(numbers)).collect())
            }
            Action::Flush => self.device().submit().map(|()| Vec::new()),
            Action::Eager { on } => {
                self.device().run_eagerly(*on);
                Ok(Vec::new())
            }
            Action::FindNonFinite { t } => match block_on(self.tensor(*t)?.find_non_finite())? {
                Some(found) => Err(Error::state(format!("fuzz: all is finite, but {found}"))),
                None => Ok(Vec::new()),
            },
            Action::Blame { t, read: reads } => {
                let y = self.tensor(*t)?.mul(0.0)?.log().mean(())?;
                if *reads {
                    read(&y)?;
                }
                for _ in 0..2 {
                    let found = block_on(y.find_non_finite())?.map(|found| found.op);
                    if found != Some("log") {
                        let message = format!("fuzz: log gave an infinity, and not {found:?}");
                        return Err(Error::state(message));
                    }
                }
                Ok(Vec::new())
            }
            _ => self.on_variables(action),
        }
    }
}

/// Returns all elements of a tensor.
pub fn read(x: &Tensor) -> Result<Vec<f64>> {
    match x.dtype() {
        DType::I32 => Ok(block_on(x.read::<i32>())?.into_iter().map(f64::from).collect()),
        _ => Ok(block_on(x.read::<f32>())?.into_iter().map(f64::from).collect()),
    }
}

/// Reduces a tensor to a single number: itself, or its sum.
pub fn total(x: &Tensor) -> Result<Tensor> {
    if x.numel() == 1 {
        Ok(x.clone())
    } else {
        x.sum(())
    }
}

/// The objects that operations use.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    pub equipment: &'a Equipment,
    pub generator: &'a Generator,
}

/// Records an operation.
pub fn unary(tools: &Tools, op: Unary, x: &Tensor) -> Result<Tensor> {
    match op {
        Unary::Tanh => Ok(x.tanh()),
        Unary::Square => Ok(x.square()),
        Unary::Relu => Ok(x.relu()),
        Unary::Exp => Ok(x.tanh().exp()),
        Unary::Negate => Ok(x.neg()),
        Unary::Halve => x.mul(0.5),
        Unary::Shift => x.add(0.25),
        Unary::Sum => x.sum(()),
        Unary::SumRows => x.sum(0),
        Unary::Mean => x.mean(()),
        Unary::Transpose => x.transpose(0, 1),
        Unary::Flatten => x.reshape(&[-1]),
        Unary::FirstRow => x.slice(0, 0..1),
        Unary::LastRow => x.slice(0, -1..),
        Unary::F16 => x.cast(DType::F16)?.cast(DType::F32),
        Unary::HalfLine => x.cast(DType::F16)?.mul(0.5)?.add(0.25)?.cast(DType::F32),
        Unary::Dropout => x.dropout(0.5, tools.generator.draw()),
        Unary::Noise => {
            let seed = tools.generator.draw();
            x.add(x.device().uniform(x.shape(), -1.0, 1.0, seed)?)
        }
        Unary::Detach => Ok(x.detach()),
        Unary::Copy => Ok(x.clone()),
        Unary::Shader => {
            let (size, shape) = (x.numel() as f64, x.shape().to_vec());
            let (inputs, outputs) = ([("x", x)], [("y", &shape[..])]);
            let shader = tools.equipment.custom()?.shader;
            let mut made = shader.run(&inputs, &outputs, [1, 1, 1], &[("size", size)])?;
            Ok(made.swap_remove(0))
        }
    }
}

/// Records an operation of two operands.
pub fn binary(tools: &Tools, op: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match op {
        Binary::Add => a.add(b),
        Binary::Sub => a.sub(b),
        Binary::Mul => a.mul(b),
        Binary::Matmul => a.matmul(b),
        Binary::Concat => Tensor::concat(&[a, b], 0),
        Binary::Element => tools.equipment.custom()?.element.call(&[a, b]),
    }
}

/// Records an operation of a body.
pub fn inner(tools: &Tools, operation: Inner, all: &[Tensor]) -> Result<Tensor> {
    match operation {
        Inner::One(op, a) => unary(tools, op, &all[a % all.len()]),
        Inner::Two(op, a, b) => binary(tools, op, &all[a % all.len()], &all[b % all.len()]),
    }
}
