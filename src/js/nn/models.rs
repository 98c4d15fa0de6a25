//! The Rust values behind the classes of models.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::{self, Generator, Module};
use crate::optim::{self, ReduceLrOnPlateau, Rule, WeightAverage};
use crate::tensor::{AttentionOptions, Tensor, Variable};
use crate::train::OptimizerHandle;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A Rust module, and the function that runs it.
#[derive(Clone)]
pub struct Layer {
    pub device: Device,
    pub module: Rc<dyn Module>,
    run: Run,
}

/// The computation of a layer.
#[derive(Clone)]
pub enum Run {
    /// Takes one input.
    One(Rc<dyn nn::Layer>),
    /// Takes up to this many inputs. The first is required.
    Some(usize, Rc<Several>),
    /// Takes exactly this many inputs, and options of attention.
    Attends(usize, Rc<Attends>),
}

type Several = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;
type Attends = dyn Fn(&[Tensor], AttentionOptions) -> Result<Tensor>;

impl Layer {
    /// Makes a layer with one input.
    pub fn one(generator: &Generator, layer: impl nn::Layer + 'static) -> Layer {
        let layer = Rc::new(layer);
        Layer { device: generator.device().clone(), module: layer.clone(), run: Run::One(layer) }
    }

    /// Makes a layer of a module with this computation.
    pub fn of(generator: &Generator, module: impl Module + 'static, run: Run) -> Layer {
        Layer { device: generator.device().clone(), module: Rc::new(module), run }
    }

    /// Returns all results for these inputs.
    ///
    /// # Errors
    /// `InvalidArgument` for the wrong number of inputs, or for attention options that the layer does not have; errors of the
    /// layer.
    pub fn outputs(&self, inputs: &[Tensor], options: AttentionOptions) -> Result<Vec<Tensor>> {
        let (least, most) = match &self.run {
            Run::One(_) => (1, 1),
            Run::Some(most, _) => (1, *most),
            Run::Attends(count, _) => (*count, *count),
        };
        let (kind, count) = (self.module.kind(), inputs.len());
        if count < least || count > most {
            let wanted = if least == most { least.to_string() } else { format!("1 to {most}") };
            return Err(Error::argument(format!(
                "forward: {kind} must have {wanted} inputs, got {count}"
            )));
        }
        let AttentionOptions { is_causal: causal, window, attn_mask: mask, scale, kv_length } =
            options;
        let given = [
            ("isCausal", causal),
            ("window", window.is_some()),
            ("attnMask", mask.is_some()),
            ("scale", scale.is_some()),
            ("kvLength", kv_length.is_some()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        match (&self.run, given) {
            (Run::Attends(_, run), _) => Ok(vec![run(inputs, options)?]),
            (_, Some((name, _))) => Err(Error::argument(format!(
                "forward: {kind} must not have options of attention, got `{name}`"
            ))),
            (Run::Some(_, run), None) => run(inputs),
            (Run::One(layer), None) => Ok(vec![layer.forward(&inputs[0])?]),
        }
    }
}

/// An optimizer, which trainers share.
#[derive(Clone)]
pub struct Optimizer {
    pub device: Device,
    pub inner: Rc<RefCell<optim::Optimizer>>,
}

impl Optimizer {
    /// Runs `work` with the optimizer.
    ///
    /// # Errors
    /// Errors of `work`; `InvalidState` if the optimizer is busy.
    pub fn with<T>(&self, work: impl FnOnce(&mut optim::Optimizer) -> Result<T>) -> Result<T> {
        self.inner.clone().with_mut(work)
    }

    /// Makes an optimizer by a rule.
    ///
    /// # Errors
    /// Errors of [`optim::Optimizer::new`].
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

/// A learning rate schedule.
#[derive(Clone)]
pub enum Schedule {
    /// A rate that depends on the number of the step.
    Steps(Arc<dyn optim::Schedule>),
    /// A rate that depends on the course of a metric.
    Plateau(Rc<RefCell<ReduceLrOnPlateau>>),
}
