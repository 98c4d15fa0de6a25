//! The work of a dispatch: bytes read and written, and floating-point operations.

use super::{Atom, Index};
use super::{Dispatch, Inst, Kernel, Operand, Program, Slot};
use crate::dtype::DType;
use crate::sorted;

/// The work of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The number of floating-point operations. A multiply-add of a product counts as two, and an arithmetic instruction of a
    /// loop as one, whatever it costs. For example, an exponential counts as one.
    pub flops: u64,
    /// The bytes read. Each byte counts once, however often it is read.
    pub read: u64,
    /// The bytes written.
    pub written: u64,
    /// Whether the byte counts are exact. Otherwise they are upper bounds, because data or conditions decide what is read, or
    /// parts of an operand may be read twice.
    pub exact: bool,
}

impl Work {
    /// Returns the bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read + self.written
    }
}

fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64))
}

impl Kernel {
    /// Returns the floating-point operations, as [`Work::flops`] counts them.
    pub fn flops(&self) -> u64 {
        let mut flops = match self {
            // The work of a custom shader is unknown.
            Kernel::Loop { .. } | Kernel::Shader { .. } | Kernel::Order(_) => 0,
            Kernel::Matmul(m) => product(&m.batch).saturating_mul(product(&[2, m.m, m.n, m.k])),
            Kernel::PackedMatmul(p) => product(&[2, p.m, p.n, p.k]),
            Kernel::Conv2d(c) => {
                let window = product(&[2, c.channels / c.params.groups, c.kernel[0], c.kernel[1]]);
                window.saturating_mul(product(&[c.batch, c.out, c.out_height, c.out_width]))
            }
            Kernel::Attention(a) => {
                let scores = product(&[2, a.batch, a.heads, a.queries, a.keys]);
                scores.saturating_mul((a.head_size + a.value_size) as u64)
            }
        };
        self.inlined(&|_| false).each_program(&mut |program, dims, outer| {
            flops = flops.saturating_add(arithmetic(program, dims, outer));
        });
        flops
    }

    /// Calls `each` with each program, the extents of its coordinates, and the number of outer ones.
    fn each_program(&self, each: &mut dyn FnMut(&Program, &[usize], usize)) {
        let mut all = |program: &Program, dims: &[&[usize]]| {
            let dims = dims.concat();
            each(program, &dims, dims.len());
        };
        let mut of = |operand: &Operand, dims: &[&[usize]]| all(&operand.program, dims);
        match self {
            Kernel::Shader { .. } | Kernel::Order(_) => {}
            Kernel::Loop { space, program } => each(program, &space.dims, space.outer),
            Kernel::Matmul(m) => {
                of(&m.a, &[&m.batch, &[m.m, m.k]]);
                of(&m.b, &[&m.batch, &[m.k, m.n]]);
                all(&m.epilogue, &[&m.batch, &[m.m, m.n]]);
            }
            Kernel::Conv2d(c) => {
                of(&c.x, &[&[c.batch, c.channels, c.height, c.width]]);
                of(&c.w, &[&[c.out, c.channels / c.params.groups], &c.kernel]);
                all(&c.epilogue, &[&[c.batch, c.out, c.out_height, c.out_width]]);
            }
            Kernel::PackedMatmul(p) => {
                of(&p.x, &[&[p.m, p.k]]);
                of(&p.w, &[&[p.n, p.format.row_words(p.k)]]);
                all(&p.epilogue, &[&[p.m, p.n]]);
            }
            Kernel::Attention(a) => {
                of(&a.q, &[&[a.batch, a.heads, a.queries, a.head_size]]);
                of(&a.k, &[&[a.batch, a.kv_heads, a.keys, a.head_size]]);
                of(&a.v, &[&[a.batch, a.kv_heads, a.keys, a.value_size]]);
                if let Some(mask) = &a.mask {
                    of(mask, &[&[a.batch, a.heads, a.queries, a.keys]]);
                }
                of(&a.scale, &[]);
                if let Some(length) = &a.length {
                    of(length, &[]);
                }
                all(&a.epilogue, &[&[a.batch, a.heads, a.queries, a.value_size]]);
            }
        }
    }
}

/// Counts the float arithmetic of a program: each instruction at each coordinate, or once per row.
fn arithmetic(program: &Program, dims: &[usize], outer: usize) -> u64 {
    let (all, rows) = (product(dims), product(&dims[..outer]));
    let inner = program.per_element(outer);
    let mut flops = 0u64;
    for (at, inst) in program.insts.iter().enumerate() {
        let (of, often) = match inst {
            Inst::Unary(_, x) | Inst::Binary(_, x, _) => (*x, if inner[at] { all } else { rows }),
            Inst::Reduce(_, x) => (*x, all),
            // The cost of a called function is unknown.
            Inst::Call(..) => (at as u32, if inner[at] { all } else { rows }),
            _ => continue,
        };
        if program.types[of as usize].is_float() {
            flops = flops.saturating_add(often);
        }
    }
    flops
}

/// The elements of one buffer that a load or store accesses.
struct Access<'a> {
    index: &'a Index,
    dtype: DType,
    /// The most elements.
    count: u64,
    /// Whether exactly that many elements are accessed, each once.
    exact: bool,
}

/// Returns a bit mask of the coordinates that each value depends on.
fn coordinates(program: &Program, outer: usize) -> Vec<u64> {
    let mut masks: Vec<u64> = Vec::with_capacity(program.insts.len());
    for inst in &program.insts {
        let mask = match inst {
            Inst::Coord(d) => 1u64 << d,
            Inst::Load { index, .. } => of_index(index, &masks),
            Inst::LoadOutput { output, .. } => {
                program.store_to(*output).map_or(0, |(_, store)| of_index(&store.index, &masks))
            }
            Inst::Reduce(_, x) => masks[*x as usize] & ((1u64 << outer) - 1),
            other => other.operands().iter().fold(0, |mask, &v| mask | masks[v as usize]),
        };
        masks.push(mask);
    }
    masks
}

fn of_index(index: &Index, masks: &[u64]) -> u64 {
    index.terms.iter().fold(0, |mask, (atom, _)| match atom {
        Atom::Coord(d) => mask | 1 << d,
        Atom::Value(v) => mask | masks[*v as usize],
    })
}

/// Whether different coordinates have different positions. Examines only the strides.
fn injective(index: &Index, dims: &[usize]) -> bool {
    let mut terms = Vec::with_capacity(index.terms.len());
    for &(atom, stride) in &index.terms {
        if let Atom::Coord(d) = atom {
            terms.push((stride.unsigned_abs(), dims[d as usize] as u64));
        }
    }
    sorted::sort(&mut terms);
    let mut reach = 0u64;
    for (stride, extent) in terms {
        if stride <= reach {
            return false;
        }
        reach = reach.saturating_add(stride.saturating_mul(extent.saturating_sub(1)));
    }
    true
}

fn access<'a>(
    (program, dims): (&Program, &[usize]),
    (index, dtype): (&'a Index, DType),
    mask: u64,
) -> Access<'a> {
    let inside = |&d: &usize| mask >> d & 1 == 1;
    let count = product(&(0..dims.len()).filter(inside).map(|d| dims[d]).collect::<Vec<_>>());
    Access { index, dtype, count, exact: program.is_view(index) && injective(index, dims) }
}

/// Returns the bytes of one buffer that are accessed, and whether the count is exact.
fn bytes(all: &[Access<'_>], most: u64) -> (u64, bool) {
    let (mut bytes, mut exact) = (0u64, true);
    for (n, access) in all.iter().enumerate() {
        if all[..n].iter().any(|before| before.index == access.index) {
            continue;
        }
        bytes = bytes.saturating_add(access.count.saturating_mul(access.dtype.size() as u64));
        // Two indices may overlap.
        exact &= access.exact && n == 0;
    }
    // A slot is a few bytes larger than its contents.
    (bytes.min(most), exact && bytes <= most)
}

impl Dispatch {
    /// Returns the work of the dispatch. `slots` are the slots of its plan.
    pub fn work(&self, slots: &[Slot]) -> Work {
        let size = |slot: &usize| slots.get(*slot).map_or(0, |slot| slot.bytes);
        let mut work = Work { flops: self.kernel.flops(), exact: true, ..Work::default() };
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        let mut sums = [vec![(0u64, true); inputs + outputs], vec![(0, true); outputs]];
        let mut add = |way: usize, at: usize, all: &[Access<'_>], most: u64| {
            let Some(sum) = sums[way].get_mut(at) else { return };
            let (bytes, exact) = bytes(all, most);
            // Several programs of a routine may read one buffer.
            sum.1 &= exact && (bytes == 0 || sum.0 == 0);
            sum.0 = (sum.0 + bytes).min(most);
        };
        let kernel = self.kernel.inlined(&|_| false);
        if let Kernel::Shader { .. } | Kernel::Order(_) = *kernel {
            let all = |slots: &[usize]| slots.iter().map(size).sum();
            let (read, written) = (all(&self.inputs), all(&self.outputs));
            let exact = matches!(*kernel, Kernel::Order(_));
            return Work { read, written, exact, ..work };
        }
        kernel.each_program(&mut |program, dims, outer| {
            let (masks, live) = (coordinates(program, outer), program.live(&[]));
            // The program of an operand stores nothing. All of its instructions are for its value.
            let live = |at: usize| program.stores.is_empty() || live[at];
            for (n, slot) in self.inputs.iter().enumerate() {
                let loads = program.insts.iter().enumerate().filter_map(|(at, inst)| match inst {
                    Inst::Load { input, index, dtype } if *input as usize == n && live(at) => {
                        Some(access((program, dims), (index, *dtype), masks[at]))
                    }
                    _ => None,
                });
                add(0, n, &loads.collect::<Vec<_>>(), size(slot));
            }
            let inner = program.per_element(outer);
            for (n, slot) in self.outputs.iter().enumerate() {
                let stores = program.stores.iter().filter(|store| store.output as usize == n);
                let stores = stores.map(|store| {
                    let mut mask = of_index(&store.index, &masks);
                    if !inner[store.value as usize] && !store.index.varies(outer, &inner) {
                        mask &= (1u64 << outer) - 1;
                    }
                    access((program, dims), (&store.index, store.dtype), mask)
                });
                let stores = stores.collect::<Vec<_>>();
                add(1, n, &stores, size(slot));
                let before = |inst: &Inst| matches!(inst, Inst::LoadOutput { output, .. } if *output as usize == n);
                if program.insts.iter().any(before) {
                    add(0, inputs + n, &stores, size(slot));
                }
            }
        });
        let total = |sums: &[(u64, bool)]| sums.iter().fold(0, |sum, (bytes, _)| sum + bytes);
        (work.read, work.written) = (total(&sums[0]), total(&sums[1]));
        work.exact = sums.iter().flatten().all(|(_, exact)| *exact);
        work
    }
}
