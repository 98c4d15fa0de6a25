//! wgpu's adapters and buffers, as they are in a browser.

use wasm_bindgen::JsValue;

/// What opens a device: a `GPUAdapter`.
pub(in super::super) type Handle = JsValue;

/// Gives a buffer's memory back now: nothing else does before JavaScript's collector comes.
pub(in super::super) fn discard(buffer: &wgpu::Buffer) {
    buffer.destroy();
}

/// Whether both are the same buffer.
#[cfg(feature = "wgpu-interop")]
pub(in super::super) fn is_same(a: &wgpu::Buffer, b: &wgpu::Buffer) -> bool {
    a.as_webgpu().map(AsRef::<JsValue>::as_ref) == b.as_webgpu().map(AsRef::<JsValue>::as_ref)
}
