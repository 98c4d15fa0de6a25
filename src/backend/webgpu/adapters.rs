//! The GPU that the browser offers, and opening it.

use super::later::Later;
use super::{bridge, WebGpu, WebGpuBackend};
use crate::backend::gpu::{Choice, GpuBackend, Power};
use crate::backend::{DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Limits, Variants};
use wasm_bindgen::JsCast;

/// A GPU that can be opened, once.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// What it is.
    pub info: Info,
    /// What it can do once it is open.
    pub limits: Limits,
    adapter: bridge::Adapter,
}

/// Whether there is a GPU, other than one computed by a CPU. Opens nothing.
pub async fn is_available() -> bool {
    adapters(Power::High).await.iter().any(|adapter| adapter.info.kind != DeviceKind::Software)
}

/// The one GPU that the browser offers for this preference, or none.
pub async fn adapters(power: Power) -> Vec<Adapter> {
    let found = Later::of(&bridge::request(power == Power::Low)).await;
    let mut adapters = Vec::new();
    if let Ok(found) = found {
        if !found.is_undefined() {
            adapters.push(describe(found));
        }
    }
    adapters
}

/// Opens the GPU that `choice` says.
pub async fn open(choice: Choice) -> Result<WebGpuBackend> {
    let found = adapters(choice.power).await;
    let infos: Vec<&Info> = found.iter().map(|adapter| &adapter.info).collect();
    let chosen = choice.pick(&infos, "this browser offers no WebGPU here")?;
    found[chosen].open().await
}

impl Adapter {
    /// Opens it.
    pub async fn open(&self) -> Result<WebGpuBackend> {
        match WebGpu::open(&self.adapter).await {
            Ok(machine) => Ok(GpuBackend::new(self.info.clone(), self.limits.clone(), machine)),
            Err(error) => {
                let message = format!("open: {} does not open: {error}", self.info.name);
                Err(Error::new(ErrorKind::NoDevice, message))
            }
        }
    }
}

fn describe(adapter: wasm_bindgen::JsValue) -> Adapter {
    let adapter: bridge::Adapter = adapter.unchecked_into();
    let (words, figures) = (adapter.words(), adapter.figures());
    let (name, vendor) = words.split_at(words.find('\n').unwrap_or(words.len()));
    let (name, vendor) = (name.to_string(), vendor.get(1..).unwrap_or_default().to_string());
    let figure = |at: usize| figures.get(at).copied().unwrap_or_default();
    let software = figure(0) > 0.0;
    let kind = if software { DeviceKind::Software } else { DeviceKind::Gpu };
    let limits = Limits {
        f16: figure(1) > 0.0,
        // Beside its storage buffers a kernel binds one uniform.
        buffers_per_kernel: figure(2).min(figure(3) - 1.0) as usize,
        binding_bytes: figure(4).min(figure(5)) as u64 / 16 * 16,
        workgroups: figure(6) as u32,
        workgroup_size: figure(7).min(figure(8)) as u32,
        workgroup_bytes: figure(9) as u32,
        subgroups: figure(10) > 0.0,
        cooperative: false,
        variants: if software { Variants::ALONE } else { Variants::TOGETHER },
    };
    let info = Info { backend: "webgpu", name, vendor, kind, driver: String::new() };
    Adapter { info, limits, adapter }
}
