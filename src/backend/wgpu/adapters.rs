//! Which GPUs there are, and opening one.

use super::errors::Gate;
use super::WgpuBackend;
use crate::backend::{DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;

/// A GPU that can be opened.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// What it is.
    pub info: Info,
    /// What it can do once it is open.
    pub limits: Limits,
    adapter: wgpu::Adapter,
}

/// Which of several GPUs is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Power {
    /// The fastest: a discrete GPU before an integrated one.
    #[default]
    High,
    /// The most economical: an integrated GPU before a discrete one.
    Low,
}

/// What to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choice {
    /// This one in the list that [`adapters`] gives, whatever it is.
    pub index: Option<usize>,
    /// Otherwise the best of them by this preference.
    pub power: Power,
    /// Whether a GPU that is computed by a CPU will do, where there is no real one.
    pub software: bool,
}

/// Whether there is a GPU, other than one computed by a CPU. Opens nothing.
pub async fn is_available() -> bool {
    adapters().await.iter().any(|adapter| adapter.info.kind != DeviceKind::Software)
}

/// All GPUs, the preferred kinds first.
pub async fn adapters() -> Vec<Adapter> {
    let mut found: Vec<Adapter> = list(Power::High).await.into_iter().map(describe).collect();
    found.sort_by_key(|adapter| adapter.info.kind);
    found
}

/// Opens the GPU that `choice` says.
pub async fn open(choice: Choice) -> Result<WgpuBackend> {
    let mut found: Vec<Adapter> = list(choice.power).await.into_iter().map(describe).collect();
    found.sort_by_key(|adapter| adapter.info.kind);
    if choice.index.is_none() && choice.power == Power::Low {
        found.sort_by_key(|adapter| match adapter.info.kind {
            DeviceKind::IntegratedGpu => 0,
            DeviceKind::Gpu => 1,
            DeviceKind::DiscreteGpu => 2,
            DeviceKind::Cpu | DeviceKind::Software => 3,
        });
    }
    let chosen = match choice.index {
        Some(index) => found.get(index),
        None => found.iter().find(|a| choice.software || a.info.kind != DeviceKind::Software),
    };
    match chosen {
        Some(adapter) => adapter.open().await,
        None => Err(nothing_found(choice, &found)),
    }
}

fn nothing_found(choice: Choice, found: &[Adapter]) -> Error {
    let wanted = match (choice.index, choice.software) {
        (Some(index), _) => format!("GPU number {index}"),
        (None, true) => "a GPU, also one computed by the CPU".to_string(),
        (None, false) => "a GPU, other than one computed by the CPU".to_string(),
    };
    let names: Vec<String> =
        found.iter().map(|a| format!("{} ({:?})", a.info.name, a.info.kind)).collect();
    let there = match names.as_slice() {
        [] if cfg!(target_arch = "wasm32") => "this browser offers no WebGPU here".to_string(),
        [] => "there is none that Vulkan, Metal or DX12 knows of".to_string(),
        names => format!("there is {}", names.join(", ")),
    };
    Error::new(ErrorKind::NoDevice, format!("open: looked for {wanted}; {there}"))
}

impl Adapter {
    /// Opens it.
    pub async fn open(&self) -> Result<WgpuBackend> {
        let wanted = wgpu::Features::SHADER_F16 | wgpu::Features::TIMESTAMP_QUERY;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("warpweft"),
            required_features: self.adapter.features() & wanted,
            required_limits: required(&self.adapter.limits()),
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) = self.adapter.request_device(&descriptor).await.map_err(|error| {
            let message = format!("open: {} does not open: {error}", self.info.name);
            Error::new(ErrorKind::NoDevice, message)
        })?;
        let info = refine(self.info.clone(), &device);
        let limits = limits(&device.limits(), device.features());
        WgpuBackend::new(info, limits, Gate::new(device), queue)
    }
}

/// Natively there is one instance, made when it is first needed.
#[cfg(not(target_arch = "wasm32"))]
async fn list(_: Power) -> Vec<wgpu::Adapter> {
    static INSTANCE: std::sync::OnceLock<wgpu::Instance> = std::sync::OnceLock::new();
    let instance = INSTANCE.get_or_init(make_instance);
    let mut found = instance.enumerate_adapters(wgpu::Backends::all()).await;
    found.retain(|adapter| {
        let can = adapter.get_downlevel_capabilities().flags;
        can.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    });
    found
}

/// A browser gives one adapter, and now and then none at the first time of asking.
#[cfg(target_arch = "wasm32")]
async fn list(power: Power) -> Vec<wgpu::Adapter> {
    thread_local! {
        static INSTANCE: std::cell::OnceCell<wgpu::Instance> = const { std::cell::OnceCell::new() };
    }
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        // Asked first because wgpu panics where there is no navigator at all.
        if !wgpu::util::is_browser_webgpu_supported().await {
            continue;
        }
        let instance = INSTANCE.with(|instance| instance.get_or_init(make_instance).clone());
        let options = wgpu::RequestAdapterOptions {
            power_preference: match power {
                Power::High => wgpu::PowerPreference::HighPerformance,
                Power::Low => wgpu::PowerPreference::LowPower,
            },
            ..Default::default()
        };
        if let Ok(adapter) = instance.request_adapter(&options).await {
            return vec![adapter];
        }
    }
    Vec::new()
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
    let software = ["llvmpipe", "lavapipe", "swiftshader", "basic render"]
        .iter()
        .any(|word| name.to_lowercase().contains(word));
    let kind = match info.device_type {
        _ if software => DeviceKind::Software,
        wgpu::DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => DeviceKind::Gpu,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
    };
    let driver = format!("{} {}", info.driver, info.driver_info).trim().to_string();
    let info = Info { backend, name, vendor: vendor(info.vendor), kind, driver };
    let limits = limits(&required(&adapter.limits()), adapter.features());
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

/// What only an open device tells: browsers name the maker and the architecture.
#[cfg(target_arch = "wasm32")]
fn refine(mut info: Info, device: &wgpu::Device) -> Info {
    let Some(told) = device.as_webgpu().map(|device| device.adapter_info()) else {
        return info;
    };
    // Older browsers have no such attribute.
    if told.is_undefined() {
        return info;
    }
    let architecture = told.architecture();
    info.vendor = told.vendor();
    if info.name == "GPU" {
        let name = format!("{} {architecture}", info.vendor).trim().to_string();
        if !name.is_empty() {
            info.name = name;
        }
    }
    if architecture == "swiftshader" {
        info.kind = DeviceKind::Software;
    }
    info
}

#[cfg(not(target_arch = "wasm32"))]
fn refine(info: Info, _: &wgpu::Device) -> Info {
    info
}
