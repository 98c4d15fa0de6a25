//! Instructions that are done along with the one that uses their result, so that it needs no block of its own: sums,
//! differences and products of each other, quotients of them, and choices by comparing.

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

/// Two instructions as one. It uses what the inner one uses, and then what the outer one uses beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub inner: ValueId,
    pub function: Function,
}

/// See [`Pair`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Ternary(TernaryFn),
    Choice(ChoiceFn),
}

/// The instructions that are done along with an inner one. Each rounds as it would alone.
pub(super) fn pairs(program: &Program, levels: &[Level]) -> HashMap<ValueId, Pair> {
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
    let mut pairs: HashMap<ValueId, Pair> = HashMap::new();
    for (outer, inst) in program.insts.iter().enumerate() {
        let together = |inner: ValueId| {
            let at = inner as usize;
            let beside = levels[at] == levels[outer] && stages[at] == stages[outer];
            (beside && uses[at] == 1 && !pairs.contains_key(&inner)).then_some(())?;
            let Inst::Binary(op, x, _) = program.insts[at] else { return None };
            (program.types[x as usize].compute() == DType::F32).then_some(())?;
            let function = match *inst {
                Inst::Binary(outer, left, _) => {
                    Function::Ternary(ternary(op, outer, left == inner)?)
                }
                Inst::Select(condition, ..) if condition == inner => Function::Choice(choice(op)?),
                _ => return None,
            };
            Some(Pair { inner, function })
        };
        if let Some(pair) = inst.operands().into_iter().find_map(together) {
            pairs.insert(outer as ValueId, pair);
        }
    }
    pairs
}

impl Pair {
    /// What it uses, where `program` has the outer instruction `value`.
    pub fn operands(&self, program: &Program, value: ValueId) -> Vec<ValueId> {
        let mut operands = program.insts[self.inner as usize].operands();
        let beside = program.insts[value as usize].operands();
        operands.extend(beside.into_iter().filter(|&v| v != self.inner));
        operands
    }
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
