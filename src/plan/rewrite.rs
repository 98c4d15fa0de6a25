//! Copies programs: without instructions that nothing uses, and with inputs and numbers renumbered.

use crate::dtype::DType;
use crate::kernel::{Builder, Inst, Kernel, Program, Store, ValueId};

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
    let live = program.live(values);
    let mut moved: Vec<ValueId> = Vec::with_capacity(program.insts.len());
    for (inst, live) in program.insts.iter().zip(live) {
        if !live {
            // Nothing asks where it went.
            moved.push(ValueId::MAX);
            continue;
        }
        let mut copy = inst.substitute(None, &moved);
        match &mut copy {
            Inst::Param { word, .. } => *word = param(*word),
            Inst::Load { input: n, .. } => *n = input(*n),
            Inst::Before { output, .. } => *output += first,
            _ => {}
        }
        moved.push(builder.push(copy));
    }
    for store in &program.stores {
        builder.store(Store {
            output: store.output + first,
            index: store.index.substitute(None, &moved),
            value: moved[store.value as usize],
            dtype: store.dtype,
        });
    }
    moved
}

/// Drops the inputs and numbers that no program of the kernel uses, as formulas may ignore an operand; numbers the
/// others anew.
pub fn compact(kernel: &mut Kernel, inputs: &mut Vec<usize>, params: &mut Vec<usize>) {
    let mut programs: Vec<_> = kernel.programs_mut().into_iter().map(|part| part.0).collect();
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
    let mut count = 0;
    for &used in &used[..n as usize] {
        count += u32::from(used);
    }
    count
}

fn keep(list: &mut Vec<usize>, used: &[bool]) {
    let mut kept = Vec::with_capacity(list.len());
    for (&number, &used) in list.iter().zip(used) {
        if used {
            kept.push(number);
        }
    }
    *list = kept;
}
