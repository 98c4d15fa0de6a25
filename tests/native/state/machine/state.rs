//! Variables, gradients, optimizers and programs of the library.

use super::super::actions::{
    Action, Body, Extent, AVERAGES, CLIPS, OPTIMIZERS, PROGRAMS, RATES, VARIABLES,
};
use super::super::model::optimizers::DECAY;
use super::super::model::programs::FIXED;
use super::super::reference::optimizer::{BACKOFF, GROWTH, INTERVAL, SCALE};
use super::super::reference::rules::{Rule, RULES};
use super::{filled, inner, read, total, Equipment, Machine, Read, Tools};
use pollster::block_on;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::Generator;
use warpweft::optim::{
    Adagrad, Adam, AdamW, Lion, LossScale, NAdam, Optimizer, RmsProp, Sgd, WeightAverage,
};
use warpweft::tensor::{Dim, Tensor, Variable};

/// A body with the objects that it uses.
pub struct Prepared {
    equipment: Arc<Equipment>,
    generator: Generator,
    body: Body,
    captured: Vec<Tensor>,
    variables: Vec<Variable>,
    assigns: Option<(Variable, usize)>,
}

impl Prepared {
    /// Returns the results for inputs.
    pub fn build(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let tools = Tools { equipment: &self.equipment, generator: &self.generator };
        let mut all = inputs.to_vec();
        all.extend(self.captured.iter().cloned());
        all.extend(self.variables.iter().map(Variable::value));
        for &operation in &self.body.operations {
            all.push(inner(&tools, operation, &all)?);
        }
        if let Some((variable, at)) = &self.assigns {
            variable.assign(&all[at % all.len()])?;
        }
        Ok(self.body.results.iter().map(|&at| all[at % all.len()].clone()).collect())
    }
}

impl Machine {
    pub(super) fn prepare(&self, body: &Body) -> Result<Prepared> {
        let captured = body.captured.iter().map(|&slot| self.tensor(slot));
        let assigns = body.assigns.map(|(v, at)| Ok((self.variable(v)?, at)));
        Ok(Prepared {
            equipment: self.equipment.clone(),
            generator: self.generator.clone(),
            body: body.clone(),
            captured: captured.collect::<Result<_>>()?,
            variables: self.several(&body.variables)?,
            assigns: assigns.transpose()?,
        })
    }

    pub(super) fn on_variables(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Variable { v, from } => {
                self.variables[v % VARIABLES] = Some(Variable::new(&self.tensor(*from)?));
            }
            Action::Value { v, to } => {
                let value = self.variable(*v)?.value();
                return self.put(*to, value);
            }
            Action::Assign { v, from } => self.variable(*v)?.assign(&self.tensor(*from)?)?,
            Action::AssignSlice { v, start, from } => {
                self.variable(*v)?.assign_slice(0, *start as isize, &self.tensor(*from)?)?;
            }
            Action::Swap { v, w } => {
                let (v, w) = (self.variable(*v)?, self.variable(*w)?);
                let (first, second) = (v.value(), w.value());
                // Two calls: if one of the values is missing, neither is made.
                for value in [&first, &second] {
                    if let Some(error) = value.error() {
                        return Err(error.clone());
                    }
                }
                v.assign(&second)?;
                w.assign(&first)?;
            }
            Action::DropVariable { v } => self.variables[v % VARIABLES] = None,
            Action::Flatten { variables } => {
                self.flat = Some(Variable::flatten(&self.several(variables)?)?);
            }
            Action::ReadFlat => {
                let flat = self.flat.clone().expect("the model has one");
                return Ok(vec![("flat".into(), read(&flat.value())?)]);
            }
            Action::AssignFlat { from } => {
                let flat = self.flat.clone().expect("the model has one");
                let (from, size) = (self.tensor(*from)?.detach(), flat.shape()[0]);
                let rows = vec![from.reshape(&[-1])?; size.div_ceil(from.numel())];
                flat.assign(&Tensor::concat(&rows, 0)?.slice(0, 0..size as isize)?)?;
            }
            _ => return self.on_gradients(action),
        }
        Ok(Vec::new())
    }

    fn on_gradients(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Grad { of, wrt, to } => {
                let loss = total(&self.tensor(*of)?)?;
                let wrt: Vec<Tensor> =
                    wrt.iter().map(|&t| self.tensor(t)).collect::<Result<_>>()?;
                let found = loss.grad(&wrt.iter().collect::<Vec<_>>())?;
                self.put_all(*to, found)
            }
            Action::GradByVariable { of, v, to } => {
                let loss = total(&self.tensor(*of)?)?;
                let found = loss.grad(&[&self.variable(*v)?.value()])?;
                self.put_all(*to, found)
            }
            Action::Vjp { of, seed, wrt, to } => {
                let found = self.tensor(*of)?.vjp(&self.tensor(*seed)?, &[&self.tensor(*wrt)?])?;
                self.put_all(*to, found)
            }
            Action::Backward { of, variables } => {
                let (loss, variables) = (total(&self.tensor(*of)?)?, self.several(variables)?);
                loss.backward(&variables.iter().collect::<Vec<_>>())?;
                Ok(Vec::new())
            }
            Action::Gradient { v, to, take } => {
                let variable = self.variable(*v)?;
                let gradient = if *take { variable.take_gradient() } else { variable.gradient() };
                let has = f64::from(u8::from(gradient.is_some()));
                if let Some(gradient) = gradient {
                    self.put(*to, gradient)?;
                }
                Ok(vec![("has a gradient".into(), vec![has])])
            }
            _ => self.on_optimizers(action),
        }
    }

    fn on_optimizers(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Optimizer { o, rule, clip, scaled, variables } => {
                let made = optimizer(*rule, *clip, *scaled, &self.several(variables)?)?;
                self.optimizers[o % OPTIMIZERS] = Some(Rc::new(RefCell::new(made)));
            }
            Action::AddGroup { o, rule, variables } => {
                let (optimizer, variables) =
                    (filled(&self.optimizers, *o)?, self.several(variables)?);
                add_group(&mut optimizer.borrow_mut(), *rule, &variables)?;
            }
            Action::Minimize { o, loss } => {
                let loss = total(&self.tensor(*loss)?)?;
                filled(&self.optimizers, *o)?.borrow_mut().minimize(&loss)?;
            }
            Action::MinimizeInfinite { o, loss } => {
                let infinite = self.device().tensor(&[f32::INFINITY], &[])?;
                let loss = total(&self.tensor(*loss)?)?.mul(&infinite)?.sum(())?;
                filled(&self.optimizers, *o)?.borrow_mut().minimize(&loss)?;
            }
            Action::Accumulate { o, loss } => {
                let loss = total(&self.tensor(*loss)?)?;
                filled(&self.optimizers, *o)?.borrow_mut().accumulate(&loss)?;
            }
            Action::Step { o } => filled(&self.optimizers, *o)?.borrow_mut().step()?,
            Action::SetRate { o, rate } => {
                let lr = RATES[rate % RATES.len()];
                filled(&self.optimizers, *o)?.borrow_mut().set_lr(lr);
            }
            Action::ScheduleRate { o, rate } => {
                let lr = RATES[rate % RATES.len()];
                filled(&self.optimizers, *o)?.borrow_mut().schedule_lr(lr);
            }
            _ => return self.on_states(action),
        }
        Ok(Vec::new())
    }

    fn on_states(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::SaveState { o } => {
                let state = filled(&self.optimizers, *o)?.borrow().state_dict()?;
                let all = state.iter().map(|(name, x)| Ok((name.clone(), read(x)?)));
                let all = all.collect::<Result<_>>()?;
                self.state = Some(state);
                return Ok(all);
            }
            Action::LoadState { o } => {
                let state = self.state.clone().expect("the model has one");
                let optimizer = filled(&self.optimizers, *o)?;
                let mut optimizer = optimizer.borrow_mut();
                block_on(optimizer.load_state_dict(&state))?;
            }
            Action::DropOptimizer { o } => self.optimizers[o % OPTIMIZERS] = None,
            Action::Average { a, o } => {
                let optimizer = filled(&self.optimizers, *o)?;
                let average = WeightAverage::new(&optimizer.borrow(), DECAY)?;
                self.averages[a % AVERAGES] = Some(Rc::new(average));
            }
            Action::UpdateAverage { a } => filled(&self.averages, *a)?.update()?,
            Action::SwapAverage { a } => filled(&self.averages, *a)?.swap()?,
            _ => return self.on_programs(action),
        }
        Ok(Vec::new())
    }

    fn on_programs(&mut self, action: &Action) -> Result<Read> {
        match action {
            Action::Compile { p, named, nested, inputs, body } => {
                let prepared = self.prepare(body)?;
                let device = self.device().clone();
                let made = if *named {
                    let dim = |extent: &Extent| match extent {
                        Some(extent) => Dim::Fixed(*extent),
                        None => Dim::from("n"),
                    };
                    let dims: Vec<Vec<Dim>> =
                        inputs.iter().map(|dims| dims.iter().map(dim).collect()).collect();
                    let specs: Vec<(&[Dim], DType)> =
                        dims.iter().map(|dims| (&dims[..], DType::F32)).collect();
                    let own = device.compile_dynamic(&specs, move |x| prepared.build(x))?;
                    match nested {
                        false => own,
                        true => device.compile_dynamic(&specs, move |x| own.run(&each(x)))?,
                    }
                } else {
                    let dims: Vec<Vec<usize>> = inputs
                        .iter()
                        .map(|dims| dims.iter().map(|dim| dim.unwrap_or(FIXED)).collect())
                        .collect();
                    let specs: Vec<(&[usize], DType)> =
                        dims.iter().map(|dims| (&dims[..], DType::F32)).collect();
                    let own = device.compile(&specs, move |x| prepared.build(x))?;
                    match nested {
                        false => own,
                        true => device.compile(&specs, move |x| own.run(&each(x)))?,
                    }
                };
                self.programs[p % PROGRAMS] = Some(Rc::new(made));
                Ok(Vec::new())
            }
            Action::RunProgram { p, inputs, to } => {
                let inputs: Vec<Tensor> =
                    inputs.iter().map(|&t| self.tensor(t)).collect::<Result<_>>()?;
                let program = filled(&self.programs, *p)?;
                let results = program.run(&inputs.iter().collect::<Vec<_>>())?;
                self.put_all(*to, results)
            }
            _ => self.on_trainers(action),
        }
    }
}

/// Returns the library's optimizer with a rule.
fn made(
    rule: usize,
    variables: &[Variable],
    into: Option<&mut Optimizer>,
) -> Result<Option<Optimizer>> {
    macro_rules! with {
        ($rule:expr) => {
            match into {
                Some(optimizer) => optimizer.add_group($rule, variables).map(|()| None),
                None => Optimizer::new($rule, variables).map(Some),
            }
        };
    }
    let (rule, lr) = RULES[rule % RULES.len()];
    match rule {
        Rule::Sgd { momentum, dampening, decay, nesterov } => {
            with!(Sgd { lr, momentum, dampening, weight_decay: decay, nesterov })
        }
        Rule::Adam { betas, eps, decay, amsgrad } => {
            with!(Adam { lr, betas, eps, weight_decay: decay, amsgrad })
        }
        Rule::AdamW { betas, eps, decay } => {
            with!(AdamW { lr, betas, eps, weight_decay: decay, ..AdamW::default() })
        }
        Rule::NAdam { betas, eps, decay, momentum_decay } => {
            let rest = NAdam::default();
            with!(NAdam { lr, betas, eps, weight_decay: decay, momentum_decay, ..rest })
        }
        Rule::Lion { betas, decay } => with!(Lion { lr, betas, weight_decay: decay }),
        Rule::RmsProp { alpha, eps, decay, momentum, centered } => {
            with!(RmsProp { lr, alpha, eps, weight_decay: decay, momentum, centered })
        }
        Rule::Adagrad { lr_decay, decay, start, eps } => {
            let initial_accumulator_value = start;
            let weight_decay = decay;
            with!(Adagrad { lr, lr_decay, weight_decay, initial_accumulator_value, eps })
        }
    }
}

/// Returns the library's optimizer with its settings.
pub fn optimizer(
    rule: usize,
    clip: usize,
    scaled: bool,
    variables: &[Variable],
) -> Result<Optimizer> {
    let optimizer = made(rule, variables, None)?.expect("a new one");
    let optimizer = match clip % CLIPS {
        0 => optimizer,
        1 => optimizer.clip_norm(1.0),
        _ => optimizer.clip_value(0.5),
    };
    let scale = LossScale {
        init_scale: SCALE,
        growth_factor: GROWTH,
        growth_interval: INTERVAL,
        backoff_factor: BACKOFF,
    };
    if scaled {
        optimizer.mixed_precision(scale)
    } else {
        Ok(optimizer)
    }
}

fn add_group(optimizer: &mut Optimizer, rule: usize, variables: &[Variable]) -> Result<()> {
    made(rule, variables, Some(optimizer)).map(drop)
}

/// Returns a reference to each tensor.
fn each(tensors: &[Tensor]) -> Vec<&Tensor> {
    tensors.iter().collect()
}
