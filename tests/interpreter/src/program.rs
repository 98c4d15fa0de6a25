//! The decoded program. Operands are indices of registers or constants, and labels are instruction numbers.

use crate::float::{Bound, Format};
use crate::types::{Space, Type};
use std::collections::HashMap;

/// The number of threads of a warp.
pub const WARP: usize = 32;
/// The values of a register in all lanes of a warp. Narrow values are zero-extended.
pub type Lanes = [u64; WARP];
/// An operand with this bit is a constant, and a register otherwise.
pub const CONSTANT: u32 = 1 << 31;
/// The destination `_`.
pub const SINK: u32 = u32::MAX;

/// A function of up to four operands, in all lanes.
pub type Compute = Box<dyn Fn([&Lanes; 4], &mut Lanes) + Send + Sync>;
/// A function of up to four operands with two results, in all lanes.
pub type ComputeTwo = Box<dyn Fn([&Lanes; 4], &mut Lanes, &mut Lanes) + Send + Sync>;

/// A predicate and whether it is negated.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub register: u32,
    pub negated: bool,
}

/// A decoded instruction.
pub struct Instruction {
    pub op: Op,
    pub guard: Option<Guard>,
    pub destinations: Vec<u32>,
    pub sources: Vec<u32>,
    pub line: u32,
    /// Byte range in the text.
    pub text: (usize, usize),
    /// Index of the opcode in `Program::opcodes`.
    pub opcode: u32,
}

/// A memory access without its address register.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub space: Space,
    pub offset: i64,
    /// The size of an element in bytes.
    pub bytes: usize,
    pub count: usize,
    pub is_signed: bool,
    /// Volatile, relaxed, acquire and release accesses do not race with each other.
    pub is_strong: bool,
    /// Loads with `.nc`, whose memory must not be written in the launch.
    pub is_constant: bool,
}

/// Atomic read-modify-write operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// The modes of `shfl.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// The modes of `vote.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// The results of `barrier.red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierReduction {
    Count,
    And,
    Or,
}

/// The element types of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Float(Format),
    Signed(u32),
    Unsigned(u32),
}

impl Element {
    /// The width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Float(format) => format.bits(),
            Self::Signed(bits) | Self::Unsigned(bits) => bits,
        }
    }
}

/// A product of matrix fragments. `D = A B + C`.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Element,
    pub b: Element,
    pub c: Element,
    pub d: Element,
    pub saturates: bool,
    /// The numbers of registers of A, B and C.
    pub registers: [usize; 3],
}

/// A source or destination of a call.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// An offset in the call parameters of the thread, and a size.
    Memory(u64, usize),
    Register(u32),
}

/// A call of a device function.
#[derive(Clone, Debug, Default)]
pub struct Call {
    pub function: usize,
    /// Copies before the call, as (from, to).
    pub arguments: Vec<(Place, Place)>,
    /// Copies after the return.
    pub results: Vec<(Place, Place)>,
}

/// A function of approximate instructions, with one or two operands.
pub type Approximation = fn(f64, f64) -> f64;

/// The operation of an instruction.
pub enum Op {
    Compute(Compute),
    ComputeTwo(ComputeTwo),
    Approximate {
        function: Approximation,
        bound: Bound,
        format: Format,
        is_packed: bool,
        ftz: bool,
    },
    /// Copies sources to destinations. Undefined values stay undefined.
    Move,
    /// `selp`: sources a, b and the predicate.
    Select,
    /// Splits a source into parts of this width.
    Unpack(u32),
    Load(Access),
    Store(Access),
    Atomic {
        operation: Atomic,
        ty: Type,
        access: Access,
    },
    CopyAsync {
        size: usize,
        destination: i64,
        source: i64,
        has_source_size: bool,
    },
    CommitGroup,
    /// Waits until at most this number of groups is pending. `None` also waits for uncommitted copies.
    WaitGroup(Option<u32>),
    Branch(u32),
    BranchIndex(Vec<u32>),
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    /// Sources: barrier number, thread count if any, predicate of a reduction if any.
    Barrier {
        arrives_only: bool,
        is_aligned: bool,
        has_count: bool,
        reduction: Option<BarrierReduction>,
        negated: bool,
    },
    WarpBarrier,
    Shuffle(Shuffle),
    /// The predicate and the mask of members.
    Vote {
        vote: Vote,
        negated: bool,
    },
    Match {
        is_all: bool,
    },
    Reduce {
        operation: Atomic,
        is_signed: bool,
    },
    ActiveMask,
    ElectOne,
    Product(Box<Product>),
    LoadMatrix {
        count: usize,
        is_transposed: bool,
        offset: i64,
        space: Space,
    },
    StoreMatrix {
        count: usize,
        is_transposed: bool,
        offset: i64,
        space: Space,
    },
    /// Fences, prefetches and hints.
    Nothing,
}

/// A variable of a state space with its place.
#[derive(Clone, Debug)]
pub struct Placement {
    pub name: String,
    /// The address in its space. Zero for global variables, which are allocated at the launch.
    pub address: u64,
    pub size: usize,
    pub align: usize,
    /// Initial bytes, or empty.
    pub bytes: Vec<u8>,
    /// Addresses in the initial bytes: position, name of the variable, offset.
    pub pointers: Vec<(usize, String, i64)>,
}

/// The variables of a state space.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pub variables: Vec<Placement>,
    /// The end of the last variable.
    pub end: u64,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub function: usize,
    /// Offset and size of each parameter.
    pub parameters: Vec<(u64, usize)>,
    pub required_block: Option<[u32; 3]>,
    pub max_block: Option<[u32; 3]>,
}

/// A decoded module.
#[derive(Default)]
pub struct Program {
    pub text: String,
    pub instructions: Vec<Instruction>,
    pub opcodes: Vec<String>,
    /// The first instruction of each function.
    pub entries: Vec<u32>,
    pub kernels: Vec<Kernel>,
    /// The width of each register in bits.
    pub widths: Vec<u32>,
    /// The names of registers.
    pub names: Vec<String>,
    pub constants: Vec<u64>,
    /// Constants that hold the address of a global variable: constant, variable, offset.
    pub relocations: Vec<(u32, usize, i64)>,
    pub globals: Vec<Placement>,
    pub shared: Layout,
    pub local: Layout,
    pub constant: Layout,
    pub call: Layout,
    /// The address of `extern .shared` arrays, and whether there are any.
    pub dynamic_shared: u64,
    pub has_dynamic_shared: bool,
    pub version: String,
    pub target: String,
}

/// The special registers, in the order of their register numbers.
pub const SPECIAL_REGISTERS: &[(&str, u32)] = &[
    ("%tid.x", 32),
    ("%tid.y", 32),
    ("%tid.z", 32),
    ("%ntid.x", 32),
    ("%ntid.y", 32),
    ("%ntid.z", 32),
    ("%ctaid.x", 32),
    ("%ctaid.y", 32),
    ("%ctaid.z", 32),
    ("%nctaid.x", 32),
    ("%nctaid.y", 32),
    ("%nctaid.z", 32),
    ("%laneid", 32),
    ("%warpid", 32),
    ("%nwarpid", 32),
    ("%lanemask_eq", 32),
    ("%lanemask_le", 32),
    ("%lanemask_lt", 32),
    ("%lanemask_ge", 32),
    ("%lanemask_gt", 32),
    ("%dynamic_smem_size", 32),
    ("%smid", 32),
    ("%nsmid", 32),
    ("%clock", 32),
    ("%clock_hi", 32),
    ("%clock64", 64),
    ("%globaltimer", 64),
    ("%gridid", 64),
    ("%tid.w", 32),
    ("%ctaid.w", 32),
    ("WARP_SZ", 32),
    ("%total_smem_size", 32),
];

/// The register numbers of special registers by name.
pub fn special_registers() -> HashMap<&'static str, u32> {
    SPECIAL_REGISTERS.iter().enumerate().map(|(number, (name, _))| (*name, number as u32)).collect()
}
