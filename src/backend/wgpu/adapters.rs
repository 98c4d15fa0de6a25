//! Listing and opening of GPUs.

use super::adapter::Adapter;
use super::platform::{self, Gpu};
use super::{AdapterOptions, PowerPreference, WgpuBackend};
use crate::backend::{DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{F16Matmul, Limits};

/// Whether there is a GPU other than a software one. Opens nothing.
pub async fn is_available() -> bool {
    adapters(PowerPreference::High)
        .await
        .iter()
        .any(|adapter| adapter.info.kind != DeviceKind::Software)
}

/// Lists all GPUs, the preferred kinds first. A browser offers at most one, chosen by `power`.
pub async fn adapters(power: PowerPreference) -> Vec<Adapter> {
    let mut found = platform::list(power).await;
    found.sort_by_key(|adapter| adapter.info.kind);
    found
}

/// Opens the GPU that `choice` selects.
pub async fn open(choice: AdapterOptions) -> Result<WgpuBackend> {
    let found = adapters(choice.power).await;
    let infos: Vec<&Info> = found.iter().map(|adapter| &adapter.info).collect();
    let chosen = choice.pick(&infos, platform::NONE)?;
    found[chosen].open().await
}

impl Adapter {
    /// Opens the GPU.
    pub async fn open(&self) -> Result<WgpuBackend> {
        let opened = platform::open(&self.handle, &self.limits).await;
        let opened = opened.map_err(|why| {
            let message = format!("open: {} must open, got {why}", self.info.name);
            Error::new(ErrorKind::NoDevice, message)
        });
        on(self.info.clone(), &self.limits, opened?, false)
    }
}

/// Creates a backend on an open device. `lent` means that an app opened it. `could` has the limits of its adapter.
pub(super) fn on(
    info: Info,
    could: &Limits,
    (device, queue): (wgpu::Device, wgpu::Queue),
    lent: bool,
) -> Result<WgpuBackend> {
    let has = platform::has(&device, could);
    let binding_bytes = could.binding_bytes.min(has.binding_bytes);
    let mut config = could.config;
    if !has.cooperative {
        config.f16_matmul = F16Matmul::Tiles;
    }
    let limits = Limits { config, binding_bytes, ..has };
    Ok(WgpuBackend::new(info, limits, Gpu::new(device, queue, lent)?))
}
