//! Variables: places for tensors that are assigned to, such as parameters and caches.

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
    id: VariableId,
    device: Device,
    shape: Shape,
    dtype: DType,
    place: Place,
    /// The parts of a flat variable.
    parts: Vec<Part>,
    gradient: Option<Tensor>,
}

/// Where a variable has its value.
#[derive(Debug)]
enum Place {
    /// The value. Nothing else of the library holds it, so that the next value may take its memory.
    Own(Tensor),
    /// It is the n-th part of a flat variable.
    Part { flat: Variable, n: usize },
}

/// A part of a flat variable.
#[derive(Debug)]
struct Part {
    variable: Weak<Mutex<Held>>,
    id: VariableId,
    start: usize,
    shape: Shape,
    /// The part's value, since it was asked for or assigned.
    value: Option<Tensor>,
    /// How old the value is, where that is not as old as its tensor: other parts were assigned, or it became a part.
    since: Option<u64>,
    /// It was assigned, and the flat value does not have it yet.
    is_loose: bool,
}

/// Where a program finds the value of a variable.
#[derive(Clone)]
pub(crate) enum Layout {
    /// In a tensor of its own.
    Own,
    /// From an element on in the value of a flat variable.
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

/// Locked while several variables are looked at, so that they are in line with each other. Locked before any of them.
static STRUCTURE: Mutex<()> = Mutex::new(());

/// Whoever has it sees variables that are in line with each other.
pub(in crate::tensor) type Structure = MutexGuard<'static, ()>;

pub(in crate::tensor) fn structure() -> Structure {
    STRUCTURE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Variable {
    /// A variable with this value. One that is made of a program's input carries an error: there is nothing to keep outside
    /// of the program.
    pub fn new(value: &Tensor) -> Variable {
        let id = VariableId::next();
        let own = value.own_node("variable").and_then(|_| value.value_of(id));
        let own = own.unwrap_or_else(|error| Tensor::failed(value, error));
        if let Ok(node) = own.node() {
            value.device.hold_for_variable(node);
        }
        Variable::of(id, own)
    }

    /// The variable of a value that is its own.
    fn of(id: VariableId, value: Tensor) -> Variable {
        let (device, shape, dtype) = (value.device.clone(), value.shape, value.dtype);
        let (place, parts, gradient) = (Place::Own(value), Vec::new(), None);
        let held = Held { id, device, shape, dtype, place, parts, gradient };
        Variable { held: Arc::new(Mutex::new(held)) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // No panic leaves it half written.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value that was assigned last: the same tensor until the next is assigned. While it is held it stays as it is, and
    /// so the next value needs memory of its own. While a program is compiled, a tensor that stands for the value that the
    /// variable has when the program runs.
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

    /// The same, while the structure is locked.
    pub(in crate::tensor) fn value_in(&self, _: &Structure) -> Tensor {
        capture::read(self).unwrap_or_else(|| self.now())
    }

    /// The node of the value, where it is known without looking into a flat variable.
    pub(crate) fn known_value(&self) -> Option<NodeId> {
        let _structure = structure();
        let (flat, n) = match &self.held().place {
            Place::Own(value) => return value.node().ok(),
            Place::Part { flat, n } => (flat.clone(), *n),
        };
        let node = flat.held().parts[n].value.as_ref()?.node();
        node.ok()
    }

    /// The number that no other variable has.
    pub(crate) fn id(&self) -> VariableId {
        self.held().id
    }

    /// Whether it has no value, because there was none when it was made.
    pub(in crate::tensor) fn has_failed(&self) -> bool {
        matches!(&self.held().place, Place::Own(value) if value.error().is_some())
    }

    /// The shape and the type of its values.
    pub(in crate::tensor) fn kind(&self) -> (Shape, DType) {
        let held = self.held();
        (held.shape, held.dtype)
    }

    /// Where it lives.
    pub(crate) fn device(&self) -> Device {
        self.held().device.clone()
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
    /// model, as an optimizer does, is done by one operation on the flat one. (The flat parameters of PyTorch's FSDP.)
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
                return Err(Error::data(format!(
                    "{name}: variables must be distinct, got variable {i} twice"
                )));
            }
        }
        if variables.is_empty() {
            return Err(Error::data(format!("{name}: there must be a variable, got none")));
        }
        Ok(Variable::flatten_all(&[variables])?.remove(0))
    }

    /// A flat variable for each of these lists, in which no variable is twice. All of them, or none.
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

    /// Where it begins in the flat variable that it is a part of, if it is.
    pub fn start_in(&self, flat: &Variable) -> Option<usize> {
        let n = match &self.held().place {
            Place::Part { flat: own, n } if own.is_same(flat) => *n,
            _ => return None,
        };
        let start = flat.held().parts[n].start;
        Some(start)
    }

    /// Its shape, which stays.
    pub fn shape(&self) -> Vec<usize> {
        self.held().shape.to_vec()
    }

    /// Its type, which stays.
    pub fn dtype(&self) -> DType {
        self.held().dtype
    }

    /// Takes this value from now on. Where more than 2,000 operations were recorded since something was computed, they
    /// are submitted, as by [`Device::flush`](crate::device::Device::flush): steps that nobody waits for do not pile up.
    ///
    /// Gradients pass to what is assigned, unless it is detached. When the new value is computed, it is written over the old
    /// one where nothing needs that any more: no tensor that is held ([`Variable::value`]), nothing that is recorded, and no
    /// gradient that can still be asked for. So a loop of its own keeps one value in memory if it detaches what it assigns.
    ///
    /// In a program that is being compiled, it is the value from here on in the program, and each run assigns the last one:
    /// all variables of the program together, or none where the run fails.
    ///
    /// # Errors
    /// What submitting gives; `Shape` or `DType` if it has another shape or type; `Data` if it lives on another device; the
    /// tensor's own error if it carries one.
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
        Assignment::new(vec![(self.clone(), value.clone())])?.commit();
        value.device.flush_if_long()
    }

    /// Has a value again that it had before: that itself, and not an equal one, so that gradients are taken by it.
    pub(crate) fn restore(&self, value: &Tensor) {
        let _structure = structure();
        let is_there = match (self.stored().node(), value.node()) {
            (Ok(now), Ok(before)) => now == before,
            _ => true,
        };
        if !is_there {
            self.renew_parts(&[]);
            drop(self.store(value.clone()));
        }
    }

    /// Refuses a value that it cannot have outside of programs.
    fn check(&self, value: &Tensor) -> Result<()> {
        self.fits(value)?;
        value.own_node("assign").map(drop)
    }

    /// Refuses a value that does not fit.
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
        self.assign(&with_op_name("assign_slice", || self.with_slice(axis, start, source))?)
    }

    /// The value with other elements from a place on; gradients do not pass to it.
    fn with_slice(&self, axis: isize, start: isize, source: &Tensor) -> Result<Tensor> {
        self.value().slice_scatter(axis, start, source)?.into_detached()
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

    /// Leaves a gradient, in place of what is there.
    pub(crate) fn set_gradient(&self, gradient: Option<Tensor>) {
        let before = std::mem::replace(&mut self.held().gradient, gradient);
        drop(before);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match &self.place {
            Place::Own(value) => value.let_go(),
            Place::Part { flat, n } => {
                if let Some(part) = flat.held().parts.get_mut(*n) {
                    part.value = part.value.take().filter(|_| part.is_loose);
                }
            }
        }
    }
}

impl Tensor {
    /// The same value as a node of its own, in the same memory.
    pub(in crate::tensor) fn alias(&self) -> Result<Tensor> {
        Ok(Tensor::adopt(&self.device, self.device.alias(self.node()?)?))
    }

    /// The same value as that of a variable.
    pub(in crate::tensor) fn value_of(&self, variable: VariableId) -> Result<Tensor> {
        let value = self.alias()?;
        self.device.set_value_of(value.node()?, variable);
        Ok(value)
    }

    /// It is no variable's value any more.
    fn let_go(&self) {
        if let Ok(node) = self.node() {
            self.device.release_variable(node);
        }
    }

    /// Whether something else needs it than this handle.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.node().is_ok_and(|node| self.device.is_used(node))
    }

    /// Whether something else keeps it than so many clones.
    fn is_shared(&self, clones: usize) -> bool {
        let used = || self.node().is_ok_and(|node| self.device.is_shared(node));
        Arc::strong_count(&self.0) > clones || used()
    }

    /// Whether it was computed, or given.
    fn is_data(&self) -> bool {
        self.node().is_ok_and(|node| self.device.pending(&[node]).is_empty())
    }

    /// How old the value of a variable is; nothing for a tensor that carries an error.
    fn since(&self) -> Option<u64> {
        self.node().ok().map(|node| self.device.since(node))
    }

    /// The tensor without holding it; nothing if it carries an error.
    pub(crate) fn weak(&self) -> Option<WeakTensor> {
        let node = self.node().ok()?;
        Some(WeakTensor::new(&self.device, node))
    }

    /// Elements of a flat tensor from one on, in this shape.
    pub(in crate::tensor) fn elements(&self, start: usize, shape: &Shape) -> Result<Tensor> {
        let end = (start + shape.numel()) as isize;
        self.slice(0, start as isize..end)?.reshape(&shape[..])
    }

    /// The values of these variables, by which gradients of this are taken: `what` is what one is called in errors.
    ///
    /// # Errors
    /// `Data` if this was computed from an earlier value of one of them, or that cannot be known.
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
                Err(Error::data(format!(
                    "{op}: the loss must be computed from the latest values, got one from before {what} {n} {shape:?} was \
                     assigned; compute the loss again, or `detach` that value"
                )))
            }
            Err(StaleValue::Gone(name)) => Err(lost(name)),
        }
    }

    /// The node of a value that is to stay.
    ///
    /// # Errors
    /// `Data` where it is made of a program's input; its own error if it carries one.
    fn own_node(&self, name: &str) -> Result<NodeId> {
        let node = self.node()?;
        match self.device.depends_on_placeholder(node) {
            false => Ok(node),
            true => Err(Error::data(format!(
                "{name}: the value must not depend on an input of a program or a variable that it reads, got one that \
                 does; return it instead"
            ))),
        }
    }

    /// Whether both are handles of one node of the graph, not only tensors of equal values. A step that failed gives a
    /// variable its node again, by another handle.
    #[cfg(all(target_arch = "wasm32", feature = "js"))]
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        matches!((self.node(), other.node()), (Ok(a), Ok(b)) if a == b && self.device.is_same(&other.device))
    }

    /// Leaves the gradients of this number by the values of `variables` with them; what is there already is added to. A
    /// variable of which nothing goes into it gets none.
    ///
    /// # Errors
    /// As [`Tensor::grad`]; `Data` where a gradient is made of an input of a program that is being compiled: `grad` gives it.
    pub fn backward(&self, variables: &[&Variable]) -> Result<()> {
        with_op_name("backward", || {
            let gradients = self.gradients_by("backward", "variable", variables)?;
            let own = |gradient: &Tensor| gradient.own_node("backward").map(drop);
            gradients.iter().flatten().try_for_each(own)?;
            // All sums before the first is left.
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
