//! Programs: computations that are compiled once and run many times, on inputs of fixed shapes or with named axes.

use super::compiled::Compiled;
use super::Tensor;
use crate::backend::{Pending, Shared};
use crate::device::{CacheLimits, Device};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel;
use crate::lru::Lru;
use crate::shape::Shape;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The extent of an axis of a program's input.
///
/// ```
/// # use warpweft::tensor::Dim;
/// assert_eq!(Dim::from(384), Dim::Fixed(384));
/// assert_eq!(Dim::from("n").to_string(), "n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dim {
    /// A fixed extent.
    Fixed(usize),
    /// Any extent. Axes with the same name have the same extent in a run.
    Named(String),
}

impl From<usize> for Dim {
    fn from(extent: usize) -> Dim {
        Dim::Fixed(extent)
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::Named(name.to_string())
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(extent) => write!(f, "{extent}"),
            Dim::Named(name) => f.write_str(name),
        }
    }
}

/// The function that records a program's results from its inputs.
trait Build: Shared {
    fn build(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + Shared> Build for F {
    fn build(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self(inputs)
    }
}

impl Device {
    /// Compiles a program. `build` is called once, with placeholders for inputs of these shapes and types, and returns
    /// the results.
    ///
    /// The program reads variables at each run, so it computes with their current values. Each run also makes the
    /// assignments of `build` ([`Variable::assign`](super::Variable::assign)). Other tensors that `build` uses are
    /// constants, which the program keeps. If a result is an input, each run returns that input itself. A tensor that is
    /// returned twice is computed once.
    ///
    /// Gradients pass through the results to inputs, constants and variables, as if the run had recorded the operations.
    /// Inside `build`, a gradient by a variable is an `InvalidState` error if a constant was computed from that variable
    /// outside.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let program = device.compile(&[(&[2], DType::F32)], |x| Ok(vec![x[0].mul(2.0)?.relu()]))?;
    /// let y = program.run(&[&device.tensor(&[3.0f32, -1.0], &[2])?])?;
    /// assert_eq!(y[0].read::<f32>().await?, [6.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of `build`; `Limit` if the program cannot be planned.
    pub fn compile(
        &self,
        inputs: &[(&[usize], DType)],
        build: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Program> {
        let mut shapes = Vec::with_capacity(inputs.len());
        let mut specs = Vec::with_capacity(inputs.len());
        for &(dims, dtype) in inputs {
            shapes.push((Shape::new("compile", dims)?, dtype));
            specs.push((dims.iter().map(|&extent| Dim::Fixed(extent)).collect(), dtype));
        }
        let compiled = Arc::new(Compiled::new(self, &shapes, build)?);
        let program = Program::new(self, specs, None);
        program.keep(Vec::new(), &compiled);
        Ok(program)
    }

    /// Compiles a program whose inputs have axes of any extent. Such an axis has a name, and axes with the same name have
    /// the same extent in a run.
    ///
    /// `build` is called again for each new combination of extents. The most recent plans are kept. From the third
    /// combination on, GPUs use the same kernels for all extents, which read the sizes at run time.
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let rows = ["n".into(), 2.into()];
    /// let program = device.compile_dynamic(&[(&rows, DType::F32)], |x| Ok(vec![x[0].mean(0)?]))?;
    /// for n in 1..4 {
    ///     let x = device.full(&[n, 2], n as f64, DType::F32)?;
    ///     assert_eq!(program.run(&[&x])?[0].read::<f32>().await?, [n as f32; 2]);
    /// }
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// None. The program is compiled when it runs, and errors are returned then.
    pub fn compile_dynamic(
        &self,
        inputs: &[(&[Dim], DType)],
        build: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Shared + 'static,
    ) -> Result<Program> {
        let specs = inputs.iter().map(|(dims, dtype)| (dims.to_vec(), *dtype)).collect();
        Ok(Program::new(self, specs, Some(Box::new(build))))
    }
}

/// A compiled computation. The first run compiles the kernels, unless [`Program::ready`] has compiled them. Later runs plan
/// and compile nothing, unless a named axis has a new extent, or the memory of its variables is used differently: their values
/// have moved, for example into a new optimizer, or something else holds them. Later runs allocate nothing either, once
/// earlier results are dropped.
pub struct Program {
    device: Device,
    inputs: Vec<(Vec<Dim>, DType)>,
    /// The function that is called for each combination of extents. `None` if all extents are fixed.
    build: Option<Box<dyn Build>>,
    known: Mutex<Known>,
}

/// The compiled programs.
#[derive(Default)]
struct Known {
    /// Compiled programs by the extents of the named axes, in the order in which the names first appear.
    all: Lru<Vec<usize>, Arc<Compiled>>,
    latest: Option<Arc<Compiled>>,
}

impl Program {
    fn new(
        device: &Device,
        inputs: Vec<(Vec<Dim>, DType)>,
        build: Option<Box<dyn Build>>,
    ) -> Program {
        Program { device: device.clone(), inputs, build, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the program for these extents, and evicts others if the cache exceeds its limits.
    fn keep(&self, extents: Vec<usize>, compiled: &Arc<Compiled>) {
        let CacheLimits { plans, plan_bytes, .. } = self.device.cache_limits();
        let mut known = self.known();
        known.all.insert(extents, compiled.clone(), compiled.plan().size() as u64);
        while known.all.evict(plans.max(1), plan_bytes).is_some() {}
        known.latest = Some(compiled.clone());
    }

    /// Returns the plan: operations, kernels, buffers and bytes, with a `Display` form. With named axes it is the plan of
    /// the last run.
    ///
    /// # Errors
    /// `InvalidState` if the program has named axes and was never run.
    pub fn plan(&self) -> Result<Arc<kernel::Plan>> {
        match &self.known().latest {
            Some(compiled) => Ok(compiled.plan()),
            None => Err(Error::state(
                "program: a program with named axes must run before it has a plan, got one that did not; call `run` first",
            )),
        }
    }

    /// Compiles the kernels, which otherwise happens in the first [`run`](Program::run). The future resolves when they
    /// are compiled. In a browser, compilation does not block the page.
    ///
    /// # Errors
    /// `InvalidState` if the program has named axes and was never run; `Unsupported` if the device rejects a kernel;
    /// `DeviceLost`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let program = device.compile(&[(&[2], DType::F32)], |x| Ok(vec![x[0].exp()]))?;
    /// program.ready().await?;
    /// let x = device.tensor(&[0.0f32, 0.0], &[2])?;
    /// assert_eq!(program.run(&[&x])?[0].read::<f32>().await?, [1.0, 1.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn ready(&self) -> Pending<Result<()>> {
        match self.plan() {
            Ok(plan) => self.device.compiled(&plan),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// Submits the program with new inputs. The results can be read, or passed to other operations. In the function of
    /// another program, the operations become a part of that program.
    ///
    /// # Errors
    /// `Shape`, `DType` or `InvalidArgument` if the inputs do not fit the program; `Memory`. For new extents of named axes,
    /// also the errors of `build` and of planning.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let extents = self.extents(inputs)?;
        let known = {
            let mut known = self.known();
            let found = known.all.get(&extents).cloned();
            if found.is_some() {
                known.latest.clone_from(&found);
            }
            found
        };
        if let Some(compiled) = known {
            return self.run_compiled(&compiled, inputs);
        }
        let Some(build) = &self.build else { unreachable!("without names it is compiled") };
        let shapes: Vec<_> = inputs.iter().map(|input| (input.shape, input.dtype)).collect();
        let compiled = Compiled::new(&self.device, &shapes, |inputs| build.build(inputs))?;
        let compiled = Arc::new(compiled);
        self.keep(extents, &compiled);
        self.run_compiled(&compiled, inputs)
    }

    fn run_compiled(&self, compiled: &Compiled, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        // A run that is repeated for lack of memory must not draw again.
        let seeds = compiled.draw(&self.device);
        let ran = self.device.evicting(|| compiled.run(&self.device, inputs, &seeds));
        ran.inspect_err(|_| compiled.give_back(&seeds))
    }

    /// Checks the inputs, and returns the extents of the named axes.
    fn extents(&self, inputs: &[&Tensor]) -> Result<Vec<usize>> {
        if inputs.len() != self.inputs.len() {
            let (have, want) = (inputs.len(), self.inputs.len());
            return Err(Error::argument(format!(
                "program: there must be {want} inputs, got {have}"
            )));
        }
        let mut extents: Vec<(&str, usize)> = Vec::new();
        for (i, (input, (dims, dtype))) in inputs.iter().zip(&self.inputs).enumerate() {
            if !self.device.is_same(&input.device) {
                return Err(Error::wrong_device("program", &format!("input {i}")));
            }
            let mut fits = input.shape.rank() == dims.len();
            for (dim, &extent) in dims.iter().zip(&input.shape[..]) {
                fits &= match dim {
                    Dim::Fixed(wanted) => extent == *wanted,
                    Dim::Named(name) => match extents.iter().find(|(known, _)| known == name) {
                        Some((_, known)) => extent == *known,
                        None => {
                            extents.push((name, extent));
                            true
                        }
                    },
                };
            }
            if !fits {
                return Err(self.misfit(i, input, &extents));
            }
            if input.dtype != *dtype {
                let message = format!("program: input {i} must be {dtype}, got {}", input.dtype);
                return Err(Error::dtype(message));
            }
        }
        Ok(extents.into_iter().map(|(_, extent)| extent).collect())
    }

    /// Returns the error for an input of a wrong shape. `extents` are those of the named axes found so far.
    fn misfit(&self, i: usize, input: &Tensor, extents: &[(&str, usize)]) -> Error {
        let wanted: Vec<String> = self.inputs[i].0.iter().map(Dim::to_string).collect();
        let wanted = wanted.join(", ");
        let given: Vec<String> = extents.iter().map(|(n, e)| format!("{n} is {e}")).collect();
        let given =
            if given.is_empty() { String::new() } else { format!(" ({})", given.join(", ")) };
        let shape = input.shape;
        Error::shape(format!(
            "program: input {i} must have the shape that was compiled, [{wanted}], got {shape}{given}"
        ))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plan() {
            Ok(plan) => write!(f, "Program: {plan}"),
            Err(_) => f.write_str("Program: not planned yet"),
        }
    }
}
