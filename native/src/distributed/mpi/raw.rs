//! Calls of the MPI library, and requests, its operations in flight.
//!
//! MPI is opened for calls from any thread, but one at a time. The lock of the engine guarantees this.

use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// A result whose error is the text of the MPI library.
pub type Result<T> = std::result::Result<T, String>;

/// A group of ranks with its own messages.
pub struct Comm {
    raw: ffi::MPI_Comm,
    pub rank: usize,
    pub size: usize,
}

/// An operation in flight. Dropping a request does not end the operation.
pub struct Request(ffi::MPI_Request);

/// A message that has arrived.
pub struct Arrival {
    pub from: usize,
    pub tag: i32,
    pub len: usize,
}

// SAFETY: MPI accepts calls from any thread, and the lock of the engine allows one at a time.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Send for Request {}

/// Returns the error of a code that MPI returned.
fn check(code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0u8; 1024];
    let mut len = 0;
    // SAFETY: MPI writes at most `MPI_MAX_ERROR_STRING` bytes, which are fewer.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut len) };
    let text = String::from_utf8_lossy(&text[..(len.max(0) as usize).min(text.len())]);
    Err(format!("MPI returned an error ({})", text.trim_end()))
}

/// Returns a count for MPI. The engine splits what is longer.
fn count(len: usize) -> Result<c_int> {
    c_int::try_from(len).map_err(|_| format!("MPI sends at most {} values, got {len}", c_int::MAX))
}

/// Starts an operation. `start` gets the place of the request.
fn request(start: impl FnOnce(*mut ffi::MPI_Request) -> c_int) -> Result<Request> {
    let mut raw = MaybeUninit::uninit();
    check(start(raw.as_mut_ptr()))?;
    // SAFETY: MPI has written the request, because the call succeeded.
    Ok(Request(unsafe { raw.assume_init() }))
}

/// The methods that start an operation are unsafe, because its memory must live, and must not be accessed, until the request
/// is done.
impl Comm {
    /// Creates a group of all ranks. It blocks until every rank has called it. Its errors are returned, while those of
    /// `MPI_COMM_WORLD` end the process.
    pub fn new() -> Result<Comm> {
        let (mut raw, mut rank, mut size) = (MaybeUninit::uninit(), 0, 0);
        // SAFETY: MPI is open, and writes the group before it is used.
        unsafe {
            check(ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, raw.as_mut_ptr()))?;
            let raw = raw.assume_init();
            check(ffi::MPI_Comm_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN))?;
            check(ffi::MPI_Comm_rank(raw, &mut rank))?;
            check(ffi::MPI_Comm_size(raw, &mut size))?;
            Ok(Comm { raw, rank: rank as usize, size: size as usize })
        }
    }

    /// Gathers the bytes of all ranks. It blocks.
    pub fn gather_now(&self, own: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; own.len() * self.size];
        // SAFETY: the memory lives until the request is done.
        let mut request = unsafe { self.gather(own, &mut all)? };
        while request.test()?.is_none() {
            std::thread::yield_now();
        }
        Ok(all)
    }

    /// Starts the sum over all ranks.
    pub unsafe fn sum(&self, input: &[f32], output: &mut [f32]) -> Result<Request> {
        let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        let count = count(input.len().min(output.len()))?;
        // SAFETY: both slices have as many values. The caller keeps them.
        request(|place| unsafe {
            let (kind, op) = (ffi::RSMPI_FLOAT, ffi::RSMPI_SUM);
            ffi::MPI_Iallreduce(from, to, count, kind, op, self.raw, place)
        })
    }

    /// Starts the sum over all ranks, whose part number `rank` is the output.
    pub unsafe fn sum_part(&self, input: &[f32], output: &mut [f32]) -> Result<Request> {
        let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        let count = count((input.len() / self.size).min(output.len()))?;
        // SAFETY: the input has `size` times as many values. The caller keeps both slices.
        request(|place| unsafe {
            let (kind, op) = (ffi::RSMPI_FLOAT, ffi::RSMPI_SUM);
            ffi::MPI_Ireduce_scatter_block(from, to, count, kind, op, self.raw, place)
        })
    }

    /// Starts to copy the bytes of the rank `root` to all ranks.
    pub unsafe fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<Request> {
        let (data, len, root) = (bytes.as_mut_ptr().cast(), count(bytes.len())?, root as c_int);
        // SAFETY: the caller keeps the slice.
        request(|place| unsafe {
            ffi::MPI_Ibcast(data, len, ffi::RSMPI_UINT8_T, root, self.raw, place)
        })
    }

    /// Starts to gather the bytes of all ranks.
    pub unsafe fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<Request> {
        let (from, to): (*const c_void, _) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let len = count(own.len().min(all.len() / self.size))?;
        // SAFETY: `all` has `size` times as many bytes. The caller keeps both slices.
        request(|place| unsafe {
            let kind = ffi::RSMPI_UINT8_T;
            ffi::MPI_Iallgather(from, len, kind, to, len, kind, self.raw, place)
        })
    }

    /// Starts to send bytes to a rank.
    pub unsafe fn send(&self, to: usize, tag: i32, bytes: &[u8]) -> Result<Request> {
        let (data, len, to) = (bytes.as_ptr().cast(), count(bytes.len())?, to as c_int);
        // SAFETY: the caller keeps the slice.
        request(|place| unsafe {
            ffi::MPI_Isend(data, len, ffi::RSMPI_UINT8_T, to, tag, self.raw, place)
        })
    }

    /// Starts to receive bytes from any rank.
    pub unsafe fn receive(&self, bytes: &mut [u8]) -> Result<Request> {
        let (data, len) = (bytes.as_mut_ptr().cast(), count(bytes.len())?);
        // SAFETY: the caller keeps the slice.
        request(|place| unsafe {
            let (kind, any, tag) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG);
            ffi::MPI_Irecv(data, len, kind, any, tag, self.raw, place)
        })
    }
}

impl Request {
    /// Returns an arrival if the operation is done. Its fields have a meaning only if it received a message. Not called again
    /// after that.
    pub fn test(&mut self) -> Result<Option<Arrival>> {
        let (mut is_done, mut len) = (0, 0);
        let mut status = MaybeUninit::<ffi::MPI_Status>::zeroed();
        // SAFETY: the request is in flight. MPI writes the status if it is done, and zeros are a status, too.
        let status = unsafe {
            check(ffi::MPI_Test(&mut self.0, &mut is_done, status.as_mut_ptr()))?;
            status.assume_init()
        };
        if is_done == 0 {
            return Ok(None);
        }
        // SAFETY: the status is that of a request that is done.
        unsafe { ffi::MPI_Get_count(&status, ffi::RSMPI_UINT8_T, &mut len) };
        let from = status.MPI_SOURCE.max(0) as usize;
        Ok(Some(Arrival { from, tag: status.MPI_TAG, len: len.max(0) as usize }))
    }

    /// Ends a request that receives a message.
    pub fn cancel(mut self) {
        // SAFETY: the request is in flight, and a receiving request can always be canceled.
        unsafe {
            ffi::MPI_Cancel(&mut self.0);
            ffi::MPI_Wait(&mut self.0, ffi::RSMPI_STATUS_IGNORE);
        }
    }
}
