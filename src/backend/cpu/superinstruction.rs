//! Instructions that are done along with the one that uses their result, so that it needs no block of its own: sums,
//! differences and products of each other, quotients of them, and choices by comparing; and whole formulas.

use super::formula::formulas;
use super::function::{binary_cost, UnaryFn};
use super::plan::Level;
use super::simd::{self, Loop};
use crate::dtype::DType;
use crate::expr::Binary;
use crate::kernel::{Atom, Inst, Program, ValueId};
use std::collections::HashMap;

/// `out[i] = f(x[i], y[i], z[i])`.
pub(super) type TernaryFn = fn(&mut [u32], [&[u32]; 3]);
/// `out[i] = if f(x[i], y[i]) { a[i] } else { b[i] }`.
pub(super) type ChoiceFn = fn(&mut [u32], [&[u32]; 4]);

/// An instruction and those that are done along with it.
#[derive(Clone, Debug)]
pub(super) struct Superinstruction {
    pub function: Function,
    /// What they use together: of two, what the inner one uses, and then what the outer one uses beside it.
    pub operands: Vec<ValueId>,
    /// Roughly what they cost, in additions.
    pub cost: usize,
}

/// See [`Superinstruction`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Whole(UnaryFn),
    Ternary(TernaryFn),
    Choice(ChoiceFn),
}

/// The instructions that others are done along with. Each rounds as it would alone.
pub(super) fn pairs(program: &Program, levels: &[Level]) -> HashMap<ValueId, Superinstruction> {
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
    let (mut pairs, inside) = formulas(program, &uses, beside);
    for (outer, inst) in program.insts.iter().enumerate() {
        let outer = outer as ValueId;
        if pairs.contains_key(&outer) || inside.contains(&outer) {
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

fn ternary(inner: Binary, outer: Binary, left: bool) -> Option<TernaryFn> {
    macro_rules! of {
        ($inner:expr) => {
            match (outer, left) {
                (Binary::Add, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) + z),
                (Binary::Add, false) => |out, x| each(out, x, |x, y, z| z + $inner(x, y)),
                (Binary::Sub, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) - z),
                (Binary::Sub, false) => |out, x| each(out, x, |x, y, z| z - $inner(x, y)),
                (Binary::Mul, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) * z),
                (Binary::Mul, false) => |out, x| each(out, x, |x, y, z| z * $inner(x, y)),
                (Binary::Div, true) => |out, x| each(out, x, |x, y, z| $inner(x, y) / z),
                (Binary::Div, false) => |out, x| each(out, x, |x, y, z| z / $inner(x, y)),
                _ => return None,
            }
        };
    }
    Some(match inner {
        Binary::Add => of!(|x: f32, y: f32| x + y),
        Binary::Sub => of!(|x: f32, y: f32| x - y),
        Binary::Mul => of!(|x: f32, y: f32| x * y),
        _ => return None,
    })
}

fn choice(compare: Binary) -> Option<ChoiceFn> {
    Some(match compare {
        Binary::Lt => |out, x| choose(out, x, |x, y| x < y),
        Binary::Le => |out, x| choose(out, x, |x, y| x <= y),
        Binary::Eq => |out, x| choose(out, x, |x, y| x == y),
        Binary::Ne => |out, x| choose(out, x, |x, y| x != y),
        _ => return None,
    })
}

fn each(out: &mut [u32], operands: [&[u32]; 3], f: impl Fn(f32, f32, f32) -> f32) {
    struct Each<'a, F>(&'a mut [u32], [&'a [u32]; 3], F);
    impl<F: Fn(f32, f32, f32) -> f32> Loop for Each<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            let [x, y, z] = self.1;
            for (((out, &x), &y), &z) in self.0.iter_mut().zip(x).zip(y).zip(z) {
                *out = (self.2)(f32::from_bits(x), f32::from_bits(y), f32::from_bits(z)).to_bits();
            }
        }
    }
    simd::run(Each(out, operands, f));
}

fn choose(out: &mut [u32], operands: [&[u32]; 4], f: impl Fn(f32, f32) -> bool) {
    struct Choose<'a, F>(&'a mut [u32], [&'a [u32]; 4], F);
    impl<F: Fn(f32, f32) -> bool> Loop for Choose<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            let [x, y, a, b] = self.1;
            for ((((out, &x), &y), &a), &b) in self.0.iter_mut().zip(x).zip(y).zip(a).zip(b) {
                // By bits, as in `select`.
                let mask = u32::from((self.2)(f32::from_bits(x), f32::from_bits(y))).wrapping_neg();
                *out = a & mask | b & !mask;
            }
        }
    }
    simd::run(Choose(out, operands, f));
}
