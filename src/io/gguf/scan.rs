//! Reading the head of a GGUF file: numbers and strings one after the other, each checked against what the file still has.

use super::super::part::taken;
use crate::error::{Error, Result};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// Bytes that a name may have, as in the format's description.
const LONGEST: u64 = 65_535;

/// A file that is read from its beginning on. It knows where it is, and how many bytes are left.
pub struct Scan<R> {
    file: BufReader<R>,
    at: u64,
    length: u64,
}

/// An error about a byte of the file.
pub fn wrong(at: u64, what: &str) -> Error {
    Error::data(format!("gguf: at byte {at}: {what}"))
}

impl<R: Read + Seek> Scan<R> {
    /// A file, from its first byte on.
    pub fn new(mut file: R) -> Result<Scan<R>> {
        let length = file.seek(SeekFrom::End(0)).map_err(|error| unread(0, &error))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| unread(0, &error))?;
        Ok(Scan { file: BufReader::new(file), at: 0, length })
    }

    /// The offset of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes the file has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Refuses `count` elements of at least `size` bytes that the file has no room for.
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

    /// The next `count` bytes.
    pub fn bytes(&mut self, what: &str, count: u64) -> Result<Vec<u8>> {
        self.need(what, count, 1)?;
        let bytes = taken(&mut self.file, count).map_err(|error| about(self.at, &error))?;
        self.at += count;
        Ok(bytes)
    }

    /// The bytes of a number.
    pub fn number<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.need(what, N as u64, 1)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|error| unread(self.at, &error))?;
        self.at += N as u64;
        Ok(bytes)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.number(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.number(what)?))
    }

    /// A string: its length, and UTF-8.
    pub fn string(&mut self, what: &str) -> Result<String> {
        let length = self.u64(what)?;
        let at = self.at;
        String::from_utf8(self.bytes(what, length)?)
            .map_err(|error| wrong(at, &format!("{what} must be UTF-8, got {error}")))
    }

    /// A name: a string that errors can show.
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

    /// Some bytes that come next, without taking them.
    pub fn peek(&mut self) -> Result<&[u8]> {
        self.file.fill_buf().map_err(|error| unread(self.at, &error))
    }
}

/// What went wrong at a byte, as an error of the same kind.
pub fn about(at: u64, error: &Error) -> Error {
    Error::new(error.kind(), format!("gguf: at byte {at}: {}", error.message()))
}

/// The error of a file that cannot be read.
fn unread(at: u64, error: &std::io::Error) -> Error {
    wrong(at, &format!("the file must be readable, got {error}"))
}
