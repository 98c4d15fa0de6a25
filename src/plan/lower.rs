//! Turns recorded operations into the instructions of one kernel: movement becomes index arithmetic, pointwise work
//! becomes instructions, and what does not fit in the kernel is refused with the node that must be computed before it.

use super::cuts::{OPERATIONS_PER_KERNEL, VISITS_PER_KERNEL};
use super::index::{broadcast, Coordinates};
use super::placement::Placement;
use super::rewrite::prune_to;
use super::writer::{Part, Writer};
use crate::expr::Expr;
use crate::graph::{Trace, TraceNode};
use crate::kernel::{Index, Inst, Operand, ValueId};
use crate::op::{Const, Function, Op, Span};
use smallvec::SmallVec;

/// Why a kernel cannot be written as it was tried. Small, because it is handed on everywhere.
#[derive(Clone, Copy)]
pub enum Stop {
    /// This node must be computed by a kernel of its own.
    Materialise(usize),
    /// This reduction was met in a map; [`Hint::depends`].
    Rows(usize),
    /// This routine was met, but not at the coordinates its kernel runs over; [`Hint::coordinates`].
    Elsewhere(usize),
    /// More buffers than a kernel may use.
    Crowded,
}

/// What a [`Stop`] leaves for the next try.
#[derive(Default)]
pub struct Hint {
    /// The coordinates of the space that the reduction depends on, if not also on loaded data.
    pub depends: Option<Vec<u32>>,
    /// Where the routine was met.
    pub coordinates: Option<Coordinates>,
}

/// What a kernel's programs share: which buffers and numbers it reads.
pub struct Context<'a> {
    pub trace: &'a Trace,
    pub placement: &'a Placement<'a>,
    /// The node the kernel writes: computed, though it will be in memory.
    pub root: usize,
    /// How many inputs it may have.
    pub max_inputs: usize,
    /// Nodes that are read from memory.
    pub inputs: Vec<usize>,
    /// The numbers that the params words hold.
    pub params: Vec<usize>,
    /// The routine whose result the epilogue works on.
    pub routine: Option<usize>,
    /// Operations it stands for, in the order met.
    pub operations: Vec<usize>,
    /// Nodes that are results as well as parts of this kernel: where they were computed.
    pub attached: Vec<(usize, Vec<Index>, ValueId)>,
    pub hint: Hint,
    visits: usize,
    /// The reductions whose operand is being computed, the outermost first.
    pub reducing: Vec<usize>,
}

impl<'a> Context<'a> {
    pub fn new(
        trace: &'a Trace,
        placement: &'a Placement<'a>,
        root: usize,
        max_inputs: usize,
    ) -> Context<'a> {
        Context {
            trace,
            placement,
            root,
            max_inputs,
            inputs: Vec::new(),
            params: Vec::new(),
            routine: None,
            operations: Vec::new(),
            attached: Vec::new(),
            hint: Hint::default(),
            visits: 0,
            reducing: Vec::new(),
        }
    }

    /// The value of `node` at `coords`, one index per axis of its shape.
    pub fn value(
        &mut self,
        writer: &mut Writer,
        node: usize,
        coords: &[Index],
    ) -> Result<ValueId, Stop> {
        let key = (node, coords.to_vec());
        if let Some(&value) = writer.memo.get(&key) {
            return Ok(value);
        }
        let traced = &self.trace.nodes[node];
        let value = if self.placement.in_memory[node] && node != self.root {
            self.load(writer, node, coords)?
        } else {
            self.count(node)?;
            self.compute(writer, node, traced, coords)?
        };
        if self.placement.attached[node] == Some(self.root) && writer.part == Part::Body {
            self.attached.push((node, coords.to_vec(), value));
        }
        writer.memo.insert(key, value);
        Ok(value)
    }

    /// The program with which a routine reads `node`, over the operand's own axes `dims`.
    pub fn operand(
        &mut self,
        node: usize,
        dims: &[usize],
        coords: &[Index],
    ) -> Result<Operand, Stop> {
        let mut writer = Writer::new(dims, dims.len(), Part::Operand);
        let own = self.placement.in_memory[node];
        let value = match self.value(&mut writer, node, coords) {
            Err(Stop::Crowded) if !own => return Err(Stop::Materialise(node)),
            // The routine's kernel writes its result where it is moved to.
            Err(Stop::Materialise(n)) if self.is_moved_routine(node, n) => {
                return Err(Stop::Materialise(node))
            }
            other => other?,
        };
        let whole = writer.builder.finish();
        let live = whole.live(&[value]);
        // Division in every load's index costs more than a copy, but for what is unpacked.
        if !own
            && !self.placement.packed[node]
            && writer.origins.iter().any(|(v, _)| live[*v as usize])
        {
            return Err(Stop::Materialise(node));
        }
        let (program, value) = prune_to(&whole, value);
        Ok(Operand { program, value })
    }

    /// Whether `node` is the routine's result, reshaped or permuted and nothing else.
    fn is_moved_routine(&self, node: usize, routine: usize) -> bool {
        let mut at = node;
        while let Op::Reshape(_) | Op::Permute(_) = self.trace.nodes[at].op {
            at = self.trace.nodes[at].inputs[0];
        }
        at == routine && matches!(self.trace.nodes[routine].op, Op::Routine(_))
    }

    fn count(&mut self, node: usize) -> Result<(), Stop> {
        if self.placement.is_leaf(node) {
            return Ok(());
        }
        self.visits += 1;
        if !self.placement.is_free(node) {
            self.operations.push(node);
        }
        let full = self.operations.len() > OPERATIONS_PER_KERNEL || self.visits > VISITS_PER_KERNEL;
        if full && node != self.root {
            return Err(Stop::Materialise(node));
        }
        Ok(())
    }

    fn load(
        &mut self,
        writer: &mut Writer,
        node: usize,
        coords: &[Index],
    ) -> Result<ValueId, Stop> {
        let traced = &self.trace.nodes[node];
        // Nothing is ever read from an empty tensor, and nothing need be there.
        if traced.shape.numel() == 0 {
            return Ok(writer.builder.number(traced.dtype, 0.0));
        }
        let input = match self.inputs.iter().position(|&i| i == node) {
            Some(at) => at,
            None if self.inputs.len() == self.max_inputs => return Err(Stop::Crowded),
            None => {
                self.inputs.push(node);
                self.inputs.len() - 1
            }
        };
        let index = writer.linearise(coords, &traced.shape.strides());
        Ok(writer.builder.push(Inst::Load { input: input as u32, index, dtype: traced.dtype }))
    }

    fn compute(
        &mut self,
        writer: &mut Writer,
        node: usize,
        traced: &TraceNode,
        coords: &[Index],
    ) -> Result<ValueId, Stop> {
        let input = traced.inputs.first().copied().unwrap_or(node);
        let from = self.trace.nodes[input].shape;
        match &traced.op {
            Op::Source | Op::Concat { .. } => Err(Stop::Materialise(node)),
            Op::Order { .. } | Op::Shader(_) | Op::Output(..) => Err(Stop::Materialise(node)),
            Op::Scalar => {
                let word = match self.params.iter().position(|&p| p == node) {
                    Some(word) => word,
                    None => {
                        self.params.push(node);
                        self.params.len() - 1
                    }
                };
                let dtype = traced.dtype.compute();
                Ok(writer.builder.push(Inst::Param { word: word as u32, dtype }))
            }
            Op::Fill { value, .. } => {
                let value = Const { dtype: value.dtype.compute(), bits: value.bits };
                Ok(writer.builder.push(Inst::Const(value)))
            }
            Op::Iota { axis, .. } => Ok(writer.builder.index(&coords[*axis])),
            Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) => {
                self.pointwise(writer, node, traced, coords)
            }
            Op::Cast(to) => {
                let value = self.value(writer, input, coords)?;
                // To f16 rounds even where both are computed in f32.
                let same = writer.builder.dtype(value) == *to;
                Ok(if same { value } else { writer.builder.push(Inst::Cast(*to, value)) })
            }
            Op::Bitcast(to) => {
                let value = self.value(writer, input, coords)?;
                Ok(writer.builder.push(Inst::Bitcast(*to, value)))
            }
            Op::Reshape(_) => {
                let linear = writer.linearise(coords, &traced.shape.strides());
                let coords = writer.delinearise(&linear, &from);
                self.value(writer, input, &coords)
            }
            Op::Permute(permutation) => {
                let mut moved = Index::zeros(coords.len());
                for (coord, &axis) in coords.iter().zip(permutation) {
                    moved[axis] = coord.clone();
                }
                self.value(writer, input, &moved)
            }
            Op::Expand(_) => self.value(writer, input, &broadcast(coords, &from)),
            Op::Slice(spans) => self.slice(writer, traced, spans, coords),
            Op::Unfold(windows) => {
                let mut moved = coords[..from.rank()].to_vec();
                let first = Index::constant(0).plus(&coords[windows.axis], windows.step as i64);
                moved[windows.axis] = first.plus(&coords[from.rank()], windows.dilation as i64);
                self.value(writer, input, &moved)
            }
            Op::Pad(margins) => self.pad(writer, traced, margins, coords),
            Op::Reduce { op, axes } => {
                let mut long = Vec::with_capacity(axes.len());
                for &axis in axes {
                    if from[axis] != 1 {
                        long.push(axis);
                    }
                }
                if long.is_empty() {
                    return self.value(writer, input, coords);
                }
                let body = self.reduce_body(writer, node, traced, &long, coords)?;
                Ok(writer.builder.push(Inst::Reduce(*op, body)))
            }
            // A routine reads views, not through an index.
            Op::Gather { .. } if writer.part == Part::Operand => Err(Stop::Materialise(node)),
            Op::Gather { axis, paired } => self.gather(writer, traced, (*axis, *paired), coords),
            Op::Routine(_) => {
                let map = writer.part == Part::Body && writer.is_map();
                let mut here = map && writer.dims[..] == traced.shape[..];
                for (i, coord) in coords.iter().enumerate() {
                    let first = traced.shape[i] == 1 && *coord == Index::constant(0);
                    here &= first || *coord == Index::coordinate(i);
                }
                let free = map && self.routine.is_none();
                if !here && free {
                    self.hint.coordinates = Some(writer.found(coords));
                    return Err(Stop::Elsewhere(node));
                }
                if !here || self.routine.is_some_and(|r| r != node) {
                    return Err(Stop::Materialise(node));
                }
                self.routine = Some(node);
                Ok(writer.builder.push(Inst::Accumulator))
            }
        }
    }

    fn slice(
        &mut self,
        writer: &mut Writer,
        traced: &TraceNode,
        spans: &[Span],
        coords: &[Index],
    ) -> Result<ValueId, Stop> {
        let input = traced.inputs[0];
        let (mut moved, mut numbers) = (Vec::with_capacity(coords.len()), &traced.inputs[1..]);
        let from = self.trace.nodes[input].shape;
        for ((coord, span), &extent) in coords.iter().zip(spans).zip(from.iter()) {
            let latest = span.latest(extent).unwrap_or(0);
            let start = self.start(writer, span.start, latest, &mut numbers)?;
            moved.push(start.plus(coord, span.step as i64));
        }
        self.value(writer, input, &moved)
    }

    fn pointwise(
        &mut self,
        writer: &mut Writer,
        node: usize,
        traced: &TraceNode,
        coords: &[Index],
    ) -> Result<ValueId, Stop> {
        let function = traced.op.function().expect("asked for pointwise only");
        if writer.part == Part::Operand && !self.placement.light[node] {
            return Err(Stop::Materialise(node));
        }
        let mut arguments = SmallVec::new();
        for &input in &traced.inputs {
            let coords = broadcast(coords, &self.trace.nodes[input].shape);
            match self.value(writer, input, &coords) {
                Ok(value) => arguments.push(value),
                // Compute the largest part before, so that this kernel reads one buffer in its place.
                Err(Stop::Crowded) => {
                    return Err(match self.placement.largest(&traced.inputs) {
                        Some(largest) => Stop::Materialise(largest),
                        None => Stop::Crowded,
                    });
                }
                Err(stop) => return Err(stop),
            }
        }
        if let Function::Formula(formula) = function {
            drop_unused(formula, &mut arguments);
        }
        Ok(writer.builder.push(Inst::Call(function, arguments, traced.dtype)))
    }
}

/// Puts arguments that a formula uses in the place of those that it does not, so that nothing computes these.
fn drop_unused(formula: Expr, arguments: &mut [ValueId]) {
    let Some(used) = (0..arguments.len()).find(|&n| formula.uses(n)) else { return };
    for n in 0..arguments.len() {
        if !formula.uses(n) {
            arguments[n] = arguments[used];
        }
    }
}
