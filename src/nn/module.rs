//! What a model is made of: parameters, buffers and further modules, each with a name.

use super::Generator;
use crate::error::{Error, ErrorKind, Result};
use crate::sorted;
use crate::tensor::{Assignment, Tensor, Variable};
use std::any::type_name;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// What PyTorch's batch norms count, and nothing here needs.
const COUNTED: &str = "num_batches_tracked";

/// A part of a model: a layer, a block, the whole. A type of one's own says what it is made of in one method; the names of its
/// parameters, saving, loading and counting follow.
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
    /// Tells `members` of each parameter, buffer and child.
    fn members(&self, members: &mut Members);

    /// What kind of module it is: the name of its type.
    fn kind(&self) -> &'static str {
        let name = type_name::<Self>();
        let short = name.split('<').next().unwrap_or(name);
        short.rsplit("::").next().unwrap_or(short)
    }

    /// What is learnt, with the path to it: `layers.0.weight`. A parameter that is there under several names has the first.
    fn named_parameters(&self) -> Vec<(String, Variable)> {
        parameters(&|see| self.visit(see))
    }

    /// What is learnt, each once.
    fn parameters(&self) -> Vec<Variable> {
        self.named_parameters().into_iter().map(|(_, variable)| variable).collect()
    }

    /// The number of all parameters' elements.
    fn parameter_count(&self) -> usize {
        count(&self.named_parameters())
    }

    /// The values of all parameters and buffers by their paths: what `io::save_safetensors` writes (feature `io`).
    fn state_dict(&self) -> BTreeMap<String, Tensor> {
        state(values(&|see| self.visit(see)))
    }

    /// Takes the values of all parameters and buffers from `state`, by their paths. Types are cast. What PyTorch's batch norms
    /// count beside (`num_batches_tracked`) is left aside, and so is what a checkpoint of a [`Trainer`](crate::train::Trainer)
    /// has besides the model (`trainer/...`).
    ///
    /// # Errors
    /// `Data` that names what is missing or surplus, `Shape` if one has another shape: then nothing was
    /// taken.
    fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        load(&values(&|see| self.visit(see)), state)
    }

    /// Changes to training: dropout drops, batch norm takes the batch's own statistics and keeps a running mean of them. A
    /// new module is in it.
    fn train(&self) {
        self.set_training(true);
    }

    /// Changes to evaluation: dropout passes all, batch norm takes its running statistics.
    fn eval(&self) {
        self.set_training(false);
    }

    /// [`Module::train`] or [`Module::eval`].
    fn set_training(&self, training: bool) {
        self.visit(&mut |_, member| {
            if let Member::Mode(mode) = member {
                mode.0.store(training, Ordering::Relaxed);
            }
        });
    }

    /// A table of all parameters and of how many there are, for people.
    fn summary(&self) -> String {
        table(self.kind(), &|see| self.visit(see))
    }

    /// Calls `see` with the path to each member, and members of members, in order.
    fn visit(&self, see: &mut dyn FnMut(&str, Member<'_>)) {
        self.members(&mut Members { path: String::new(), see });
    }
}

/// A module that makes one tensor of one tensor: what [`Sequential`](super::Sequential) is made of.
pub trait Layer: Module {
    /// The result for `x`. Nothing runs: it is recorded.
    ///
    /// # Errors
    /// Those of the operations that it is made of; `Shape` and `DType` above all.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

/// A function of a tensor is a layer without parameters: `|x: &Tensor| Ok(x.relu())`.
impl<F: Fn(&Tensor) -> Result<Tensor>> Module for F {
    fn members(&self, _: &mut Members) {}
}

impl<F: Fn(&Tensor) -> Result<Tensor>> Layer for F {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self(x)
    }
}

/// One of a module's members.
#[derive(Clone, Copy)]
pub enum Member<'a> {
    /// What is learnt.
    Parameter(&'a Variable),
    /// What is kept and saved, but not learnt: running statistics.
    Buffer(&'a Variable),
    /// Another module; its members come next.
    Child(&'a dyn Module),
    /// Whether the module trains.
    Mode(&'a Mode),
    /// Where the module draws random seeds from while it trains.
    Generator(&'a Generator),
}

/// The list that a module tells its members to.
pub struct Members<'a> {
    path: String,
    see: &'a mut dyn FnMut(&str, Member<'_>),
}

impl Members<'_> {
    /// What is learnt.
    pub fn parameter(&mut self, name: &str, variable: &Variable) -> &mut Self {
        self.tell(name, Member::Parameter(variable), |_| ())
    }

    /// What is learnt, if it is there.
    pub fn parameter_if(&mut self, name: &str, variable: &Option<Variable>) -> &mut Self {
        match variable {
            Some(variable) => self.parameter(name, variable),
            None => self,
        }
    }

    /// What is kept and saved, but not learnt.
    pub fn buffer(&mut self, name: &str, variable: &Variable) -> &mut Self {
        self.tell(name, Member::Buffer(variable), |_| ())
    }

    /// Another module, whose members have its name before theirs.
    pub fn child<M: Module>(&mut self, name: &str, module: &M) -> &mut Self {
        self.child_dyn(name, module)
    }

    /// The same for a module of any type.
    pub fn child_dyn(&mut self, name: &str, module: &dyn Module) -> &mut Self {
        self.tell(name, Member::Child(module), |members| module.members(members))
    }

    /// Several of one kind, whose names are numbers: `layers.0`, `layers.1`.
    pub fn children<M: Module>(&mut self, name: &str, modules: &[M]) -> &mut Self {
        for (i, module) in modules.iter().enumerate() {
            self.child(&format!("{name}.{i}"), module);
        }
        self
    }

    /// Whether it trains.
    pub fn mode(&mut self, mode: &Mode) -> &mut Self {
        self.tell("", Member::Mode(mode), |_| ())
    }

    /// Where it draws random seeds from while it trains: a saved training goes on where the draws were.
    pub fn generator(&mut self, generator: &Generator) -> &mut Self {
        self.tell("", Member::Generator(generator), |_| ())
    }

    fn tell(&mut self, name: &str, member: Member, then: impl FnOnce(&mut Self)) -> &mut Self {
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

/// Whether a module trains; it does from the beginning. Clones share it.
#[derive(Clone, Debug)]
pub struct Mode(Arc<AtomicBool>);

impl Default for Mode {
    fn default() -> Mode {
        Mode(Arc::new(AtomicBool::new(true)))
    }
}

impl Mode {
    /// Whether it trains.
    pub fn training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A parameter in the type of what it meets, if that is of floats: a layer computes in the type of its input.
pub(super) fn like(parameter: Tensor, x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_float() && parameter.dtype().is_float() {
        true => parameter.cast(x.dtype()),
        false => Ok(parameter),
    }
}

/// The same of one that may not be there.
pub(super) fn like_if(parameter: Option<&Variable>, x: &Tensor) -> Result<Option<Tensor>> {
    parameter.map(|parameter| like(parameter.value(), x)).transpose()
}

// What all modules do with their members is no part of the trait, so that it is compiled once and not for each type.

/// Walks a module: calls what it is given with the path to each member.
type Walk<'a> = dyn Fn(&mut dyn FnMut(&str, Member<'_>)) + 'a;

/// Each parameter once, with its first path.
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

/// How many elements they have.
fn count(parameters: &[(String, Variable)]) -> usize {
    parameters.iter().map(|(_, variable)| variable.shape().iter().product::<usize>()).sum()
}

/// Parameters and buffers under all their paths.
fn values(walk: &Walk) -> Vec<(String, Variable)> {
    let mut found = Vec::new();
    walk(&mut |path, member| {
        if let Member::Parameter(variable) | Member::Buffer(variable) = member {
            found.push((path.to_string(), variable.clone()));
        }
    });
    found
}

/// The values of these variables.
fn state(own: Vec<(String, Variable)>) -> BTreeMap<String, Tensor> {
    sorted::map(own.into_iter().map(|(path, x)| (path, x.value())))
}

/// Gives `own` the values of `state`, all or none.
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
            return Err(Error::data(format!(
                "{name}: the state must {must}, got one {got} {}",
                listed(&paths)
            )));
        }
    }
    let value = |((_, variable), tensor): (&(String, Variable), &Tensor)| {
        Ok((variable.clone(), tensor.cast(variable.dtype())?.detach()))
    };
    // All of them, or none.
    drop(Assignment::new(own.iter().zip(values).map(value).collect::<Result<_>>()?)?.commit());
    Ok(())
}

/// A table of all parameters of a module of this kind.
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

/// The first few of many names.
fn listed(paths: &[&str]) -> String {
    let shown: Vec<String> = paths.iter().take(8).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
