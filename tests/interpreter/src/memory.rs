//! Memory: the buffers of global memory, and regions for the other spaces.

use crate::error::{Error, ErrorKind, Fault};
use crate::program::Layout;
use crate::shadow::Cell;
use crate::types::FIRST_OFFSET;
use std::collections::HashMap;

/// The first address of global memory. It is outside the windows of the other spaces.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// The alignment of buffers, as in CUDA.
const BUFFER_ALIGN: u64 = 256;
/// The least distance between two buffers in bytes.
const GUARD_BYTES: u64 = 4096;

/// A buffer of global memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub address: u64,
    pub bytes: Vec<u8>,
    /// The records of race detection, which belong to one launch.
    pub cells: Vec<Cell>,
    pub launch: u64,
}

/// Global memory. Buffers are separate, and accesses between them are errors.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    buffers: Vec<Buffer>,
    symbols: HashMap<String, u64>,
    last: usize,
    /// The number of launches so far.
    pub(crate) launch: u64,
}

impl Memory {
    /// Memory without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates a buffer of zeros and returns its address, which is a multiple of 256.
    pub fn alloc(&mut self, bytes: usize) -> u64 {
        self.alloc_aligned(bytes, 1)
    }

    /// Allocates a buffer whose address is a multiple of `align` and of 256.
    pub(crate) fn alloc_aligned(&mut self, bytes: usize, align: usize) -> u64 {
        let end = self
            .buffers
            .last()
            .map_or(FIRST_ADDRESS, |last| last.address + last.bytes.len() as u64 + GUARD_BYTES);
        let address = end.next_multiple_of(BUFFER_ALIGN.max(align as u64));
        self.buffers.push(Buffer { address, bytes: vec![0; bytes], cells: Vec::new(), launch: 0 });
        address
    }

    /// Frees a buffer. Later accesses to it are errors.
    pub fn free(&mut self, address: u64) {
        let Ok(index) = self.buffers.binary_search_by_key(&address, |buffer| buffer.address) else {
            return;
        };
        self.last = 0;
        match index + 1 == self.buffers.len() {
            // The last buffer stays without bytes, so that its address is not used again.
            true => self.buffers[index].bytes = Vec::new(),
            false => drop(self.buffers.remove(index)),
        }
    }

    /// Allocates a buffer with these bytes.
    pub fn alloc_bytes(&mut self, bytes: &[u8]) -> u64 {
        let address = self.alloc(bytes.len());
        if let Some(buffer) = self.buffers.last_mut() {
            buffer.bytes.copy_from_slice(bytes);
        }
        address
    }

    /// Allocates a buffer of 32-bit floats.
    pub fn alloc_f32(&mut self, values: &[f32]) -> u64 {
        self.alloc_bytes(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// Allocates a buffer of 32-bit integers.
    pub fn alloc_u32(&mut self, values: &[u32]) -> u64 {
        self.alloc_bytes(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// Allocates a buffer of 16-bit values, such as the bits of `f16`.
    pub fn alloc_u16(&mut self, values: &[u16]) -> u64 {
        self.alloc_bytes(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// The index and offset of an address, if all bytes are in one buffer.
    pub(crate) fn find(&mut self, address: u64, bytes: usize) -> Result<(usize, usize), Fault> {
        let is_in = |buffer: &Buffer| {
            let offset = address.wrapping_sub(buffer.address);
            offset <= buffer.bytes.len() as u64
                && bytes as u64 <= buffer.bytes.len() as u64 - offset
        };
        if let Some(buffer) = self.buffers.get(self.last).filter(|buffer| is_in(buffer)) {
            return Ok((self.last, (address - buffer.address) as usize));
        }
        let after = self.buffers.partition_point(|buffer| buffer.address <= address);
        let nearest = after.checked_sub(1);
        match nearest.map(|index| (index, &self.buffers[index])) {
            Some((index, buffer)) if is_in(buffer) => {
                self.last = index;
                Ok((index, (address - buffer.address) as usize))
            }
            Some((_, buffer)) => {
                let (offset, size) = (address - buffer.address, buffer.bytes.len());
                let message = format!(
                    "global access: must be inside a buffer, got {bytes} bytes at offset {offset} of the buffer of {size} \
                     bytes at {:#x}",
                    buffer.address
                );
                Err(Fault::new(ErrorKind::OutOfBounds, message).at(address))
            }
            None => {
                let message = format!(
                    "global access: must be inside a buffer, got {bytes} bytes below all buffers"
                );
                Err(Fault::new(ErrorKind::OutOfBounds, message).at(address))
            }
        }
    }

    /// A buffer by its index, with records for this launch if `checks` is set.
    pub(crate) fn buffer(&mut self, index: usize, checks: bool) -> &mut Buffer {
        let launch = self.launch;
        let buffer = &mut self.buffers[index];
        if checks && buffer.launch != launch {
            buffer.cells.clear();
            buffer.cells.resize(buffer.bytes.len().div_ceil(2), Cell::default());
            buffer.launch = launch;
        }
        buffer
    }

    /// Reads bytes from the host.
    pub fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        for buffer in &self.buffers {
            let offset = address.wrapping_sub(buffer.address);
            if offset <= buffer.bytes.len() as u64
                && bytes as u64 <= buffer.bytes.len() as u64 - offset
            {
                return Ok(buffer.bytes[offset as usize..offset as usize + bytes].to_vec());
            }
        }
        Err(Error::new(
            ErrorKind::OutOfBounds,
            0,
            format!("read: {bytes} bytes at {address:#x} must be in one buffer"),
        ))
    }

    /// Writes bytes from the host.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        match self.find(address, bytes.len()) {
            Ok((index, offset)) => {
                self.buffers[index].bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Err(fault) => Err(Error::new(fault.kind, 0, format!("write: {}", fault.message))),
        }
    }

    /// Reads 32-bit floats.
    pub fn read_f32(&self, address: u64, count: usize) -> Result<Vec<f32>, Error> {
        Ok(self.read_u32(address, count)?.into_iter().map(f32::from_bits).collect())
    }

    /// Reads 32-bit integers.
    pub fn read_u32(&self, address: u64, count: usize) -> Result<Vec<u32>, Error> {
        let bytes = self.read(address, count * 4)?;
        Ok(bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
    }

    /// Reads 16-bit values.
    pub fn read_u16(&self, address: u64, count: usize) -> Result<Vec<u16>, Error> {
        let bytes = self.read(address, count * 2)?;
        Ok(bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect())
    }

    /// The address of a global variable of a module that has run in this memory.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    pub(crate) fn set_symbol(&mut self, name: &str, address: u64) {
        self.symbols.insert(name.to_string(), address);
    }
}

/// The state of a byte of a region.
const GAP: u8 = 0;
const UNDEFINED: u8 = 1;
const DEFINED: u8 = 2;

/// The memory of a space with fixed addresses.
#[derive(Clone, Debug, Default)]
pub struct Region {
    pub bytes: Vec<u8>,
    state: Vec<u8>,
    name: &'static str,
}

impl Region {
    /// The memory of the variables of a layout, with their initial bytes.
    pub fn new(name: &'static str, layout: &Layout) -> Self {
        let size = (layout.end.max(FIRST_OFFSET) - FIRST_OFFSET) as usize;
        let mut region = Self { bytes: vec![0; size], state: vec![GAP; size], name };
        for variable in &layout.variables {
            region.add(variable.address, variable.size);
            if !variable.bytes.is_empty() {
                region.fill(variable.address, &variable.bytes);
            }
        }
        region
    }

    /// Adds a variable without a value.
    pub fn add(&mut self, address: u64, size: usize) {
        let at = (address - FIRST_OFFSET) as usize;
        if self.bytes.len() < at + size {
            self.bytes.resize(at + size, 0);
            self.state.resize(at + size, GAP);
        }
        self.state[at..at + size].fill(UNDEFINED);
    }

    /// Writes a value into a variable.
    pub fn fill(&mut self, address: u64, value: &[u8]) {
        let at = (address - FIRST_OFFSET) as usize;
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self.state[at..at + value.len()].fill(DEFINED);
    }

    /// Makes all bytes zero and undefined, as at the start of a block.
    pub fn reset(&mut self) {
        self.bytes.fill(0);
        self.state.iter_mut().for_each(|state| *state = (*state).min(UNDEFINED));
    }

    /// The position of an access. All bytes must belong to one variable.
    #[inline]
    pub fn place(&self, address: u64, bytes: usize) -> Result<usize, Fault> {
        let at = address.wrapping_sub(FIRST_OFFSET);
        let fits = at < self.bytes.len() as u64 && bytes as u64 <= self.bytes.len() as u64 - at;
        if !fits || self.lowest_state(at as usize, bytes) == GAP {
            return Err(self.outside(address, bytes));
        }
        Ok(at as usize)
    }

    #[cold]
    fn outside(&self, address: u64, bytes: usize) -> Fault {
        let message =
            format!("{} access: must be inside a variable, got {bytes} bytes outside", self.name);
        Fault::new(ErrorKind::OutOfBounds, message).at(address)
    }

    /// The lowest state of a range. Ranges of 4 bytes that are all defined take one comparison.
    #[inline]
    fn lowest_state(&self, at: usize, bytes: usize) -> u8 {
        let states = &self.state[at..at + bytes];
        if matches!(<[u8; 4]>::try_from(states), Ok([DEFINED, DEFINED, DEFINED, DEFINED])) {
            return DEFINED;
        }
        states.iter().copied().min().unwrap_or(DEFINED)
    }

    /// Whether all bytes were written.
    #[inline]
    pub fn is_defined(&self, at: usize, bytes: usize) -> bool {
        self.lowest_state(at, bytes) == DEFINED
    }

    /// Marks bytes as written, or as not written.
    pub fn define(&mut self, at: usize, bytes: usize, is_defined: bool) {
        self.state[at..at + bytes].fill(if is_defined { DEFINED } else { UNDEFINED });
    }

    /// Copies bytes and whether they were written.
    pub fn copy_within(&mut self, from: usize, to: usize, bytes: usize) {
        self.bytes.copy_within(from..from + bytes, to);
        self.state.copy_within(from..from + bytes, to);
    }

    /// The fault of a read of bytes that were never written.
    pub fn undefined(&self, address: u64) -> Fault {
        let message = format!("{} read: the bytes must have been written before", self.name);
        Fault::new(ErrorKind::Uninitialized, message).at(address)
    }
}
