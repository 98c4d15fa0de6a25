//! The types of a schedule, which is plain data.

use super::access::Traversal;
use super::vectors::{Vector, VECTOR};
use crate::kernel::{Convolution, Kernel, Matmul, Space, ValueId};

/// The schedule of a kernel.
///
/// ```
/// use warpweft::kernel::{Builder, Inst, Index, Kernel, Limits, KernelConfig, Space, Store};
/// use warpweft::dtype::DType;
/// use warpweft::schedule::{schedule, Strategy};
/// // y[i] = x[i], 4096 elements.
/// let (mut builder, index) = (Builder::default(), Index::coordinate(0));
/// let value = builder.push(Inst::Load { input: 0, index: index.clone(), dtype: DType::F32 });
/// builder.store(Store { output: 0, index, value, dtype: DType::F32 });
/// let space = Space { dims: vec![4096], outer: 1 };
/// let kernel = Kernel::Loop { space, program: builder.finish() };
/// let plan = schedule(&kernel, &Limits::WEBGPU, KernelConfig::GPU);
/// // A thread copies four elements, and 64 threads are a workgroup.
/// assert_eq!((plan.workgroup_size, plan.workgroups), (64, 16));
/// let Strategy::Map(map) = plan.strategy else { panic!() };
/// assert_eq!(map.vector.map(|vector| vector.axis), Some(0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The kernel that runs instead of the given one, such as a kernel without calls, or a loop instead of a product. See
    /// [`kernel`](Schedule::kernel).
    pub lowered: Option<Box<Kernel>>,
    /// The threads of a workgroup. It is 0 for a user's shader, whose text sets it.
    pub workgroup_size: usize,
    /// The workgroups of the grid, in one dimension.
    pub workgroups: u64,
    /// The work of the workgroups.
    pub strategy: Strategy,
}

/// The work of a kernel's workgroups.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// A thread for each element, or for each vector of four.
    Map(MapSchedule),
    /// A map whose workgroups transpose tiles in shared memory.
    Transpose(TransposeSchedule),
    /// Reductions and row programs, whose rows are distributed over threads.
    Rows(RowSchedule),
    /// A matrix product, or a convolution as one (implicit GEMM), in tiles. A packed matrix is the left operand, so the
    /// product is transposed.
    Product(ProductSchedule),
    /// A convolution whose threads walk through the windows of their results.
    Window(WindowSchedule),
    /// Attention in one pass over the keys.
    Attention(AttentionSchedule),
    /// A product with a packed matrix whose threads decode whole units of its rows.
    Packed(PackedSchedule),
    /// Sorting of rows by a routine of the backend. It has no WGSL.
    Order,
    /// A user's shader, unchanged.
    Shader,
}

impl Schedule {
    /// Returns the kernel that runs for `kernel`, which this schedule belongs to. It is `kernel` or its lowered form.
    pub fn kernel<'a>(&'a self, kernel: &'a Kernel) -> &'a Kernel {
        self.lowered.as_deref().unwrap_or(kernel)
    }
}

/// A thread for each element or vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSchedule {
    /// The vector along the last axis, if a thread computes four neighbors.
    pub vector: Option<Vector>,
}

/// Tiles of [`TRANSPOSE_TILE`] by [`TRANSPOSE_TILE`] elements, which are read along one axis and written along the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransposeSchedule {
    /// The axis along which the loads are contiguous.
    pub axis: usize,
    /// The axis along which the stores are contiguous.
    pub last: usize,
    /// The loads that are transposed.
    pub loads: Vec<ValueId>,
    /// The extents of the space, where those two axes are counted in tiles.
    pub tiles: Vec<usize>,
}

/// The elements along a side of a tile.
pub const TRANSPOSE_TILE: usize = 32;

/// The distribution of rows over threads. A workgroup has `rows * lanes` threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSchedule {
    /// The rows of a workgroup, or its vectors of four rows.
    pub rows: usize,
    /// The threads of a row, which combine their results in shared memory.
    pub lanes: usize,
    /// Whether neighboring threads have neighboring elements of a row, or neighboring rows.
    pub traversal: Traversal,
    /// The coordinate along which a thread computes four neighbors at a time, in one row or in four rows.
    pub vector: Option<Vector>,
    /// The steps of a thread along its row, if they are few enough to be unrolled.
    pub unrolled: Option<usize>,
    /// Whether the threads of a row reduce in their subgroups before they reduce in shared memory.
    pub subgroups: bool,
}

impl RowSchedule {
    /// Returns the rows and columns of a space. The axis of the vector is counted in vectors of four.
    pub fn extents(&self, space: &Space) -> (usize, usize) {
        let (rows, columns) = (space.rows(), space.columns());
        match &self.vector {
            Some(vector) if (vector.axis as usize) < space.outer => (rows / VECTOR, columns),
            Some(_) => (rows, columns / VECTOR),
            None => (rows, columns),
        }
    }
}

/// A matrix product in tiles or registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductSchedule {
    pub extents: ProductExtents,
    pub tile: ProductTile,
    /// Whether each operand is transposed in its tiles, because it is contiguous along its first axis.
    pub transposed: [bool; 2],
    /// The vectors of the left operand, the right operand and the results, if they are read and written four at a time.
    pub vectors: [Option<Vector>; 3],
}

/// The extents of a product. A convolution is a product for each group (implicit GEMM), of the weights `[out, channel ky kx]`
/// and the windows `[channel ky kx, batch y x]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductExtents {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// The tile of a product that a workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductTile {
    /// [`REGISTER_THREADS`] independent threads, each with [`REGISTER_COLUMNS`] columns of some rows in registers. If the
    /// operands are `exchanged`, rows and columns are, too.
    Registers { rows: usize, exchanged: bool },
    /// `threads` threads along rows and columns, each with 4 x 4 results. The operands are staged in shared memory.
    Shared { threads: [usize; 2] },
    /// 256 threads with 8 x 8 results each. The next tiles are loaded while the current ones are multiplied.
    SharedLarge,
    /// Cooperative matrices of [`MATRIX`](ProductTile::MATRIX) rows and columns, in four parts. Each part has `across` by
    /// `across` matrices.
    CooperativeMatrices { across: usize },
}

impl ProductTile {
    /// The rows and columns of a cooperative matrix.
    pub const MATRIX: usize = 8;

    /// Returns the rows and columns of a workgroup's results, or `None` if the results are in registers.
    pub fn size(self) -> Option<[usize; 2]> {
        match self {
            ProductTile::Registers { .. } => None,
            ProductTile::Shared { threads } => Some(threads.map(|threads| 4 * threads)),
            ProductTile::SharedLarge => Some([128; 2]),
            ProductTile::CooperativeMatrices { across } => Some([2 * across * Self::MATRIX; 2]),
        }
    }

    /// Returns the threads of a workgroup.
    pub fn workgroup_size(self) -> usize {
        match self {
            ProductTile::Registers { .. } => REGISTER_THREADS,
            ProductTile::Shared { threads: [rows, columns] } => rows * columns,
            ProductTile::SharedLarge => 256,
            ProductTile::CooperativeMatrices { .. } => 128,
        }
    }
}

/// The threads of a workgroup whose results are only in registers.
pub const REGISTER_THREADS: usize = 8;
/// The neighboring results of such a thread, along the columns of a product or the width of a convolution.
pub const REGISTER_COLUMNS: usize = 8;

/// A convolution whose threads compute neighbors of a row of the result, in some channels each, and walk through their
/// windows alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSchedule {
    /// The channels that a thread has results in.
    pub rows: usize,
    /// The neighbors along the width that a thread's results need. They are read once for each line of the window, which is
    /// unrolled.
    pub unrolled: Option<usize>,
}

/// The neighbors of a packed row that a thread decodes together.
pub const PACKED_UNIT: usize = 32;

/// A product with a packed matrix, which threads decode in units of [`PACKED_UNIT`] neighbors of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedSchedule {
    /// The rows of the other operand that a thread multiplies with each unit.
    pub rows: usize,
    /// The packed rows whose units a thread decodes. They are columns of the result.
    pub columns: usize,
    /// The threads that share the units of a packed row, and add their sums in shared memory. 1 if threads work alone.
    pub lanes: usize,
    /// The vector of the other operand, if it is read four at a time.
    pub vector: Option<Vector>,
}

impl ProductExtents {
    /// Returns the extents of a product.
    pub fn of_matmul(matmul: &Matmul) -> ProductExtents {
        let Matmul { m, n, k, .. } = *matmul;
        ProductExtents { batch: matmul.batch.iter().product(), m, n, k }
    }

    /// Returns the extents of a convolution.
    pub fn of_conv2d(conv: &Convolution) -> ProductExtents {
        let groups = conv.params.groups;
        ProductExtents {
            batch: groups,
            m: conv.out / groups,
            n: conv.batch * conv.out_height * conv.out_width,
            k: conv.channels / groups * conv.kernel[0] * conv.kernel[1],
        }
    }
}

/// Attention in one pass over the keys, with 256 threads in a workgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionSchedule {
    /// The queries of a workgroup. The heads that share a key head are consecutive rows.
    pub rows: usize,
    /// Whether queries, keys and values are exact as `f16`, so that matrices of `f16` can be multiplied.
    pub matrices: bool,
    /// The vectors of queries, keys, values and results, if they are read and written four at a time.
    pub vectors: [Option<Vector>; 4],
}
