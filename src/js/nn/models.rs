//! What the classes of models stand for.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::{self, Generator, Module};
use crate::optim::{self, ReduceLrOnPlateau, Rule, WeightAverage};
use crate::tensor::{AttentionOptions, Tensor, Variable};
use crate::train::OptimizerHandle;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A module of Rust, and how it is run.
#[derive(Clone)]
pub struct Layer {
    pub device: Device,
    pub module: Rc<dyn Module>,
    run: Run,
}

/// What a layer makes of its inputs.
#[derive(Clone)]
pub enum Run {
    /// Of one.
    One(Rc<dyn nn::Layer>),
    /// Of some, of which the first has to be there.
    Some(usize, Rc<Several>),
    /// Of as many as this, with options of the attention.
    Attends(usize, Rc<Attends>),
}

type Several = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;
type Attends = dyn Fn(&[Tensor], AttentionOptions) -> Result<Tensor>;

impl Layer {
    /// Of one input.
    pub fn one(generator: &Generator, layer: impl nn::Layer + 'static) -> Layer {
        let layer = Rc::new(layer);
        Layer { device: generator.device().clone(), module: layer.clone(), run: Run::One(layer) }
    }

    /// Of this module, run so.
    pub fn of(generator: &Generator, module: impl Module + 'static, run: Run) -> Layer {
        Layer { device: generator.device().clone(), module: Rc::new(module), run }
    }

    /// All results for these inputs.
    ///
    /// # Errors
    /// `Data` if they are not as many as it takes, or it has no such options; those of the layer.
    pub fn outputs(&self, inputs: &[Tensor], options: AttentionOptions) -> Result<Vec<Tensor>> {
        let (least, most) = match &self.run {
            Run::One(_) => (1, 1),
            Run::Some(most, _) => (1, *most),
            Run::Attends(count, _) => (*count, *count),
        };
        let (kind, count) = (self.module.kind(), inputs.len());
        if count < least || count > most {
            let wanted = if least == most { least.to_string() } else { format!("1 to {most}") };
            return Err(Error::data(format!(
                "forward: {kind} must have {wanted} inputs, got {count}"
            )));
        }
        let AttentionOptions { causal, window, mask, scale, kv_length } = options;
        let attends = causal || mask.is_some() || scale.is_some();
        match &self.run {
            Run::Attends(_, run) => Ok(vec![run(inputs, options)?]),
            _ if attends || window.is_some() || kv_length.is_some() => Err(Error::data(format!(
                "forward: {kind} must not have options of attention, got some"
            ))),
            Run::Some(_, run) => run(inputs),
            Run::One(layer) => Ok(vec![layer.forward(&inputs[0])?]),
        }
    }
}

/// An optimiser, which trainers have, too.
#[derive(Clone)]
pub struct Optimizer {
    pub device: Device,
    pub inner: Rc<RefCell<optim::Optimizer>>,
}

impl Optimizer {
    /// Does something with it.
    ///
    /// # Errors
    /// Those of the work; `Data` where it is at work already.
    pub fn with<T>(&self, work: impl FnOnce(&mut optim::Optimizer) -> Result<T>) -> Result<T> {
        self.inner.clone().with_mut(work)
    }

    /// By a rule.
    ///
    /// # Errors
    /// As there.
    pub fn new(rule: impl Rule + 'static, parameters: &[Variable]) -> Result<Optimizer> {
        let inner = optim::Optimizer::new(rule, parameters)?;
        let device = parameters[0].value().device().clone();
        Ok(Optimizer { device, inner: Rc::new(RefCell::new(inner)) })
    }
}

/// A moving average of parameters.
#[derive(Clone)]
pub struct Average {
    pub device: Device,
    pub inner: Rc<WeightAverage>,
}

/// A schedule.
#[derive(Clone)]
pub enum Schedule {
    /// By the number of the step.
    Steps(Arc<dyn optim::Schedule>),
    /// By how a metric goes.
    Plateau(Rc<RefCell<ReduceLrOnPlateau>>),
}
