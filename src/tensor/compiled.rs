//! A program for inputs of certain shapes: what it records, and the plan that it runs by.
//!
//! What the user's function records is kept as a [`Recording`] of operands: the inputs, the variables that were read, and
//! tensors that were there before. The plan depends on where the variables have their values: in tensors of their own, or in
//! the flat value of an optimizer. So the recording is planned again when that has changed ([`Layout`]), and a flat value is
//! read where it is, without a copy. Gradients record it again, too, on the operands of a run.

use super::constant::Constant;
use super::variable::Layout;
use super::{capture, Tensor, Variable};
use crate::device::{Device, Prepared};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{NodeId, Recording, Segment};
use crate::kernel;
use crate::shape::Shape;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A program for inputs of certain shapes.
pub(super) struct Compiled {
    recording: Recording,
    /// How each result is computed, for gradients.
    segments: Vec<Segment>,
    operands: Vec<Operand>,
    /// What the plan computes: shapes and types.
    computed: Vec<(Shape, DType)>,
    results: Vec<Answer>,
    /// Results that were computed when the program was compiled.
    known: Vec<Tensor>,
    bound: Mutex<Arc<Bound>>,
}

/// An operand of a recording.
enum Operand {
    /// The n-th input.
    Input(usize),
    /// The value that a variable has when the program runs.
    Variable(Variable),
    /// A tensor that was there before.
    Constant(Constant),
    /// The n-th known result.
    Known(usize),
}

/// A result of a program.
enum Answer {
    /// The n-th input itself.
    Input(usize),
    /// The value of a variable.
    Variable(Variable),
    /// A tensor that was there before.
    Constant(Tensor),
    /// The n-th known result. Each run has a tensor of its own for it.
    Known(usize),
    /// The n-th that the plan computes.
    Computed(usize),
}

/// A plan for variables that have their values in certain places.
#[derive(Default)]
struct Bound {
    /// Of each operand that is a variable, in order.
    layouts: Vec<Layout>,
    batch: Arc<kernel::Batch>,
    scalars: Vec<u32>,
    sources: Vec<Source>,
}

/// A source of a plan.
enum Source {
    /// The n-th operand.
    Operand(usize),
    /// The value of a flat variable.
    Flat(Variable),
    /// Data behind a constant.
    Constant(Constant),
}

impl Compiled {
    /// Calls `build` with tensors that stand for inputs of these shapes and types, and plans what it returns.
    pub fn new(
        device: &Device,
        inputs: &[(Shape, DType)],
        build: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Compiled> {
        let since = device.recorded();
        let one =
            |&(shape, dtype): &(_, _)| Tensor::adopt(device, device.placeholder(shape, dtype));
        let placeholders: Vec<Tensor> = inputs.iter().map(one).collect();
        let (results, reads) = capture::during(device, || device.lazily(|| build(&placeholders)));
        let results = results?;
        let mut stand_ins: FxHashMap<NodeId, usize> = FxHashMap::default();
        let mut read: Vec<Operand> = Vec::new();
        for (n, input) in placeholders.iter().enumerate() {
            stand_ins.insert(input.node()?, read.len());
            read.push(Operand::Input(n));
        }
        for (variable, stand_in) in &reads {
            stand_ins.insert(stand_in.node()?, read.len());
            read.push(Operand::Variable(variable.clone()));
        }
        let mut nodes = Vec::with_capacity(results.len());
        for result in &results {
            if !device.is_same(&result.device) {
                return Err(Error::wrong_device("compile", "a result"));
            }
            nodes.push(result.node()?);
        }
        // What was recorded before is there before.
        let new: Vec<NodeId> = nodes.iter().copied().filter(|node| node.born >= since).collect();
        let pending = device.pending(&new);
        let mut answers = Vec::with_capacity(nodes.len());
        let (mut known, mut places): (Vec<Tensor>, FxHashMap<NodeId, usize>) = Default::default();
        for (node, result) in nodes.iter().zip(&results) {
            let computed = pending.iter().position(|n| n == node);
            answers.push(match (stand_ins.get(node).map(|&n| &read[n]), computed) {
                (Some(Operand::Input(n)), _) => Answer::Input(*n),
                (Some(Operand::Variable(variable)), _) => Answer::Variable(variable.clone()),
                (_, Some(n)) => Answer::Computed(n),
                (_, None) if node.born >= since => {
                    let place = *places.entry(*node).or_insert(known.len());
                    if place == known.len() {
                        known.push(result.clone());
                    }
                    Answer::Known(place)
                }
                (_, None) => Answer::Constant(result.clone()),
            });
        }
        let computed = pending.iter().map(|&node| device.describe(node)).collect();
        let (recording, sources) = device.recording(&pending, since);
        let mut operands = Vec::with_capacity(sources.len());
        for node in sources {
            operands.push(match (stand_ins.get(&node).map(|&n| &read[n]), places.get(&node)) {
                (Some(Operand::Input(n)), _) => Operand::Input(*n),
                (Some(Operand::Variable(variable)), _) => Operand::Variable(variable.clone()),
                (_, Some(&n)) => Operand::Known(n),
                (_, None) => Operand::Constant(Constant::new(device, node)),
            });
        }
        let mut compiled = Compiled {
            segments: recording.segments(),
            recording,
            operands,
            computed,
            results: answers,
            known,
            bound: Mutex::default(),
        };
        let layouts = layouts(&compiled.operands)?;
        compiled.bound = Mutex::new(Arc::new(Bound::new(device, &compiled, inputs, layouts)?));
        Ok(compiled)
    }

    fn bound(&self) -> MutexGuard<'_, Arc<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan that it ran by last, or will run by.
    pub fn plan(&self) -> Arc<kernel::Batch> {
        self.bound().batch.clone()
    }

    /// Runs it on inputs of these shapes.
    pub fn run(&self, device: &Device, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let known: Vec<Tensor> = self.known.iter().map(Tensor::alias).collect::<Result<_>>()?;
        let mut computed = Vec::with_capacity(self.computed.len());
        if !self.computed.is_empty() {
            for node in self.replay(device, inputs, &known)? {
                computed.push(Tensor::adopt(device, node));
            }
        }
        let mut results = Vec::with_capacity(self.results.len());
        for result in &self.results {
            results.push(match result {
                Answer::Input(n) => inputs[*n].clone(),
                Answer::Variable(variable) => variable.value(),
                Answer::Constant(tensor) => tensor.clone(),
                Answer::Known(n) => known[*n].clone(),
                Answer::Computed(n) => computed[*n].clone(),
            });
        }
        Ok(results)
    }

    fn replay(&self, device: &Device, inputs: &[&Tensor], known: &[Tensor]) -> Result<Vec<NodeId>> {
        let layouts = layouts(&self.operands)?;
        let mut bound = self.bound().clone();
        if bound.layouts != layouts {
            let shapes: Vec<_> = inputs.iter().map(|input| (input.shape, input.dtype)).collect();
            let new = Bound::new(device, self, &shapes, layouts)?;
            bound = Arc::new(new);
            self.bound().clone_from(&bound);
        }
        // What is read of variables is held until the batch has run.
        let mut held: Vec<Tensor> = Vec::new();
        let mut operands = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            operands.push(match operand {
                Operand::Input(n) => inputs[*n].node()?,
                Operand::Constant(constant) => constant.node()?,
                Operand::Known(n) => known[*n].node()?,
                Operand::Variable(variable) => {
                    let value = variable.value();
                    let node = value.node()?;
                    held.push(value);
                    node
                }
            });
        }
        let mut sources = Vec::with_capacity(bound.sources.len());
        for source in &bound.sources {
            sources.push(match source {
                Source::Operand(n) => operands[*n],
                Source::Constant(constant) => constant.node()?,
                Source::Flat(flat) => {
                    let value = flat.whole();
                    let node = value.node()?;
                    held.push(value);
                    node
                }
            });
        }
        let plan = (&bound.batch, &bound.scalars[..]);
        device.replay(plan, &sources, (&self.segments, &operands), &self.computed)
    }
}

impl Bound {
    /// Plans a program for variables in these places.
    fn new(
        device: &Device,
        program: &Compiled,
        inputs: &[(Shape, DType)],
        layouts: Vec<Layout>,
    ) -> Result<Bound> {
        // Tensors that stand for what will be there at a run, and which source each node is.
        let mut stand_ins: Vec<Tensor> = Vec::new();
        let mut known: Vec<(NodeId, Source)> = Vec::new();
        let mut flats: Vec<(Variable, Tensor)> = Vec::new();
        let mut nodes = Vec::with_capacity(program.operands.len());
        let stand_in = |shape, dtype| Tensor::adopt(device, device.placeholder(shape, dtype));
        let mut places = layouts.iter();
        for (n, operand) in program.operands.iter().enumerate() {
            let (shape, dtype) = match operand {
                Operand::Constant(constant) => {
                    nodes.push(constant.node()?);
                    continue;
                }
                Operand::Known(n) => {
                    nodes.push(program.known[*n].node()?);
                    continue;
                }
                Operand::Input(n) => inputs[*n],
                Operand::Variable(variable) => variable.kind(),
            };
            let place = match operand {
                Operand::Variable(_) => places.next(),
                _ => None,
            };
            let Some(Layout::Part { flat, start }) = place else {
                let tensor = stand_in(shape, dtype);
                known.push((tensor.node()?, Source::Operand(n)));
                nodes.push(tensor.node()?);
                stand_ins.push(tensor);
                continue;
            };
            let at = match flats.iter().position(|(other, _)| other.is_same(flat)) {
                Some(at) => at,
                None => {
                    let (shape, dtype) = flat.kind();
                    let whole = stand_in(shape, dtype);
                    known.push((whole.node()?, Source::Flat(flat.clone())));
                    flats.push((flat.clone(), whole));
                    flats.len() - 1
                }
            };
            let cut = flats[at].1.elements(*start, &shape)?;
            nodes.push(cut.node()?);
            stand_ins.push(cut);
        }
        let Prepared { batch, sources: wanted, scalars } =
            device.prepare(&program.recording, &nodes)?;
        let mut sources = Vec::with_capacity(wanted.len());
        for node in wanted {
            let at = known.iter().position(|(known, _)| *known == node);
            sources.push(match at.map(|at| &known[at].1) {
                Some(Source::Operand(n)) => Source::Operand(*n),
                Some(Source::Flat(flat)) => Source::Flat(flat.clone()),
                _ => Source::Constant(Constant::new(device, node)),
            });
        }
        Ok(Bound { layouts, batch, scalars, sources })
    }
}

/// Where the variables among operands have their values.
fn layouts(operands: &[Operand]) -> Result<Vec<Layout>> {
    let mut layouts = Vec::new();
    for operand in operands {
        if let Operand::Variable(variable) = operand {
            layouts.push(variable.layout()?);
        }
    }
    Ok(layouts)
}
