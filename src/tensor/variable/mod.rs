//! `Variable`: a mutable slot for a tensor, used for parameters and caches.

mod assignment;
pub(super) mod capture;
mod flat;

use assignment::Parked;
pub(crate) use assignment::{Assignment, WeakTensor};

use super::{with_op_name, Tensor};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{lost, NodeId, StaleValue, VariableId};
use crate::shape::Shape;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A mutable slot for a tensor of one shape and type, such as a parameter of a model or a cache. Tensors that were taken
/// from the variable earlier keep their values.
///
/// Assigning runs nothing. [`Device::submit`](crate::device::Device::submit) at the end of a step submits everything that
/// was recorded at once: the loss, the gradients and the new values.
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
///     device.submit()?;
/// }
/// assert!((w.value().item::<f32>().await? - 1.0).abs() < 1e-3);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
///
/// Clones share the slot, so they are the same variable.
#[derive(Clone, Debug)]
pub struct Variable {
    held: Arc<Mutex<Held>>,
}

#[derive(Debug)]
struct Held {
    id: VariableId,
    device: Device,
    shape: Shape,
    dtype: DType,
    place: Place,
    /// The parts, if this is a flat variable.
    parts: Vec<Part>,
    gradient: Option<Tensor>,
}

/// The place where a variable stores its value.
#[derive(Debug)]
enum Place {
    /// The value. Nothing else in the library holds it, so the next value may reuse its memory.
    Own(Tensor),
    /// The value is the n-th part of a flat variable.
    Part { flat: Variable, n: usize },
}

/// A part of a flat variable.
#[derive(Debug)]
struct Part {
    variable: Weak<Mutex<Held>>,
    id: VariableId,
    start: usize,
    shape: Shape,
    /// The value of the part, once it was read or assigned.
    value: Option<Tensor>,
    /// The sequence number since when the value exists. Set if the value is older than its tensor, because other parts
    /// were assigned or the variable became a part.
    since: Option<u64>,
    /// Whether the part was assigned and the flat value does not have its new value yet.
    is_loose: bool,
}

/// The place where a program finds the value of a variable.
#[derive(Clone)]
pub(crate) enum Layout {
    /// A separate tensor.
    Own,
    /// The value of a flat variable, from the element `start` on.
    Part { flat: Variable, start: usize },
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        match (self, other) {
            (Layout::Own, Layout::Own) => true,
            (Layout::Part { flat: a, start: i }, Layout::Part { flat: b, start: j }) => {
                a.is_same(b) && i == j
            }
            _ => false,
        }
    }
}

/// Guards the relation between flat variables and their parts, so that values read together are consistent. Lock it
/// before any variable.
static STRUCTURE: Mutex<()> = Mutex::new(());

/// The guard of the lock that keeps flat variables and their parts consistent.
pub(in crate::tensor) type Structure = MutexGuard<'static, ()>;

pub(in crate::tensor) fn structure() -> Structure {
    STRUCTURE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Variable {
    /// Creates a variable with this value. If the value depends on an input of a program, the variable carries an error,
    /// because the value does not exist outside the program.
    pub fn new(value: &Tensor) -> Variable {
        let id = VariableId::next();
        let own = value.own_node("variable").and_then(|_| value.value_of(id));
        let own = own.unwrap_or_else(|error| Tensor::failed(value, error));
        if let Ok(node) = own.node() {
            value.device.hold_for_variable(node);
        }
        Variable::of(id, own)
    }

    /// Creates a variable that owns `value`.
    fn of(id: VariableId, value: Tensor) -> Variable {
        let (device, shape, dtype) = (value.device.clone(), value.shape, value.dtype);
        let (place, parts, gradient) = (Place::Own(value), Vec::new(), None);
        let held = Held { id, device, shape, dtype, place, parts, gradient };
        Variable { held: Arc::new(Mutex::new(held)) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // No panic leaves the data inconsistent, so a poisoned lock is safe to use.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last assigned value. All calls return the same tensor until the next assignment.
    ///
    /// A tensor that is held does not change, so the next value of the variable then needs separate memory. While a
    /// program is compiled, this returns a placeholder for the value that the variable has when the program runs.
    pub fn value(&self) -> Tensor {
        if let Some(value) = capture::read(self) {
            return value;
        }
        if let Held { place: Place::Own(value), parts, .. } = &*self.held() {
            if parts.is_empty() {
                return value.clone();
            }
        }
        let _structure = structure();
        self.now()
    }

    /// Returns the value like [`Variable::value`], for callers that already hold the structure lock.
    pub(in crate::tensor) fn value_in(&self, _: &Structure) -> Tensor {
        capture::read(self).unwrap_or_else(|| self.now())
    }

    /// Returns the node of the value, unless the value still has to be sliced from a flat variable.
    pub(crate) fn known_value(&self) -> Option<NodeId> {
        let _structure = structure();
        let (flat, n) = match &self.held().place {
            Place::Own(value) => return value.node().ok(),
            Place::Part { flat, n } => (flat.clone(), *n),
        };
        let node = flat.held().parts[n].value.as_ref()?.node();
        node.ok()
    }

    /// The unique number of this variable.
    pub(crate) fn id(&self) -> VariableId {
        self.held().id
    }

    /// Whether the variable carries an error because it was created without a value.
    pub(in crate::tensor) fn has_failed(&self) -> bool {
        matches!(&self.held().place, Place::Own(value) if value.error().is_some())
    }

    /// The shape and the type of the values.
    pub(in crate::tensor) fn kind(&self) -> (Shape, DType) {
        let held = self.held();
        (held.shape, held.dtype)
    }

    /// The device of the variable.
    pub(crate) fn device(&self) -> Device {
        self.held().device.clone()
    }

    /// Whether both are the same variable.
    pub fn is_same(&self, other: &Variable) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// An address that is equal for all clones of a variable, and different for other variables.
    #[cfg(all(target_arch = "wasm32", feature = "js-nn"))]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.held) as *const () as usize
    }

    /// Creates one flat variable that holds the values of all these variables, one after the other.
    ///
    /// The variables become parts of the flat one. An assignment to the flat variable changes its parts, and an
    /// assignment to a part changes the flat variable. So one operation on the flat variable updates all parameters of a
    /// model, as optimizers do. PyTorch's FSDP has the same flat parameters.
    ///
    /// A variable that was a part of another flat variable leaves it. The elements of that flat variable keep their
    /// values.
    ///
    /// # Errors
    /// `InvalidArgument` if the list is empty, has a variable twice, or spans two devices; `DType` if the types differ; `Limit`
    /// if the flat variable is too large.
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
                return Err(Error::argument(format!(
                    "{name}: variables must be distinct, got variable {i} twice"
                )));
            }
        }
        if variables.is_empty() {
            return Err(Error::argument(format!("{name}: there must be a variable, got none")));
        }
        Ok(Variable::flatten_all(&[variables])?.remove(0))
    }

    /// Creates a flat variable for each of these lists, or none if one fails. No variable may be in the lists twice.
    pub(crate) fn flatten_all(lists: &[&[Variable]]) -> Result<Vec<Variable>> {
        let _structure = structure();
        let mut made = Vec::with_capacity(lists.len());
        for variables in lists {
            let values: Vec<Tensor> = variables.iter().map(Variable::now).collect();
            made.push((with_op_name("flatten", || flat::flat_value(&values))?, values));
        }
        // From here on nothing fails.
        let mut flats = Vec::with_capacity(lists.len());
        for (variables, (all, values)) in lists.iter().zip(made) {
            flats.push(Variable::adopt_parts(variables, all, values));
        }
        Ok(flats)
    }

    /// The first element of this variable in `flat`, or `None` if the variable is not a part of it.
    pub fn start_in(&self, flat: &Variable) -> Option<usize> {
        let n = match &self.held().place {
            Place::Part { flat: own, n } if own.is_same(flat) => *n,
            _ => return None,
        };
        let start = flat.held().parts[n].start;
        Some(start)
    }

    /// The shape, which never changes.
    pub fn shape(&self) -> Vec<usize> {
        self.held().shape.to_vec()
    }

    /// The type, which never changes.
    pub fn dtype(&self) -> DType {
        self.held().dtype
    }

    /// Assigns a value. If more than 2,000 operations were recorded since the last computation, they are submitted, as by
    /// [`Device::submit`](crate::device::Device::submit). So a loop that never waits does not accumulate operations.
    ///
    /// Gradients pass to the assigned value, unless it is detached. The new value is written over the old one if nothing
    /// else needs the old one. Tensors from [`Variable::value`], recorded operations and possible gradients all need it.
    /// A custom loop that detaches the values it assigns therefore keeps only one value in memory.
    ///
    /// While a program is compiled, the variable has the new value in the rest of the program. Each run then assigns the
    /// last one. All variables of the program are assigned together, or none of them if the run fails.
    ///
    /// # Errors
    /// `Shape` or `DType` if the value has another shape or type; `InvalidArgument` if it is on another device; the error that
    /// the tensor carries; the errors of submitting.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType, tensor::Variable};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let sum = Variable::new(&device.zeros(&[2])?);
    /// let program = device.compile(&[(&[2], DType::F32)], |x| {
    ///     sum.assign(&sum.value().add(&x[0])?.detach())?;
    ///     Ok(vec![sum.value().max(0)?])
    /// })?;
    /// for n in 1..4 {
    ///     program.run(&[&device.tensor(&[n as f32, 1.0], &[2])?])?;
    /// }
    /// assert_eq!(sum.value().read::<f32>().await?, [6.0, 3.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn assign(&self, value: &Tensor) -> Result<()> {
        self.fits(value)?;
        if let Some(done) = capture::write(self, value) {
            return done;
        }
        Assignment::new(vec![(self.clone(), value.clone())])?.run(&value.device)
    }

    /// Whether assignments to the variable become a part of a program, because one is being compiled.
    pub(crate) fn is_in_program(&self) -> bool {
        capture::is_compiling(&self.device())
    }

    /// Restores a previous value. The variable gets that very node, not an equal one, so gradients by it still work.
    pub(crate) fn restore(&self, value: &Tensor) {
        let _structure = structure();
        if !self.has_node_of(value) {
            self.renew_parts(&[]);
            drop(self.store(value.clone()));
        }
    }

    /// Whether this tensor is the current value. It was then not assigned since it was read.
    pub(crate) fn is_at(&self, value: &Tensor) -> bool {
        let _structure = structure();
        self.has_node_of(value)
    }

    /// Like [`Variable::is_at`], for callers that already hold the structure lock. True if either value is an error.
    fn has_node_of(&self, value: &Tensor) -> bool {
        match (self.stored().node(), value.node()) {
            (Ok(now), Ok(before)) => now == before,
            _ => true,
        }
    }

    /// Rejects a value that does not fit, or that depends on an input of a program.
    fn check(&self, value: &Tensor) -> Result<()> {
        self.fits(value)?;
        value.own_node("assign").map(drop)
    }

    /// Rejects a value of another shape, type or device.
    fn fits(&self, value: &Tensor) -> Result<()> {
        let held = self.held();
        if held.shape != value.shape {
            let must = "the value must have the shape of the variable";
            return Err(Error::shapes("assign", must, &held.shape, &value.shape));
        }
        if held.dtype != value.dtype {
            let (before, after) = (held.dtype, value.dtype);
            return Err(Error::dtype(format!(
                "assign: the value must be {before} like the variable, got {after}; cast it"
            )));
        }
        if !held.device.is_same(&value.device) {
            return Err(Error::wrong_device("assign", "the value"));
        }
        value.node().map(drop)
    }

    /// Overwrites the elements along `axis` from `start` on with `source`, like [`Tensor::slice_scatter`]. The other
    /// elements keep their values. Use it for a row of a cache or an embedding. Gradients do not pass to the new value.
    ///
    /// Only these elements are written, in place, if nothing else needs the old value. Otherwise the whole value is copied.
    /// Three things need the old value: a tensor taken from the variable, a pending operation, and a possible gradient of a
    /// held tensor. `detach` the results of a loop that fills a cache, so that no gradient needs old values. A new `start`
    /// reuses the plan.
    ///
    /// # Errors
    /// The errors of `slice_scatter`; `InvalidArgument` if the source is on another device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType, tensor::Variable};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let cache = Variable::new(&device.zeros(&[4, 2])?);
    /// for n in 0..3 {
    ///     cache.assign_slice(0, n, &device.full(&[1, 2], n as f64, DType::F32)?)?;
    ///     device.submit()?;
    /// }
    /// assert_eq!(cache.value().read::<f32>().await?, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn assign_slice(&self, axis: isize, start: isize, source: &Tensor) -> Result<()> {
        self.assign(&with_op_name("assign_slice", || self.with_slice(axis, start, source))?)
    }

    /// Returns the value with some elements replaced, detached.
    fn with_slice(&self, axis: isize, start: isize, source: &Tensor) -> Result<Tensor> {
        self.value().slice_scatter(axis, start, source)?.into_detached()
    }

    /// The sum of the gradients that [`Tensor::backward`] stored. (`grad` in PyTorch.) It is kept until it is taken.
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

    /// Takes the sum of the gradients that [`Tensor::backward`] stored, and leaves none.
    pub fn take_gradient(&self) -> Option<Tensor> {
        self.held().gradient.take()
    }

    /// Replaces the stored gradient.
    pub(crate) fn set_gradient(&self, gradient: Option<Tensor>) {
        let before = std::mem::replace(&mut self.held().gradient, gradient);
        drop(before);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match &self.place {
            Place::Own(value) => {
                value.let_go();
                value.outlive_variable();
            }
            Place::Part { flat, n } => {
                if let Some(part) = flat.held().parts.get_mut(*n) {
                    part.value.iter().for_each(Tensor::outlive_variable);
                    part.value = part.value.take().filter(|_| part.is_loose);
                }
            }
        }
    }
}

impl Tensor {
    /// Returns a new node with the same value, in the same memory.
    pub(in crate::tensor) fn alias(&self) -> Result<Tensor> {
        Ok(Tensor::adopt(&self.device, self.device.alias(self.node()?)?))
    }

    /// Returns a new node with the same value, marked as the value of a variable.
    pub(in crate::tensor) fn value_of(&self, variable: VariableId) -> Result<Tensor> {
        let value = self.alias()?;
        self.device.set_value_of(value.node()?, variable);
        Ok(value)
    }

    /// Notes that a variable no longer has this value.
    fn let_go(&self) {
        if let Ok(node) = self.node() {
            self.device.release_variable(node);
        }
    }

    /// Notes that the variable was dropped while it had this value.
    fn outlive_variable(&self) {
        if let Ok(node) = self.node() {
            self.device.outlive_variable(node);
        }
    }

    /// Whether anything but this handle needs the tensor, or the tensor has a history or had one that was dropped.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.node().is_ok_and(|node| self.device.is_used(node))
    }

    /// Whether anything but this number of clones holds the tensor.
    fn is_shared(&self, clones: usize) -> bool {
        let used = || self.node().is_ok_and(|node| self.device.is_shared(node));
        Arc::strong_count(&self.0) > clones || used()
    }

    /// Whether the value is in memory, because it was computed or given.
    fn is_data(&self) -> bool {
        self.node().is_ok_and(|node| self.device.pending(&[node]).is_empty())
    }

    /// The sequence number since when the value of a variable exists. `None` if the tensor carries an error.
    fn since(&self) -> Option<u64> {
        self.node().ok().map(|node| self.device.since(node))
    }

    /// A weak reference to the tensor, or `None` if it carries an error.
    pub(crate) fn weak(&self) -> Option<WeakTensor> {
        let node = self.node().ok()?;
        Some(WeakTensor::new(&self.device, node))
    }

    /// Returns elements of a flat tensor from `start` on, in this shape.
    pub(in crate::tensor) fn elements(&self, start: usize, shape: &Shape) -> Result<Tensor> {
        let end = (start + shape.numel()) as isize;
        self.slice(0, start as isize..end)?.reshape(&shape[..])
    }

    /// Returns the values of these variables, for gradients of this tensor by them. Errors call a variable `what`.
    ///
    /// # Errors
    /// `InvalidState` if this tensor was computed from an earlier value of one of them, or if dropped history leaves that open.
    pub(crate) fn values_by(
        &self,
        op: &str,
        what: &str,
        variables: &[&Variable],
    ) -> Result<Vec<Tensor>> {
        let values: Vec<Tensor> = variables.iter().map(|variable| variable.value()).collect();
        let mut nodes = Vec::with_capacity(values.len());
        for (variable, value) in variables.iter().zip(&values) {
            nodes.push((variable.id(), value.node()?));
        }
        let is_here = values.first().is_some_and(|x| x.device.is_same(&self.device));
        if is_here {
            let nodes: Vec<NodeId> = nodes.iter().map(|(_, node)| *node).collect();
            self.check_captured(op, what, &nodes)?;
        }
        let checked = match is_here {
            true => self.device.check_values(self.node()?, &nodes),
            false => Ok(()),
        };
        match checked {
            Ok(()) => Ok(values),
            Err(StaleValue::Value(n)) => {
                let shape = values[n].shape();
                Err(Error::state(format!(
                    "{op}: the loss must be computed from the latest values, got one from before {what} {n} {shape:?} was \
                     assigned; compute the loss again, or `detach` that value"
                )))
            }
            Err(StaleValue::Gone(name)) => Err(lost(name)),
        }
    }

    /// Returns the node of a value that a variable or gradient will keep.
    ///
    /// # Errors
    /// `InvalidState` if the value depends on an input of a program; the error that the tensor carries.
    pub(crate) fn own_node(&self, name: &str) -> Result<NodeId> {
        let node = self.node()?;
        match self.device.depends_on_placeholder(node) {
            false => Ok(node),
            true => Err(Error::state(format!(
                "{name}: the value must not depend on an input of a program, or on a variable that the program reads, got one \
                 that does; return the value from the program instead"
            ))),
        }
    }

    /// Whether both are handles of the same node, and not only equal in value. Rolling back a failed step restores the
    /// node of a variable's value under a new handle.
    #[cfg(all(target_arch = "wasm32", feature = "js"))]
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        matches!((self.node(), other.node()), (Ok(a), Ok(b)) if a == b && self.device.is_same(&other.device))
    }

    /// Computes the gradients of this number by `variables`, and adds each to the gradient that its variable stores. A
    /// variable that this number does not depend on gets no gradient.
    ///
    /// # Errors
    /// The errors of [`Tensor::grad`]; `InvalidState` if a gradient depends on an input of a program that is being compiled.
    /// Use `grad` there.
    pub fn backward(&self, variables: &[&Variable]) -> Result<()> {
        with_op_name("backward", || {
            let gradients = self.gradients_by("backward", "variable", variables)?;
            let own = |gradient: &Tensor| gradient.own_node("backward").map(drop);
            gradients.iter().flatten().try_for_each(own)?;
            // All sums are recorded before the first one is stored, so an error changes no variable.
            let mut sums: Vec<(&Variable, Tensor)> = Vec::new();
            for (variable, gradient) in variables.iter().zip(gradients) {
                let Some(gradient) = gradient else { continue };
                let known = sums.iter().rposition(|(other, _)| other.is_same(variable));
                let before = match known {
                    Some(at) => Some(sums[at].1.clone()),
                    None => variable.gradient(),
                };
                let sum = before.map_or_else(|| Ok(gradient.clone()), |sum| sum.add(&gradient))?;
                sums.push((*variable, sum));
            }
            for (variable, sum) in sums {
                variable.held().gradient = Some(sum);
            }
            Ok(())
        })
    }
}
