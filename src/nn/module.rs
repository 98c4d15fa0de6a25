//! The `Module` and `Layer` traits: a model as a tree of named parameters, buffers and child modules.

use super::Generator;
use crate::error::{Error, ErrorKind, Result};
use crate::sorted;
use crate::tensor::{Assignment, Tensor, Variable};
use std::any::type_name;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// The batch counter of PyTorch's batch norms, which is not needed here.
const COUNTED: &str = "num_batches_tracked";

/// A part of a model: a layer, a block, or the whole model. A custom module implements only [`Module::members`]. Parameter
/// names, saving, loading and counting are derived from it.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, error::Result, tensor::Tensor};
/// use warpweft::nn::{Generator, Layer, Linear, Members, Module};
///
/// struct Mlp { hidden: Linear, output: Linear }
///
/// impl Module for Mlp {
///     fn members(&self, members: &mut Members) {
///         members.child("hidden", &self.hidden).child("output", &self.output);
///     }
/// }
///
/// impl Layer for Mlp {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.output.forward(&self.hidden.forward(x)?.tanh())
///     }
/// }
///
/// # let device = Device::with(Preference::Cpu).await?;
/// let generator = Generator::new(&device, 0);
/// let model = Mlp { hidden: Linear::new(&generator, 2, 16)?, output: Linear::new(&generator, 16, 1)? };
/// assert_eq!(model.parameter_count(), 2 * 16 + 16 + 16 + 1);
/// assert_eq!(model.named_parameters()[0].0, "hidden.weight");
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub trait Module {
    /// Adds each parameter, buffer and child to `members`.
    fn members(&self, members: &mut Members);

    /// Returns the name of the module's type, without its path and its type arguments.
    fn kind(&self) -> &'static str {
        let name = type_name::<Self>();
        let short = name.split('<').next().unwrap_or(name);
        short.rsplit("::").next().unwrap_or(short)
    }

    /// Returns the parameters with their paths, for example `layers.0.weight`. A parameter with several names is listed once,
    /// under the first name.
    fn named_parameters(&self) -> Vec<(String, Variable)> {
        parameters(&|see| self.visit(see))
    }

    /// Returns each parameter once.
    fn parameters(&self) -> Vec<Variable> {
        self.named_parameters().into_iter().map(|(_, variable)| variable).collect()
    }

    /// Returns the number of elements of all parameters.
    fn parameter_count(&self) -> usize {
        count(&self.named_parameters())
    }

    /// Returns the values of all parameters and buffers by their paths. `io::save_safetensors` (feature `io`) writes them to
    /// a file.
    fn state_dict(&self) -> BTreeMap<String, Tensor> {
        state(values(&|see| self.visit(see)))
    }

    /// Loads the values of all parameters and buffers from `state`, by their paths. Values are cast to the type of their
    /// variable.
    ///
    /// Two kinds of entries are ignored. The first is the counter `num_batches_tracked` of PyTorch's batch norms. The second
    /// is the rest of a [`Trainer`](crate::train::Trainer) checkpoint (`trainer/...`).
    ///
    /// # Errors
    /// `Format` with the names that are missing or unexpected. `Shape` if a shape differs. After an error, no value has
    /// changed.
    fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        load(&values(&|see| self.visit(see)), state)
    }

    /// Switches to training mode, the mode of a new module. Dropout drops elements. Batch norm uses the statistics of the
    /// batch, and updates its running statistics.
    fn train(&self) {
        self.set_training(true);
    }

    /// Switches to evaluation mode. Dropout returns its input, and batch norm uses its running statistics.
    fn eval(&self) {
        self.set_training(false);
    }

    /// Calls [`Module::train`] or [`Module::eval`].
    fn set_training(&self, training: bool) {
        self.visit(&mut |_, member| {
            if let Member::Mode(mode) = member {
                mode.0.store(training, Ordering::Relaxed);
            }
        });
    }

    /// Returns a readable table of all parameters, with their shapes and counts.
    fn summary(&self) -> String {
        table(self.kind(), &|see| self.visit(see))
    }

    /// Calls `see` with the path of each member, in order. The members of a child come directly after the child.
    fn visit(&self, see: &mut dyn FnMut(&str, Member<'_>)) {
        self.members(&mut Members { path: String::new(), see });
    }
}

/// A module that maps one tensor to one tensor, such as an element of a [`Sequential`](super::Sequential).
pub trait Layer: Module {
    /// Records the layer's operations on `x`, and returns the result.
    ///
    /// # Errors
    /// The errors of the recorded operations, usually `Shape` or `DType`.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

/// A function of a tensor is a layer without parameters, for example `|x: &Tensor| Ok(x.relu())`.
impl<F: Fn(&Tensor) -> Result<Tensor>> Module for F {
    fn members(&self, _: &mut Members) {}
}

impl<F: Fn(&Tensor) -> Result<Tensor>> Layer for F {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self(x)
    }
}

/// A member of a module.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Member<'a> {
    /// A learned variable.
    Parameter(&'a Variable),
    /// A variable that is saved but not learned, such as a running mean.
    Buffer(&'a Variable),
    /// A child module. Its members come next.
    Child(&'a dyn Module),
    /// The flag for training mode.
    Mode(&'a Mode),
    /// The source of the module's random seeds in training.
    Generator(&'a Generator),
}

/// The visitor to which a module adds its members.
pub struct Members<'a> {
    path: String,
    see: &'a mut dyn FnMut(&str, Member<'_>),
}

impl Members<'_> {
    /// Adds a learned variable.
    pub fn parameter(&mut self, name: &str, variable: &Variable) -> &mut Self {
        self.add(name, Member::Parameter(variable), |_| ())
    }

    /// Adds a learned variable, if there is one.
    pub fn parameter_if(&mut self, name: &str, variable: &Option<Variable>) -> &mut Self {
        match variable {
            Some(variable) => self.parameter(name, variable),
            None => self,
        }
    }

    /// Adds a variable that is saved but not learned.
    pub fn buffer(&mut self, name: &str, variable: &Variable) -> &mut Self {
        self.add(name, Member::Buffer(variable), |_| ())
    }

    /// Adds a child module. Its name is the prefix of its members' names.
    pub fn child<M: Module>(&mut self, name: &str, module: &M) -> &mut Self {
        self.child_dyn(name, module)
    }

    /// Adds a child module of any type.
    pub fn child_dyn(&mut self, name: &str, module: &dyn Module) -> &mut Self {
        self.add(name, Member::Child(module), |members| module.members(members))
    }

    /// Adds several modules of one type, named by their indices: `layers.0`, `layers.1`.
    pub fn children<M: Module>(&mut self, name: &str, modules: &[M]) -> &mut Self {
        for (i, module) in modules.iter().enumerate() {
            self.child(&format!("{name}.{i}"), module);
        }
        self
    }

    /// Adds the flag for training mode.
    pub fn mode(&mut self, mode: &Mode) -> &mut Self {
        self.add("", Member::Mode(mode), |_| ())
    }

    /// Adds the source of random seeds in training. A resumed training run continues its sequence of seeds.
    pub fn generator(&mut self, generator: &Generator) -> &mut Self {
        self.add("", Member::Generator(generator), |_| ())
    }

    fn add(&mut self, name: &str, member: Member, then: impl FnOnce(&mut Self)) -> &mut Self {
        let before = self.path.len();
        if before > 0 && !name.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        (self.see)(&self.path, member);
        then(self);
        self.path.truncate(before);
        self
    }
}

/// The flag for training mode, which is initially set. Clones share the flag.
#[derive(Clone, Debug)]
pub struct Mode(Arc<AtomicBool>);

impl Default for Mode {
    fn default() -> Mode {
        Mode(Arc::new(AtomicBool::new(true)))
    }
}

impl Mode {
    /// Whether the module is in training mode.
    pub fn training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Casts a parameter to the type of `x` if both are floats. A layer computes in the type of its input.
pub(super) fn like(parameter: Tensor, x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_float() && parameter.dtype().is_float() {
        true => parameter.cast(x.dtype()),
        false => Ok(parameter),
    }
}

/// Calls [`like`] on the value of an optional parameter.
pub(super) fn like_if(parameter: Option<&Variable>, x: &Tensor) -> Result<Option<Tensor>> {
    parameter.map(|parameter| like(parameter.value(), x)).transpose()
}

// The functions below are not generic, so that they are compiled once, not once for each module type.

/// A traversal of a module. It calls its argument with each member and its path.
type Walk<'a> = dyn Fn(&mut dyn FnMut(&str, Member<'_>)) + 'a;

/// Returns each parameter once, with its first path.
fn parameters(walk: &Walk) -> Vec<(String, Variable)> {
    let mut found: Vec<(String, Variable)> = Vec::new();
    walk(&mut |path, member| {
        if let Member::Parameter(variable) = member {
            if !found.iter().any(|(_, other)| other.is_same(variable)) {
                found.push((path.into(), variable.clone()));
            }
        }
    });
    found
}

/// Returns the number of elements of all parameters.
fn count(parameters: &[(String, Variable)]) -> usize {
    parameters.iter().map(|(_, variable)| variable.shape().iter().product::<usize>()).sum()
}

/// Returns parameters and buffers under all their paths.
fn values(walk: &Walk) -> Vec<(String, Variable)> {
    let mut found = Vec::new();
    walk(&mut |path, member| {
        if let Member::Parameter(variable) | Member::Buffer(variable) = member {
            found.push((path.to_string(), variable.clone()));
        }
    });
    found
}

/// Returns the values of these variables by their paths.
fn state(own: Vec<(String, Variable)>) -> BTreeMap<String, Tensor> {
    sorted::map(own.into_iter().map(|(path, x)| (path, x.value())))
}

/// Assigns the values of `state` to the variables of `own`, either all or none.
fn load(own: &[(String, Variable)], state: &BTreeMap<String, Tensor>) -> Result<()> {
    let name = "load_state_dict";
    let (mut values, mut missing) = (Vec::with_capacity(own.len()), Vec::new());
    for (path, variable) in own {
        match state.get(path) {
            Some(tensor) if tensor.shape() == variable.shape() => values.push(tensor),
            Some(tensor) => {
                let (new, old) = (tensor.shape(), variable.shape());
                let message = format!("{name}: `{path}` must have shape {old:?}, got {new:?}");
                return Err(Error::new(ErrorKind::Shape, message));
            }
            None => missing.push(&path[..]),
        }
    }
    let known: HashSet<&str> = own.iter().map(|(path, _)| &path[..]).collect();
    let is_aside =
        |path: &str| path.ends_with(COUNTED) || path == "trainer" || path.starts_with("trainer/");
    let is_surplus = |path: &&str| !known.contains(path) && !is_aside(path);
    let surplus: Vec<&str> = state.keys().map(String::as_str).filter(is_surplus).collect();
    let lists = [
        ("have all names of the model", "without", missing),
        ("have no other names", "with", surplus),
    ];
    for (must, got, paths) in lists {
        if !paths.is_empty() {
            return Err(Error::format(format!(
                "{name}: the state must {must}, got one {got} {}",
                listed(&paths)
            )));
        }
    }
    let value = |((_, variable), tensor): (&(String, Variable), &Tensor)| {
        Ok((variable.clone(), tensor.cast(variable.dtype())?.detach()))
    };
    let values = own.iter().zip(values).map(value).collect::<Result<Vec<_>>>()?;
    if values.iter().any(|(variable, _)| variable.is_in_program()) {
        // Each run of the program assigns the values.
        return values.iter().try_for_each(|(variable, value)| variable.assign(value));
    }
    // Assigns all values or none.
    drop(Assignment::new(values)?.commit());
    Ok(())
}

/// Formats the table of all parameters of a module of this kind.
fn table(kind: &str, walk: &Walk) -> String {
    let mut rows = vec![["module".into(), "parameter".into(), "shape".into(), "elements".into()]];
    let mut kinds: HashMap<String, &str> = HashMap::from([(String::new(), kind)]);
    let (mut own, mut buffers) = (Vec::new(), 0);
    walk(&mut |path, member| match member {
        Member::Child(child) => drop(kinds.insert(path.into(), child.kind())),
        Member::Parameter(variable) => own.push((path.to_string(), variable.shape())),
        Member::Buffer(variable) => buffers += variable.shape().iter().product::<usize>(),
        Member::Mode(_) | Member::Generator(_) => (),
    });
    for (path, shape) in own {
        let (parent, _) = path.rsplit_once('.').unwrap_or_default();
        let kind = kinds.get(parent).copied().unwrap_or_default();
        let count = shape.iter().product::<usize>();
        rows.push([kind.into(), path, format!("{shape:?}"), count.to_string()]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let [a, b, c, d] = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for [kind, path, shape, count] in &rows {
        let _ = writeln!(text, "{kind:<a$}  {path:<b$}  {shape:<c$}  {count:>d$}");
    }
    let total = count(&parameters(walk));
    let _ = write!(text, "{total} parameters, {buffers} elements of buffers");
    text
}

/// Formats the first eight names, and the number of the other names.
fn listed(paths: &[&str]) -> String {
    let shown: Vec<String> = paths.iter().take(8).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
