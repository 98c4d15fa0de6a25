//! What computing a value takes: rules for what is computed again rather than kept in memory.

use crate::dtype::{DType, Numbers};
use crate::graph::{Trace, TraceNode};
use crate::kernel::{Builder, Inst};
use crate::op::{Function, Op};
use rustc_hash::FxHashMap;

/// Instructions up to which computing a value again is better than a round trip through memory.
const CHEAP: u32 = 8;
/// The same where a routine would do it at every load.
const LIGHT: u32 = 4;
/// The same for what is unpacked: bits are shifted and masked, a zero point and a scale are applied.
const UNPACKING: u32 = 96;

/// For each node of a trace, what it takes if all is computed in place.
pub struct Costs {
    /// It costs no instruction: movement, leaves, halves as `f32`.
    pub free: Vec<bool>,
    /// How many loads.
    pub leaves: Vec<u32>,
    instructions: Vec<u32>,
    /// Nothing but pointwise work and movement lies between it and data.
    plain: Vec<bool>,
    /// There are integers among that data.
    integers: Vec<bool>,
    /// Memory that all of that data takes.
    bytes: Vec<u64>,
}

/// For each node of a trace, whether computing it again from data is as good as reading it from memory.
pub fn cheap(trace: &Trace) -> Vec<bool> {
    let costs = Costs::of(trace);
    let mut cheap = Vec::with_capacity(trace.nodes.len());
    for (n, node) in trace.nodes.iter().enumerate() {
        // A shader has no value: its results are kept.
        let shader = matches!(node.op, Op::Shader(_));
        cheap.push(shader || costs.is_cheap(n) || costs.is_packed(n, node));
    }
    cheap
}

impl Costs {
    /// Those of a trace.
    pub fn of(trace: &Trace) -> Costs {
        let count = trace.nodes.len();
        let mut costs = Costs {
            free: vec![false; count],
            leaves: vec![0; count],
            instructions: vec![0; count],
            plain: vec![true; count],
            integers: vec![false; count],
            bytes: vec![0; count],
        };
        let mut lengths: FxHashMap<Function, u32> = FxHashMap::default();
        for (n, node) in trace.nodes.iter().enumerate() {
            let sum = |values: &[u32]| {
                let mut sum = 0u32;
                for &input in &node.inputs {
                    sum = sum.saturating_add(values[input]);
                }
                sum
            };
            let source = matches!(node.op, Op::Source);
            costs.leaves[n] = sum(&costs.leaves).saturating_add(u32::from(source));
            let function = node.op.function();
            let local = function.is_some() || matches!(node.op, Op::Cast(_) | Op::Bitcast(_));
            let own = function.map_or(u32::from(local), |function| {
                let length = || length(&function, node.inputs.len());
                *lengths.entry(function.clone()).or_insert_with(length)
            });
            costs.instructions[n] = sum(&costs.instructions).saturating_add(own);
            costs.free[n] = is_free(&node.op) || is_widening(trace, node);
            let plain = costs.free[n] || local;
            costs.plain[n] = plain && node.inputs.iter().all(|&i| costs.plain[i]);
            let size = node.shape.numel() as u64 * node.dtype.size() as u64;
            costs.integers[n] =
                source && matches!(node.dtype.numbers(), Numbers::Signed | Numbers::Unsigned);
            costs.bytes[n] = if source { size } else { 0 };
            for &input in &node.inputs {
                costs.integers[n] |= costs.integers[input];
                costs.bytes[n] = costs.bytes[n].saturating_add(costs.bytes[input]);
            }
        }
        costs
    }

    fn within(&self, n: usize, limit: u32) -> bool {
        self.plain[n] && self.leaves[n] <= 1 && self.instructions[n] <= limit
    }

    /// Cheap enough to be computed wherever it is used.
    pub fn is_cheap(&self, n: usize) -> bool {
        self.free[n] || self.within(n, CHEAP)
    }

    /// Cheap enough to be computed at every load of a routine's operand.
    pub fn is_light(&self, n: usize, node: &TraceNode) -> bool {
        self.is_packed(n, node) || self.within(n, LIGHT)
    }

    /// Unpacked from integers that take at most half its memory, without much ado: it is not to take that memory.
    pub fn is_packed(&self, n: usize, node: &TraceNode) -> bool {
        let unpacks = self.plain[n] && self.integers[n] && self.instructions[n] <= UNPACKING;
        unpacks && self.bytes[n] <= 2 * node.shape.numel() as u64
    }
}

/// Whether it gives halves as `f32`, which is what kernels compute them in: the halves are to be in memory.
pub fn is_widening(trace: &Trace, node: &TraceNode) -> bool {
    let Op::Cast(to) = node.op else { return false };
    let from = trace.nodes[node.inputs[0]].dtype;
    to.is_float() && from.size() < to.size() && from.compute() == to
}

fn is_free(op: &Op) -> bool {
    match op {
        Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => true,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Unfold(_) => true,
        Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) => false,
        Op::Cast(_) | Op::Bitcast(_) | Op::Pad(_) => false,
        Op::Reduce { .. } | Op::Gather { .. } | Op::Concat { .. } | Op::Routine(_) => false,
        Op::Order { .. } | Op::Shader(_) | Op::Output(..) => false,
    }
}

/// Instructions of a function, roughly.
fn length(function: &Function, arity: usize) -> u32 {
    let mut builder = Builder::default();
    let mut arguments = Vec::new();
    for word in 0..arity as u32 {
        arguments.push(builder.push(Inst::Param { word, dtype: DType::F32 }));
    }
    match function {
        Function::Element(element) => return element.length,
        _ => builder.function(function, &arguments, DType::F32),
    };
    (builder.len() - arguments.len()) as u32
}
