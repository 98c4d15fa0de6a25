//! Launches, their options, and the report of a run.

use std::collections::BTreeMap;

/// The order in which the threads of a block run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Each warp runs the lanes with the lowest program counter first, so that diverged lanes meet again early.
    Converging,
    /// Lanes and warps run in a random order. A warp splits at random, and meets only where an instruction requires it.
    Random(u64),
}

/// The checks, and the choices that PTX leaves to the hardware.
#[derive(Clone, Debug)]
pub struct Options {
    pub schedule: Schedule,
    /// A seed for a random order of blocks. Without it they run in order.
    pub block_order: Option<u64>,
    /// The number of instructions of all threads after which a run fails.
    pub instruction_limit: u64,
    /// Reports races between threads of a block, in shared and global memory.
    pub check_races: bool,
    /// Reports races between blocks in global memory.
    pub check_block_races: bool,
    /// Accepts plain writes of equal values to one address by several threads.
    pub allow_equal_writes: bool,
    /// Reports reads of registers and of shared and local memory that were never written.
    pub check_uninitialized: bool,
    /// Counts threads that have exited as arrived at a barrier, as hardware does. PTX leaves this undefined.
    pub allow_exited_at_barrier: bool,
    /// Requires that all threads wait at one instruction when a barrier of the whole block completes.
    pub require_uniform_barriers: bool,
    /// Moves the results of approximate instructions by their documented error, up or down by a seed.
    pub perturb: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schedule: Schedule::Converging,
            block_order: None,
            instruction_limit: 1 << 32,
            check_races: true,
            check_block_races: true,
            allow_equal_writes: false,
            check_uninitialized: true,
            allow_exited_at_barrier: false,
            require_uniform_barriers: true,
            perturb: None,
        }
    }
}

/// The dimensions of a launch.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The size of `extern .shared` arrays in bytes.
    pub dynamic_shared: usize,
    pub options: Options,
}

impl Launch {
    /// A launch of a grid without dynamic shared memory.
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, dynamic_shared: 0, options: Options::default() }
    }

    /// A launch of a one-dimensional grid.
    pub fn linear(grid: u32, block: u32) -> Self {
        Self::new([grid, 1, 1], [block, 1, 1])
    }

    /// Sets the bytes of dynamic shared memory.
    pub fn with_shared(mut self, bytes: usize) -> Self {
        self.dynamic_shared = bytes;
        self
    }

    /// Changes the options.
    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub enum Argument {
    /// An address from `Memory::alloc`.
    Pointer(u64),
    U8(u8),
    U16(u16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    /// A struct by value.
    Bytes(Vec<u8>),
}

impl Argument {
    /// The bytes in little-endian order.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Pointer(v) | Self::U64(v) => v.to_le_bytes().to_vec(),
            Self::U8(v) => vec![*v],
            Self::U16(v) => v.to_le_bytes().to_vec(),
            Self::U32(v) => v.to_le_bytes().to_vec(),
            Self::I32(v) => v.to_le_bytes().to_vec(),
            Self::I64(v) => v.to_le_bytes().to_vec(),
            Self::F32(v) => v.to_le_bytes().to_vec(),
            Self::F64(v) => v.to_le_bytes().to_vec(),
            Self::Bytes(v) => v.clone(),
        }
    }
}

/// Executions of an opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Executions by a warp with at least one active lane. Parts of a diverged warp count separately.
    pub warps: u64,
    /// Executions by threads.
    pub threads: u64,
}

/// Counts of executed instructions by opcode.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The counts by opcode with all suffixes, such as `ld.global.v4.f32`.
    pub opcodes: BTreeMap<String, Count>,
    /// Lines of the PTX text whose instructions no thread executed.
    pub unreached_lines: Vec<u32>,
}

impl Report {
    /// The total of opcodes with the same first part whose suffixes contain those of `pattern` in order.
    ///
    /// `ld.shared.v4` matches `ld.volatile.shared.v4.f32`.
    pub fn count(&self, pattern: &str) -> Count {
        let mut total = Count::default();
        for (opcode, count) in &self.opcodes {
            if matches(opcode, pattern) {
                total.warps += count.warps;
                total.threads += count.threads;
            }
        }
        total
    }

    /// The instructions of all threads.
    pub fn thread_instructions(&self) -> u64 {
        self.opcodes.values().map(|count| count.threads).sum()
    }
}

fn matches(opcode: &str, pattern: &str) -> bool {
    let mut have = opcode.split('.');
    let mut want = pattern.split('.');
    if have.next() != want.next() {
        return false;
    }
    want.all(|part| have.any(|other| other == part))
}
