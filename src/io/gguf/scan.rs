//! Reading the head of a GGUF file: numbers and strings one after the other, each checked against what the file still has.

use crate::error::{Error, Result};
use crate::room::room;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

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

    /// So many bytes.
    pub fn bytes(&mut self, what: &str, count: u64) -> Result<Vec<u8>> {
        let count = self.need(what, count, 1)?;
        let mut bytes = room("gguf", count)?;
        bytes.resize(count, 0);
        self.file.read_exact(&mut bytes).map_err(|error| unread(self.at, &error))?;
        self.at += count as u64;
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

    /// Whether the bytes that come next are these. They are not taken.
    pub fn begins_with(&mut self, bytes: &[u8]) -> Result<bool> {
        Ok(self.file.fill_buf().map_err(|error| unread(self.at, &error))?.starts_with(bytes))
    }
}

/// The error of a file that cannot be read.
pub fn unread(at: u64, error: &std::io::Error) -> Error {
    wrong(at, &format!("the file must be readable, got {error}"))
}
