//! Handles of wgpu objects in a browser.

use wasm_bindgen::JsValue;

/// The handle that opens a device: a `GPUAdapter`.
pub(in super::super) type Handle = JsValue;

/// Destroys a buffer now. Otherwise its memory would be freed only when JavaScript collects garbage.
pub(in super::super) fn discard(buffer: &wgpu::Buffer) {
    buffer.destroy();
}

/// Whether both are the same buffer.
#[cfg(feature = "wgpu-interop")]
pub(in super::super) fn is_same(a: &wgpu::Buffer, b: &wgpu::Buffer) -> bool {
    a.as_webgpu().map(AsRef::<JsValue>::as_ref) == b.as_webgpu().map(AsRef::<JsValue>::as_ref)
}
