//! ZIP archives, as far as NumPy uses them: stored or deflated members, below 4 GiB (PKWARE, APPNOTE.TXT 6.3.10). Other bytes
//! may precede the archive. Offsets then count from the beginning of the archive, as in Python's `zipfile`.

use super::elements::FILE;
use crate::alloc::{try_copy, try_extend};
use crate::error::{Error, ErrorKind, Result};
use crate::sorted;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use flate2::{Compression, Crc};
use std::io::Read;

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const LOCAL_SIZE: usize = 30;
const CENTRAL_SIZE: usize = 46;
const END_SIZE: usize = 22;
/// The value that replaces a number with a separate 64-bit field.
const ELSEWHERE: u32 = u32::MAX;
/// The bytes that are unpacked at once.
const CHUNK: usize = 1 << 16;
/// The version 2.0 of the format, which has deflated members.
const VERSION: u16 = 20;
/// The flag for names in UTF-8.
const UTF8: u16 = 1 << 11;
/// January 1, 1980. A constant date makes the files of equal arrays equal.
const DATE: u16 = 1 << 5 | 1;

/// A member of an archive.
pub(super) struct Member {
    pub name: String,
    deflated: bool,
    crc: u32,
    packed: usize,
    size: usize,
    /// The offset of the first byte.
    start: usize,
}

/// Returns the members of an archive in the order of its directory, or the reason why the archive is invalid.
pub(super) fn members(bytes: &[u8]) -> std::result::Result<Vec<Member>, String> {
    let end = end_of(bytes).ok_or("no end of a ZIP archive's directory")?;
    let [disk, first, here, all] = [4, 6, 8, 10].map(|at| word(bytes, end + at));
    if disk != 0 || first != 0 || here != all {
        return Err(format!("several parts at offset {end}"));
    }
    let (size, start) = (long(bytes, end + 12), long(bytes, end + 16));
    if size == ELSEWHERE || start == ELSEWHERE || all == u16::MAX {
        return Err(format!("the 64-bit form at offset {end}"));
    }
    let (size, start) = (size as usize, start as usize);
    let Some(before) = start.checked_add(size).and_then(|behind| end.checked_sub(behind)) else {
        return Err(format!(
            "a directory of {size} bytes at {start} that does not end at offset {end}"
        ));
    };
    let start = before + start;
    let (mut at, mut members) = (start, Vec::new());
    while at < end {
        let (member, next) = member(bytes, before, at, end)?;
        members.push((at, member));
        at = next;
    }
    if members.len() != usize::from(all) {
        return Err(format!("{} members, where the end at offset {end} says {all}", members.len()));
    }
    let mut spaces: Vec<(usize, usize, usize)> = Vec::with_capacity(members.len());
    for (at, member) in &members {
        spaces.push((member.start, member.start.saturating_add(member.packed), *at));
    }
    sorted::sort(&mut spaces);
    let mut free = before;
    for (begin, behind, at) in spaces {
        if begin < free || behind > start {
            return Err(format!(
                "a member at offset {at} from {begin} to {behind}, which overlaps another part"
            ));
        }
        free = behind;
    }
    Ok(members.into_iter().map(|(_, member)| member).collect())
}

/// Returns the offset of the end of the directory. It is the last offset from which the record and its comment fill the file.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(END_SIZE)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let is_end = |&at: &usize| {
        bytes[at..].starts_with(&END)
            && at + END_SIZE + usize::from(word(bytes, at + 20)) == bytes.len()
    };
    (first..=last).rev().find(is_end)
}

/// Parses the member at offset `at` of the directory. Returns also the offset of the next one. The archive begins after
/// `before` bytes.
fn member(
    bytes: &[u8],
    before: usize,
    at: usize,
    end: usize,
) -> std::result::Result<(Member, usize), String> {
    let wrong = |what: &str| Err(format!("a member at offset {at} that {what}"));
    if at + CENTRAL_SIZE > end || bytes[at..at + 4] != CENTRAL {
        return wrong("is not of a directory");
    }
    let [flags, method, name, extra, comment] = [8, 10, 28, 30, 32].map(|n| word(bytes, at + n));
    let [crc, packed, size, local] = [16, 20, 24, 42].map(|n| long(bytes, at + n));
    let next = at + CENTRAL_SIZE + [name, extra, comment].map(usize::from).iter().sum::<usize>();
    if next > end {
        return wrong("goes beyond the directory");
    }
    let name = &bytes[at + CENTRAL_SIZE..][..usize::from(name)];
    let Ok(text) = std::str::from_utf8(name) else {
        return wrong("has a name that is not UTF-8");
    };
    let wrong = |what: &str| Err(format!("{text:?} at offset {at}, which {what}"));
    if flags & 1 != 0 {
        return wrong("is encrypted");
    }
    if method != 0 && method != 8 {
        return wrong(&format!("is packed by method {method}, neither stored nor deflated"));
    }
    if packed == ELSEWHERE || size == ELSEWHERE || local == ELSEWHERE {
        return wrong("is of the 64-bit form");
    }
    let local = before.saturating_add(local as usize);
    if local.saturating_add(LOCAL_SIZE) > at || bytes[local..local + 4] != LOCAL {
        return wrong(&format!("does not begin at {local}"));
    }
    let [own, more] = [26, 28].map(|n| usize::from(word(bytes, local + n)));
    let start = local + LOCAL_SIZE + own + more;
    if bytes.get(local + LOCAL_SIZE..local + LOCAL_SIZE + own) != Some(name) {
        return wrong(&format!("has another name at {local}"));
    }
    if word(bytes, local + 8) != method {
        return wrong(&format!("is packed by another method at {local}"));
    }
    let (packed, size) = (packed as usize, size as usize);
    if method == 0 && packed != size {
        return wrong(&format!("is stored with {packed} bytes, not {size}"));
    }
    let name = text.to_string();
    Ok((Member { name, deflated: method == 8, crc, packed, size, start }, next))
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) | u32::from(word(bytes, at + 2)) << 16
}

impl Member {
    /// Unpacks the bytes of the member. Memory is allocated while bytes are unpacked, because the size in the archive is not
    /// trusted.
    pub fn unpack(&self, archive: &[u8]) -> Result<Vec<u8>> {
        let packed = &archive[self.start..self.start + self.packed];
        let start = self.start;
        let unpacked = match self.deflated {
            false => try_copy(FILE, packed)?,
            true => {
                let mut decoder = DeflateDecoder::new(packed);
                let wrong = |error| {
                    Error::format(format!("bytes at offset {start} must be deflated, got {error}"))
                };
                let unpacked = inflate(&mut decoder, self.size)?.map_err(wrong)?;
                if decoder.total_in() != packed.len() as u64 {
                    let (read, all) = (decoder.total_in(), packed.len());
                    let message = format!(
                        "bytes at offset {start} must all be deflated, got {read} of {all}"
                    );
                    return Err(Error::format(message));
                }
                unpacked
            }
        };
        if unpacked.len() != self.size {
            let message = format!(
                "the member at offset {start} must have {} bytes, got {} or more",
                self.size,
                unpacked.len()
            );
            return Err(Error::format(message));
        }
        let mut crc = Crc::new();
        crc.update(&unpacked);
        if crc.sum() != self.crc {
            let (sum, want) = (crc.sum(), self.crc);
            let message =
                format!("the checksum at offset {start} must be {want:08x}, got {sum:08x}");
            return Err(Error::format(message));
        }
        Ok(unpacked)
    }
}

/// Inflates up to `size` bytes and one more, which shows that the member is too long.
fn inflate(decoder: &mut impl Read, size: usize) -> Result<std::io::Result<Vec<u8>>> {
    let mut unpacked: Vec<u8> = Vec::new();
    let mut chunk = [0; CHUNK];
    while unpacked.len() <= size {
        let most = CHUNK.min(size + 1 - unpacked.len());
        match decoder.read(&mut chunk[..most]) {
            Ok(0) => break,
            Ok(count) => {
                let refused = unpacked.try_reserve(count).is_err();
                if refused {
                    let message = format!("the bytes must fit into memory, got {size}");
                    return Err(Error::new(ErrorKind::Memory, message));
                }
                unpacked.extend_from_slice(&chunk[..count]);
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(unpacked))
}

/// Deflates bytes.
fn deflate(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(bytes, Compression::default());
    let (mut packed, mut chunk) = (Vec::new(), [0; CHUNK]);
    loop {
        match encoder.read(&mut chunk).expect("memory is read without errors") {
            0 => return Ok(packed),
            count => try_extend(FILE, &mut packed, &chunk[..count])?,
        }
    }
}

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Writer {
    file: Vec<u8>,
    directory: Vec<u8>,
    members: usize,
    /// Whether a name or a member is too long for its field.
    long: bool,
}

impl Writer {
    /// Adds a member.
    pub fn add(&mut self, name: &str, bytes: &[u8], deflated: bool) -> Result<()> {
        let mut crc = Crc::new();
        crc.update(bytes);
        let deflated_bytes = if deflated { deflate(bytes)? } else { Vec::new() };
        let packed = if deflated { &deflated_bytes[..] } else { bytes };
        let method = if deflated { 8u16 } else { 0 };
        let begin = self.file.len() as u32;
        // The fields that the header of a member and the directory share. `finish` rejects sizes that do not fit.
        let mut both = Vec::new();
        for word in [VERSION, UTF8, method, 0, DATE] {
            both.extend(word.to_le_bytes());
        }
        for long in [crc.sum(), packed.len() as u32, bytes.len() as u32] {
            both.extend(long.to_le_bytes());
        }
        both.extend((name.len() as u16).to_le_bytes());
        both.extend([0; 2]);
        for part in [&LOCAL[..], &both, name.as_bytes(), packed] {
            try_extend(FILE, &mut self.file, part)?;
        }
        let head = [&CENTRAL[..], &VERSION.to_le_bytes(), &both, &[0; 10], &begin.to_le_bytes()];
        self.directory.extend([&head.concat()[..], name.as_bytes()].concat());
        self.members += 1;
        self.long |= name.len() > usize::from(u16::MAX);
        // The unpacked bytes are at least as limited as the packed ones, so their length is checked here.
        self.long |= bytes.len() as u64 >= u64::from(ELSEWHERE);
        Ok(())
    }

    /// Finishes the archive and returns its bytes.
    pub fn finish(self) -> Result<Vec<u8>> {
        let Writer { mut file, directory, members, long } = self;
        let whole = (file.len() + directory.len()) as u64;
        if long || whole >= u64::from(ELSEWHERE) || members >= usize::from(u16::MAX) {
            let message =
                format!("a ZIP archive must have less than 65535 members and 4 GiB, got {members} of {whole} bytes");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let start = file.len() as u32;
        let size = directory.len() as u32;
        try_extend(FILE, &mut file, &directory)?;
        file.extend(END);
        for word in [0, 0, members as u16, members as u16] {
            file.extend(word.to_le_bytes());
        }
        for long in [size, start] {
            file.extend(long.to_le_bytes());
        }
        file.extend([0; 2]);
        Ok(file)
    }
}
