//! Sharing a `GPUDevice` with the page: the core's part of `www/src/share.ts`.

use super::host::host;
use super::objects::{Object, Slot};
use super::returns::device_object;
use super::{promise, Answer, At, FromJs, IntoJs, JsDevice, JsTensor, Shell};
use crate::backend::wgpu::{from_javascript, WgpuBackend};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use js_sys::Promise;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Opens a device on the page's `GPUDevice`.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn share(device: JsValue) -> Promise {
        promise(async move {
            let backend = from_javascript::device(device).await?;
            Ok(device_object(&Device::from_backend(Box::new(backend), None)))
        })
    }

    /// Makes a tensor from a buffer of the page.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn borrow(&self, buffer: &JsValue, dtype: &JsValue, shape: &JsValue) -> Answer<JsTensor> {
        let op = "tensorFromBuffer";
        let device = self.core(op)?;
        let dtype = DType::from_js(dtype, At { op, argument: "dtype" })?;
        let shape = Vec::<usize>::from_js(shape, At { op, argument: "shape" })?;
        let facts = host(|host| host.buffer(buffer));
        let Some(&[size, usage]) = facts.as_deref() else {
            return Err(At { op, argument: "buffer" }.refuse(buffer, "a GPUBuffer").into());
        };
        let backend = device.backend::<WgpuBackend>().ok_or_else(|| no_gpu(op))?;
        let buffer = backend.adopt_buffer(buffer, size as u64, usage as u32)?;
        let made = device.tensor_from_wgpu(&buffer, dtype, &shape);
        Ok(made.map_err(|error| error.within(op))?.into_js()?)
    }
}

#[wasm_bindgen(js_class = "Tensor")]
impl JsTensor {
    /// Returns the tensor's buffer, its length in bytes, and the number of a slot that keeps the tensor alive until [`unpin`].
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn pin(&self) -> Answer<Vec<JsValue>> {
        let op = "gpuBuffer";
        let tensor = self.core(op)?;
        let shown = tensor.wgpu_buffer().map_err(|error| error.within(op))?;
        let buffer: &JsValue = shown.as_webgpu().ok_or_else(|| no_gpu(op))?.as_ref();
        let (buffer, bytes) = (buffer.clone(), shown.byte_len() as f64);
        let slot = Slot::new(Object::Tensor(tensor)).leave();
        Ok(vec![buffer, bytes.into(), slot.into()])
    }
}

/// Frees a slot of [`JsTensor::pin`].
#[wasm_bindgen(skip_typescript, skip_jsdoc)]
pub fn unpin(slot: u32) {
    drop(Slot::left(slot));
}

fn no_gpu(op: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{op}: the device must be a GPU, got the CPU"))
}
