//! Race detection.
//!
//! Two accesses race if they are of different threads, at least one is a plain write, and no barrier orders them. Checking an
//! access against all earlier ones would need a history, so each pair of bytes has one cell with its last write and last read.
//!
//! - Time is a counter of the block. Every barrier increments it, and a record holds a thread and a time.
//! - Each warp knows, for each warp, a time up to which the accesses of that warp are ordered before its own. A barrier joins
//!   this knowledge of its participants.
//! - A recorded access is ordered before a new one if the warp of the new one knows the recorded time.
//! - Unordered accesses that do not race, such as reads of several threads, share a record with the latest time and a mark.
//!
//! Cost: 16 bytes of records for 2 bytes of memory, and a few operations per access. Races on 16-bit values are exact.
//! Accesses to single bytes can hide a race in the other byte of their pair.
//!
//! Example: thread 3 writes at time 5, and a barrier of all warps ends time 5. Thread 40 reads at time 6. Its warp knows time 5
//! of warp 0, so the accesses are ordered. Without the barrier its warp would know only time 4.

/// The times up to which a warp knows each warp.
pub type Known = Vec<u32>;

/// The last accesses of two bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    write: Record,
    read: Record,
}

/// An access: 24 bits of the block number plus one, 10 of the thread, 23 of the time, 2 of the bytes, and 5 flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record(u64);

const ATOMIC: u64 = 1;
const MANY_LANES: u64 = 2;
const MANY_WARPS: u64 = 4;
const MANY_BLOCKS: u64 = 8;
/// A read with `.nc`, whose memory must not be written in the whole launch.
const CONSTANT: u64 = 16;
const BYTES: u64 = 3 << 5;

impl Record {
    #[inline]
    fn new(actor: &Actor<'_>, bytes: u64, atomic: bool) -> Self {
        let time = u64::from(actor.time.min(0x7f_ffff));
        let block = u64::from(actor.block + 1) & 0xff_ffff;
        Self(
            block << 40
                | (actor.thread as u64 & 1023) << 30
                | time << 7
                | bytes << 5
                | u64::from(atomic),
        )
    }

    #[inline]
    fn block(self) -> u32 {
        (self.0 >> 40) as u32
    }

    #[inline]
    fn thread(self) -> usize {
        (self.0 >> 30) as usize & 1023
    }

    #[inline]
    fn time(self) -> u32 {
        (self.0 >> 7) as u32 & 0x7f_ffff
    }

    #[inline]
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    fn is_of_other_block(self, actor: &Actor<'_>) -> bool {
        self.has(MANY_BLOCKS) || self.block() != (actor.block + 1) & 0xff_ffff
    }

    /// Whether the access is of another thread and not ordered before the accesses of the actor.
    #[inline]
    fn is_concurrent(self, actor: &Actor<'_>) -> bool {
        if self.0 == 0 {
            false
        } else if self.is_of_other_block(actor) {
            true
        } else if self.has(MANY_WARPS) {
            self.time() > actor.known.iter().copied().min().unwrap_or(0)
        } else {
            (self.has(MANY_LANES) || self.thread() != actor.thread)
                && self.time() > actor.known[self.thread() / 32]
        }
    }

    /// The record of both accesses.
    #[inline]
    fn join(self, actor: &Actor<'_>, bytes: u64, atomic: bool) -> Self {
        let mut new = Self::new(actor, bytes, atomic);
        new.0 |= self.0 & CONSTANT;
        if self.0 == 0 {
            return new;
        }
        if self.is_of_other_block(actor) {
            new.0 |= MANY_BLOCKS | self.0 & BYTES;
        } else if self.is_concurrent(actor) {
            let flag =
                if self.thread() / 32 == actor.thread / 32 { MANY_LANES } else { MANY_WARPS };
            new.0 |= flag | self.0 & (MANY_LANES | MANY_WARPS | MANY_BLOCKS | BYTES);
        } else if self.thread() == actor.thread && self.time() > actor.known[actor.thread / 32] {
            new.0 |= self.0 & BYTES;
        } else {
            return new;
        }
        if !self.has(ATOMIC) {
            new.0 &= !ATOMIC;
        }
        new
    }
}

/// The thread that accesses memory.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    pub block: u32,
    /// The number of the thread in its block.
    pub thread: usize,
    pub time: u32,
    pub known: &'a [u32],
    pub check_threads: bool,
    pub check_blocks: bool,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    /// A read with `.nc`.
    ConstantRead,
    Write,
    AtomicRead,
    AtomicWrite,
}

/// The earlier access of a race.
#[derive(Clone, Copy, Debug)]
pub struct Conflict {
    pub thread: usize,
    pub is_other_block: bool,
    pub was_write: bool,
}

impl Cell {
    /// Records an access, and returns the earlier access that races with it.
    #[inline]
    pub fn access(&mut self, actor: &Actor<'_>, kind: Kind, bytes: u64) -> Option<Conflict> {
        // The common case of a thread that reads again what only it has read, after an ordered write.
        if kind == Kind::Read
            && self.read == Record::new(actor, bytes, false)
            && !self.write.is_concurrent(actor)
        {
            return None;
        }
        let atomic = matches!(kind, Kind::AtomicRead | Kind::AtomicWrite);
        let writes = matches!(kind, Kind::Write | Kind::AtomicWrite);
        let overlaps = |record: Record| record.0 >> 5 & bytes != 0;
        let is_checked = |record: Record| {
            if record.is_of_other_block(actor) {
                actor.check_blocks
            } else {
                actor.check_threads
            }
        };
        let races = |record: Record, was_write: bool| {
            // Barriers do not order `.nc` reads and writes.
            if overlaps(record)
                && (kind == Kind::ConstantRead && was_write || record.has(CONSTANT) && writes)
            {
                return true;
            }
            if !overlaps(record) || !record.is_concurrent(actor) || !is_checked(record) {
                return false;
            }
            let was_atomic = record.has(ATOMIC);
            let other_block = record.is_of_other_block(actor);
            // An atomic write and a plain read in different blocks are accepted. They are how blocks publish counters.
            let accepted = was_atomic && atomic
                || other_block && (was_atomic || !was_write) && (atomic || !writes);
            !accepted
        };
        let mut conflict = None;
        for (record, was_write) in [(self.write, true), (self.read, false)] {
            if (was_write || writes) && conflict.is_none() && races(record, was_write) {
                let is_other_block = record.is_of_other_block(actor);
                conflict = Some(Conflict { thread: record.thread(), is_other_block, was_write });
            }
        }
        if writes {
            self.write = self.write.join(actor, bytes, atomic);
            if !self.read.is_concurrent(actor) {
                self.read = Record::default();
            }
        } else {
            self.read = self.read.join(actor, bytes, atomic);
            self.read.0 |= if kind == Kind::ConstantRead { CONSTANT } else { 0 };
        }
        conflict
    }
}

/// Records an access to a range of bytes.
pub fn access(
    cells: &mut [Cell],
    at: usize,
    bytes: usize,
    actor: &Actor<'_>,
    kind: Kind,
) -> Option<Conflict> {
    let mut first = None;
    let (begin, end) = (at, at + bytes);
    let mut cell = begin / 2;
    while cell * 2 < end {
        let low = u64::from(cell * 2 >= begin);
        let high = u64::from(cell * 2 + 1 < end && cell * 2 + 1 >= begin);
        if let Some(target) = cells.get_mut(cell) {
            let conflict = target.access(actor, kind, low | high << 1);
            first = first.or(conflict);
        }
        cell += 1;
    }
    first
}
