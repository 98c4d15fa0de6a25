//! Reads parts of a file into memory, and checks that the part and the memory exist.

use crate::alloc::try_vec;
use crate::error::{Error, Result};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// Reads the next bytes of a file, which must have them.
pub(super) fn taken(file: &mut impl Read, length: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(length)
        .map_err(|_| Error::format(format!("the part must fit into memory, got {length} bytes")))?;
    let mut bytes = try_vec("file", length)?;
    bytes.resize(length, 0);
    file.read_exact(&mut bytes).map_err(unread)?;
    Ok(bytes)
}

/// Reads a range of bytes.
pub(super) fn part(file: &mut (impl Read + Seek), range: &Range<u64>) -> Result<Vec<u8>> {
    let Range { start, end } = *range;
    let whole = file.seek(SeekFrom::End(0)).map_err(unread)?;
    if start > end || end > whole {
        return Err(Error::format(format!(
            "offsets must be inside the file of {whole} bytes, got {start} to {end}"
        )));
    }
    file.seek(SeekFrom::Start(start)).map_err(unread)?;
    taken(file, end - start)
}

/// Returns the error for a file that cannot be read.
pub(super) fn unread(error: std::io::Error) -> Error {
    Error::format(format!("the file must be readable, got {error}"))
}
