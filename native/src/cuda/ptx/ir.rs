//! The linear IR: a list of instructions over scalar virtual registers, with labels and jumps.
//!
//! Lowering writes it and the printer reads it. Registers are untyped bits of one of four classes, and each operation names the
//! type that it works on. A register may be written by more than one instruction, because values that meet at a label are
//! copied into one register. All other registers are written once.

/// The type that an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// A predicate, which is the `bool` of WGSL.
    Pred,
    F16,
    U32,
    S32,
    F32,
    U64,
}

impl Ty {
    /// Returns the class of registers that hold this type.
    pub fn class(self) -> Class {
        match self {
            Ty::Pred => Class::Pred,
            Ty::F16 => Class::B16,
            Ty::U32 | Ty::S32 | Ty::F32 => Class::B32,
            Ty::U64 => Class::B64,
        }
    }

    /// Returns the size of a value in memory, in bytes. A `bool` takes one byte.
    pub fn bytes(self) -> u32 {
        match self {
            Ty::Pred => 1,
            Ty::F16 => 2,
            Ty::U32 | Ty::S32 | Ty::F32 => 4,
            Ty::U64 => 8,
        }
    }

    /// Whether the type is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F32)
    }
}

/// A class of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Pred,
    B16,
    B32,
    B64,
}

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg {
    pub id: u32,
    pub class: Class,
}

/// A register, or the bits of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    Reg(Reg),
    Const(Class, u64),
}

impl Operand {
    /// The `u32` or `i32` with these bits.
    pub const fn u32(value: u32) -> Operand {
        Operand::Const(Class::B32, value as u64)
    }

    /// The `f32` constant.
    pub fn f32(value: f32) -> Operand {
        Operand::u32(value.to_bits())
    }

    /// The `bool` constant.
    pub const fn bool(value: bool) -> Operand {
        Operand::Const(Class::Pred, value as u64)
    }

    /// Returns the class of the operand.
    pub fn class(self) -> Class {
        match self {
            Operand::Reg(reg) => reg.class,
            Operand::Const(class, _) => class,
        }
    }

    /// Returns the bits of a constant.
    pub fn bits(self) -> Option<u64> {
        match self {
            Operand::Reg(_) => None,
            Operand::Const(_, bits) => Some(bits),
        }
    }

    /// Returns the bits of a constant of 32 bits or fewer.
    pub fn bits32(self) -> Option<u32> {
        self.bits().map(|bits| bits as u32)
    }
}

/// A comparison. Comparisons with a NaN are false, except `Ne`, which is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The direction in which an `f32` is rounded to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    Down,
    Up,
    Zero,
    NearestEven,
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// The thread in the workgroup, by axis.
    Thread(u8),
    /// The workgroup, by axis.
    Group(u8),
    /// The number of workgroups, by axis.
    Groups(u8),
}

/// An operation without side effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Copies a value.
    Move,
    Add(Ty),
    Sub(Ty),
    /// The product, of integers its lower half.
    Mul(Ty),
    /// The upper half of the product of two `u32`.
    MulHigh,
    /// `a * b + c` of two `u32` and a `u64`.
    MulAddWide,
    /// `a * b + c` with one rounding.
    Fma(Ty),
    /// The quotient, rounded correctly. Of integers, the divisor must not be zero.
    Div(Ty),
    Rem(Ty),
    Neg(Ty),
    Abs(Ty),
    /// The smaller number. Of a NaN and a number, the number.
    Min(Ty),
    Max(Ty),
    And,
    Or,
    Xor,
    Not,
    /// A shift of 32 bits. The amount must be less than 32.
    Shl,
    Shr(Ty),
    /// A logical shift of 64 bits to the right by a `u32`.
    ShrU64,
    Compare(Cmp, Ty),
    /// `c ? a : b`, with the operands `a`, `b`, `c`.
    Select,
    Sqrt,
    Round(Rounding),
    /// A conversion of the value. Conversions to integers round to zero and saturate, and NaN becomes 0.
    Convert(Ty, Ty),
    /// Zero-extends 16 bits to 32.
    Widen,
    /// Takes the lower 16 of 32 bits.
    Narrow,
    Popc,
    Clz,
    Brev,
    /// `c + dot(a, b)` of four packed bytes. The type is that of the bytes.
    Dot4(Ty),
    Special(Special),
    /// A `u64` parameter of the kernel, by index.
    Param(u32),
    /// The address in global memory of a generic address.
    GlobalAddress,
    /// The address of the workgroup's memory.
    SharedBase,
    /// The address of the thread's memory.
    LocalBase,
    /// The address of a table of constants, by index.
    TableBase(u32),
}

impl Op {
    /// Returns the class of the result, given the first operand's class.
    pub fn result(self, first: Class) -> Class {
        match self {
            Op::Add(ty) | Op::Sub(ty) | Op::Mul(ty) | Op::Fma(ty) | Op::Div(ty) | Op::Rem(ty) => {
                ty.class()
            }
            Op::Neg(ty) | Op::Abs(ty) | Op::Min(ty) | Op::Max(ty) | Op::Shr(ty) => ty.class(),
            Op::Convert(_, to) => to.class(),
            Op::And | Op::Or | Op::Xor | Op::Not | Op::Select | Op::Move => first,
            Op::Compare(..) => Class::Pred,
            Op::Narrow => Class::B16,
            Op::MulAddWide | Op::ShrU64 | Op::Param(_) | Op::GlobalAddress => Class::B64,
            Op::LocalBase | Op::TableBase(_) => Class::B64,
            Op::MulHigh | Op::Shl | Op::Sqrt | Op::Round(_) | Op::Widen | Op::Popc => Class::B32,
            Op::Clz | Op::Brev | Op::Dot4(_) | Op::Special(_) | Op::SharedBase => Class::B32,
        }
    }

    /// Returns the number of operands.
    pub fn arity(self) -> usize {
        match self {
            Op::Special(_) | Op::Param(_) | Op::SharedBase | Op::LocalBase | Op::TableBase(_) => 0,
            Op::MulAddWide | Op::Fma(_) | Op::Select | Op::Dot4(_) => 3,
            Op::Move
            | Op::Neg(_)
            | Op::Abs(_)
            | Op::Not
            | Op::Sqrt
            | Op::Round(_)
            | Op::Convert(..) => 1,
            Op::Widen | Op::Narrow | Op::Popc | Op::Clz | Op::Brev | Op::GlobalAddress => 1,
            _ => 2,
        }
    }
}

/// An address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Global,
    Shared,
    Local,
    Constant,
}

/// The consistency of a load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Plain,
    /// A load of memory that nothing writes while the kernel runs.
    ReadOnly,
    /// A relaxed atomic access.
    Relaxed,
}

/// A location in memory: a register or zero, plus a constant number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub space: Space,
    pub base: Operand,
    /// Bytes after the base.
    pub offset: i64,
}

/// A read-modify-write operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
    Exchange,
    /// Stores the value if the memory equals the operand.
    CompareExchange(Operand),
}

/// The source lane of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// The lane with the given index.
    Index,
    /// The lane that many lanes below.
    Up,
    /// The lane that many lanes above.
    Down,
    /// The lane whose index differs by the given bits.
    Xor,
}

/// A vote of the lanes of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    All,
    Any,
    /// The predicates as bits.
    Ballot,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    /// An operation without side effects. Operands beyond the operation's arity are not used.
    Pure {
        op: Op,
        dst: Reg,
        args: [Operand; 3],
    },
    /// Loads 1, 2 or 4 numbers of `bytes` bytes each.
    Load {
        address: Address,
        access: Access,
        bytes: u32,
        dst: Vec<Reg>,
    },
    /// Stores 1, 2 or 4 numbers of `bytes` bytes each.
    Store {
        address: Address,
        access: Access,
        bytes: u32,
        values: Vec<Operand>,
    },
    /// A relaxed read-modify-write operation, which returns the old value.
    Atomic {
        address: Address,
        op: AtomicOp,
        ty: Ty,
        dst: Option<Reg>,
        value: Operand,
    },
    /// Exchanges 32 bits between the lanes of a mask.
    Shuffle {
        mode: Shuffle,
        dst: Reg,
        value: Operand,
        lane: Operand,
        mask: Operand,
    },
    Vote {
        mode: Vote,
        dst: Reg,
        value: Operand,
        mask: Operand,
    },
    /// The mask of the lanes that execute the instruction together.
    ActiveMask {
        dst: Reg,
    },
    /// Waits for all threads of the workgroup, and orders their memory accesses.
    Barrier,
    /// Waits for the lanes of a mask, and orders their memory accesses.
    WarpBarrier {
        mask: Operand,
    },
    /// `a * b + c` of a warp's matrices, with 16 x 16, 16 x 8 and 16 x 8 elements. `a` and `b` have pairs of `f16`, `c` and the
    /// result have `f32`.
    MultiplyMatrices {
        dst: [Reg; 4],
        a: [Operand; 4],
        b: [Operand; 2],
        c: [Operand; 4],
    },
    /// Loads four matrices of 8 x 8 `f16` from shared memory. Lane l has the address of row l % 8 of matrix l / 8.
    LoadMatrices {
        dst: [Reg; 4],
        address: Address,
        is_transposed: bool,
    },
    /// Starts a copy of `bytes` bytes from global to shared memory. Bytes from `count` on become 0.
    CopyAsync {
        to: Address,
        from: Address,
        bytes: u32,
        count: Operand,
    },
    /// Makes a group of the thread's copies since the last group.
    CommitCopies,
    /// Waits until at most this many of the thread's groups of copies are not complete.
    WaitCopies(u32),
    Label(u32),
    /// Jumps if the predicate equals the `bool`.
    Jump {
        label: u32,
        condition: Option<(Operand, bool)>,
    },
    /// Copies that take place at the same time.
    Copies(Vec<(Reg, Operand)>),
    /// Ends the thread.
    Exit,
}

/// A kernel in the linear IR.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub instructions: Vec<Inst>,
    /// The number of register ids.
    pub registers: u32,
    /// The number of `u64` parameters.
    pub params: u32,
    /// Memory of the workgroup in bytes.
    pub shared_bytes: u32,
    /// Memory of each thread in bytes.
    pub local_bytes: u32,
    /// Tables of constants, in words.
    pub tables: Vec<Vec<u32>>,
}
