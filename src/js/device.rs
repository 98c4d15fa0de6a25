//! Devices: opening, data from JavaScript, plans of submissions, and the choice of kernels.

use super::objects::{dispose_device, Object, Slot};
use super::reading::{byte_length, copied, elements, Part};
use super::returns::{device_object, plan_object};
use super::{named, promise, Answer, At, FromJs, IntoJs, Known, Options, Shell, Value};
use super::{JsBatch, JsDevice, JsPlan, JsTensor};
use crate::backend::Compiling;
use crate::device::{CacheLimits, Device, KernelConfig};
use crate::dtype::DType;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::tune;
use js_sys::{Array, Function, Promise};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::prelude::*;
use web_sys::WorkerGlobalScope;

/// Returns milliseconds since an arbitrary moment. Pages have the same `performance` as workers.
fn now() -> f64 {
    let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
    scope.performance().map_or(0.0, |performance| performance.now())
}

#[wasm_bindgen]
extern "C" {
    /// Reports an error that no code can catch, as browsers do for errors in event listeners.
    #[wasm_bindgen(js_name = reportError)]
    fn report(error: &JsValue);
}

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Opens the device that this core is for. JavaScript has already checked which devices exist. `fallback` says why the
    /// device is not the expected one.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn open(low_power: bool, fallback: Option<String>) -> Promise {
        promise(async move {
            let device = Device::only(low_power, fallback).await?;
            Ok(device_object(&device))
        })
    }

    /// Returns the device's info and limits, and why it is the CPU if a GPU was expected.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn facts(&self) -> Answer<JsValue> {
        let device = self.core("device")?;
        let fallback = device.fallback().map(str::to_string);
        let info = device.info();
        let words = [info.backend, &info.name, &info.vendor, info.kind.name(), &info.driver];
        let words = words.map(JsValue::from_str);
        let info = named(&["backend", "name", "vendor", "kind", "driver"], words);
        let facts = [info, device.limits().into_js()?, fallback.value()];
        Ok(named(&["info", "limits", "fallback"], facts))
    }

    /// Makes a tensor from elements in the device's storage format.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn upload(
        &self,
        data: &js_sys::Uint8Array,
        dtype: &JsValue,
        shape: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "tensor";
        let device = self.core(op)?;
        let dtype = DType::from_js(dtype, At { op, argument: "dtype" })?;
        let shape = Vec::<usize>::from_js(shape, At { op, argument: "shape" })?;
        let (bytes, most) = (byte_length(data), device.limits().binding_bytes);
        if bytes > most {
            let message = format!(
                "{op}: a tensor must have at most {most} bytes on this device, got {bytes}"
            );
            return Err(Error::new(crate::error::ErrorKind::Limit, message).into());
        }
        Ok(device.tensor_from_bytes(&copied(op, data)?, &shape, dtype)?.into_js()?)
    }

    /// Makes an empty batch, which collects tensors to compute together.
    pub fn batch(&self) -> Answer<JsBatch> {
        let device = self.core("batch")?;
        let batch = Rc::new(RefCell::new(device.batch()));
        Ok(JsBatch(Slot::new(Object::Batch(device, batch))))
    }

    /// Returns the plan of the last submission, or undefined before the first.
    #[wasm_bindgen(js_name = lastPlan)]
    pub fn last_plan(&self) -> Answer<Option<JsPlan>> {
        let device = self.core("lastPlan")?;
        Ok(device.last_plan().map(|plan| plan_object(&device, plan)))
    }

    /// Reads elements of several tensors, in order. They are computed as one batch and read in one submission.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn read(&self, tensors: &JsValue) -> Answer<Promise> {
        let op = "read";
        let device = self.core(op)?;
        let tensors = Vec::<Tensor>::from_js(tensors, At { op, argument: "tensors" })?;
        let parts: Vec<Part<'_>> =
            tensors.iter().map(|tensor| (tensor, 0, tensor.numel())).collect();
        let read = elements(&device, &parts);
        Ok(promise(async move { Ok(JsValue::from(Array::from_iter(read.await?))) }))
    }

    /// Returns the limits of the caches. {@link Device.stats} reports how much they hold, and how much was evicted.
    #[wasm_bindgen(js_name = cacheLimits, unchecked_return_type = "Required<CacheLimits>")]
    pub fn cache_limits(&self) -> Answer<JsValue> {
        let limits = self.core("cacheLimits")?.cache_limits();
        let CacheLimits { plans, plan_bytes, pipelines, bind_groups, pooled_bytes } = limits;
        let values = [
            plans.value(),
            plan_bytes.value(),
            pipelines.value(),
            bind_groups.value(),
            pooled_bytes.value(),
        ];
        let names = ["plans", "planBytes", "pipelines", "bindGroups", "pooledBytes"];
        Ok(named(&names, values))
    }

    /// Sets a listener that is called for each compiled kernel that a batch or a program needs. It receives the number of
    /// compiled kernels and their total. Call it without a listener to stop. Cached kernels are not compiled again, and the CPU
    /// compiles none.
    ///
    /// @example
    /// ```ts
    /// device.onCompile(({ done, total }) => (document.title = `${done} of ${total} kernels`));
    /// await program.ready();
    /// device.onCompile();
    /// ```
    #[wasm_bindgen(js_name = onCompile)]
    pub fn on_compile(
        &self,
        #[wasm_bindgen(
            unchecked_optional_param_type = "(progress: { done: number; total: number }) => void"
        )]
        listener: &JsValue,
    ) -> Answer<()> {
        let op = "onCompile";
        let device = self.core(op)?;
        if listener.is_undefined() || listener.is_null() {
            device.on_compile(None);
            return Ok(());
        }
        let Some(listener) = listener.dyn_ref::<Function>().cloned() else {
            return Err(At { op, argument: "listener" }.refuse(listener, "a function").into());
        };
        device.on_compile(Some(Arc::new(move |Compiling { done, total }| {
            let progress = named(&["done", "total"], [done.value(), total.value()]);
            if let Err(error) = listener.call1(&JsValue::UNDEFINED, &progress) {
                report(&error);
            }
        })));
        Ok(())
    }

    /// Disposes of the device and of every object on it.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn end(&self) {
        if let Ok(device) = self.core("dispose") {
            dispose_device(&device);
        }
    }

    /// Selects kernels by their number, and returns a description of them.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn choose(&self, number: u32) -> Answer<String> {
        let device = self.core("tune")?;
        let unknown =
            || Error::argument(format!("tune: kernels must be known, got number {number}"));
        device.set_kernel_config(KernelConfig::from_number(number).ok_or_else(unknown)?)?;
        Ok(device.kernel_config().to_string())
    }

    /// Makes a tensor filled with `value`. The default type is `bool` for a boolean.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn full(&self, shape: &JsValue, value: &JsValue, options: &JsValue) -> Answer<JsTensor> {
        let op = "full";
        let device = self.core(op)?;
        const KNOWN: Known = &["dtype"];
        let dtype = Options::open(options, KNOWN, op)?.get(0);
        let dtype = match Option::from_js(&dtype, At { op, argument: "dtype" })? {
            Some(dtype) => dtype,
            None if value.as_bool().is_some() => DType::Bool,
            None => DType::F32,
        };
        let shape = match shape.as_f64() {
            Some(_) => vec![usize::from_js(shape, At { op, argument: "shape" })?],
            None => Vec::from_js(shape, At { op, argument: "shape" })?,
        };
        let value = f64::from_js(value, At { op, argument: "value" })?;
        Ok(device.full(&shape, value, dtype)?.into_js()?)
    }

    /// Implements `arange(end, options?)` and `arange(start, end, step?, options?)`.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn arange(
        &self,
        first: &JsValue,
        second: &JsValue,
        third: &JsValue,
        fourth: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "arange";
        let device = self.core(op)?;
        let alone = second.as_f64().is_none() && (second.is_undefined() || second.is_object());
        let number = |value: &JsValue, argument| f64::from_js(value, At { op, argument });
        let (start, end, step, options) = match alone {
            true => (0.0, number(first, "end")?, 1.0, second),
            false => {
                let step = if third.is_undefined() { 1.0 } else { number(third, "step")? };
                (number(first, "start")?, number(second, "end")?, step, fourth)
            }
        };
        const KNOWN: Known = &["dtype"];
        let dtype = Options::open(options, KNOWN, op)?.get(0);
        let dtype = Option::from_js(&dtype, At { op, argument: "dtype" })?.unwrap_or(DType::F32);
        Ok(device.arange_of(start, end, step, dtype)?.into_js()?)
    }

    /// Returns the version of this build.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_string()
    }

    /// Measures which kernels are fastest, and resolves to their number.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn measure(&self) -> Answer<Promise> {
        let device = self.core("tune")?;
        Ok(promise(async move {
            let tuned = tune::tune(&device, now).await?;
            Ok(tuned.config.number())
        }))
    }
}
