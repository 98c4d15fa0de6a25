//! Which GPUs there are, and opening one.

use super::errors::Gate;
use super::matrices;
use super::{Wgpu, WgpuBackend};
use crate::backend::gpu::{Choice, GpuBackend, Power};
use crate::backend::{DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Halves, Limits, Moves, Tile, Variants};

/// A GPU that can be opened.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// What it is.
    pub info: Info,
    /// What it can do once it is open.
    pub limits: Limits,
    adapter: wgpu::Adapter,
}

/// Whether there is a GPU, other than one computed by a CPU. Opens nothing.
pub async fn is_available() -> bool {
    adapters(Power::High).await.iter().any(|adapter| adapter.info.kind != DeviceKind::Software)
}

/// All GPUs, the preferred kinds first. How much power they take makes no difference here: all are
/// listed.
pub async fn adapters(_: Power) -> Vec<Adapter> {
    let mut found: Vec<Adapter> = list().await.into_iter().map(describe).collect();
    found.sort_by_key(|adapter| adapter.info.kind);
    found
}

/// Opens the GPU that `choice` says.
pub async fn open(choice: Choice) -> Result<WgpuBackend> {
    let found = adapters(choice.power).await;
    let infos: Vec<&Info> = found.iter().map(|adapter| &adapter.info).collect();
    let chosen = choice.pick(&infos, "there is none that Vulkan, Metal or DX12 knows of")?;
    found[chosen].open().await
}

impl Adapter {
    /// Opens it.
    pub async fn open(&self) -> Result<WgpuBackend> {
        let experimental = match self.limits.cooperative {
            true => self.request(matrices::FEATURE, matrices::consent()).await.ok(),
            false => None,
        };
        let opened = match experimental {
            Some(opened) => Ok(opened),
            None => {
                let none = wgpu::ExperimentalFeatures::disabled();
                self.request(wgpu::Features::empty(), none).await
            }
        };
        let (device, queue) = opened.map_err(|error| {
            let message = format!("open: {} does not open: {error}", self.info.name);
            Error::new(ErrorKind::NoDevice, message)
        })?;
        let has = limits(&device.limits(), device.features());
        let binding_bytes = self.limits.binding_bytes.min(has.binding_bytes);
        let mut variants = self.limits.variants;
        let cooperative = self.limits.cooperative && device.features().contains(matrices::FEATURE);
        if !cooperative {
            variants.halves = Halves::Tiles;
        }
        let limits = Limits { variants, binding_bytes, cooperative, ..has };
        let machine = Wgpu::new(Gate::new(device), queue)?;
        Ok(GpuBackend::new(self.info.clone(), limits, machine))
    }

    async fn request(
        &self,
        more: wgpu::Features,
        experimental_features: wgpu::ExperimentalFeatures,
    ) -> std::result::Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
        let wanted =
            wgpu::Features::SHADER_F16 | wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SUBGROUP;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("warpweft"),
            required_features: self.adapter.features() & (wanted | more),
            required_limits: required(&self.adapter.limits()),
            experimental_features,
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        self.adapter.request_device(&descriptor).await
    }
}

/// There is one instance, made when it is first needed.
async fn list() -> Vec<wgpu::Adapter> {
    static INSTANCE: std::sync::OnceLock<wgpu::Instance> = std::sync::OnceLock::new();
    let instance = INSTANCE.get_or_init(make_instance);
    let mut found = instance.enumerate_adapters(wgpu::Backends::all()).await;
    found.retain(|adapter| {
        let can = adapter.get_downlevel_capabilities().flags;
        can.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    });
    found
}

fn make_instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // It would limit buffers to 4 GiB and cost a dispatch per indirect one; no grid here comes from
    // a buffer.
    descriptor.flags.remove(wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL);
    wgpu::Instance::new(descriptor)
}

/// What to ask an adapter for: the standard limits, raised where computing profits, and never above
/// what it has.
fn required(has: &wgpu::Limits) -> wgpu::Limits {
    let buffers = has.max_buffers_and_acceleration_structures_per_shader_stage;
    wgpu::Limits {
        max_buffer_size: has.max_buffer_size,
        max_storage_buffer_binding_size: has.max_storage_buffer_binding_size,
        max_storage_buffers_per_shader_stage: has.max_storage_buffers_per_shader_stage,
        max_buffers_and_acceleration_structures_per_shader_stage: buffers,
        max_compute_workgroup_storage_size: has.max_compute_workgroup_storage_size,
        max_compute_invocations_per_workgroup: has.max_compute_invocations_per_workgroup,
        max_compute_workgroup_size_x: has.max_compute_workgroup_size_x,
        max_compute_workgroup_size_y: has.max_compute_workgroup_size_y,
        max_compute_workgroup_size_z: has.max_compute_workgroup_size_z,
        max_compute_workgroups_per_dimension: has.max_compute_workgroups_per_dimension,
        ..wgpu::Limits::defaults()
    }
    .or_worse_values_from(has)
}

/// wgpu's limits in our words.
fn limits(has: &wgpu::Limits, features: wgpu::Features) -> Limits {
    // Beside its storage buffers a kernel binds one uniform.
    let others = has
        .max_bindings_per_bind_group
        .min(has.max_buffers_and_acceleration_structures_per_shader_stage)
        .saturating_sub(1);
    let buffers = has.max_storage_buffers_per_shader_stage.min(others);
    let binding = has.max_storage_buffer_binding_size.min(has.max_buffer_size);
    Limits {
        buffers_per_kernel: buffers as usize,
        binding_bytes: binding / 16 * 16,
        workgroups: has.max_compute_workgroups_per_dimension,
        workgroup_size: has
            .max_compute_invocations_per_workgroup
            .min(has.max_compute_workgroup_size_x),
        workgroup_bytes: has.max_compute_workgroup_storage_size,
        f16: features.contains(wgpu::Features::SHADER_F16),
        subgroups: features.contains(wgpu::Features::SUBGROUP),
        cooperative: false,
        variants: Variants::TOGETHER,
    }
}

fn describe(adapter: wgpu::Adapter) -> Adapter {
    let info = adapter.get_info();
    let backend = match info.backend {
        wgpu::Backend::Noop => "noop",
        wgpu::Backend::Vulkan => "vulkan",
        wgpu::Backend::Metal => "metal",
        wgpu::Backend::Dx12 => "dx12",
        wgpu::Backend::Gl => "gl",
        wgpu::Backend::BrowserWebGpu => "webgpu",
    };
    let name = match info.name.as_str() {
        "" => "GPU".to_string(),
        name => name.to_string(),
    };
    let kind = match info.device_type {
        _ if is_software(&name) => DeviceKind::Software,
        wgpu::DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => DeviceKind::Gpu,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
    };
    let driver = format!("{} {}", info.driver, info.driver_info).trim().to_string();
    let variants = match kind {
        // Its threads meet at little cost: measured there (BENCHMARKS.md), and so for products alone.
        DeviceKind::Software if name.contains("llvmpipe") => Variants {
            products: [Tile::Alone, Tile::Large, Tile::Large],
            moves: Moves::Tiles,
            ..Variants::ALONE
        },
        DeviceKind::Software => Variants::ALONE,
        _ => Variants::TOGETHER,
    };
    let info = Info { backend, name, vendor: vendor(info.vendor), kind, driver };
    let has = limits(&required(&adapter.limits()), adapter.features());
    let limits = Limits { variants, cooperative: matrices::are_there(&adapter), ..has };
    Adapter { info, limits, adapter }
}

/// The maker, by the number that PCI or Khronos gave it.
fn vendor(number: u32) -> String {
    let known = match number {
        0 => "",
        0x1002 | 0x1022 => "AMD",
        0x1010 => "Imagination Technologies",
        0x106b => "Apple",
        0x10de => "NVIDIA",
        0x13b5 => "ARM",
        0x1414 => "Microsoft",
        0x14e4 => "Broadcom",
        0x1ae0 => "Google",
        0x5143 => "Qualcomm",
        0x8086 => "Intel",
        0x10005 => "Mesa",
        other => return format!("{other:#06x}"),
    };
    known.to_string()
}

/// Whether an adapter with these words in its name is a GPU computed by a CPU.
fn is_software(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["llvmpipe", "lavapipe", "swiftshader", "basic render"].iter().any(|word| name.contains(word))
}
