//! The scanner for the head of a GGUF file. It reads numbers and strings, and checks each against the bytes that the file has
//! left.

use crate::alloc::try_vec;
use crate::error::{Error, Result};

/// The most bytes of a name, from the description of the format.
const LONGEST: u64 = 65_535;

/// The beginning of a file, with the offset of the next byte and the length of the whole file.
pub struct Scan<'a> {
    beginning: &'a [u8],
    at: u64,
    length: u64,
    /// Whether a read failed because it needed more of the file than its beginning.
    is_short: bool,
}

/// Returns the error for a byte of the file.
pub fn wrong(at: u64, what: &str) -> Error {
    Error::format(format!("gguf: at byte {at}: {what}"))
}

impl<'a> Scan<'a> {
    /// Scans the beginning of a file of `length` bytes.
    pub fn new(beginning: &'a [u8], length: u64) -> Scan<'a> {
        Scan { beginning, at: 0, length, is_short: false }
    }

    /// Whether an error occurred because more of the file is needed.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns the offset of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Rejects a count if the file has no room for `count` elements of at least `size` bytes.
    pub fn need(&self, what: &str, count: u64, size: u64) -> Result<usize> {
        let left = self.length - self.at;
        match usize::try_from(count).ok().filter(|_| count <= left / size) {
            Some(count) => Ok(count),
            None => Err(wrong(
                self.at,
                &format!("{what} must fit into the rest of the file, {left} bytes, got {count}"),
            )),
        }
    }

    /// Returns the next `count` bytes, borrowed.
    fn taken(&mut self, what: &str, count: u64) -> Result<&'a [u8]> {
        let count = self.need(what, count, 1)?;
        let rest = usize::try_from(self.at).ok().and_then(|at| self.beginning.get(at..));
        match rest.and_then(|rest| rest.get(..count)) {
            Some(bytes) => {
                self.at += count as u64;
                Ok(bytes)
            }
            None => {
                self.is_short = true;
                Err(wrong(self.at, &format!("{what} must be read, got the beginning of the file")))
            }
        }
    }

    /// Returns a copy of the next `count` bytes.
    pub fn bytes(&mut self, what: &str, count: u64) -> Result<Vec<u8>> {
        let bytes = self.taken(what, count)?;
        let mut own = try_vec("gguf", bytes.len())?;
        own.extend_from_slice(bytes);
        Ok(own)
    }

    /// Reads the bytes of a number.
    pub fn number<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.taken(what, N as u64)?;
        Ok(bytes.try_into().expect("these are so many bytes"))
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.number(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.number(what)?))
    }

    /// Reads a string, which is a length and UTF-8.
    pub fn string(&mut self, what: &str) -> Result<String> {
        let length = self.u64(what)?;
        let at = self.at;
        String::from_utf8(self.bytes(what, length)?)
            .map_err(|error| wrong(at, &format!("{what} must be UTF-8, got {error}")))
    }

    /// Reads a name, which is a string short enough for error messages.
    pub fn name(&mut self, what: &str) -> Result<String> {
        let at = self.at;
        let name = self.string(what)?;
        match name.len() as u64 {
            0..=LONGEST => Ok(name),
            length => {
                Err(wrong(at, &format!("{what} must have at most {LONGEST} bytes, got {length}")))
            }
        }
    }
}

/// Returns the error with the offset of a byte in front.
pub fn about(at: u64, error: &Error) -> Error {
    Error::new(error.kind(), format!("gguf: at byte {at}: {}", error.message()))
}
