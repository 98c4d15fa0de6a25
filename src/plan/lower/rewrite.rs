//! Rewriting of programs: removes unused instructions, and renumbers inputs, params and outputs.

use crate::dtype::DType;
use crate::kernel::{Builder, Index, Inst, Kernel, Program, Store, ValueId};

/// Removes unused instructions. A cast to `f16` is also removed if the store rounds anyway.
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
    append(&mut builder, &program, &[], Remap::default());
    builder.finish()
}

/// Returns the instructions that `value` needs, from a program without stores, and the new number of the value.
pub fn prune_to(program: &Program, value: ValueId) -> (Program, ValueId) {
    let mut builder = Builder::default();
    let moved = append(&mut builder, program, &[value], Remap::default());
    (builder.finish(), moved[value as usize])
}

/// The renaming of a program's inputs, params, outputs and coordinates when it is appended. The default changes nothing.
pub struct Remap<'a> {
    /// The coordinates of the program's space in terms of another space.
    pub coordinates: Option<&'a [Index]>,
    pub input: &'a dyn Fn(u32) -> u32,
    pub param: &'a dyn Fn(u32) -> u32,
    pub output: &'a dyn Fn(u32) -> u32,
    /// Loads that are replaced by values: the input, the index, and the value.
    pub in_registers: &'a [(u32, Index, ValueId)],
}

impl Default for Remap<'_> {
    fn default() -> Self {
        Remap { coordinates: None, input: &|i| i, param: &|p| p, output: &|o| o, in_registers: &[] }
    }
}

/// Appends the stores of a program, and the instructions that they and `values` need. Returns the new number of each needed
/// value.
pub fn append(
    builder: &mut Builder,
    program: &Program,
    values: &[ValueId],
    names: Remap<'_>,
) -> Vec<ValueId> {
    let live = program.live(values);
    let mut moved: Vec<ValueId> = Vec::with_capacity(program.insts.len());
    for (inst, live) in program.insts.iter().zip(live) {
        if !live {
            // No needed instruction uses this value.
            moved.push(ValueId::MAX);
            continue;
        }
        let mut copy = inst.substitute(names.coordinates, &moved);
        match &mut copy {
            Inst::Param { word, .. } => *word = (names.param)(*word),
            Inst::LoadOutput { output, .. } => *output = (names.output)(*output),
            Inst::Load { input, index, dtype } => {
                let known =
                    names.in_registers.iter().find(|known| known.0 == *input && known.1 == *index);
                if let Some(&(_, _, value)) = known {
                    // Rounds as a store and a load would.
                    let same = dtype.compute() == *dtype;
                    moved.push(if same { value } else { builder.push(Inst::Cast(*dtype, value)) });
                    continue;
                }
                *input = (names.input)(*input);
            }
            Inst::Coord(d) => {
                if let Some(coordinates) = names.coordinates {
                    moved.push(builder.index(&coordinates[*d as usize]));
                    continue;
                }
            }
            _ => {}
        }
        moved.push(builder.push(copy));
    }
    for store in &program.stores {
        builder.store(Store {
            output: (names.output)(store.output),
            index: store.index.substitute(names.coordinates, &moved),
            value: moved[store.value as usize],
            dtype: store.dtype,
        });
    }
    moved
}

/// Removes the inputs and params that no program of the kernel uses, and renumbers the others. A formula may ignore an operand.
pub fn compact<P: Copy>(kernel: &mut Kernel, inputs: &mut Vec<usize>, params: &mut Vec<P>) {
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

/// Counts the used entries before the n-th.
fn before(used: &[bool], n: u32) -> u32 {
    let mut count = 0;
    for &used in &used[..n as usize] {
        count += u32::from(used);
    }
    count
}

fn keep<T: Copy>(list: &mut Vec<T>, used: &[bool]) {
    let mut kept = Vec::with_capacity(list.len());
    for (&entry, &used) in list.iter().zip(used) {
        if used {
            kept.push(entry);
        }
    }
    *list = kept;
}
