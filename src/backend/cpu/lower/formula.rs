//! Formulas of the pointwise table that are computed as one function, where a program has all of their instructions.

use crate::backend::cpu::math::activation::{erf, gelu, gelu_tanh, sigmoid, silu, softplus, tanh};
use crate::backend::cpu::math::function::{binary_cost, map, unary_cost, UnaryFn};
use crate::dtype::DType;
use crate::expr::{Expr, Node};
use crate::kernel::{Inst, Program, ValueId};
use crate::op::formulas;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Formulas of one value, and the same as functions. Those that others are made of come last.
fn table() -> &'static [(Expr, UnaryFn)] {
    static TABLE: OnceLock<[(Expr, UnaryFn); 7]> = OnceLock::new();
    macro_rules! row {
        ($name:ident) => {
            (formulas::$name(Expr::arg(0)), |out, x| map::<f32, f32>(out, x, $name))
        };
    }
    TABLE.get_or_init(|| {
        [
            row!(gelu_tanh),
            row!(gelu),
            row!(erf),
            row!(softplus),
            row!(tanh),
            row!(silu),
            row!(sigmoid),
        ]
    })
}

/// A formula that a program has.
pub struct Formula {
    pub function: UnaryFn,
    /// Its argument.
    pub x: ValueId,
    /// Roughly what its instructions cost, in additions.
    pub cost: usize,
}

/// The last instructions of formulas, and all the others of them. `uses` says how often each value is used, and
/// `beside` whether two values are computed equally often.
pub fn formulas(
    program: &Program,
    uses: &[u32],
    beside: impl Fn(ValueId, ValueId) -> bool,
) -> (HashMap<ValueId, Formula>, HashSet<ValueId>) {
    let (mut found, mut inside) = (HashMap::new(), HashSet::new());
    let costly = |inst: &Inst| matches!(inst, Inst::Unary(op, _) if unary_cost(*op) > 1);
    if !program.insts.iter().any(costly) {
        return (found, inside);
    }
    for &(expr, function) in table() {
        for last in (0..program.insts.len() as ValueId).rev() {
            let mut part = Part { program, x: None, members: HashSet::new() };
            if inside.contains(&last) || found.contains_key(&last) || !part.is(last, expr) {
                continue;
            }
            let Some(x) = part.x else { continue };
            let within = |value: ValueId| {
                let operands =
                    part.members.iter().flat_map(|&v| program.insts[v as usize].operands());
                operands.filter(|&v| v == value).count()
            };
            let alone = |&member: &ValueId| {
                let free = !inside.contains(&member) && !found.contains_key(&member);
                let whole = member == last || uses[member as usize] as usize == within(member);
                free && whole && beside(member, last)
            };
            if part.members.iter().all(alone) {
                let cost = |&member: &ValueId| match program.insts[member as usize] {
                    Inst::Unary(op, _) => unary_cost(op),
                    Inst::Binary(op, ..) => binary_cost(op),
                    _ => 1,
                };
                let cost = part.members.iter().map(cost).sum();
                inside.extend(part.members.into_iter().filter(|&member| member != last));
                found.insert(last, Formula { function, x, cost });
            }
        }
    }
    (found, inside)
}

/// What of a program a formula has been found in.
struct Part<'a> {
    program: &'a Program,
    /// The formula's argument.
    x: Option<ValueId>,
    /// Its instructions.
    members: HashSet<ValueId>,
}

impl Part<'_> {
    /// Whether `value` is this formula.
    fn is(&mut self, value: ValueId, formula: Expr) -> bool {
        let float = self.program.types[value as usize].compute() == DType::F32;
        if let Node::Arg(_) = formula.node() {
            return float && *self.x.get_or_insert(value) == value;
        }
        let inst = &self.program.insts[value as usize];
        if let (Some(number), Inst::Const(constant)) = (formula.literal(), inst) {
            return float && constant.bits == DType::F32.bits(number);
        }
        let operands = match (formula.node(), inst) {
            (Node::Unary(op, x), Inst::Unary(other, _)) if op == other => vec![*x],
            (Node::Binary(op, x, y), Inst::Binary(other, ..)) if op == other => vec![*x, *y],
            (Node::Select(c, a, b), Inst::Select(..)) => vec![*c, *a, *b],
            _ => return false,
        };
        self.members.insert(value);
        inst.operands().into_iter().zip(operands).all(|(value, part)| self.is(value, part))
    }
}
