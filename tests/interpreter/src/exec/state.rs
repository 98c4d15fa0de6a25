//! The state of a block and its warps.

use crate::error::{ErrorKind, Fault};
use crate::memory::{Memory, Region};
use crate::options::Options;
use crate::program::{Instruction, Lanes, Program, CONSTANT, SINK, WARP};
use crate::shadow::{Actor, Cell, Known};

/// The depth of calls that a scheduling key can hold.
pub const MAX_DEPTH: usize = 64;

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The lane has no thread, or its thread has exited.
    Exited,
    Runnable,
    /// The lane waits for lanes of its warp, with this mask of members.
    WarpWait(u32),
    /// The lane waits at a barrier of the block.
    BarrierWait(u32),
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The call instruction.
    pub call: u32,
}

/// An asynchronous copy whose bytes have not arrived.
#[derive(Clone, Debug)]
pub struct PendingCopy {
    pub lane: usize,
    pub group: u32,
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// The state of a warp.
#[derive(Default)]
pub struct Warp {
    /// The number in the block.
    pub number: usize,
    pub registers: Vec<Lanes>,
    /// For each register, the lanes that have written it.
    pub defined: Vec<u32>,
    /// For each lane, a key that orders deeper calls first and then lower program counters.
    pub keys: Vec<u64>,
    pub status: Vec<Status>,
    pub stacks: Vec<Vec<Frame>>,
    pub copies: Vec<PendingCopy>,
    /// For each lane, the number of committed groups of copies.
    pub committed: Vec<u32>,
    /// The lanes that have a thread.
    pub present: u32,
}

/// The lowest bits of a key are the program counter.
pub fn key(depth: usize, pc: u32) -> u64 {
    ((MAX_DEPTH - depth.min(MAX_DEPTH)) as u64) << 32 | u64::from(pc)
}

/// The program counter of a key.
pub fn pc_of(key: u64) -> u32 {
    key as u32
}

/// The lanes of a mask, in order.
pub fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < WARP).then_some(lane)
    })
}

impl Warp {
    /// The lanes with a status.
    pub fn having(&self, test: impl Fn(Status) -> bool) -> u32 {
        self.status
            .iter()
            .enumerate()
            .fold(0, |mask, (lane, status)| mask | u32::from(test(*status)) << lane)
    }

    pub fn runnable(&self) -> u32 {
        self.having(|status| status == Status::Runnable)
    }

    /// The lanes whose threads have not exited.
    pub fn live(&self) -> u32 {
        self.having(|status| status != Status::Exited)
    }

    /// Sets the program counter of lanes at the same depth of calls.
    pub fn set_pc(&mut self, mask: u32, pc: u32) {
        for lane in lanes(mask) {
            self.keys[lane] = self.keys[lane] & !0xffff_ffff | u64::from(pc);
        }
    }

    pub fn set_status(&mut self, mask: u32, status: Status) {
        for lane in lanes(mask) {
            self.status[lane] = status;
        }
    }

    /// Writes a register in the lanes of a mask.
    pub fn write(&mut self, register: u32, mask: u32, values: &Lanes) {
        if register == SINK {
            return;
        }
        let target = &mut self.registers[register as usize];
        if mask == u32::MAX {
            *target = *values;
        } else {
            for lane in 0..WARP {
                if mask >> lane & 1 == 1 {
                    target[lane] = values[lane];
                }
            }
        }
        self.defined[register as usize] |= mask;
    }

    /// Writes a register in one lane.
    pub fn write_lane(&mut self, register: u32, lane: usize, value: u64) {
        if register != SINK {
            self.registers[register as usize][lane] = value;
            self.defined[register as usize] |= 1 << lane;
        }
    }

    /// The lanes of a mask in which a predicate has this value.
    pub fn where_true(&self, values: &Lanes, mask: u32, negated: bool) -> u32 {
        let set = (0..WARP).fold(0, |all, lane| all | ((values[lane] & 1) as u32) << lane);
        mask & if negated { !set } else { set }
    }
}

/// Threads that wait at a barrier of the block.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub warp: usize,
    pub mask: u32,
    pub instruction: u32,
    /// The lanes whose predicate is true, for reductions.
    pub predicate: u32,
    /// The number of threads that the instruction expects, if it says so.
    pub expected: Option<u32>,
    /// Knowledge at the time of `bar.arrive`, whose threads do not wait.
    pub known: Option<Known>,
}

/// A block that is being executed.
pub struct Block<'a> {
    pub program: &'a Program,
    pub options: &'a Options,
    pub memory: &'a mut Memory,
    /// Constant operands in all lanes.
    pub constants: &'a [Lanes],
    pub parameters: &'a Region,
    pub constant: &'a Region,
    pub shared: Region,
    pub shared_cells: Vec<Cell>,
    /// Local memory and call parameters of each thread. Empty if the program has none.
    pub local: Vec<Region>,
    pub call: Vec<Region>,
    pub warps: Vec<Warp>,
    pub arrivals: Vec<Vec<Arrival>>,
    pub threads: usize,
    pub block_size: [u32; 3],
    pub index: [u32; 3],
    pub number: u32,
    /// The time of race detection, and what each warp knows.
    pub time: u32,
    pub known: Vec<Known>,
    /// Executions of each instruction by warps and by threads.
    pub counts: Vec<(u64, u64)>,
    pub executed: u64,
    pub random: u64,
}

impl Block<'_> {
    /// The values of an operand.
    pub fn operand<'w>(&'w self, warp: &'w Warp, operand: u32) -> &'w Lanes {
        if operand & CONSTANT == 0 {
            &warp.registers[operand as usize]
        } else {
            &self.constants[(operand & !CONSTANT) as usize]
        }
    }

    /// The lanes in which an operand has a value.
    pub fn defined(&self, warp: &Warp, operand: u32) -> u32 {
        if operand & CONSTANT == 0 {
            warp.defined[operand as usize]
        } else {
            u32::MAX
        }
    }

    /// Checks that the sources of an instruction have values.
    pub fn check_defined(&self, warp: &Warp, sources: &[u32], mask: u32) -> Result<(), Fault> {
        for &source in sources {
            let missing = mask & !self.defined(warp, source);
            if missing != 0 {
                let name = &self.program.names[source as usize];
                let message = format!("register read: `{name}` must have been written before");
                let lane = missing.trailing_zeros() as usize;
                return Err(Fault::new(ErrorKind::Uninitialized, message).of_lane(lane));
            }
        }
        Ok(())
    }

    /// The thread of a lane, for race detection.
    pub fn actor(&self, warp: usize, lane: usize) -> Actor<'_> {
        Actor {
            block: self.number,
            thread: warp * WARP + lane,
            time: self.time,
            known: &self.known[warp],
            check_threads: self.options.check_races,
            check_blocks: self.options.check_block_races,
        }
    }

    /// Whether any races are checked.
    pub fn checks_races(&self) -> bool {
        self.options.check_races || self.options.check_block_races
    }

    pub fn instruction(&self, pc: u32) -> &Instruction {
        &self.program.instructions[pc as usize]
    }

    /// The coordinates of a thread.
    pub fn thread_index(&self, thread: usize) -> [u32; 3] {
        let [x, y, _] = self.block_size.map(|n| n.max(1) as usize);
        [(thread % x) as u32, (thread / x % y) as u32, (thread / x / y) as u32]
    }

    /// The next random number.
    pub fn next_random(&mut self) -> u64 {
        self.random = crate::float::mix(self.random);
        self.random
    }
}
