//! Superinstructions, which combine instructions so that intermediate results need no block. They combine sums, differences
//! and products with each other, quotients with these, comparisons with selections, and products with a sum. They also
//! replace whole functions.

use super::formula;
use super::plan::Level;
use crate::backend::cpu::math::function::{binary_cost, UnaryFn};
use crate::backend::cpu::math::fused::{choice, ternary, ChoiceFn, TernaryFn};
use crate::dtype::DType;
use crate::expr::Binary;
use crate::kernel::{Atom, Inst, Program, ValueId};
use crate::op::Reduction;
use std::collections::HashMap;

/// Several combined instructions.
#[derive(Clone, Debug)]
pub struct Superinstruction {
    pub function: Function,
    /// The operands of the combined instructions: first those of the inner one, then the other operands of the outer one.
    pub operands: Vec<ValueId>,
    /// The approximate cost, in additions.
    pub cost: usize,
}

/// The function of a [`Superinstruction`].
#[derive(Clone, Copy, Debug)]
pub enum Function {
    Whole(UnaryFn),
    Ternary(TernaryFn),
    Choice(ChoiceFn),
    /// A sum whose elements are products of two values.
    SumOfProducts,
}

/// Finds the superinstructions of a program. Each instruction rounds as it would alone.
pub fn pairs(program: &Program, levels: &[Level]) -> HashMap<ValueId, Superinstruction> {
    let mut uses = vec![0u32; program.insts.len()];
    program.insts.iter().flat_map(|i| i.operands()).for_each(|v| uses[v as usize] += 1);
    for store in &program.stores {
        uses[store.value as usize] += 1;
        for (atom, _) in &store.index.terms {
            if let Atom::Value(v) = atom {
                uses[*v as usize] += 1;
            }
        }
    }
    let stages = program.stages();
    let beside = |x: ValueId, y: ValueId| {
        let (x, y) = (x as usize, y as usize);
        levels[x] == levels[y] && stages[x] == stages[y]
    };
    let mut pairs = HashMap::new();
    for (outer, inst) in program.insts.iter().enumerate() {
        let outer = outer as ValueId;
        if let Inst::Call(called, arguments, _) = inst {
            if let Some(function) = formula::function(called) {
                let (function, cost) = (Function::Whole(function), formula::cost(called));
                let operands = arguments.to_vec();
                pairs.insert(outer, Superinstruction { function, operands, cost });
            }
            continue;
        }
        if let Inst::Reduce(Reduction::Sum, of) = *inst {
            let at = of as usize;
            let free = uses[at] == 1 && !pairs.contains_key(&of) && levels[at] == Level::Element;
            if let (true, Inst::Binary(Binary::Mul, x, y)) = (free, &program.insts[at]) {
                if program.types[*x as usize].compute() == DType::F32 {
                    let (function, operands) = (Function::SumOfProducts, vec![*x, *y]);
                    pairs.insert(outer, Superinstruction { function, operands, cost: 2 });
                }
            }
            continue;
        }
        let together = |inner: ValueId| {
            let at = inner as usize;
            let free = uses[at] == 1 && !pairs.contains_key(&inner);
            (free && beside(inner, outer)).then_some(())?;
            let Inst::Binary(op, x, y) = program.insts[at] else { return None };
            (program.types[x as usize].compute() == DType::F32).then_some(())?;
            let (function, cost) = match *inst {
                Inst::Binary(other, left, _) => {
                    let function = Function::Ternary(ternary(op, other, left == inner)?);
                    (function, binary_cost(op) + binary_cost(other))
                }
                Inst::Select(condition, ..) if condition == inner => {
                    (Function::Choice(choice(op)?), 2)
                }
                _ => return None,
            };
            let mut operands = vec![x, y];
            operands.extend(inst.operands().into_iter().filter(|&v| v != inner));
            Some(Superinstruction { function, operands, cost })
        };
        if let Some(pair) = inst.operands().into_iter().find_map(together) {
            pairs.insert(outer, pair);
        }
    }
    pairs
}
