//! Files whose parts are read on demand, from a disk or over a network.

use super::part::part;
use crate::error::Result;
use std::future::Future;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A file whose parts can be read. Every type with `Read` and `Seek`, such as `std::fs::File`, is one, and answers at once.
///
/// ```
/// # pollster::block_on(async {
/// use std::ops::Range;
/// use warpweft::{error::Result, io::{Gguf, Source}};
///
/// /// A file that another task has.
/// struct Remote;
///
/// impl Source for Remote {
///     async fn length(&mut self) -> Result<u64> {
///         Ok(4)
///     }
///
///     async fn read_range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
///         Ok(b"GGML"[range.start as usize..range.end as usize].to_vec())
///     }
/// }
///
/// let error = Gguf::read_from(&mut Remote).await.expect_err("another format");
/// assert!(error.message().contains("must begin with `GGUF`"));
/// # }) // No error is left.
/// ```
pub trait Source {
    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// `Format` if the file cannot be read.
    fn length(&mut self) -> impl Future<Output = Result<u64>>;

    /// Reads a range of bytes.
    ///
    /// # Errors
    /// `Format` if the file cannot be read or is shorter, `Memory`.
    fn read_range(&mut self, range: Range<u64>) -> impl Future<Output = Result<Vec<u8>>>;
}

impl<F: Read + Seek> Source for F {
    async fn length(&mut self) -> Result<u64> {
        self.seek(SeekFrom::End(0)).map_err(super::part::unread)
    }

    async fn read_range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        part(self, &range)
    }
}

/// Returns the result of reading a file that answers at once.
pub fn at_once<T>(read: impl Future<Output = T>) -> T {
    match pin!(read).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => read,
        Poll::Pending => unreachable!("a file that is read and sought in answers at once"),
    }
}
