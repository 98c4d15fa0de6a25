//! Formulas of the pointwise table that are computed as one function, where a program has all of their instructions.

use super::elementary::exp;
use super::function::{binary_cost, larger, map, unary_cost, UnaryFn};
use super::superinstruction::{Function, Superinstruction};
use crate::dtype::DType;
use crate::expr::{Expr, Node};
use crate::kernel::{Inst, Program, ValueId};
use crate::op::formulas;
use std::collections::{HashMap, HashSet};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
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

/// The last instructions of formulas, and all the others of them. `uses` says how often each value is used, and
/// `beside` whether two values are computed equally often.
pub(super) fn formulas(
    program: &Program,
    uses: &[u32],
    beside: impl Fn(ValueId, ValueId) -> bool,
) -> (HashMap<ValueId, Superinstruction>, HashSet<ValueId>) {
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
                found.insert(
                    last,
                    Superinstruction {
                        function: Function::Whole(function),
                        operands: vec![x],
                        cost,
                    },
                );
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

// The functions: what the formulas say, operation by operation.

#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f64; N]) -> f32 {
    let mut sum = coefficients[N - 1] as f32;
    for &coefficient in coefficients[..N - 1].iter().rev() {
        sum = sum * x + coefficient as f32;
    }
    sum
}

#[inline(always)]
fn choose(condition: bool, a: f32, b: f32) -> f32 {
    // By bits: as a choice it may be made by a branch, and no vector code.
    let mask = u32::from(condition).wrapping_neg();
    f32::from_bits(a.to_bits() & mask | b.to_bits() & !mask)
}

#[inline(always)]
fn signed(x: f32, magnitude: f32) -> f32 {
    choose(x < 0.0, -magnitude, magnitude)
}

#[inline(always)]
fn logistic(x: f32) -> (f32, f32) {
    let e = exp(-x.abs());
    (e, 1.0 / (e + 1.0))
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    let (e, r) = logistic(x);
    choose(x < 0.0, e * r, r)
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

#[inline(always)]
fn softplus(x: f32) -> f32 {
    let e = logistic(x).0;
    let s = e / (e + 2.0);
    let series = [1.0, 0.333_332_081, 0.200_107_639, 0.140_008_985, 0.140_060_1];
    larger(x, 0.0) + 2.0 * (s * polynomial(s * s, series))
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    let series = [1.0, -0.333_329_584, 0.133_210_081, -0.052_690_667, 0.016_474_732];
    let near = x * polynomial(x * x, series);
    let e = exp(-2.0 * x.abs());
    let far = (1.0 - e) / (1.0 + e);
    choose(x.abs() < 0.547, near, signed(x, far))
}

#[inline(always)]
fn erfcx(a: f32) -> f32 {
    let series = [
        0.282_087_995,
        0.282_347_992,
        0.243_300_393,
        0.201_915_884,
        -0.024_817_569_8,
        0.275_459_998,
        -0.484_934_216,
        0.283_486_309,
        -0.058_846_827_3,
    ];
    let u = 1.0 / (a * 0.5 + 1.0);
    u * polynomial(u, series)
}

#[inline(always)]
fn erf(x: f32) -> f32 {
    let series = [1.0, -0.333_330_47, 0.099_944_519_6, -0.023_471_327_4, 0.003_799_238_98];
    let near = x * polynomial(x * x, series.map(|c| c * FRAC_2_SQRT_PI));
    let tail = erfcx(x.abs()) * exp(-(x * x));
    choose(x.abs() < 0.707, near, signed(x, 1.0 - tail))
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    let e = exp(-0.5 * (x * x));
    let tail = 0.5 * (erfcx(x.abs() * FRAC_1_SQRT_2 as f32) * e);
    x * choose(x < 0.0, tail, 1.0 - tail)
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    x * sigmoid(x * polynomial(x * x, [1.595_769_121_605_730_7, 0.071_354_816_272_600_25]))
}
