//! Copies programs: without instructions that nothing uses, and with inputs and numbers renumbered.

use crate::dtype::DType;
use crate::kernel::{Atom, Builder, Index, Inst, Kernel, Program, Store, ValueId};

/// For each instruction, whether a store or one of `values` needs it.
pub fn live(program: &Program, values: &[ValueId]) -> Vec<bool> {
    let mut live = vec![false; program.insts.len()];
    let mark = |live: &mut [bool], v: ValueId| live[v as usize] = true;
    values.iter().for_each(|&v| mark(&mut live, v));
    for store in &program.stores {
        mark(&mut live, store.value);
        atoms(&store.index).for_each(|v| mark(&mut live, v));
    }
    for (at, inst) in program.insts.iter().enumerate().rev() {
        if live[at] {
            inst.operands().for_each(|v| mark(&mut live, v));
        }
    }
    live
}

fn atoms(index: &Index) -> impl Iterator<Item = ValueId> + '_ {
    index.terms.iter().filter_map(|(atom, _)| match atom {
        Atom::Value(v) => Some(*v),
        Atom::Coord(_) => None,
    })
}

/// The program without what nothing uses, rounding to `f16` where it is stored so anyway included.
pub fn prune(mut program: Program) -> Program {
    for store in &mut program.stores {
        match program.insts[store.value as usize] {
            Inst::Cast(DType::F16, x)
                if store.dtype == DType::F16 && program.types[x as usize] == DType::F32 =>
            {
                store.value = x;
            }
            _ => {}
        }
    }
    let mut builder = Builder::default();
    append(&mut builder, &program, &[], &|i| i, &|p| p, 0);
    builder.finish()
}

/// What `value` needs of a program without stores, and the value's new number.
pub fn prune_to(program: &Program, value: ValueId) -> (Program, ValueId) {
    let mut builder = Builder::default();
    let moved = append(&mut builder, program, &[value], &|i| i, &|p| p, 0);
    (builder.finish(), moved[value as usize])
}

/// Appends the stores of a program, with outputs counted from `first`, and what they and `values` need; inputs and
/// params are renumbered. Says where each value went that was needed.
pub fn append(
    builder: &mut Builder,
    program: &Program,
    values: &[ValueId],
    input: &dyn Fn(u32) -> u32,
    param: &dyn Fn(u32) -> u32,
    first: u32,
) -> Vec<ValueId> {
    let live = live(program, values);
    let mut moved: Vec<ValueId> = Vec::with_capacity(program.insts.len());
    for (inst, live) in program.insts.iter().zip(live) {
        let value = |v: &ValueId| moved[*v as usize];
        let copy = match inst {
            _ if !live => {
                // Nothing asks where it went.
                moved.push(ValueId::MAX);
                continue;
            }
            Inst::Const(_) | Inst::Coord(_) | Inst::Accumulator => inst.clone(),
            Inst::Param { word, dtype } => Inst::Param { word: param(*word), dtype: *dtype },
            Inst::Load { input: n, index, dtype } => {
                Inst::Load { input: input(*n), index: renumber(index, &moved), dtype: *dtype }
            }
            Inst::Unary(op, x) => Inst::Unary(*op, value(x)),
            Inst::Binary(op, x, y) => Inst::Binary(*op, value(x), value(y)),
            Inst::Select(c, x, y) => Inst::Select(value(c), value(x), value(y)),
            Inst::Cast(to, x) => Inst::Cast(*to, value(x)),
            Inst::Reduce(op, x) => Inst::Reduce(*op, value(x)),
        };
        moved.push(builder.push(copy));
    }
    for store in &program.stores {
        builder.store(Store {
            output: store.output + first,
            index: renumber(&store.index, &moved),
            value: moved[store.value as usize],
            dtype: store.dtype,
        });
    }
    moved
}

fn renumber(index: &Index, moved: &[ValueId]) -> Index {
    let terms = index.terms.iter().map(|&(atom, stride)| match atom {
        Atom::Coord(_) => (atom, stride),
        Atom::Value(v) => (Atom::Value(moved[v as usize]), stride),
    });
    let mut terms: Vec<(Atom, i64)> = terms.collect();
    terms.sort_unstable();
    Index { offset: index.offset, terms }
}

/// Drops the inputs and numbers that no program of the kernel uses, as formulas may ignore an operand; numbers the
/// others anew.
pub fn compact(kernel: &mut Kernel, inputs: &mut Vec<usize>, params: &mut Vec<usize>) {
    let mut programs = programs(kernel);
    let (mut loads, mut words) = (vec![false; inputs.len()], vec![false; params.len()]);
    for inst in programs.iter().flat_map(|p| &p.insts) {
        match inst {
            Inst::Load { input, .. } => loads[*input as usize] = true,
            Inst::Param { word, .. } => words[*word as usize] = true,
            _ => {}
        }
    }
    for inst in programs.iter_mut().flat_map(|p| &mut p.insts) {
        match inst {
            Inst::Load { input, .. } => *input = before(&loads, *input),
            Inst::Param { word, .. } => *word = before(&words, *word),
            _ => {}
        }
    }
    keep(inputs, &loads);
    keep(params, &words);
}

/// How many of those before the n-th are used.
fn before(used: &[bool], n: u32) -> u32 {
    used[..n as usize].iter().filter(|used| **used).count() as u32
}

fn keep(list: &mut Vec<usize>, used: &[bool]) {
    let mut used = used.iter();
    list.retain(|_| used.next() == Some(&true));
}

/// Every program of a kernel.
fn programs(kernel: &mut Kernel) -> Vec<&mut Program> {
    match kernel {
        Kernel::Loop { program, .. } => vec![program],
        Kernel::Matmul(m) => vec![&mut m.a.program, &mut m.b.program, &mut m.epilogue],
        Kernel::Conv2d(c) => vec![&mut c.x.program, &mut c.w.program, &mut c.epilogue],
        Kernel::Attention(a) => {
            let mask = a.mask.as_mut().map(|mask| &mut mask.program);
            let operands = [&mut a.q, &mut a.k, &mut a.v, &mut a.scale];
            let operands = operands.into_iter().map(|operand| &mut operand.program);
            operands.chain(mask).chain([&mut a.epilogue]).collect()
        }
    }
}
