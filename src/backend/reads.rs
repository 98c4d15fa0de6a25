//! Reading: bytes are taken where they lie, so that they are copied once.

use super::{Backend, BufferId, Pending};
use crate::error::{Error, Result};
use crate::room::room;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes bytes where they lie: they are gone afterwards.
#[cfg(not(target_arch = "wasm32"))]
pub type Take = Box<dyn FnOnce(&[u8]) -> Result<()> + Send>;
/// Takes bytes where they lie: they are gone afterwards.
#[cfg(target_arch = "wasm32")]
pub type Take = Box<dyn FnOnce(&[u8]) -> Result<()>>;

/// A part of a buffer that is to be read: `len` bytes from `offset`, which are multiples of 4, and who takes them.
pub struct Part {
    pub buffer: BufferId,
    pub offset: u64,
    pub len: u64,
    pub take: Take,
}

/// What was taken, if it was.
pub(crate) struct Taken<T>(Arc<Mutex<Option<Vec<T>>>>);

impl<T> Taken<T> {
    /// What was taken, once.
    pub fn get(self) -> Result<Vec<T>> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| Error::data("read: the device must return bytes, got none"))
    }
}

/// Takes bytes as `count` elements, which `append` makes of them or refuses; and where these are then.
pub(crate) fn take<T: Send + 'static>(
    count: usize,
    append: impl FnOnce(&[u8], &mut Vec<T>) -> Result<()> + Send + 'static,
) -> (Take, Taken<T>) {
    let taken = Taken(Arc::default());
    let place = taken.0.clone();
    let take = move |bytes: &[u8]| {
        let mut elements = room("read", count)?;
        append(bytes, &mut elements)?;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(elements);
        Ok(())
    };
    (Box::new(take), taken)
}

/// One part, as bytes.
pub(super) fn read<B: Backend + ?Sized>(
    backend: &B,
    buffer: BufferId,
    offset: u64,
    len: u64,
) -> Pending<Result<Vec<u8>>> {
    let count = usize::try_from(len).unwrap_or(usize::MAX);
    let (take, taken) = take(count, |bytes, all: &mut Vec<u8>| {
        all.extend_from_slice(bytes);
        Ok(())
    });
    let read = backend.read_parts(vec![Part { buffer, offset, len, take }]);
    Box::pin(async move {
        read.await?;
        taken.get()
    })
}
