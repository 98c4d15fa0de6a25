//! What a page shares, as JavaScript has it. wgpu takes neither its device nor its buffers; but it is answered with them where
//! it asks the browser for such.

use super::adapters::{adopt, said, told, while_it_is};
use super::raw;
use crate::backend::wgpu::WgpuBackend;
use crate::error::{Error, ErrorKind, Result};
use wasm_bindgen::prelude::*;

/// A backend on a page's `GPUDevice`.
///
/// # Errors
/// `NoDevice`, `Limit` where it cannot compute or was opened with too little.
pub async fn device(device: JsValue) -> Result<WgpuBackend> {
    let (info, could) = told(&device);
    let opened = adopt(device).await.map_err(|why| {
        let message = format!("from: the device must be one that can be shared, got {why}");
        Error::new(ErrorKind::NoDevice, message)
    })?;
    WgpuBackend::on_lent(info, &could, opened, "from")
}

impl WgpuBackend {
    /// A page's `GPUBuffer` as wgpu's, of so many bytes and for these uses.
    ///
    /// # Errors
    /// `Unsupported` where the page's device object takes no properties.
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
        let made = while_it_is(object, "createBuffer", create.as_ref(), || {
            device.create_buffer(&descriptor)
        });
        made.map_err(|thrown| {
            let why = said(&thrown);
            let message = format!("tensorFromBuffer: the device must be open, got {why}");
            Error::new(ErrorKind::Unsupported, message)
        })
    }
}
