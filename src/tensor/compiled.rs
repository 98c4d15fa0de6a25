//! A program compiled for inputs of certain shapes: its recording, and the plan that it runs.
//!
//! The operations that the user's function records are kept as a [`Recording`] of operands. These are the inputs, the
//! variables that were read, the seeds that were drawn, and tensors that existed before. The plan also depends on where
//! variables store their values, which is either a separate tensor or the flat value of an optimizer ([`Layout`]). If
//! that changes, the recording is planned again. A flat value is then read in place, without a copy. Gradients also replay
//! the recording, on the operands of a run.
//!
//! Values that are assigned to variables are results as well. A run assigns the variables before it computes. The plan
//! can therefore write a new value over the old one, unless something else needs the old one. The plan depends on the set
//! of variables that are updated in place (`Bound::taken`). A program keeps its last plan.

use super::capture::{self, Captured, Draw};
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

/// A program compiled for inputs of certain shapes.
pub(super) struct Compiled {
    recording: Recording,
    /// The computation of each result, for gradients.
    segments: Vec<Segment>,
    operands: Vec<Operand>,
    /// The draws of seeds, in the order in which the program uses them.
    draws: Vec<Draw>,
    /// The shapes and types of the tensors that the plan computes.
    computed: Vec<(Shape, DType)>,
    results: Vec<Answer>,
    /// The variables that a run assigns. Their new values are the last results.
    writes: Vec<Variable>,
    /// The results that may reuse the memory of operands: `(result, operand)`.
    offers: Vec<(usize, usize)>,
    /// Results that were already computed while the program was compiled.
    known: Vec<Tensor>,
    bound: Mutex<Arc<Bound>>,
}

/// An operand of a recording.
enum Operand {
    /// The n-th input.
    Input(usize),
    /// The value that a variable has when the program runs.
    Variable(Variable),
    /// The n-th seed that each run draws, a `u32` of rank 0.
    Seed(usize),
    /// A tensor that existed before the program was compiled.
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
    /// A tensor that existed before the program was compiled.
    Constant(Tensor),
    /// The n-th known result. Each run returns a separate tensor for it.
    Known(usize),
    /// The n-th result that the plan computes.
    Computed(usize),
}

/// A plan for one set of layouts of the variables.
#[derive(Default)]
struct Bound {
    /// The layout of each operand that is a variable, in order.
    layouts: Vec<Layout>,
    /// For each offer, whether the plan reuses the memory of the operand.
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
    /// A constant tensor.
    Constant(Constant),
}

impl Compiled {
    /// Calls `build` with placeholders for inputs of these shapes and types, and plans the results.
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
        let Captured { draws, reads, writes } = captured;
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
        for (n, (_, _, stand_in)) in draws.iter().enumerate() {
            stand_ins.insert(stand_in.node()?, read.len());
            read.push(Operand::Seed(n));
        }
        let mut nodes = Vec::with_capacity(results.len());
        for result in &results {
            if !device.is_same(&result.device) {
                return Err(Error::wrong_device("compile", "a result"));
            }
            nodes.push(result.node()?);
        }
        // Results that were recorded earlier are constants.
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
                (Some(Operand::Seed(n)), _) => Operand::Seed(*n),
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
            draws: draws.into_iter().map(|(draw, _, _)| draw).collect(),
            computed,
            results: answers,
            writes,
            offers,
            known,
            bound: Mutex::default(),
        };
        let layouts = layouts(&compiled.operands, &structure())?;
        // Assumes that nothing else holds the values of assigned variables at a run.
        let taken = vec![true; compiled.offers.len()];
        let bound = Bound::new(device, &compiled, inputs, (layouts, taken))?;
        compiled.bound = Mutex::new(Arc::new(bound));
        Ok(compiled)
    }

    fn bound(&self) -> MutexGuard<'_, Arc<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of the last run, or of the first one.
    pub fn plan(&self) -> Arc<kernel::Plan> {
        self.bound().batch.clone()
    }

    /// Draws the seeds of a run. A program that is being compiled draws them when it runs.
    pub fn draw(&self, device: &Device) -> Vec<u32> {
        if capture::is_compiling(device) {
            return Vec::new();
        }
        self.draws.iter().map(|source| source.draw()).collect()
    }

    /// Undoes [`Compiled::draw`], which returned `seeds`.
    pub fn give_back(&self, seeds: &[u32]) {
        self.draws.iter().zip(seeds).for_each(|(source, _)| source.give_back());
    }

    /// Runs the program on inputs of the shapes that it was compiled for, with seeds of [`Compiled::draw`].
    pub fn run(&self, device: &Device, inputs: &[&Tensor], seeds: &[u32]) -> Result<Vec<Tensor>> {
        if capture::is_compiling(device) {
            return self.inline(device, inputs);
        }
        let known: Vec<Tensor> = self.known.iter().map(Tensor::alias).collect::<Result<_>>()?;
        let structure = structure();
        let layouts = layouts(&self.operands, &structure)?;
        let given = self.given(device, (inputs, &known, seeds), (&layouts, &structure))?;
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
        // Nothing may assign variables between here and the assignment below.
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
        // On an eager device, recording the assignment would wait for the replay.
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

    /// Records the operations again, as a part of the program that is being compiled.
    fn inline(&self, device: &Device, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let draw = |draw: &Draw| {
            let seed = capture::stand_for(|| draw.clone());
            let seed = seed.and_then(|number| capture::seed(device, number));
            seed.expect("a program is being compiled")
        };
        let seeds: Vec<Tensor> = self.draws.iter().map(draw).collect();
        let mut operands = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            operands.push(match operand {
                Operand::Input(n) => inputs[*n].clone(),
                Operand::Variable(variable) => variable.value(),
                Operand::Seed(n) => seeds[*n].clone(),
                Operand::Constant(constant) => constant.0.clone(),
                Operand::Known(n) => self.known[*n].clone(),
            });
        }
        let nodes: Vec<NodeId> = operands.iter().map(Tensor::node).collect::<Result<_>>()?;
        let computed = device.play(&self.recording, &nodes)?;
        let computed: Vec<Tensor> =
            computed.into_iter().map(|node| Tensor::adopt(device, node)).collect();
        let mut results = Vec::with_capacity(self.results.len());
        for result in &self.results {
            results.push(match result {
                Answer::Input(n) => inputs[*n].clone(),
                Answer::Variable(variable) => variable.value(),
                Answer::Constant(tensor) => tensor.clone(),
                Answer::Known(n) => self.known[*n].alias()?,
                Answer::Computed(n) => computed[*n].clone(),
            });
        }
        let values = results.split_off(results.len() - self.writes.len());
        for (variable, value) in self.writes.iter().zip(&values) {
            variable.assign(value)?;
        }
        Ok(results)
    }

    /// Returns the plan for these layouts that takes these offers. The last plan is reused if it matches.
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

    /// Collects the operands of a run.
    fn given(
        &self,
        device: &Device,
        (inputs, known, seeds): (&[&Tensor], &[Tensor], &[u32]),
        (layouts, structure): (&[Layout], &Structure),
    ) -> Result<Given> {
        let mut given = Given::default();
        let mut layouts = layouts.iter();
        for operand in &self.operands {
            let mut own = None;
            given.nodes.push(match operand {
                Operand::Input(n) => inputs[*n].node()?,
                Operand::Constant(constant) => constant.node()?,
                Operand::Known(n) => known[*n].node()?,
                Operand::Seed(n) => {
                    let seed = device.tensor(&[seeds[*n]], &[])?;
                    let node = seed.node()?;
                    own = Some(seed);
                    node
                }
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

/// The operands of one run. It holds the values of variables until the run is over.
#[derive(Default)]
struct Given {
    /// The node of each operand.
    nodes: Vec<NodeId>,
    /// The value of each operand that is a variable with a separate tensor, or a seed.
    own: Vec<Option<Tensor>>,
    /// The values of the other variables, which are parts of flat variables, and then these flat variables with their
    /// values.
    parts: Vec<Tensor>,
    flats: Vec<(Variable, Tensor)>,
}

impl Given {
    /// Whether a result may be written over the n-th operand.
    fn may_take(&self, n: usize, replay: &Replay) -> bool {
        let is_only = |value: &Tensor| Arc::strong_count(&value.0) == 1;
        self.own[n].as_ref().is_some_and(is_only) && replay.may_take(self.nodes[n])
    }
}

impl Bound {
    /// Plans a program for variables with these layouts.
    fn new(
        device: &Device,
        program: &Compiled,
        inputs: &[(Shape, DType)],
        (layouts, taken): (Vec<Layout>, Vec<bool>),
    ) -> Result<Bound> {
        // Placeholders for the data of a run, and the source that each node stands for.
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
                Operand::Seed(_) => (Shape::SCALAR, DType::U32),
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
        // A part of a flat variable has no separate memory that a result could reuse.
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

    /// The nodes of the plan's sources.
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

/// Returns the results that may reuse the memory of operands: `(result, operand)`. These are new values of variables that
/// the program also reads.
fn offers(writes: &[Variable], answers: &[Answer], operands: &[Operand]) -> Vec<(usize, usize)> {
    let mut offers = Vec::new();
    for (variable, answer) in writes.iter().zip(&answers[answers.len() - writes.len()..]) {
        let Answer::Computed(n) = answer else { continue };
        let is_before = |x: &Operand| matches!(x, Operand::Variable(x) if x.is_same(variable));
        offers.extend(operands.iter().position(is_before).map(|before| (*n, before)));
    }
    offers
}

/// Returns the layout of each operand that is a variable.
fn layouts(operands: &[Operand], structure: &Structure) -> Result<Vec<Layout>> {
    let mut layouts = Vec::new();
    for operand in operands {
        if let Operand::Variable(variable) = operand {
            layouts.push(variable.layout(structure)?);
        }
    }
    Ok(layouts)
}

/// A handle of a compiled program to a tensor from outside. The graph treats the tensor as a constant until the handle is
/// dropped.
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
