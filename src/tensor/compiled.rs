//! A program for inputs of certain shapes: what it records, and the plan that it runs by.
//!
//! What the user's function records is kept as a [`Recording`] of operands: the inputs, the variables that were read, and
//! tensors that were there before. The plan depends on where the variables have their values: in tensors of their own, or in
//! the flat value of an optimizer. So the recording is planned again when that has changed ([`Layout`]), and a flat value is
//! read where it is, without a copy. Gradients record it again, too, on the operands of a run.
//!
//! Values that are assigned to variables are results as well. A run assigns the variables before it computes. The plan can then
//! write a new value over the old one, if nothing else needs the old one. There is a plan for each set of variables that are
//! written in this way (`Bound::taken`).

use super::capture::{self, Captured};
use super::variable::{structure, Assignment, Layout, Structure};
use super::{State, Tensor, Variable};
use crate::device::{BoundPlan, Device, Replay};
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
    /// Variables that a run assigns the last results.
    writes: Vec<Variable>,
    /// Results of the plan that may take the memory of operands: `(result, operand)`.
    offers: Vec<(usize, usize)>,
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
    /// Which of the offers are taken.
    taken: Vec<bool>,
    batch: Arc<kernel::Plan>,
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
        let placeholder =
            |&(shape, dtype): &(_, _)| Tensor::adopt(device, device.placeholder(shape, dtype));
        let placeholders: Vec<Tensor> = inputs.iter().map(placeholder).collect();
        let (results, captured) =
            capture::during(device, || device.lazily(|| build(&placeholders)));
        let Captured { reads, writes } = captured;
        let mut results = results?;
        results.extend(writes.iter().map(|(_, value)| value.clone()));
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
        let new: Vec<NodeId> = nodes.iter().copied().filter(|node| node.seq >= since).collect();
        let pending = device.pending(&new);
        let mut answers = Vec::with_capacity(nodes.len());
        let (mut known, mut places): (Vec<Tensor>, FxHashMap<NodeId, usize>) = Default::default();
        for (node, result) in nodes.iter().zip(&results) {
            let computed = pending.iter().position(|n| n == node);
            answers.push(match (stand_ins.get(node).map(|&n| &read[n]), computed) {
                (Some(Operand::Input(n)), _) => Answer::Input(*n),
                (Some(Operand::Variable(variable)), _) => Answer::Variable(variable.clone()),
                (_, Some(n)) => Answer::Computed(n),
                (_, None) if node.seq >= since => {
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
        let writes: Vec<Variable> = writes.into_iter().map(|(variable, _)| variable).collect();
        let offers = offers(&writes, &answers, &operands);
        let mut compiled = Compiled {
            segments: recording.segments(),
            recording,
            operands,
            computed,
            results: answers,
            writes,
            offers,
            known,
            bound: Mutex::default(),
        };
        let layouts = layouts(&compiled.operands, &structure())?;
        // As it is at a run, if nobody holds what is assigned.
        let taken = vec![true; compiled.offers.len()];
        let bound = Bound::new(device, &compiled, inputs, (layouts, taken))?;
        compiled.bound = Mutex::new(Arc::new(bound));
        Ok(compiled)
    }

    fn bound(&self) -> MutexGuard<'_, Arc<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan that it ran by last, or will run by.
    pub fn plan(&self) -> Arc<kernel::Plan> {
        self.bound().batch.clone()
    }

    /// Runs it on inputs of these shapes.
    pub fn run(&self, device: &Device, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        if !self.writes.is_empty() && capture::is_compiling(device) {
            return Err(Error::data(
                "program: no other program must be compiled while one runs that assigns variables, got such a run",
            ));
        }
        let known: Vec<Tensor> = self.known.iter().map(Tensor::alias).collect::<Result<_>>()?;
        let structure = structure();
        let layouts = layouts(&self.operands, &structure)?;
        let given = self.given((inputs, &known), &layouts, &structure)?;
        let mut results: Vec<Option<Tensor>> = Vec::with_capacity(self.results.len());
        for result in &self.results {
            results.push(match result {
                Answer::Input(n) => Some(inputs[*n].clone()),
                Answer::Variable(variable) => Some(variable.value_in(&structure)),
                Answer::Constant(tensor) => Some(tensor.clone()),
                Answer::Known(n) => Some(known[*n].clone()),
                Answer::Computed(_) => None,
            });
        }
        // Until variables are assigned, nothing else may assign them.
        let structure = Some(structure).filter(|_| !self.writes.is_empty());
        let taken = self.bound().taken.clone();
        let bound = self.bind(device, inputs, (&layouts, &taken))?;
        let sources = bound.sources(&given)?;
        let replay = device.replay(&sources, (&self.segments, &given.nodes), &self.computed)?;
        let adopt = |&node: &NodeId| Tensor::adopt(device, node);
        let computed: Vec<Tensor> = replay.results().iter().map(adopt).collect();
        for (result, answer) in results.iter_mut().zip(&self.results) {
            if let Answer::Computed(n) = answer {
                *result = Some(computed[*n].clone());
            }
        }
        drop(computed);
        let mut results: Vec<Tensor> = results.into_iter().flatten().collect();
        let Some(structure) = structure else {
            replay.run((&bound.batch, &bound.scalars), &sources)?;
            return Ok(results);
        };
        let values = results.split_off(results.len() - self.writes.len());
        let writes = self.writes.iter().cloned().zip(values).collect();
        // An eager device would wait for the replay.
        let undo = device.lazily(|| Assignment::of_own(writes).commit_in(&structure));
        let offered = self.offers.iter().map(|&(_, n)| given.may_take(n, &replay)).collect();
        let ran = self.bind(device, inputs, (&layouts, &offered)).and_then(|bound| {
            let sources = bound.sources(&given)?;
            replay.run((&bound.batch, &bound.scalars), &sources)
        });
        if let Err(error) = ran {
            undo.roll_back_in(&structure);
            return Err(error);
        }
        Ok(results)
    }

    /// The plan for these layouts that takes these offers.
    fn bind(
        &self,
        device: &Device,
        inputs: &[&Tensor],
        (layouts, taken): (&Vec<Layout>, &Vec<bool>),
    ) -> Result<Arc<Bound>> {
        let last = self.bound().clone();
        if (&last.layouts, &last.taken) == (layouts, taken) {
            return Ok(last);
        }
        let kinds: Vec<_> = inputs.iter().map(|input| (input.shape, input.dtype)).collect();
        let new = Arc::new(Bound::new(device, self, &kinds, (layouts.clone(), taken.clone()))?);
        self.bound().clone_from(&new);
        Ok(new)
    }

    /// The operands of a run.
    fn given(
        &self,
        (inputs, known): (&[&Tensor], &[Tensor]),
        layouts: &[Layout],
        structure: &Structure,
    ) -> Result<Given> {
        let mut given = Given::default();
        let mut layouts = layouts.iter();
        for operand in &self.operands {
            let mut own = None;
            given.nodes.push(match operand {
                Operand::Input(n) => inputs[*n].node()?,
                Operand::Constant(constant) => constant.node()?,
                Operand::Known(n) => known[*n].node()?,
                Operand::Variable(variable) => {
                    let value = variable.value_in(structure);
                    let node = value.node()?;
                    match layouts.next() {
                        Some(Layout::Part { flat, .. }) => {
                            let is_known = given.flats.iter().any(|(x, _)| x.is_same(flat));
                            if !is_known {
                                given.flats.push((flat.clone(), flat.whole(structure)));
                            }
                            given.parts.push(value);
                        }
                        _ => own = Some(value),
                    }
                    node
                }
            });
            given.own.push(own);
        }
        Ok(given)
    }
}

/// The operands of one run. Values of variables are held until the run is over.
#[derive(Default)]
struct Given {
    /// The node of each operand.
    nodes: Vec<NodeId>,
    /// The value of each operand that is a variable with a tensor of its own.
    own: Vec<Option<Tensor>>,
    /// The values of the other variables, and of the flat variables that these are in.
    parts: Vec<Tensor>,
    flats: Vec<(Variable, Tensor)>,
}

impl Given {
    /// Whether a result may be written over an operand.
    fn may_take(&self, n: usize, replay: &Replay) -> bool {
        let is_only = |value: &Tensor| Arc::strong_count(&value.0) == 1;
        self.own[n].as_ref().is_some_and(is_only) && replay.may_take(self.nodes[n])
    }
}

impl Bound {
    /// Plans a program for variables in these places.
    fn new(
        device: &Device,
        program: &Compiled,
        inputs: &[(Shape, DType)],
        (layouts, taken): (Vec<Layout>, Vec<bool>),
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
            let cut = device.lazily(|| flats[at].1.elements(*start, &shape))?;
            nodes.push(cut.node()?);
            stand_ins.push(cut);
        }
        // A part of a flat variable has no memory of its own.
        let is_own =
            |at: usize| known.iter().any(|(_, x)| matches!(x, Source::Operand(n) if *n == at));
        let offers = program.offers.iter().zip(&taken).filter(|(x, taken)| **taken && is_own(x.1));
        let offers = offers.map(|(&offer, _)| offer);
        let BoundPlan { batch, sources: wanted, scalars } =
            device.prepare(&program.recording, &nodes, offers)?;
        let mut sources = Vec::with_capacity(wanted.len());
        for node in wanted {
            let at = known.iter().position(|(known, _)| *known == node);
            sources.push(match at.map(|at| &known[at].1) {
                Some(Source::Operand(n)) => Source::Operand(*n),
                Some(Source::Flat(flat)) => Source::Flat(flat.clone()),
                _ => Source::Constant(Constant::new(device, node)),
            });
        }
        Ok(Bound { layouts, taken, batch, scalars, sources })
    }

    /// The nodes behind the sources of the plan.
    fn sources(&self, given: &Given) -> Result<Vec<NodeId>> {
        let mut nodes = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            nodes.push(match source {
                Source::Operand(n) => given.nodes[*n],
                Source::Constant(constant) => constant.node()?,
                Source::Flat(flat) => {
                    let whole = given.flats.iter().find(|(known, _)| known.is_same(flat));
                    whole.expect("layouts say which flat variables are read").1.node()?
                }
            });
        }
        Ok(nodes)
    }
}

/// Which results of the plan may take the memory of operands, those that are new values of variables that were read:
/// `(result, operand)`.
fn offers(writes: &[Variable], answers: &[Answer], operands: &[Operand]) -> Vec<(usize, usize)> {
    let mut offers = Vec::new();
    for (variable, answer) in writes.iter().zip(&answers[answers.len() - writes.len()..]) {
        let Answer::Computed(n) = answer else { continue };
        let is_before = |x: &Operand| matches!(x, Operand::Variable(x) if x.is_same(variable));
        offers.extend(operands.iter().position(is_before).map(|before| (*n, before)));
    }
    offers
}

/// Where the variables among operands have their values.
fn layouts(operands: &[Operand], structure: &Structure) -> Result<Vec<Layout>> {
    let mut layouts = Vec::new();
    for operand in operands {
        if let Operand::Variable(variable) = operand {
            layouts.push(variable.layout(structure)?);
        }
    }
    Ok(layouts)
}

/// A handle that a compiled program holds to a tensor from outside. The graph treats the tensor as a constant until the
/// handle is dropped.
struct Constant(Tensor);

impl Constant {
    /// Marks a node as a constant and holds it.
    fn new(device: &Device, node: NodeId) -> Constant {
        device.retain(node);
        device.set_constant(node, true);
        Constant(Tensor::adopt(device, node))
    }

    fn node(&self) -> Result<NodeId> {
        self.0.node()
    }
}

impl Drop for Constant {
    fn drop(&mut self) {
        if let State::Node(node) = self.0.state {
            self.0.device.set_constant(node, false);
        }
    }
}
