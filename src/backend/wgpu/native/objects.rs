//! Handles of wgpu objects on native platforms.

use std::ops::Deref;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The handle that opens a device.
pub(in super::super) type Handle = wgpu::Adapter;

/// Frees a buffer. Dropping the buffer is enough, and `destroy` would wait for the polling thread.
pub(in super::super) fn discard(_: &wgpu::Buffer) {}

/// Whether both are the same buffer.
#[cfg(feature = "wgpu-interop")]
pub(in super::super) fn is_same(a: &wgpu::Buffer, b: &wgpu::Buffer) -> bool {
    a == b
}

/// A queue whose drop waits for what was submitted to it, and never panics. wgpu's own waits if it is the last handle, but
/// panics if the driver fails then. That is a loss of the device, and nothing is left that could report it.
pub(super) struct Queue(Option<wgpu::Queue>);

impl Queue {
    pub(super) fn new(queue: wgpu::Queue) -> Queue {
        Queue(Some(queue))
    }
}

impl Deref for Queue {
    type Target = wgpu::Queue;

    fn deref(&self) -> &wgpu::Queue {
        match &self.0 {
            Some(queue) => queue,
            None => unreachable!("only drop takes the queue"),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let queue = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(move || drop(queue)));
    }
}
