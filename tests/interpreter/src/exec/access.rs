//! Loads, stores, atomics and asynchronous copies.

use crate::error::{ErrorKind, Fault};
use crate::exec::state::{lanes, Block, PendingCopy, Warp};
use crate::float::{arithmetic, Format, Operation, Rounding};
use crate::memory::Region;
use crate::program::{Access, Atomic, Instruction, WARP};
use crate::shadow::{self, Actor, Conflict, Kind};
use crate::types::{mask, sign_extend, Space, Type};

/// The largest access in bytes.
const MAX_ACCESS_BYTES: usize = 32;

/// The bytes of an access.
type Bytes = [u8; MAX_ACCESS_BYTES];

fn race(address: u64, block: &Block<'_>, conflict: Conflict, kind: Kind) -> Fault {
    let what = match kind {
        Kind::Read => "read",
        Kind::ConstantRead => "read with .nc",
        Kind::Write => "write",
        Kind::AtomicRead | Kind::AtomicWrite => "atomic access",
    };
    let was = if conflict.was_write { "write" } else { "read" };
    let by = if conflict.is_other_block {
        "another block".to_string()
    } else {
        format!("thread {:?} of the block", block.thread_index(conflict.thread))
    };
    Fault::new(ErrorKind::Race, format!("{what}: must be ordered after the {was} by {by}"))
        .at(address)
}

fn misaligned(address: u64, bytes: usize) -> Fault {
    Fault::new(
        ErrorKind::Misaligned,
        format!("access of {bytes} bytes: the address must be a multiple of {bytes}"),
    )
    .at(address)
}

#[inline]
fn element(bytes: &[u8]) -> u64 {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return u64::from(u32::from_le_bytes(four));
    }
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

/// Copies an access. The usual size of 4 bytes is a single move.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    match (<&mut [u8; 4]>::try_from(&mut *to), <&[u8; 4]>::try_from(from)) {
        (Ok(to), Ok(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

impl Block<'_> {
    /// Reads bytes for a lane, with all checks.
    pub fn read(
        &mut self,
        warp: usize,
        lane: usize,
        space: Space,
        address: u64,
        size: usize,
        kind: Kind,
    ) -> Result<Bytes, Fault> {
        let (space, place) =
            if space == Space::Generic { Space::of_generic(address) } else { (space, address) };
        if place & (size as u64 - 1) != 0 {
            return Err(misaligned(address, size));
        }
        let mut result = [0; MAX_ACCESS_BYTES];
        let thread = warp * WARP + lane;
        let checks = self.options.check_uninitialized;
        let region = |region: &Region, result: &mut Bytes| {
            let at = region.place(place, size)?;
            if checks && !region.is_defined(at, size) {
                return Err(region.undefined(place));
            }
            copy(&mut result[..size], &region.bytes[at..at + size]);
            Ok(at)
        };
        let missing = || {
            Fault::new(ErrorKind::OutOfBounds, "access: the kernel has no variables in this space")
                .at(address)
        };
        match space {
            Space::Shared => {
                let at = region(&self.shared, &mut result)?;
                self.check_shared(warp, lane, at, size, kind, place)?;
            }
            Space::Local => {
                region(self.local.get(thread).ok_or_else(missing)?, &mut result)?;
            }
            Space::CallParam => {
                region(self.call.get(thread).ok_or_else(missing)?, &mut result)?;
            }
            Space::Const => {
                region(self.constant, &mut result)?;
            }
            Space::Param => {
                region(self.parameters, &mut result)?;
            }
            Space::Global | Space::Generic => {
                let (index, offset) = self.memory.find(place, size)?;
                copy(
                    &mut result[..size],
                    &self.memory.buffer(index, false).bytes[offset..offset + size],
                );
                self.check_global(warp, lane, (index, offset), size, kind, place)?;
            }
        }
        Ok(result)
    }

    /// Writes bytes for a lane, with all checks.
    pub fn write(
        &mut self,
        warp: usize,
        lane: usize,
        space: Space,
        address: u64,
        bytes: &[u8],
        kind: Kind,
    ) -> Result<(), Fault> {
        let (space, place) =
            if space == Space::Generic { Space::of_generic(address) } else { (space, address) };
        let size = bytes.len();
        if place & (size as u64 - 1) != 0 {
            return Err(misaligned(address, size));
        }
        let thread = warp * WARP + lane;
        let missing = || {
            Fault::new(ErrorKind::OutOfBounds, "access: the kernel has no variables in this space")
                .at(address)
        };
        match space {
            Space::Shared => {
                let at = self.shared.place(place, size)?;
                let allows_equal = self.options.allow_equal_writes;
                let is_equal = allows_equal
                    && self.shared.is_defined(at, size)
                    && self.shared.bytes[at..at + size] == *bytes;
                let result = self.check_shared(warp, lane, at, size, kind, place);
                if !is_equal {
                    result?;
                }
                copy(&mut self.shared.bytes[at..at + size], bytes);
                self.shared.define(at, size, true);
            }
            Space::Local | Space::CallParam => {
                let regions = if space == Space::Local { &mut self.local } else { &mut self.call };
                let region = regions.get_mut(thread).ok_or_else(missing)?;
                let at = region.place(place, size)?;
                region.bytes[at..at + size].copy_from_slice(bytes);
                region.define(at, size, true);
            }
            Space::Const | Space::Param => {
                let message = format!("write: .{} is read-only", space.name());
                return Err(Fault::new(ErrorKind::OutOfBounds, message).at(address));
            }
            Space::Global | Space::Generic => {
                let (index, offset) = self.memory.find(place, size)?;
                let allows_equal = self.options.allow_equal_writes;
                let is_equal = allows_equal
                    && self.memory.buffer(index, false).bytes[offset..offset + size] == *bytes;
                let result = self.check_global(warp, lane, (index, offset), size, kind, place);
                if !is_equal {
                    result?;
                }
                copy(&mut self.memory.buffer(index, false).bytes[offset..offset + size], bytes);
            }
        }
        Ok(())
    }

    fn check_shared(
        &mut self,
        warp: usize,
        lane: usize,
        at: usize,
        size: usize,
        kind: Kind,
        address: u64,
    ) -> Result<(), Fault> {
        if !self.options.check_races {
            return Ok(());
        }
        let mut cells = std::mem::take(&mut self.shared_cells);
        let actor = self.actor(warp, lane);
        let conflict = shadow::access(&mut cells, at, size, &actor, kind);
        self.shared_cells = cells;
        conflict.map_or(Ok(()), |conflict| Err(race(address, self, conflict, kind)))
    }

    fn check_global(
        &mut self,
        warp: usize,
        lane: usize,
        (index, offset): (usize, usize),
        size: usize,
        kind: Kind,
        address: u64,
    ) -> Result<(), Fault> {
        if !self.checks_races() {
            return Ok(());
        }
        let actor = Actor {
            block: self.number,
            thread: warp * WARP + lane,
            time: self.time,
            known: &self.known[warp],
            check_threads: self.options.check_races,
            check_blocks: self.options.check_block_races,
        };
        let buffer = self.memory.buffer(index, true);
        let conflict = shadow::access(&mut buffer.cells, offset, size, &actor, kind);
        conflict.map_or(Ok(()), |conflict| Err(race(address, self, conflict, kind)))
    }

    /// Extends the sign of a loaded value if its type is signed, because the destination may be wider.
    fn extended(&self, register: u32, value: u64, access: &Access) -> u64 {
        if !access.is_signed {
            return value;
        }
        let width = self.program.widths.get(register as usize).copied().unwrap_or(64);
        sign_extend(value, access.bytes as u32 * 8) as u64 & mask(width)
    }

    /// Executes a load in the lanes of a mask.
    pub fn load(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        access: &Access,
        active: u32,
    ) -> Result<(), Fault> {
        let size = access.bytes * access.count;
        let kind = match (access.is_strong, access.is_constant) {
            (true, _) => Kind::AtomicRead,
            (false, true) => Kind::ConstantRead,
            (false, false) => Kind::Read,
        };
        let addresses = *self.operand(warp, instruction.sources[0]);
        let uniform =
            instruction.sources[0] & crate::program::CONSTANT != 0 && access.space == Space::Param;
        let mut known: Option<Bytes> = None;
        for lane in lanes(active) {
            let address = addresses[lane].wrapping_add_signed(access.offset);
            let bytes = match known {
                Some(bytes) if uniform => bytes,
                _ => {
                    let read = self.read(warp.number, lane, access.space, address, size, kind);
                    read.map_err(|fault| fault.of_lane(lane))?
                }
            };
            known = Some(bytes);
            for (index, &register) in instruction.destinations.iter().enumerate() {
                let value = element(&bytes[index * access.bytes..(index + 1) * access.bytes]);
                warp.write_lane(register, lane, self.extended(register, value, access));
            }
        }
        Ok(())
    }

    /// Executes a store in the lanes of a mask.
    pub fn store(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        access: &Access,
        active: u32,
    ) -> Result<(), Fault> {
        let kind = if access.is_strong { Kind::AtomicWrite } else { Kind::Write };
        let size = access.bytes * access.count;
        for lane in lanes(active) {
            let address =
                self.operand(warp, instruction.sources[0])[lane].wrapping_add_signed(access.offset);
            let mut bytes = [0; MAX_ACCESS_BYTES];
            for (index, &source) in instruction.sources[1..].iter().enumerate() {
                let value = self.operand(warp, source)[lane].to_le_bytes();
                bytes[index * access.bytes..(index + 1) * access.bytes]
                    .copy_from_slice(&value[..access.bytes]);
            }
            let written =
                self.write(warp.number, lane, access.space, address, &bytes[..size], kind);
            written.map_err(|fault| fault.of_lane(lane))?;
        }
        Ok(())
    }

    /// Executes an atomic operation in the lanes of a mask, one after the other.
    pub fn atomic(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        (operation, ty, access): (Atomic, Type, &Access),
        active: u32,
    ) -> Result<(), Fault> {
        for lane in lanes(active) {
            let address =
                self.operand(warp, instruction.sources[0])[lane].wrapping_add_signed(access.offset);
            let value = self.operand(warp, instruction.sources[1])[lane];
            let third =
                instruction.sources.get(2).map_or(0, |&source| self.operand(warp, source)[lane]);
            let old =
                self.read(warp.number, lane, access.space, address, access.bytes, Kind::AtomicRead);
            let old = element(&old.map_err(|fault| fault.of_lane(lane))?[..access.bytes]);
            let new = combine(operation, ty, old, value, third).to_le_bytes();
            let written = self.write(
                warp.number,
                lane,
                access.space,
                address,
                &new[..access.bytes],
                Kind::AtomicWrite,
            );
            written.map_err(|fault| fault.of_lane(lane))?;
            if let Some(&register) = instruction.destinations.first() {
                warp.write_lane(register, lane, self.extended(register, old, access));
            }
        }
        Ok(())
    }

    /// Starts asynchronous copies. The bytes are read now and written when a wait requires it, so a missing wait is visible.
    pub fn copy_async(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        (size, destination, source, has_source_size): (usize, i64, i64, bool),
        active: u32,
    ) -> Result<(), Fault> {
        for lane in lanes(active) {
            let to =
                self.operand(warp, instruction.sources[0])[lane].wrapping_add_signed(destination);
            let from = self.operand(warp, instruction.sources[1])[lane].wrapping_add_signed(source);
            let count = if has_source_size {
                self.operand(warp, instruction.sources[2])[lane] as usize
            } else {
                size
            };
            if count > size {
                let message =
                    format!("cp.async: the source size must be at most {size}, got {count}");
                return Err(Fault::new(ErrorKind::Operand, message).of_lane(lane));
            }
            if from % size as u64 != 0 {
                return Err(misaligned(from, size).of_lane(lane));
            }
            let mut bytes = vec![0; size];
            // A partial copy reads only its first bytes, and fills the rest with zeros.
            let step = if count == size { size } else { 1 };
            for at in (0..count).step_by(step) {
                let read = self.read(
                    warp.number,
                    lane,
                    Space::Global,
                    from.wrapping_add(at as u64),
                    step,
                    Kind::Read,
                );
                bytes[at..at + step]
                    .copy_from_slice(&read.map_err(|fault| fault.of_lane(lane))?[..step]);
            }
            self.write(warp.number, lane, Space::Shared, to, &bytes, Kind::Write)
                .map_err(|fault| fault.of_lane(lane))?;
            if let Ok(at) = self.shared.place(to, size) {
                self.shared.define(at, size, false);
                self.shared.bytes[at..at + size].fill(0xff);
            }
            warp.copies.push(PendingCopy { lane, group: warp.committed[lane], address: to, bytes });
        }
        Ok(())
    }

    /// Completes copies until at most `pending` groups of each lane are left, or all.
    pub fn wait_copies(
        &mut self,
        warp: &mut Warp,
        pending: Option<u32>,
        active: u32,
    ) -> Result<(), Fault> {
        let copies = std::mem::take(&mut warp.copies);
        for copy in copies {
            let is_complete = active >> copy.lane & 1 == 1
                && pending.is_none_or(|pending| {
                    copy.group.saturating_add(pending) < warp.committed[copy.lane]
                });
            if !is_complete {
                warp.copies.push(copy);
                continue;
            }
            let written = self.write(
                warp.number,
                copy.lane,
                Space::Shared,
                copy.address,
                &copy.bytes,
                Kind::Write,
            );
            written.map_err(|fault| fault.of_lane(copy.lane))?;
        }
        Ok(())
    }
}

/// The new value of an atomic operation.
fn combine(operation: Atomic, ty: Type, old: u64, value: u64, third: u64) -> u64 {
    let ones = ty.mask();
    let format = match ty.element() {
        Type::F16 => Some(Format::F16),
        Type::Bf16 => Some(Format::Bf16),
        Type::F32 => Some(Format::F32),
        Type::F64 => Some(Format::F64),
        _ => None,
    };
    if let Some(format) = format {
        let add = |a, b| arithmetic(Operation::Add, format, Rounding::Nearest, [a, b, 0]);
        return if ty.is_packed() {
            add(old & 0xffff, value & 0xffff) | add(old >> 16, value >> 16) << 16
        } else {
            add(old, value)
        };
    }
    let is_less = if ty.is_signed() {
        sign_extend(value, ty.bits()) < sign_extend(old, ty.bits())
    } else {
        value < old
    };
    match operation {
        Atomic::Add => old.wrapping_add(value) & ones,
        Atomic::Min => {
            if is_less {
                value
            } else {
                old
            }
        }
        Atomic::Max => {
            if is_less {
                old
            } else {
                value
            }
        }
        Atomic::And => old & value,
        Atomic::Or => old | value,
        Atomic::Xor => old ^ value,
        Atomic::Exchange => value,
        Atomic::CompareAndSwap => {
            if old == value {
                third
            } else {
                old
            }
        }
        Atomic::Increment => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        Atomic::Decrement => {
            if old == 0 || old > value {
                value
            } else {
                old - 1
            }
        }
    }
}
