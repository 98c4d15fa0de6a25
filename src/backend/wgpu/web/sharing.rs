//! Sharing with a page: its `GPUDevice` and its `GPUBuffer`s. wgpu accepts neither. These functions therefore answer wgpu's
//! calls to the browser with the objects of the page.

use super::adapters::{adopt, exception_message, info_and_limits, with_property};
use super::raw;
use crate::backend::wgpu::WgpuBackend;
use crate::error::{Error, ErrorKind, Result};
use wasm_bindgen::prelude::*;

/// Creates a backend on a page's `GPUDevice`.
///
/// # Errors
/// `NoDevice` or `Limit` if the device cannot compute, or was opened with too low limits.
pub async fn device(device: JsValue) -> Result<WgpuBackend> {
    let (info, could) = info_and_limits(&device);
    let opened = adopt(device).await.map_err(|why| {
        let message = format!("from: the device must be one that can be shared, got {why}");
        Error::new(ErrorKind::NoDevice, message)
    })?;
    WgpuBackend::on_lent(info, &could, opened, "from")
}

impl WgpuBackend {
    /// Wraps a page's `GPUBuffer` as a wgpu buffer with this size and usage.
    ///
    /// # Errors
    /// `Unsupported` if properties of the page's device object cannot be set.
    pub fn adopt_buffer(&self, buffer: &JsValue, size: u64, usage: u32) -> Result<wgpu::Buffer> {
        let device = &self.gpu.device;
        let descriptor = wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::from_bits_truncate(usage),
            mapped_at_creation: false,
        };
        let answer = buffer.clone();
        let create = Closure::<dyn Fn() -> JsValue>::new(move || answer.clone());
        let object = raw(device).unchecked_ref();
        let made = with_property(object, "createBuffer", create.as_ref(), || {
            device.create_buffer(&descriptor)
        });
        made.map_err(|thrown| {
            let why = exception_message(&thrown);
            let message = format!("tensorFromBuffer: the device must be open, got {why}");
            Error::new(ErrorKind::Unsupported, message)
        })
    }
}
