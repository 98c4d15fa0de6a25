//! wgpu's adapters and buffers, as they are natively.

/// What opens a device.
pub(in super::super) type Handle = wgpu::Adapter;

/// Gives a buffer's memory back. Dropping it is enough, and `destroy` would wait for the thread that polls.
pub(in super::super) fn discard(_: &wgpu::Buffer) {}

/// Whether both are the same buffer.
#[cfg(feature = "wgpu-interop")]
pub(in super::super) fn is_same(a: &wgpu::Buffer, b: &wgpu::Buffer) -> bool {
    a == b
}
