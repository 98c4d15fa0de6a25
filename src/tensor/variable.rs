//! What is assigned to: parameters, caches.

use super::{within, Tensor};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::shape::Shape;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A place for a tensor of one shape and type: what a model learns, or keeps between steps. Tensors taken from it before
/// stay as they are.
///
/// Assigning runs nothing. [`Device::flush`](crate::device::Device::flush) at the end of a step makes one submission of
/// all that was recorded: the step's loss, gradients and new values.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::Variable};
/// let device = Device::with(Preference::Cpu).await?;
/// let w = Variable::new(&device.tensor(&[3.0f32], &[1])?);
/// for _ in 0..50 {
///     let loss = w.value().sub(1.0)?.square().sum(&[])?;
///     loss.backward(&[&w])?;
///     let gradient = w.take_gradient().expect("backward left one");
///     w.assign(&w.value().sub(&gradient.mul(0.1)?)?)?;
///     device.flush()?;
/// }
/// assert!((w.value().item::<f32>().await? - 1.0).abs() < 1e-3);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
///
/// Cloning shares it: both are the same variable.
#[derive(Clone, Debug)]
pub struct Variable {
    held: Arc<Mutex<Held>>,
}

#[derive(Debug)]
struct Held {
    content: Content,
    gradient: Option<Tensor>,
}

#[derive(Debug)]
enum Content {
    /// The value, and what parts took of it since it was assigned: where they begin, and their shapes. Nothing else of the
    /// library holds it, so that the next value may take its memory.
    Own { value: Tensor, parts: FxHashMap<(usize, Shape), Tensor> },
    /// The variable is a part of a flat one.
    Part { flat: Variable, start: usize, shape: Shape },
}

impl Variable {
    /// A variable with this value. One that is made of a program's input carries an error: there is nothing to keep outside
    /// of the program.
    pub fn new(value: &Tensor) -> Variable {
        let value = match value.own_node("variable") {
            Ok(node) => {
                value.device.keep(node);
                value.clone()
            }
            Err(error) => Tensor::failed(value, error),
        };
        let content = Content::Own { value, parts: FxHashMap::default() };
        Variable { held: Arc::new(Mutex::new(Held { content, gradient: None })) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // No panic leaves it half written.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was assigned last. While it is held it stays as it is, and so the next value needs memory of its own.
    pub fn value(&self) -> Tensor {
        let (flat, start, shape) = match &self.held().content {
            Content::Own { value, .. } => return value.clone(),
            Content::Part { flat, start, shape } => (flat.clone(), *start, *shape),
        };
        flat.part(start, shape)
    }

    /// A part of the value: the same tensor until another value is assigned.
    fn part(&self, start: usize, shape: Shape) -> Tensor {
        let mut held = self.held();
        match &mut held.content {
            Content::Own { value, parts } => {
                let cut = || {
                    let (start, count) = (start as isize, shape.numel() as isize);
                    let taken = value.slice(0, start..start + count);
                    let taken = taken.and_then(|x| x.reshape(&shape[..]));
                    taken.unwrap_or_else(|error| Tensor::failed(value, error))
                };
                parts.entry((start, shape)).or_insert_with(cut).clone()
            }
            Content::Part { flat, start: own, .. } => {
                let (flat, start) = (flat.clone(), *own + start);
                drop(held);
                flat.part(start, shape)
            }
        }
    }

    /// Whether both are the same variable.
    pub fn is_same(&self, other: &Variable) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// What is the same for all that are the same variable.
    #[cfg(all(target_arch = "wasm32", feature = "js-nn"))]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.held) as *const () as usize
    }

    /// One flat variable that has the values of all of these, one after the other. They are parts of it from now on: what is
    /// assigned to it they have, and what is assigned to one of them it has. So whatever is done with all parameters of a
    /// model, as an optimiser does, is done by one operation on the flat one. (The flat parameters of PyTorch's FSDP.)
    ///
    /// A variable that was a part of another flat one is taken out of that, whose elements stay.
    ///
    /// # Errors
    /// `Data` if there are none, one is there twice, or they live on two devices; `DType` if their types differ; `Limit` if the
    /// flat one is too large.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Variable};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let (w, b) = (Variable::new(&device.ones(&[2, 2])?), Variable::new(&device.zeros(&[2])?));
    /// let flat = Variable::flatten(&[w.clone(), b.clone()])?;
    /// flat.assign(&flat.value().add(1)?)?;
    /// assert_eq!(w.value().read::<f32>().await?, [2.0; 4]);
    /// assert_eq!(b.value().read::<f32>().await?, [1.0; 2]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn flatten(variables: &[Variable]) -> Result<Variable> {
        let name = "flatten";
        for (i, variable) in variables.iter().enumerate() {
            if variables[..i].iter().any(|other| other.is_same(variable)) {
                return Err(Error::data(format!("{name}: variable {i} is there twice")));
            }
        }
        if variables.is_empty() {
            return Err(Error::data(format!("{name}: no variables")));
        }
        let all = within(name, || {
            let lines: Result<Vec<Tensor>> =
                variables.iter().map(|variable| variable.value().reshape(&[-1])).collect();
            Tensor::concat(&lines?, 0)?.fixed()
        })?;
        let flat = Variable::new(&all);
        let mut start = 0;
        for variable in variables {
            let shape = variable.value().shape;
            let part = Content::Part { flat: flat.clone(), start, shape };
            std::mem::replace(&mut variable.held().content, part).let_go();
            start += shape.numel();
        }
        Ok(flat)
    }

    /// Where it begins in the flat variable that it is a part of, if it is.
    pub fn start_in(&self, flat: &Variable) -> Option<usize> {
        match &self.held().content {
            Content::Part { flat: own, start, .. } if own.is_same(flat) => Some(*start),
            _ => None,
        }
    }

    /// Its shape, which stays.
    pub fn shape(&self) -> Vec<usize> {
        match &self.held().content {
            Content::Own { value, .. } => value.shape().to_vec(),
            Content::Part { shape, .. } => shape.to_vec(),
        }
    }

    /// Its type, which stays.
    pub fn dtype(&self) -> DType {
        match &self.held().content {
            Content::Own { value, .. } => value.dtype(),
            Content::Part { flat, .. } => flat.dtype(),
        }
    }

    /// Takes this value from now on. Where more than 2,000 operations were recorded since something was computed, they
    /// are submitted, as by [`Device::flush`](crate::device::Device::flush): steps that nobody waits for do not pile up.
    ///
    /// When it is computed, it is written over the value before, if no tensor holds that ([`Variable::value`]) and nothing
    /// recorded still needs it, and if each element is made of the one that it replaces, or all that reads the value before is
    /// done by then. Else it has memory of its own. What was computed of a value that is overwritten stays, but gradients
    /// that would pass that value are a `Data` error then: hold it, or ask for them before.
    ///
    /// # Errors
    /// What submitting gives; `Shape` or `DType` if it has another shape or type; `Data` if it lives on another device, or
    /// is made of an input of a program that is being compiled; the tensor's own error if it carries one.
    pub fn assign(&self, value: &Tensor) -> Result<()> {
        self.replace(value)?;
        value.device.flush_if_long()
    }

    /// The same, and nothing is submitted: of several variables that are assigned together, the first would be without the
    /// others.
    pub(crate) fn replace(&self, value: &Tensor) -> Result<()> {
        let before = self.value();
        if before.shape != value.shape {
            let why = "a variable keeps its shape";
            return Err(Error::shapes("assign", &before.shape, &value.shape, why));
        }
        if before.dtype != value.dtype {
            let (before, after) = (before.dtype, value.dtype);
            return Err(Error::dtype(format!("assign: {after} to a variable of {before}")));
        }
        if !before.device.is_same(&value.device) {
            return Err(Error::data(
                "assign: the value lives on another device; move it with `to`",
            ));
        }
        let node = value.own_node("assign")?;
        let after = Content::Own { value: value.clone(), parts: FxHashMap::default() };
        let mut held = self.held();
        match &held.content {
            Content::Own { value: before, .. } => match before.node() {
                Ok(before) => value.device.replace(before, node),
                Err(_) => value.device.keep(node),
            },
            Content::Part { flat, start, .. } => {
                let (flat, start) = (flat.clone(), *start as isize);
                drop(held);
                return within("assign", || {
                    flat.replace(&flat.with_slice(0, start, &value.reshape(&[-1])?)?)
                });
            }
        }
        held.content = after;
        Ok(())
    }

    /// Takes the elements of `source` along `axis` from `start` on, as [`Tensor::slice_scatter`], and keeps the others: a
    /// row of a cache, or of an embedding. Gradients do not pass to the new value.
    ///
    /// Where nothing else needs the value before (no tensor that was taken from the variable, no operation that is still to
    /// be computed, no gradient that a tensor which is held could be asked for), only these elements are written, in its
    /// memory; else the whole is copied. So what is decoded is best detached. Where it begins is data.
    ///
    /// # Errors
    /// Those of `slice_scatter`; `Data` if the source lives on another device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType, tensor::Variable};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let cache = Variable::new(&device.zeros(&[4, 2])?);
    /// for n in 0..3 {
    ///     cache.assign_slice(0, n, &device.full(&[1, 2], n as f64, DType::F32)?)?;
    ///     device.flush()?;
    /// }
    /// assert_eq!(cache.value().read::<f32>().await?, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn assign_slice(&self, axis: isize, start: isize, source: &Tensor) -> Result<()> {
        self.assign(&within("assign_slice", || self.with_slice(axis, start, source))?)
    }

    /// The value with other elements from a place on; gradients do not pass to it.
    fn with_slice(&self, axis: isize, start: isize, source: &Tensor) -> Result<Tensor> {
        self.value().slice_scatter(axis, start, source)?.fixed()
    }

    /// What [`Tensor::backward`] has left, added up. (`grad` of PyTorch.) It stays until it is taken.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Variable};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let (a, b) = (Variable::new(&device.full(&[], 2.0, warpweft::dtype::DType::F32)?), device.ones(&[])?);
    /// let loss = &a * &a - 3.0 * &b;
    /// loss.backward(&[&a])?;
    /// assert_eq!(a.gradient().expect("backward left one").item::<f32>().await?, 4.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn gradient(&self) -> Option<Tensor> {
        self.held().gradient.clone()
    }

    /// What [`Tensor::backward`] has left, added up, until it is taken.
    pub fn take_gradient(&self) -> Option<Tensor> {
        self.held().gradient.take()
    }
}

impl Content {
    /// It is no variable's value any more.
    fn let_go(&self) {
        if let Content::Own { value, .. } = self {
            if let Ok(node) = value.node() {
                value.device.let_go(node);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.content.let_go();
    }
}

impl Tensor {
    /// The node of a value that is to stay.
    ///
    /// # Errors
    /// `Data` where it is made of a program's input; its own error if it carries one.
    fn own_node(&self, name: &str) -> Result<NodeId> {
        let node = self.node()?;
        match self.device.stands_in(node) {
            false => Ok(node),
            true => Err(Error::data(format!(
                "{name}: the value is made of a program's input, which has no data outside of the program; return it"
            ))),
        }
    }

    /// Whether both are the same tensor, not only of the same values.
    #[cfg(all(target_arch = "wasm32", feature = "js"))]
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Leaves the gradients of this number by the values of `variables` with them; what is there already is added to. A
    /// variable of which nothing goes into it gets none.
    ///
    /// # Errors
    /// As [`Tensor::grad`]; `Data` where a gradient is made of an input of a program that is being compiled: `grad` gives it.
    pub fn backward(&self, variables: &[&Variable]) -> Result<()> {
        within("backward", || {
            let values: Vec<Tensor> = variables.iter().map(|variable| variable.value()).collect();
            let gradients = self.paths(&values.iter().collect::<Vec<_>>())?;
            let own = |gradient: &Tensor| gradient.own_node("backward").map(drop);
            gradients.iter().flatten().try_for_each(own)?;
            for (variable, gradient) in variables.iter().zip(gradients) {
                let Some(gradient) = gradient else { continue };
                let mut held = variable.held();
                held.gradient = Some(match held.gradient.take() {
                    Some(before) => before.add(&gradient)?,
                    None => gradient,
                });
            }
            Ok(())
        })
    }
}
