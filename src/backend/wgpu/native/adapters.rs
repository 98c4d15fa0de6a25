//! The adapters of Vulkan, Metal and DX12, and the devices that they open.

use super::objects::Handle;
use super::{matrices, memory};
use crate::backend::wgpu::adapter::Adapter;
#[cfg(feature = "wgpu-interop")]
use crate::backend::wgpu::batch::MOST_PARAMS;
use crate::backend::wgpu::PowerPreference;
use crate::backend::{DeviceKind, Info};
use crate::codegen::Dialect;
use crate::kernel::{KernelConfig, Limits};
use crate::schedule::{is_software, preset};

/// The WGSL dialect of the compiler.
pub(in super::super) const DIALECT: Dialect = Dialect::NAGA;

/// The text of errors if there is no adapter.
pub(in super::super) const NONE: &str = "there is none that Vulkan, Metal or DX12 knows of";

/// The backends expected on this platform, and the reason why one may be missing.
pub const EXPECTED: &[(&str, &str)] = if cfg!(target_vendor = "apple") {
    &[("metal", "Metal knows of no GPU")]
} else if cfg!(windows) {
    &[("dx12", "Direct3D 12 knows of no GPU"), ("vulkan", "no driver of a GPU has Vulkan")]
} else {
    &[("vulkan", "no driver of a GPU has Vulkan, or its loader is not installed")]
};

/// Returns the instance, which is made at the first use and never dropped.
pub(super) fn instance() -> &'static wgpu::Instance {
    static INSTANCE: std::sync::OnceLock<wgpu::Instance> = std::sync::OnceLock::new();
    INSTANCE.get_or_init(make_instance)
}

/// Lists all adapters. The power preference makes no difference on this platform.
pub(in super::super) async fn list(_: PowerPreference) -> Vec<Adapter> {
    let mut found = instance().enumerate_adapters(wgpu::Backends::all()).await;
    found.retain(|adapter| {
        let can = adapter.get_downlevel_capabilities().flags;
        can.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    });
    found.into_iter().map(describe).collect()
}

fn make_instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // This validation would limit buffers to 4 GiB, and costs a dispatch per indirect one. No grid in this crate comes from a
    // buffer.
    descriptor.flags.remove(wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL);
    wgpu::Instance::new(descriptor)
}

/// Opens a device. Cooperative matrices are enabled if they are wanted and the device opens with them.
pub(in super::super) async fn open(
    adapter: &Handle,
    wanted: &Limits,
) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let experimental = match wanted.cooperative {
        true => request(adapter, matrices::FEATURE, matrices::consent()).await.ok(),
        false => None,
    };
    match experimental {
        Some(opened) => Ok(opened),
        None => {
            let none = wgpu::ExperimentalFeatures::disabled();
            let opened = request(adapter, wgpu::Features::empty(), none).await;
            opened.map_err(|error| error.to_string())
        }
    }
}

/// Returns the limits of an open device. `could` has those of its adapter.
pub(in super::super) fn has(device: &wgpu::Device, could: &Limits) -> Limits {
    let cooperative = could.cooperative && device.features().contains(matrices::FEATURE);
    Limits { cooperative, ..limits(&device.limits(), device.features()) }
}

/// Returns the description of an app's device, and the limits of its adapter.
#[cfg(feature = "wgpu-interop")]
pub(in super::super) fn known(
    adapter: &wgpu::Adapter,
    device: &wgpu::Device,
) -> Result<(Info, Limits), String> {
    let Adapter { info, limits, .. } = describe(adapter.clone());
    let other = device.adapter_info();
    if adapter.get_info() != other {
        return Err(format!("the adapter is {}, the device is one of {}", info.name, other.name));
    }
    let can = adapter.get_downlevel_capabilities().flags;
    if !can.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS) {
        return Err(format!("{} has no compute shaders", info.name));
    }
    // Devices in browsers always have enough. Only wgpu opens devices with less.
    let (params, needed) = (device.limits().max_uniform_buffer_binding_size, MOST_PARAMS as u64);
    if params < needed {
        return Err(format!(
            "the device binds {params} bytes of uniforms, and {needed} are needed"
        ));
    }
    Ok((info, limits))
}

async fn request(
    adapter: &Handle,
    more: wgpu::Features,
    experimental_features: wgpu::ExperimentalFeatures,
) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    let wanted =
        wgpu::Features::SHADER_F16 | wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SUBGROUP;
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("warpweft"),
        required_features: adapter.features() & (wanted | more),
        required_limits: required(&adapter.limits()),
        experimental_features,
        memory_hints: wgpu::MemoryHints::Performance,
        trace: wgpu::Trace::Off,
    };
    adapter.request_device(&descriptor).await
}

/// Returns the limits to request: the standard ones, raised where compute needs it, and never above those of the adapter.
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

/// Converts limits of wgpu.
fn limits(has: &wgpu::Limits, features: wgpu::Features) -> Limits {
    // In addition to its storage buffers, a kernel binds one uniform buffer.
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
        sorts: false,
        packed: true,
        int8: false,
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        config: KernelConfig::GPU,
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
    let config = preset(&name, kind == DeviceKind::Software);
    let info = Info { backend, name, vendor: vendor(info.vendor), kind, driver };
    let has = limits(&required(&adapter.limits()), adapter.features());
    let limits = Limits { config, cooperative: matrices::are_there(&adapter), ..has };
    Adapter { info, limits, memory: memory::bytes(&adapter), handle: adapter }
}

/// Returns the vendor for its PCI or Khronos number.
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
