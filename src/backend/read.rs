//! Reading: a callback gets the bytes in mapped memory, so that they are copied once.

use super::{Backend, BufferId, Pending};
use crate::alloc::try_vec;
use crate::error::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// A callback that receives the bytes of a read. They are valid only during the call.
#[cfg(not(target_arch = "wasm32"))]
pub type Take = Box<dyn FnOnce(&[u8]) -> Result<()> + Send>;
/// A callback that receives the bytes of a read. They are valid only during the call.
#[cfg(target_arch = "wasm32")]
pub type Take = Box<dyn FnOnce(&[u8]) -> Result<()>>;

/// A range of a buffer to read: `len` bytes from `offset`, both multiples of 4, and the callback for the bytes.
pub struct ReadRange {
    pub buffer: BufferId,
    pub offset: u64,
    pub len: u64,
    pub take: Take,
}

/// The result of a read, once its callback has run.
pub(crate) struct ReadResult<T>(Arc<Mutex<Option<Vec<T>>>>);

impl<T> ReadResult<T> {
    /// Returns the result.
    pub fn get(self) -> Result<Vec<T>> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| Error::state("read: the device must return bytes, got none"))
    }
}

/// Creates a callback that converts bytes to `count` elements by `append`, and the place of its result.
pub(crate) fn read_callback<T: Send + 'static>(
    count: usize,
    append: impl FnOnce(&[u8], &mut Vec<T>) -> Result<()> + Send + 'static,
) -> (Take, ReadResult<T>) {
    let taken = ReadResult(Arc::default());
    let place = taken.0.clone();
    let take = move |bytes: &[u8]| {
        let mut elements = try_vec("read", count)?;
        append(bytes, &mut elements)?;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(elements);
        Ok(())
    };
    (Box::new(take), taken)
}

/// Reads one range as bytes.
pub(super) fn read<B: Backend + ?Sized>(
    backend: &B,
    buffer: BufferId,
    offset: u64,
    len: u64,
) -> Pending<Result<Vec<u8>>> {
    let count = usize::try_from(len).unwrap_or(usize::MAX);
    let (take, taken) = read_callback(count, |bytes, all: &mut Vec<u8>| {
        all.extend_from_slice(bytes);
        Ok(())
    });
    let read = backend.read_parts(vec![ReadRange { buffer, offset, len, take }]);
    Box::pin(async move {
        read.await?;
        taken.get()
    })
}
