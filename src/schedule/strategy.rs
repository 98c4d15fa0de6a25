//! What a schedule is: plain data.

use super::access::Traversal;
use super::vectors::{Vector, VECTOR};
use crate::kernel::{Convolution, Kernel, Matmul, Space, ValueId};

/// How a kernel is run.
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
    /// The kernel that is run in the place of the one that was asked for: without calls, or the loop that is better than a
    /// product or a convolution. See [`kernel`](Schedule::kernel).
    pub lowered: Option<Box<Kernel>>,
    /// Threads of a workgroup; 0 for a user's shader, whose text alone says it.
    pub workgroup_size: usize,
    /// Workgroups of the grid, in one dimension.
    pub workgroups: u64,
    /// What the workgroups do.
    pub strategy: Strategy,
}

/// What the workgroups of a kernel do.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// A thread per element, or per vector of four.
    Map(MapSchedule),
    /// A map whose workgroups transpose tiles in shared memory.
    Transpose(TransposeSchedule),
    /// Reductions and row programs: threads share out rows.
    Rows(RowSchedule),
    /// A matrix product, or a convolution as one (implicit GEMM), in tiles. A packed matrix is the left operand: the product
    /// is transposed.
    Product(ProductSchedule),
    /// A convolution whose threads go through the windows of their results.
    Window(WindowSchedule),
    /// Attention in one pass over the keys.
    Attention(AttentionSchedule),
    /// A product with a packed matrix whose threads decode whole units of its rows.
    Packed(PackedSchedule),
    /// Rows are sorted by a routine of the backend; there is no WGSL for it.
    Order,
    /// A user's shader, as it is written.
    Shader,
}

impl Schedule {
    /// What is run for `kernel`, which this is the schedule of: itself, or what it is lowered to.
    pub fn kernel<'a>(&'a self, kernel: &'a Kernel) -> &'a Kernel {
        self.lowered.as_deref().unwrap_or(kernel)
    }
}

/// A thread per element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSchedule {
    /// The last axis, where a thread computes four neighbours along it.
    pub vector: Option<Vector>,
}

/// Tiles of [`TRANSPOSE_TILE`] by as many elements are read along one axis and written along the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransposeSchedule {
    /// The axis along which the loads read neighbours.
    pub axis: usize,
    /// The axis along which the stores write them.
    pub last: usize,
    /// The loads that do.
    pub loads: Vec<ValueId>,
    /// The extents of the space, tiles counted along those two axes.
    pub tiles: Vec<usize>,
}

/// Elements along a side of a tile.
pub const TRANSPOSE_TILE: usize = 32;

/// How rows are spread over threads: a workgroup has `rows * lanes` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSchedule {
    /// Rows of a workgroup, or vectors of four rows.
    pub rows: usize,
    /// Threads of a row, which combine their results in shared memory.
    pub lanes: usize,
    /// Whether neighbouring threads have neighbouring elements of a row, or neighbouring rows.
    pub traversal: Traversal,
    /// The coordinate along which a thread computes four neighbours at a time: of one row, or of four rows.
    pub vector: Option<Vector>,
    /// The steps of a thread along its row, where they are few enough to be unrolled.
    pub unrolled: Option<usize>,
    /// Whether the threads of a row reduce in their subgroups before they do in shared memory.
    pub subgroups: bool,
}

impl RowSchedule {
    /// The rows and the columns of a space, those along the vector counted by fours.
    pub fn extents(&self, space: &Space) -> (usize, usize) {
        let (rows, columns) = (space.rows(), space.columns());
        match &self.vector {
            Some(vector) if (vector.axis as usize) < space.outer => (rows / VECTOR, columns),
            Some(_) => (rows, columns / VECTOR),
            None => (rows, columns),
        }
    }
}

/// A matrix product in tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductSchedule {
    pub extents: ProductExtents,
    pub tile: ProductTile,
    /// Whether each operand is transposed in its tiles: neighbours lie along its first axis.
    pub transposed: [bool; 2],
    /// How the left operand, the right one and the results are read and written four at a time, where they are.
    pub vectors: [Option<Vector>; 3],
}

/// What a product's extents are; a convolution's as one (implicit GEMM): per group the product of the weights
/// `[out, channel ky kx]` and the windows `[channel ky kx, batch y x]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductExtents {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// What a workgroup computes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductTile {
    /// [`REGISTER_THREADS`] threads, each with [`REGISTER_COLUMNS`] columns of some rows in registers; none meet. Where the
    /// operands are `exchanged`, rows and columns are, too.
    Registers { rows: usize, exchanged: bool },
    /// So many threads along rows and columns, each with 4 x 4 results; the operands are staged in shared memory.
    Shared { threads: [usize; 2] },
    /// 256 threads with 8 x 8 results each; the next tiles are loaded while these are multiplied.
    SharedLarge,
    /// Cooperative matrices of [`MATRIX`](ProductTile::MATRIX) rows and columns: four parts of so many of them each way.
    CooperativeMatrices { across: usize },
}

impl ProductTile {
    /// Rows and columns of a cooperative matrix.
    pub const MATRIX: usize = 8;

    /// Rows and columns of a workgroup's results, if it has such a tile.
    pub fn size(self) -> Option<[usize; 2]> {
        match self {
            ProductTile::Registers { .. } => None,
            ProductTile::Shared { threads } => Some(threads.map(|threads| 4 * threads)),
            ProductTile::SharedLarge => Some([128; 2]),
            ProductTile::CooperativeMatrices { across } => Some([2 * across * Self::MATRIX; 2]),
        }
    }

    /// Threads of a workgroup.
    pub fn workgroup_size(self) -> usize {
        match self {
            ProductTile::Registers { .. } => REGISTER_THREADS,
            ProductTile::Shared { threads: [rows, columns] } => rows * columns,
            ProductTile::SharedLarge => 256,
            ProductTile::CooperativeMatrices { .. } => 128,
        }
    }
}

/// Threads of a workgroup whose results are in registers alone.
pub const REGISTER_THREADS: usize = 8;
/// Neighbouring results of such a thread, along the columns of a product or the width of a convolution.
pub const REGISTER_COLUMNS: usize = 8;

/// A convolution whose threads have neighbours of a row of the result in some channels each, and go through their windows
/// by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSchedule {
    /// Channels that a thread has results in.
    pub rows: usize,
    /// How many neighbours along the width a thread's results need, where these are read once for each line of the window,
    /// which is unrolled.
    pub unrolled: Option<usize>,
}

/// Neighbours of a packed row that a thread decodes together.
pub const PACKED_UNIT: usize = 32;

/// A product with a packed matrix, which threads decode in units of [`PACKED_UNIT`] neighbours of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedSchedule {
    /// Rows of the other operand that a thread multiplies with each unit.
    pub rows: usize,
    /// Packed rows, which are the result's columns, whose units a thread decodes.
    pub columns: usize,
    /// Threads that share the units of a packed row, and add their sums in shared memory; 1 where threads work alone.
    pub lanes: usize,
    /// How the other operand is read four at a time, if it is.
    pub vector: Option<Vector>,
}

impl ProductExtents {
    /// Those of a product.
    pub fn of_matmul(matmul: &Matmul) -> ProductExtents {
        let Matmul { m, n, k, .. } = *matmul;
        ProductExtents { batch: matmul.batch.iter().product(), m, n, k }
    }

    /// Those of a convolution.
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

/// Attention in one pass over the keys, 256 threads in a workgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionSchedule {
    /// Queries of a workgroup, those of all heads that share a key head being rows one after the other.
    pub rows: usize,
    /// How queries, keys, values and results are read and written four at a time, where they are.
    pub vectors: [Option<Vector>; 4],
}
