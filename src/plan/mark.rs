//! Which nodes get memory of their own, and which are computed inside the kernels that use them.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{Trace, Traced};
use crate::kernel::{Builder, Inst};
use crate::op::Op;

/// For each node of a trace, how it is placed.
pub struct Marks {
    /// Its value is in a buffer when a kernel reads it.
    pub in_memory: Vec<bool>,
    /// It is a result that the kernel of this root writes along with its own.
    pub attached: Vec<Option<usize>>,
    /// Those nodes, and their roots: few among many.
    pub attachments: Vec<(usize, usize)>,
    /// It has no inputs.
    pub leaf: Vec<bool>,
    /// It costs no instruction: movement, leaves.
    pub free: Vec<bool>,
    /// Cheap enough to be computed at every load of a routine's operand.
    pub light: Vec<bool>,
    /// Unpacked from integers that take at most half its memory, without much ado: it is not to take that memory.
    pub packed: Vec<bool>,
    /// How many loads computing it takes, if all is computed in place.
    pub leaves: Vec<u32>,
    /// For scalars, which of the trace's scalars it is.
    pub scalars: Vec<usize>,
}

/// The kernels a node's value flows into without passing through memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Nothing,
    One(usize),
    Many,
}

/// Instructions up to which computing a value again is better than a round trip through memory.
const CHEAP: u32 = 8;
/// The same where a routine would do it at every load.
const LIGHT: u32 = 4;

/// The same for what is unpacked: bits are shifted and masked, a zero point and a scale are applied.
const UNPACKING: u32 = 24;

struct Costs {
    leaves: Vec<u32>,
    instructions: Vec<u32>,
    /// Nothing but pointwise work and movement lies between it and data.
    plain: Vec<bool>,
    /// There are integers among that data.
    integers: Vec<bool>,
    /// Memory that all of that data takes.
    bytes: Vec<u64>,
}

impl Marks {
    /// Places the nodes; `forced` ones get memory whatever else holds.
    pub fn new(trace: &Trace, forced: &[bool]) -> Marks {
        let count = trace.nodes.len();
        let costs = costs(trace);
        let again = |n: usize, limit: u32| {
            costs.plain[n] && costs.leaves[n] <= 1 && costs.instructions[n] <= limit
        };
        let mut marks = Marks {
            in_memory: vec![false; count],
            attached: vec![None; count],
            attachments: Vec::new(),
            leaf: vec![false; count],
            free: vec![false; count],
            light: vec![false; count],
            packed: vec![false; count],
            leaves: costs.leaves.clone(),
            scalars: vec![0; count],
        };
        let mut scalars = 0;
        for (n, node) in trace.nodes.iter().enumerate() {
            marks.leaf[n] = node.inputs.is_empty();
            marks.free[n] = is_free(&node.op);
            marks.packed[n] = costs.packed(n, node);
            marks.light[n] = marks.packed[n] || again(n, LIGHT);
            marks.scalars[n] = scalars;
            scalars += usize::from(matches!(node.op, Op::Scalar));
        }
        let mut outputs = vec![false; count];
        for &output in &trace.outputs {
            outputs[output] = true;
        }
        let mut reach = vec![Reach::Nothing; count];
        for n in (0..count).rev() {
            let node = &trace.nodes[n];
            let output = outputs[n];
            let force = forced[n] || matches!(node.op, Op::Concat { .. });
            let memory = match (&node.op, reach[n]) {
                (Op::Source, _) => true,
                (Op::Scalar, _) => false,
                _ if force => true,
                (
                    Op::Pointwise(_) | Op::Slope { .. } | Op::Cast(_) | Op::Reduce { .. },
                    Reach::One(root),
                ) if output => {
                    marks.attached[n] = Some(root);
                    marks.attachments.push((n, root));
                    false
                }
                _ if output => true,
                _ if marks.leaf[n] => false,
                // Whether it lies outside is cheap to ask again.
                (Op::Pad(_), Reach::Many) => false,
                (_, Reach::Many) => !(marks.free[n] || marks.packed[n] || again(n, CHEAP)),
                _ => false,
            };
            marks.in_memory[n] = memory;
            let here = match &node.op {
                // Each element is read once for each window that it is in.
                Op::Unfold(windows) if windows.overlap() => Reach::Many,
                _ if memory => Reach::One(n),
                _ => reach[n],
            };
            // Nothing is read to compute what has no elements.
            let read = if node.shape.numel() == 0 { &[][..] } else { &node.inputs };
            for &input in read {
                reach[input] = match (reach[input], here) {
                    (Reach::Nothing, r) => r,
                    (a, b) if a == b => a,
                    _ => Reach::Many,
                };
            }
        }
        marks.attachments.reverse();
        marks
    }
}

impl Marks {
    /// What is to be in memory for a routine's result: the last of what is computed from that, element by element, for
    /// one user after the other, if it is then reduced. A row program would do that in each of its passes.
    pub fn with_epilogue(&self, trace: &Trace, routine: usize) -> usize {
        let mut last = routine;
        while matches!(trace.nodes[routine].op, Op::Routine(_)) && self.attached[last].is_none() {
            let (mut users, mut next) = (0, last);
            for (n, node) in trace.nodes.iter().enumerate().skip(last + 1) {
                if node.inputs.contains(&last) {
                    if matches!(node.op, Op::Reduce { .. }) {
                        return last;
                    }
                    users += 1;
                    next = n;
                }
            }
            let node = &trace.nodes[next];
            let local = matches!(node.op, Op::Pointwise(_) | Op::Cast(_) | Op::Reshape(_));
            let near = |&i: &usize| i == last || self.in_memory[i] || self.light[i];
            if users != 1 || self.in_memory[next] || !local || !node.inputs.iter().all(near) {
                break;
            }
            last = next;
        }
        routine
    }

    /// The node whose value takes most loads, where that is more than one, of those that are not in memory.
    pub fn largest(&self, nodes: &[usize]) -> Option<usize> {
        let mut largest = None;
        let mut most = 2;
        for &node in nodes {
            if !self.in_memory[node] && self.leaves[node] >= most {
                (largest, most) = (Some(node), self.leaves[node]);
            }
        }
        largest
    }
}

fn is_free(op: &Op) -> bool {
    match op {
        Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => true,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Unfold(_) => true,
        Op::Pointwise(_) | Op::Slope { .. } | Op::Cast(_) | Op::Pad(_) => false,
        Op::Reduce { .. } | Op::Gather { .. } | Op::Concat { .. } | Op::Routine(_) => false,
    }
}

impl Costs {
    fn packed(&self, n: usize, node: &Traced) -> bool {
        let unpacks = self.plain[n] && self.integers[n] && self.instructions[n] <= UNPACKING;
        unpacks && self.bytes[n] <= 2 * node.shape.numel() as u64
    }
}

fn costs(trace: &Trace) -> Costs {
    let count = trace.nodes.len();
    let mut costs = Costs {
        leaves: vec![0; count],
        instructions: vec![0; count],
        plain: vec![true; count],
        integers: vec![false; count],
        bytes: vec![0; count],
    };
    for (n, node) in trace.nodes.iter().enumerate() {
        let sum = |values: &[u32]| {
            let mut sum = 0u32;
            for &input in &node.inputs {
                sum = sum.saturating_add(values[input]);
            }
            sum
        };
        costs.leaves[n] = sum(&costs.leaves) + u32::from(matches!(node.op, Op::Source));
        let formula = node.op.formula();
        let local = formula.is_some() || matches!(node.op, Op::Cast(_));
        let own = formula.map_or(u32::from(local), |f| cost(f, node.inputs.len()));
        costs.instructions[n] = sum(&costs.instructions).saturating_add(own);
        let plain = is_free(&node.op) || local;
        costs.plain[n] = plain && node.inputs.iter().all(|&i| costs.plain[i]);
        let source = matches!(node.op, Op::Source);
        let size = node.shape.numel() as u64 * node.dtype.size() as u64;
        costs.integers[n] = source && node.dtype.is_int();
        costs.bytes[n] = if source { size } else { 0 };
        for &input in &node.inputs {
            costs.integers[n] |= costs.integers[input];
            costs.bytes[n] = costs.bytes[n].saturating_add(costs.bytes[input]);
        }
    }
    costs
}

/// Instructions of a formula, roughly.
fn cost(formula: Expr, arity: usize) -> u32 {
    let mut builder = Builder::default();
    let mut arguments = Vec::new();
    for word in 0..arity as u32 {
        arguments.push(builder.push(Inst::Param { word, dtype: DType::F32 }));
    }
    builder.expr(formula, &arguments);
    (builder.len() - arguments.len()) as u32
}
