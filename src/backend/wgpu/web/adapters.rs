//! The adapter that the browser offers, and the device that it opens. This module calls the browser itself, and passes the
//! device to wgpu. wgpu traps if the browser throws, does not support subgroups, and drops the adapter's name.

use super::objects::Handle;
use super::{pause, raw};
use crate::backend::wgpu::adapter::Adapter;
use crate::backend::wgpu::PowerPreference;
use crate::backend::{DeviceKind, Info};
use crate::codegen::Dialect;
use crate::kernel::{KernelConfig, Limits};
use crate::schedule::{is_software, preset};
use js_sys::{global, Array, Function, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// The WGSL dialect of the compiler.
pub(in super::super) const DIALECT: Dialect = Dialect::BROWSER;

/// The text of errors if there is no adapter.
pub(in super::super) const NONE: &str = "WebGPU is not available: `navigator.gpu` is missing";

/// The expected backend, and the reason why it may be missing.
pub const EXPECTED: &[(&str, &str)] = &[("webgpu", NONE)];

/// The name of an adapter without a name. `www/src/choose.ts` has the same text.
const UNNAMED: &str = "WebGPU adapter (the browser does not name it)";

/// The optional features to request.
const FEATURES: [&str; 3] = ["shader-f16", "subgroups", "timestamp-query"];

/// The limits to request as high as the adapter has them.
const LIMITS: [&str; 10] = [
    "maxStorageBuffersPerShaderStage",
    "maxBindingsPerBindGroup",
    "maxStorageBufferBindingSize",
    "maxBufferSize",
    "maxComputeWorkgroupsPerDimension",
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY",
    "maxComputeWorkgroupSizeZ",
    "maxComputeWorkgroupStorageSize",
];

/// Returns a property, or `undefined` if there is no such property or no object.
fn get(of: &JsValue, name: &str) -> JsValue {
    Reflect::get(of, &name.into()).unwrap_or_default()
}

fn set(of: &Object, name: &str, value: &JsValue) {
    // Setting a property of a plain object does not fail.
    let _ = Reflect::set(of, &name.into(), value);
}

/// Calls a method, and awaits its result. An exception or a missing method is an error.
async fn call(of: &JsValue, name: &str, argument: &JsValue) -> Result<JsValue, JsValue> {
    let returned = get(of, name).dyn_into::<Function>()?.call1(of, argument)?;
    JsFuture::from(Promise::resolve(&returned)).await
}

/// Whether the browser often checks for finished work. Chromium does, and only Chromium has the property that is tested here.
/// Firefox checks every 100 ms (its bug 1870699).
pub(super) fn looks_often() -> bool {
    get(&get(&global(), "navigator"), "userAgentData").is_object()
}

/// Lists the adapter that the browser offers for this preference, if any.
pub(in super::super) async fn list(power: PowerPreference) -> Vec<Adapter> {
    let options = Object::new();
    let preference = if power == PowerPreference::Low { "low-power" } else { "high-performance" };
    set(&options, "powerPreference", &preference.into());
    // Browsers sometimes return no adapter at the first request.
    for tries in 0..3 {
        if tries > 0 {
            pause(30.0).await;
        }
        let gpu = get(&get(&global(), "navigator"), "gpu");
        if !gpu.is_object() {
            break;
        }
        // A page may be denied access, which counts as no adapter.
        if let Ok(found) = call(&gpu, "requestAdapter", &options).await {
            if found.is_object() {
                return vec![describe(found)];
            }
        }
    }
    Vec::new()
}

fn describe(handle: JsValue) -> Adapter {
    let (info, config) = introduce(&get(&handle, "info"));
    let limits = Limits { config, ..limits(&handle) };
    // Browsers do not report the size of GPU memory.
    Adapter { info, limits, memory: None, handle }
}

/// Returns the browser's description of an adapter, and the default kernel configuration for it.
fn introduce(info: &JsValue) -> (Info, KernelConfig) {
    let word = |name: &str| get(info, name).as_string().unwrap_or_default();
    let (description, vendor, architecture) =
        (word("description"), word("vendor"), word("architecture"));
    let words = format!("{description} {vendor} {architecture} {}", word("device"));
    let software = get(info, "isFallbackAdapter").is_truthy() || is_software(&words);
    let both = format!("{vendor} {architecture}");
    let name = [&description, both.trim(), UNNAMED].into_iter().find(|name| !name.is_empty());
    let kind = if software { DeviceKind::Software } else { DeviceKind::Gpu };
    let name = name.unwrap_or_default().to_string();
    let info = Info { backend: "webgpu", name, vendor, kind, driver: String::new() };
    (info, preset(&words, software))
}

/// Returns the description and the limits of an app's device.
#[cfg(feature = "wgpu-interop")]
pub(in super::super) fn known(
    _: &wgpu::Adapter,
    device: &wgpu::Device,
) -> Result<(Info, Limits), String> {
    Ok(info_and_limits(raw(device)))
}

/// Returns the description and the limits of a `GPUDevice`.
#[cfg(feature = "wgpu-interop")]
pub(super) fn info_and_limits(device: &JsValue) -> (Info, Limits) {
    let (info, config) = introduce(&get(device, "adapterInfo"));
    (info, Limits { config, ..limits(device) })
}

/// Returns the limits of an open device.
pub(in super::super) fn has(device: &wgpu::Device, _: &Limits) -> Limits {
    limits(raw(device))
}

fn has_feature(of: &JsValue, feature: &str) -> bool {
    let features = get(of, "features");
    let has = get(&features, "has").dyn_into::<Function>();
    has.is_ok_and(|has| has.call1(&features, &feature.into()).is_ok_and(|has| has.is_truthy()))
}

/// Returns the limits of a `GPUAdapter` or a `GPUDevice`.
fn limits(of: &JsValue) -> Limits {
    let limits = get(of, "limits");
    let limit = |name: &str| get(&limits, name).as_f64().unwrap_or_default();
    let binding = limit("maxStorageBufferBindingSize").min(limit("maxBufferSize"));
    // In addition to its storage buffers, a kernel binds one uniform buffer.
    let others = limit("maxBindingsPerBindGroup") - 1.0;
    let threads = limit("maxComputeInvocationsPerWorkgroup");
    Limits {
        buffers_per_kernel: limit("maxStorageBuffersPerShaderStage").min(others) as usize,
        binding_bytes: binding as u64 / 16 * 16,
        workgroups: limit("maxComputeWorkgroupsPerDimension") as u32,
        workgroup_size: threads.min(limit("maxComputeWorkgroupSizeX")) as u32,
        workgroup_bytes: limit("maxComputeWorkgroupStorageSize") as u32,
        f16: has_feature(of, "shader-f16"),
        subgroups: has_feature(of, "subgroups"),
        cooperative: false,
        sorts: false,
        packed: true,
        int8: false,
        timestamps: has_feature(of, "timestamp-query"),
        config: KernelConfig::GPU,
    }
}

/// Opens a device.
pub(in super::super) async fn open(
    adapter: &Handle,
    _: &Limits,
) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let features = FEATURES.into_iter().filter(|feature| has_feature(adapter, feature));
    let features: Array = features.map(JsValue::from).collect();
    let (limits_of, wanted, descriptor) = (get(adapter, "limits"), Object::new(), Object::new());
    for name in LIMITS {
        set(&wanted, name, &get(&limits_of, name));
    }
    set(&descriptor, "label", &"warpweft".into());
    set(&descriptor, "requiredFeatures", &features);
    set(&descriptor, "requiredLimits", &wanted);
    let device = call(adapter, "requestDevice", &descriptor)
        .await
        .map_err(|thrown| exception_message(&thrown))?;
    adopt(device).await
}

/// Returns the message of an exception.
pub(super) fn exception_message(thrown: &JsValue) -> String {
    let message = get(thrown, "message").as_string().or_else(|| thrown.as_string());
    message.unwrap_or_else(|| format!("{thrown:?}"))
}

/// Wraps a `GPUDevice` as a wgpu device. wgpu accepts none, but requests an adapter from `navigator.gpu`, and a device from
/// that adapter. A temporary navigator that only wgpu sees returns this device.
pub(super) async fn adopt(device: JsValue) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let answer = |with: JsValue| {
        Closure::<dyn Fn() -> Promise>::new(move || Promise::resolve(&with)).into_js_value()
    };
    let (adapter, gpu, navigator) = (Object::new(), Object::new(), Object::new());
    set(&adapter, "requestDevice", &answer(device));
    set(&gpu, "requestAdapter", &answer(adapter.into()));
    set(&navigator, "gpu", &gpu);
    let instance = with_property(&global(), "navigator", &navigator, || {
        let make = || wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        // wgpu detects its environment by these names, and panics if both are missing.
        let known = |name| get(&global(), name).is_truthy();
        match known("Window") || known("WorkerGlobalScope") {
            true => Ok(make()),
            false => with_property(&global(), "Window", &JsValue::TRUE, make),
        }
    });
    let instance = instance.and_then(|made| made).map_err(|thrown| exception_message(&thrown))?;
    let adapter = instance.request_adapter(&Default::default()).await;
    let adapter = adapter.map_err(|error| error.to_string())?;
    let opened = adapter.request_device(&Default::default()).await;
    opened.map_err(|error| error.to_string())
}

/// Does `work` while a property of an object has this value.
pub(super) fn with_property<T>(
    object: &Object,
    name: &str,
    value: &JsValue,
    work: impl FnOnce() -> T,
) -> Result<T, JsValue> {
    let name = JsValue::from(name);
    let before = Reflect::get_own_property_descriptor(object, &name)?;
    let now = Object::new();
    set(&now, "value", value);
    set(&now, "configurable", &JsValue::TRUE);
    if !Reflect::define_property(object, &name, &now)? {
        return Err(format!("{} cannot be set", name.as_string().unwrap_or_default()).into());
    }
    let done = work();
    match before.dyn_into::<Object>() {
        Ok(before) => Reflect::define_property(object, &name, &before)?,
        Err(_) => Reflect::delete_property(object, &name)?,
    };
    Ok(done)
}
