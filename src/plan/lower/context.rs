//! Lowers recorded operations to the instructions of one kernel. Movement becomes index arithmetic, and elementwise operations
//! become instructions. A node that cannot be in the kernel is an error that names the node to materialize first.

use super::index::{broadcast, Coordinates};
use super::rewrite::prune_to;
use super::writer::{ProgramRole, ProgramWriter};
use crate::expr::Expr;
use crate::graph::{Trace, TraceNode};
use crate::kernel::{Index, Inst, Operand, ValueId};
use crate::op::{Const, Function, Op, Span};
use crate::plan::fuse::fusion_limits::{MAX_NODES_PER_KERNEL, MAX_OPERATIONS_PER_KERNEL};
use crate::plan::fuse::placement::Placement;
use smallvec::SmallVec;

/// The reason why a kernel cannot be lowered as tried. The type is small because every function returns it.
#[derive(Clone, Copy)]
pub enum LowerError {
    /// This node must be computed by another kernel.
    Materialize(usize),
    /// The map contains this reduction, so that it must be a row program ([`Hint::depends`]).
    NeedsRows(usize),
    /// This routine is used at other coordinates than those its kernel runs over ([`Hint::coordinates`]).
    WrongCoordinates(usize),
    /// The kernel would use more buffers than the device allows.
    TooManyBuffers,
}

/// Details of a [`LowerError`] for the next attempt.
#[derive(Default)]
pub struct Hint {
    /// The coordinates that the reduction depends on. `None` if the reduction also depends on loaded data.
    pub depends: Option<Vec<u32>>,
    /// The coordinates at which the routine is used.
    pub coordinates: Option<Coordinates>,
}

/// The state that the programs of one kernel share, such as its inputs and params.
pub struct Context<'a> {
    pub trace: &'a Trace,
    pub placement: &'a Placement<'a>,
    /// The node that the kernel computes and writes.
    pub root: usize,
    /// The most inputs that the kernel may have.
    pub max_inputs: usize,
    /// The nodes that the kernel reads from memory.
    pub inputs: Vec<usize>,
    /// The nodes whose numbers are in the params.
    pub params: Vec<usize>,
    /// The routine whose result the epilogue reads.
    pub routine: Option<usize>,
    /// The operations in the kernel, in the order of lowering.
    pub operations: Vec<usize>,
    /// Nodes of the kernel that are also results: coordinates and value.
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

    /// Returns the value of `node` at `coords`, one index per axis of its shape.
    pub fn value(
        &mut self,
        writer: &mut ProgramWriter,
        node: usize,
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let key = (node, coords.to_vec());
        if let Some(&value) = writer.memo.get(&key) {
            return Ok(value);
        }
        let traced = &self.trace.nodes[node];
        let value = if self.placement.in_memory[node] && node != self.root {
            self.load(writer, node, coords)?
        } else {
            self.count(node)?;
            let value = self.compute(writer, node, traced, coords)?;
            // The store of the root rounds. All other values round here, so that results do not depend on what is stored.
            match node == self.root {
                true => value,
                false => writer.builder.rounded(traced.dtype, value),
            }
        };
        if self.placement.attached[node] == Some(self.root) && writer.role == ProgramRole::Body {
            self.attached.push((node, coords.to_vec(), value));
        }
        writer.memo.insert(key, value);
        Ok(value)
    }

    /// Returns the program with which a routine reads `node`, over the operand's axes `dims`.
    pub fn operand(
        &mut self,
        node: usize,
        dims: &[usize],
        coords: &[Index],
    ) -> Result<Operand, LowerError> {
        let mut writer = ProgramWriter::new(dims, dims.len(), ProgramRole::Operand);
        let own = self.placement.in_memory[node];
        let value = match self.value(&mut writer, node, coords) {
            Err(LowerError::TooManyBuffers) if !own => return Err(LowerError::Materialize(node)),
            // The routine's kernel writes its result in the moved order.
            Err(LowerError::Materialize(n)) if self.is_moved_routine(node, n) => {
                return Err(LowerError::Materialize(node))
            }
            other => other?,
        };
        let whole = writer.builder.finish();
        let live = whole.live(&[value]);
        // Division in the index of every load costs more than a copy, except for packed values.
        if !own
            && !self.placement.packed[node]
            && writer.origins.iter().any(|(v, _)| live[*v as usize])
        {
            return Err(LowerError::Materialize(node));
        }
        let (program, value) = prune_to(&whole, value);
        Ok(Operand { program, value })
    }

    /// Whether `node` is only a reshaped or permuted result of the routine.
    fn is_moved_routine(&self, node: usize, routine: usize) -> bool {
        let mut at = node;
        while let Op::Reshape(_) | Op::Permute(_) = self.trace.nodes[at].op {
            at = self.trace.nodes[at].inputs[0];
        }
        at == routine && matches!(self.trace.nodes[routine].op, Op::Routine(_))
    }

    fn count(&mut self, node: usize) -> Result<(), LowerError> {
        if self.placement.is_leaf(node) {
            return Ok(());
        }
        self.visits += 1;
        if !self.placement.is_free(node) {
            self.operations.push(node);
        }
        let full =
            self.operations.len() > MAX_OPERATIONS_PER_KERNEL || self.visits > MAX_NODES_PER_KERNEL;
        if full && node != self.root {
            return Err(LowerError::Materialize(node));
        }
        Ok(())
    }

    fn load(
        &mut self,
        writer: &mut ProgramWriter,
        node: usize,
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let traced = &self.trace.nodes[node];
        // An empty tensor is never read, and has no buffer.
        if traced.shape.numel() == 0 {
            return Ok(writer.builder.number(traced.dtype, 0.0));
        }
        let input = match self.inputs.iter().position(|&i| i == node) {
            Some(at) => at,
            None if self.inputs.len() == self.max_inputs => return Err(LowerError::TooManyBuffers),
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
        writer: &mut ProgramWriter,
        node: usize,
        traced: &TraceNode,
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let input = traced.inputs.first().copied().unwrap_or(node);
        let from = self.trace.nodes[input].shape;
        match &traced.op {
            Op::Source | Op::Concat { .. } => Err(LowerError::Materialize(node)),
            Op::Order { .. } | Op::Shader(_) | Op::Output(..) => Err(LowerError::Materialize(node)),
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
            Op::DerivativeLimit { .. } => Ok(writer.builder.number(traced.dtype, 0.0)),
            Op::Iota { axis, .. } => Ok(writer.builder.index(&coords[*axis])),
            Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) => {
                self.pointwise(writer, node, traced, coords)
            }
            Op::Cast(to) => {
                let value = self.value(writer, input, coords)?;
                // A cast to f16 rounds, even if both types are computed in f32.
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
            Op::Pad(margins) => self.padded_value(writer, traced, margins, coords),
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
            // Routines read views, and cannot gather.
            Op::Gather { .. } if writer.role == ProgramRole::Operand => {
                Err(LowerError::Materialize(node))
            }
            Op::Gather { axis, paired } => {
                self.gathered_value(writer, traced, (*axis, *paired), coords)
            }
            Op::Routine(_) => self.routine_result(writer, node, traced, coords),
        }
    }

    /// Returns the result of a routine in the epilogue of its kernel.
    fn routine_result(
        &mut self,
        writer: &mut ProgramWriter,
        node: usize,
        traced: &TraceNode,
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let map = writer.role == ProgramRole::Body && writer.is_map();
        let mut here = map && writer.dims[..] == traced.shape[..];
        for (i, coord) in coords.iter().enumerate() {
            let first = traced.shape[i] == 1 && *coord == Index::constant(0);
            here &= first || *coord == Index::coordinate(i);
        }
        let free = map && self.routine.is_none();
        if !here && free {
            self.hint.coordinates = Some(writer.found(coords));
            return Err(LowerError::WrongCoordinates(node));
        }
        if !here || self.routine.is_some_and(|r| r != node) {
            return Err(LowerError::Materialize(node));
        }
        self.routine = Some(node);
        Ok(writer.builder.push(Inst::Accumulator))
    }

    fn slice(
        &mut self,
        writer: &mut ProgramWriter,
        traced: &TraceNode,
        spans: &[Span],
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let input = traced.inputs[0];
        let (mut moved, mut numbers) = (Vec::with_capacity(coords.len()), &traced.inputs[1..]);
        let from = self.trace.nodes[input].shape;
        for ((coord, span), &extent) in coords.iter().zip(spans).zip(from.iter()) {
            let latest = span.latest(extent).unwrap_or(0);
            let start = self.span_start(writer, span.start, latest, &mut numbers)?;
            moved.push(start.plus(coord, span.step as i64));
        }
        self.value(writer, input, &moved)
    }

    fn pointwise(
        &mut self,
        writer: &mut ProgramWriter,
        node: usize,
        traced: &TraceNode,
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let function = traced.op.function().expect("asked for pointwise only");
        if writer.role == ProgramRole::Operand && !self.placement.inline_in_operand[node] {
            return Err(LowerError::Materialize(node));
        }
        let mut arguments = SmallVec::new();
        for &input in &traced.inputs {
            let coords = broadcast(coords, &self.trace.nodes[input].shape);
            match self.value(writer, input, &coords) {
                Ok(value) => arguments.push(value),
                // Materialize the operand with the most loads, so that this kernel reads one buffer instead.
                Err(LowerError::TooManyBuffers) => {
                    return Err(match self.placement.most_loads(&traced.inputs) {
                        Some(largest) => LowerError::Materialize(largest),
                        None => LowerError::TooManyBuffers,
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

/// Replaces arguments that a formula does not use, so that they are not computed.
fn drop_unused(formula: Expr, arguments: &mut [ValueId]) {
    let Some(used) = (0..arguments.len()).find(|&n| formula.uses(n)) else { return };
    for n in 0..arguments.len() {
        if !formula.uses(n) {
            arguments[n] = arguments[used];
        }
    }
}
