//! Command batches: several results in one submission, and programs that are compiled once and run again.

use super::{State, Tensor};
use crate::device::{Device, Prepared};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::kernel;
use crate::shape::Shape;
use std::fmt;
use std::sync::Arc;

/// Tensors that are to be computed together. Record operations as always, add the results, and run: one submission.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
/// let (sum, top) = (x.exp().sum(&[])?, x.max(&[])?);
/// let mut batch = device.batch();
/// batch.add(&sum)?.add(&top)?;
/// println!("{}", batch.plan()?);
/// batch.run()?;
/// assert_eq!(top.item::<f32>().await?, 3.0);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub struct Batch {
    device: Device,
    results: Vec<Tensor>,
}

impl Device {
    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch { device: self.clone(), results: Vec::new() }
    }

    /// Compiles a program: `build` is called once with tensors that stand for the inputs (shape and type each) and
    /// returns the results. Other tensors that it uses are kept by the program as they are. A result that is an input
    /// is that input itself at each run; what is named twice is computed once.
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
    /// What `build` returns; `Limit` if it cannot be planned.
    pub fn compile(
        &self,
        inputs: &[(&[usize], DType)],
        build: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Program> {
        let mut placeholders = Vec::with_capacity(inputs.len());
        for &(dims, dtype) in inputs {
            let shape = Shape::new("compile", dims)?;
            placeholders.push(Tensor::adopt(self, self.placeholder(shape, dtype)));
        }
        let results = build(&placeholders)?;
        Program::new(self, placeholders, results)
    }
}

impl Batch {
    /// Adds a result.
    ///
    /// # Errors
    /// `Data` if it lives on another device; the tensor's own error if it carries one.
    pub fn add(&mut self, tensor: &Tensor) -> Result<&mut Batch> {
        if !self.device.is_same(&tensor.device) {
            return Err(Error::data("batch: the tensor lives on another device"));
        }
        tensor.node()?;
        self.results.push(tensor.clone());
        Ok(self)
    }

    /// What running it now would do: operations, kernels, buffers and bytes, printable.
    ///
    /// # Errors
    /// `Limit` if it cannot be planned.
    pub fn plan(&self) -> Result<Arc<kernel::Batch>> {
        let pending = self.pending()?;
        Ok(self.device.prepare(&pending)?.batch)
    }

    /// Submits it. The results can be read afterwards, in any order.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn run(&self) -> Result<()> {
        self.device.run(&self.pending()?)
    }

    /// The results that are not computed yet, each once.
    fn pending(&self) -> Result<Vec<NodeId>> {
        let mut nodes = Vec::with_capacity(self.results.len());
        for result in &self.results {
            nodes.push(result.node()?);
        }
        Ok(self.device.pending(&nodes))
    }
}

/// A compiled computation: running it plans, compiles and (once its results are dropped) allocates nothing.
pub struct Program {
    device: Device,
    batch: Arc<kernel::Batch>,
    inputs: Vec<(Shape, DType)>,
    sources: Vec<Source>,
    scalars: Vec<u32>,
    /// What the plan computes: shapes and types.
    computed: Vec<(Shape, DType)>,
    results: Vec<Answer>,
}

/// What a source of the plan is.
enum Source {
    /// The n-th input.
    Input(usize),
    /// A tensor that the program keeps.
    Kept(Tensor),
}

/// What a result is.
enum Answer {
    /// The n-th input itself.
    Input(usize),
    /// A tensor that was computed before.
    Kept(Tensor),
    /// The n-th that the plan computes.
    Computed(usize),
}

impl Program {
    fn new(device: &Device, placeholders: Vec<Tensor>, results: Vec<Tensor>) -> Result<Program> {
        let mut nodes = Vec::with_capacity(results.len());
        for result in &results {
            let node = result.node()?;
            if !device.is_same(&result.device) {
                return Err(Error::data("compile: a result lives on another device"));
            }
            nodes.push(node);
        }
        let input = |node: NodeId| {
            placeholders.iter().position(|p| matches!(p.state, State::Node(n) if n == node))
        };
        let pending = device.pending(&nodes);
        let mut answers = Vec::with_capacity(nodes.len());
        for (&node, result) in nodes.iter().zip(&results) {
            let computed = pending.iter().position(|&n| n == node);
            answers.push(match (input(node), computed) {
                (Some(n), _) => Answer::Input(n),
                (None, Some(n)) => Answer::Computed(n),
                (None, None) => Answer::Kept(result.clone()),
            });
        }
        let mut computed = Vec::with_capacity(pending.len());
        for &node in &pending {
            computed.push(device.describe(node));
        }
        let Prepared { batch, sources: nodes, scalars } = device.prepare(&pending)?;
        let mut sources = Vec::with_capacity(nodes.len());
        for node in nodes {
            sources.push(match input(node) {
                Some(n) => Source::Input(n),
                None => {
                    device.retain(node);
                    Source::Kept(Tensor::adopt(device, node))
                }
            });
        }
        let inputs = types(&placeholders);
        let device = device.clone();
        Ok(Program { device, batch, inputs, sources, scalars, computed, results: answers })
    }

    /// What it does: operations, kernels, buffers and bytes, printable.
    pub fn plan(&self) -> &Arc<kernel::Batch> {
        &self.batch
    }

    /// Submits it with new inputs; the results can be read, or passed on.
    ///
    /// # Errors
    /// `Shape`, `DType` or `Data` if the inputs are not those it was compiled for; `Memory`.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        if inputs.len() != self.inputs.len() {
            let (have, want) = (inputs.len(), self.inputs.len());
            return Err(Error::data(format!("program: {have} inputs instead of {want}")));
        }
        for (i, (input, (shape, dtype))) in inputs.iter().zip(&self.inputs).enumerate() {
            if !self.device.is_same(&input.device) {
                return Err(Error::data(format!("program: input {i} lives on another device")));
            }
            if input.shape != *shape {
                let why = format!("input {i} has another shape than it was compiled for");
                return Err(Error::shapes("program", &input.shape, shape, &why));
            }
            if input.dtype != *dtype {
                let message = format!("program: input {i} is {} instead of {dtype}", input.dtype);
                return Err(Error::dtype(message));
            }
        }
        let mut sources = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            sources.push(match source {
                Source::Input(n) => inputs[*n].node()?,
                Source::Kept(tensor) => tensor.node()?,
            });
        }
        let mut computed = Vec::with_capacity(self.computed.len());
        if !self.computed.is_empty() {
            let (batch, types) = (&self.batch, &self.computed);
            for node in self.device.replay(batch, &sources, &self.scalars, types)? {
                computed.push(Tensor::adopt(&self.device, node));
            }
        }
        let mut results = Vec::with_capacity(self.results.len());
        for result in &self.results {
            results.push(match result {
                Answer::Input(n) => inputs[*n].clone(),
                Answer::Kept(tensor) => tensor.clone(),
                Answer::Computed(n) => computed[*n].clone(),
            });
        }
        Ok(results)
    }
}

/// The tensors' shapes and types.
fn types(tensors: &[Tensor]) -> Vec<(Shape, DType)> {
    let mut types = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        types.push((tensor.shape, tensor.dtype));
    }
    types
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program: {}", self.batch)
    }
}
