//! Costs: rules that decide whether a value is recomputed or stored.

use crate::dtype::{DType, Numbers};
use crate::graph::{Trace, TraceNode};
use crate::kernel::{Builder, Inst};
use crate::op::{Function, Op};
use rustc_hash::FxHashMap;

/// The most instructions for which recomputing a value is better than a round trip through memory.
const MAX_RECOMPUTE_INSTS: u32 = 8;
/// The most instructions that a routine computes at every load of an operand.
const MAX_OPERAND_INSTS: u32 = 4;
/// The most instructions to unpack a value: shifts, masks, a zero point and a scale.
const MAX_UNPACK_INSTS: u32 = 96;

/// The costs of each node of a trace if everything is computed inside one kernel.
pub struct Costs {
    /// Whether the node costs no instruction, like movement, leaves, and `f16` read as `f32`.
    pub free: Vec<bool>,
    /// The number of loads.
    pub loads: Vec<u32>,
    /// The number of instructions.
    instructions: Vec<u32>,
    /// Whether only elementwise operations and movement are between the node and data.
    elementwise: Vec<bool>,
    /// Whether some of that data is integers.
    integers: Vec<bool>,
    /// The bytes of that data.
    bytes: Vec<u64>,
}

/// Returns for each node of a trace whether recomputing the node from data is as good as reading it from memory.
pub fn cheap(trace: &Trace) -> Vec<bool> {
    let costs = Costs::of(trace);
    let mut cheap = Vec::with_capacity(trace.nodes.len());
    for (n, node) in trace.nodes.iter().enumerate() {
        // A shader has no value; its outputs are stored.
        let shader = matches!(node.op, Op::Shader(_));
        cheap.push(shader || costs.is_cheap(n) || costs.is_packed(n, node));
    }
    cheap
}

impl Costs {
    /// Computes the costs of every node in `trace`.
    pub fn of(trace: &Trace) -> Costs {
        let count = trace.nodes.len();
        let mut costs = Costs {
            free: vec![false; count],
            loads: vec![0; count],
            instructions: vec![0; count],
            elementwise: vec![true; count],
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
            costs.loads[n] = sum(&costs.loads).saturating_add(u32::from(source));
            let function = node.op.function();
            let local = function.is_some() || matches!(node.op, Op::Cast(_) | Op::Bitcast(_));
            let own = function.map_or(u32::from(local), |function| {
                let length = || length(&function, node.inputs.len());
                *lengths.entry(function.clone()).or_insert_with(length)
            });
            costs.instructions[n] = sum(&costs.instructions).saturating_add(own);
            costs.free[n] = is_free(&node.op) || is_widening(trace, node);
            let plain = costs.free[n] || local;
            costs.elementwise[n] = plain && node.inputs.iter().all(|&i| costs.elementwise[i]);
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

    fn costs_at_most(&self, n: usize, limit: u32) -> bool {
        self.elementwise[n] && self.loads[n] <= 1 && self.instructions[n] <= limit
    }

    /// Whether the node is cheap enough to be computed in every kernel that uses it.
    pub fn is_cheap(&self, n: usize) -> bool {
        self.free[n] || self.costs_at_most(n, MAX_RECOMPUTE_INSTS)
    }

    /// Whether the node is cheap enough to be computed at every load of a routine's operand.
    pub fn is_inline_in_operand(&self, n: usize, node: &TraceNode) -> bool {
        self.is_packed(n, node) || self.costs_at_most(n, MAX_OPERAND_INSTS)
    }

    /// Whether the node is unpacked from integers of at most half its size. Such a node is not stored, to save that memory.
    pub fn is_packed(&self, n: usize, node: &TraceNode) -> bool {
        let unpacks =
            self.elementwise[n] && self.integers[n] && self.instructions[n] <= MAX_UNPACK_INSTS;
        unpacks && self.bytes[n] <= 2 * node.shape.numel() as u64
    }
}

/// Whether the node casts `f16` to the type that kernels compute `f16` in. The `f16` values are stored instead.
pub fn is_widening(trace: &Trace, node: &TraceNode) -> bool {
    let Op::Cast(to) = node.op else { return false };
    let from = trace.nodes[node.inputs[0]].dtype;
    to.is_float() && from.size() < to.size() && from.compute() == to
}

fn is_free(op: &Op) -> bool {
    match op {
        Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => true,
        Op::DerivativeLimit { .. } => true,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Unfold(_) => true,
        Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) => false,
        Op::Cast(_) | Op::Bitcast(_) | Op::Pad(_) => false,
        Op::Reduce { .. } | Op::Gather { .. } | Op::Concat { .. } | Op::Routine(_) => false,
        Op::Order { .. } | Op::Shader(_) | Op::Output(..) => false,
    }
}

/// Returns the approximate number of instructions of a function.
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
