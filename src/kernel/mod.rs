//! Kernels, dispatches and plans: plain data that the planner writes and every backend executes.

mod calls;
mod check;
mod config;
mod index;
mod program;
mod work;

pub use check::Counts;
pub use config::{F16Matmul, KernelConfig, Rows, Tile, Transpose};
pub use index::{Atom, Index, ValueId};
pub use program::{Builder, Inst, Program, Store};
pub use work::Work;

use crate::dtype::DType;
use crate::op::{Conv2d, PackedArithmetic, PackedFormat, Shader};
use std::sync::Arc;

/// The coordinates that a loop kernel runs over. Each coordinate of `dims[..outer]` has a thread, or a workgroup per row.
/// `Reduce` runs over `dims[outer..]`.
///
/// A value that depends on an inner coordinate outside of `Reduce` is per element, and is stored at every inner coordinate. All
/// other values are stored once per row. Inner extents may be 0, and `Reduce` then returns its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Space {
    pub dims: Vec<usize>,
    pub outer: usize,
}

impl Space {
    /// Returns the number of outer coordinates.
    pub fn rows(&self) -> usize {
        self.dims[..self.outer].iter().product()
    }

    /// Returns the number of inner coordinates, or 1 if there are no inner dimensions.
    pub fn columns(&self) -> usize {
        self.dims[self.outer..].iter().product()
    }
}

/// An operand of a routine: a program over the operand's axes, and its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    pub program: Program,
    pub value: ValueId,
}

impl Operand {
    /// Returns the input and the index if the operand is a strided view. Numbers that the user passed may determine its start.
    pub fn view(&self) -> Option<(u32, &Index, DType)> {
        match self.program.insts.get(self.value as usize)? {
            Inst::Load { input, index, dtype } => {
                self.program.is_view(index).then_some((*input, index, *dtype))
            }
            _ => None,
        }
    }

    /// Whether elements that are adjacent along this coordinate are read from adjacent memory.
    pub fn is_contiguous_along(&self, axis: u32) -> bool {
        let insts = &self.program.insts;
        let live = self.program.live(&[self.value]);
        let mut depends: Vec<bool> = Vec::with_capacity(insts.len());
        for (i, inst) in insts.iter().enumerate() {
            if let (true, Inst::Load { index, .. }) = (live[i], inst) {
                let along = |&(atom, stride): &(Atom, i64)| match atom {
                    Atom::Coord(d) => d == axis && stride == 1,
                    Atom::Value(v) => depends[v as usize] && stride == 1,
                };
                if index.terms.iter().any(along) {
                    return true;
                }
            }
            let within = inst.operands().iter().any(|&v| depends[v as usize]);
            depends.push(within || *inst == Inst::Coord(axis));
        }
        false
    }
}

/// The work of a dispatch. Inputs and outputs are numbered as in the [`Dispatch`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// A map (no inner dimensions), a reduction, or a row program.
    Loop {
        space: Space,
        program: Program,
    },
    Matmul(Matmul),
    Conv2d(Convolution),
    Attention(Box<Attention>),
    PackedMatmul(PackedMatmul),
    Order(Order),
    /// A custom compute shader, with the number of workgroups along each dimension.
    Shader {
        shader: Arc<Shader>,
        workgroups: [u32; 3],
    },
}

/// A matrix product: `acc[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]`, in `f32`. The operands' coordinates
/// are `[batch.., m, k]` and `[batch.., k, n]`, and the epilogue's are `[batch.., m, n]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    pub batch: Vec<usize>,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Operand,
    pub b: Operand,
    pub epilogue: Program,
}

/// A product with a matrix in a packed format: `acc[m, n] = sum over k of x[m, k] * w[n, k]`, in `f32`. The coordinates of the
/// words of `w` are `[n, word of the row]`, and the epilogue's are `[m, n]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackedMatmul {
    pub format: PackedFormat,
    /// Whether `x` is rounded to 8-bit integers.
    pub arithmetic: PackedArithmetic,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub x: Operand,
    /// The words of the rows, as `u32`.
    pub w: Operand,
    pub epilogue: Program,
}

/// A 2-D convolution. The coordinates are `[batch, channel, y, x]` for x, `[out, channel in group, ky, kx]` for w, and `[batch,
/// out, y, x]` for the epilogue. Positions in the padding count as 0, and x is not read there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    pub params: Conv2d,
    pub batch: usize,
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub out: usize,
    pub kernel: [usize; 2],
    pub out_height: usize,
    pub out_width: usize,
    pub x: Operand,
    pub w: Operand,
    pub epilogue: Program,
}

/// Attention in one pass over the keys, with a running maximum and sum. Scores are not stored. The coordinates are `[batch,
/// head, query, d]` for q, `[batch, kv head, key, d]` for k and v, `[batch, head, query, key]` for the mask, and `[batch, head,
/// query, dv]` for the epilogue. A query whose keys are all masked by -Inf returns zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    pub causal: bool,
    pub window: Option<usize>,
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub head_size: usize,
    pub value_size: usize,
    pub q: Operand,
    pub k: Operand,
    pub v: Operand,
    pub mask: Option<Operand>,
    /// A rank-0 operand.
    pub scale: Operand,
    /// The number of keys that count, as a rank-0 `i32` operand. Without it all keys count.
    pub length: Option<Operand>,
    pub epilogue: Program,
}

/// A sort of rows. It computes the positions of each row's first `most` elements in order. The only input has the rows, `[rows,
/// count]`. The only output receives `[rows, most]` positions as `i32`. Equal elements, such as -0 and 0, keep their order, and
/// NaN comes last in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    pub rows: usize,
    pub count: usize,
    pub most: usize,
    pub descending: bool,
    pub dtype: DType,
}

/// A kernel with its slots. Inputs are only read. Outputs are written, and read by [`Inst::LoadOutput`]. No slot is both input
/// and output.
#[derive(Clone, Debug)]
pub struct Dispatch {
    pub kernel: Arc<Kernel>,
    /// The slot of each input, as numbered by `Inst::Load`.
    pub inputs: Vec<usize>,
    /// The slot of each output, as numbered by `Store`.
    pub outputs: Vec<usize>,
    /// The scalar of the plan that each params word holds.
    pub params: Vec<usize>,
    /// The operations that the kernel computes, for people: `matmul[8,4]x[4,2] + add + relu`.
    pub label: String,
}

/// The storage of a slot while a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotStorage {
    /// The n-th buffer passed in.
    Input(usize),
    /// The n-th result that is not updated in place.
    Output(usize),
    /// The n-th temporary. Values whose lifetimes do not overlap share one.
    Temporary(usize),
}

/// A buffer, as the kernels of a plan see it.
#[derive(Clone, Debug)]
pub struct Slot {
    pub storage: SlotStorage,
    pub bytes: u64,
    pub dtype: DType,
}

/// A planned computation: kernels in order, run as one submission.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub slots: Vec<Slot>,
    pub dispatches: Vec<Dispatch>,
    /// Bytes of each result that is not updated in place.
    pub outputs: Vec<u64>,
    /// The results that are updated in place, each with the input whose buffer it takes.
    pub in_place: Vec<(usize, usize)>,
    /// Bytes of each temporary.
    pub temporaries: Vec<u64>,
    /// The number of buffers passed in.
    pub inputs: usize,
    /// The number of scalars passed in: numbers of the app, followed by [`constants`](Plan::constants).
    pub scalars: usize,
    /// Numbers that are the same in each run, such as offsets of kernels that are otherwise equal.
    pub constants: Vec<u32>,
    /// The number of recorded operations that the plan computes, without data and numbers.
    pub operations: usize,
    /// The kernel configuration that the plan was made for.
    pub config: KernelConfig,
    /// A hash of the computation without its sizes, and of the configuration. The same program with inputs of other shapes has
    /// the same hash.
    pub structure: u64,
    /// The parts of the plan, if its first results are read while the rest is computed. Each part but the last ends when one
    /// more of these results is complete. Empty for other plans.
    pub parts: Vec<Arc<Plan>>,
}

impl Plan {
    /// Divides the plan into parts. Each part but the last ends when one more of the first `stages` results is complete.
    pub fn divide(&mut self, stages: usize) {
        let mut begin = 0;
        let mut ends: Vec<usize> = (0..stages).map(|n| self.complete_after(n)).collect();
        ends.push(self.dispatches.len());
        let whole = Plan { dispatches: Vec::new(), ..self.clone() };
        for end in ends {
            let end = end.max(begin);
            let dispatches = self.dispatches[begin..end].to_vec();
            self.parts.push(Arc::new(Plan { dispatches, ..whole.clone() }));
            begin = end;
        }
    }

    /// Returns the number of dispatches after which the n-th result is complete.
    fn complete_after(&self, n: usize) -> usize {
        let storage = self.storage_of_result(n);
        let writes = |&slot: &usize| self.slots[slot].storage == storage;
        let last = self.dispatches.iter().rposition(|dispatch| dispatch.outputs.iter().any(writes));
        last.map_or(0, |last| last + 1)
    }

    /// Returns the storage of the n-th result: of its own, or of the input that is updated in place.
    pub fn storage_of_result(&self, n: usize) -> SlotStorage {
        match self.in_place.iter().find(|&&(result, _)| result == n) {
            Some(&(_, input)) => SlotStorage::Input(input),
            None => {
                let before = self.in_place.iter().filter(|&&(result, _)| result < n).count();
                SlotStorage::Output(n - before)
            }
        }
    }

    /// Returns the approximate size in bytes, kernels included.
    pub fn size(&self) -> usize {
        let mut bytes = self.slots.len() * size_of::<Slot>();
        for dispatch in &self.dispatches {
            bytes += size_of::<Dispatch>() + dispatch.label.len() + dispatch.kernel.size();
        }
        for part in &self.parts {
            // The parts share the kernels.
            bytes += part.slots.len() * size_of::<Slot>();
        }
        bytes
    }
}

/// The limits and features of a device, as the planner needs them.
#[cfg_attr(feature = "js", warpweft_macros::js(result, name = "DeviceLimits"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most storage buffers of one kernel.
    pub buffers_per_kernel: usize,
    /// The most bytes of one buffer binding.
    pub binding_bytes: u64,
    /// The most workgroups along one dimension of a dispatch.
    pub workgroups: u32,
    /// The most threads in a workgroup.
    pub workgroup_size: u32,
    /// The most bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Whether buffers of `f16` can be used.
    pub f16: bool,
    /// Whether neighboring threads can exchange values ([`Rows::Subgroups`]).
    pub subgroups: bool,
    /// Whether subgroups multiply 8 x 8 matrices of `f16` into `f32` sums ([`F16Matmul::CooperativeMatrices`]).
    pub cooperative: bool,
    /// Whether one kernel sorts rows ([`Kernel::Order`]). Otherwise many kernels merge them.
    pub sorts: bool,
    /// Whether one kernel multiplies with packed matrices ([`Kernel::PackedMatmul`]). Otherwise ordinary operations unpack
    /// them.
    pub packed: bool,
    /// Whether packed products may round the other operand ([`PackedArithmetic::Int8`]). Otherwise they are exact.
    #[cfg_attr(feature = "js", js(skip))]
    pub int8: bool,
    /// Whether the device measures the time of its kernels (timestamp queries).
    pub timestamps: bool,
    /// The kernel variants that run where several do the same work.
    #[cfg_attr(feature = "js", js(skip))]
    pub config: KernelConfig,
}

impl Limits {
    /// The limits that every WebGPU device supports.
    pub const WEBGPU: Limits = Limits {
        buffers_per_kernel: 8,
        binding_bytes: 128 << 20,
        workgroups: 65535,
        workgroup_size: 256,
        workgroup_bytes: 16384,
        f16: false,
        subgroups: false,
        cooperative: false,
        sorts: false,
        packed: false,
        int8: false,
        timestamps: false,
        config: KernelConfig::GPU,
    };
}

impl Kernel {
    /// Returns the kind of the kernel, for output and counters.
    pub fn kind(&self) -> &'static str {
        match self {
            Kernel::Loop { space, .. } if space.outer == space.dims.len() => "map",
            Kernel::Loop { .. } => "row",
            Kernel::Matmul(_) => "matmul",
            Kernel::Conv2d(_) => "conv2d",
            Kernel::Attention(_) => "attention",
            Kernel::PackedMatmul(_) => "packed_matmul",
            Kernel::Order(_) => "order",
            Kernel::Shader { .. } => "shader",
        }
    }

    /// Returns the approximate bytes of the kernel.
    fn size(&self) -> usize {
        let operands = |all: &[&Operand]| all.iter().map(|o| o.program.size()).sum::<usize>();
        size_of::<Kernel>()
            + match self {
                Kernel::Loop { program, .. } => program.size(),
                Kernel::Matmul(it) => operands(&[&it.a, &it.b]) + it.epilogue.size(),
                Kernel::Conv2d(it) => operands(&[&it.x, &it.w]) + it.epilogue.size(),
                Kernel::Shader { shader, .. } => shader.source().len(),
                Kernel::Order(_) => 0,
                Kernel::PackedMatmul(it) => operands(&[&it.x, &it.w]) + it.epilogue.size(),
                Kernel::Attention(it) => operands(&[&it.q, &it.k, &it.v]) + it.epilogue.size(),
            }
    }
}
