//! Discovery: the GPUs that NVIDIA's driver finds, or the reason why there is none.

use super::api::{Api, NO_DEVICE, SUCCESS};
use super::context::Context;
use super::kernel_cache::KernelCache;
use super::stream::DriverStream;
use crate::backend::{Backend, DeviceKind, Info};
use crate::cuda::{ptx, CudaBackend, Launch, Stream};
use crate::device::{self, Driver, Limits, Machine};
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute};
use std::ffi::CStr;
use std::future::ready;
use std::sync::Once;

/// The name of the backend.
const NAME: &str = "cuda";
/// The most bytes of the name of a GPU.
const NAME_BYTES: usize = 256;
/// A shader that computes `2 x + 1`.
const CHECK: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(4)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = 2u * x[id.x] + 1u; }";

/// Registers CUDA as a driver, so that [`Device::discover`](crate::device::Device::discover) lists the GPUs of NVIDIA, and
/// [`Device::new`](crate::device::Device::new) prefers them. The blocking calls of this crate do so themselves. Programs that
/// only use the async calls call it once, before they open a device. Further calls have no effect.
///
/// NVIDIA's driver is loaded when devices are listed or opened. Nothing else must be installed.
///
/// ```
/// use warpweft_native::{cuda, prelude::*};
///
/// # pollster::block_on(async {
/// cuda::register();
/// let found = Device::discover().await;
/// assert!(found.iter().any(|found| found.info.backend == "cuda"));
/// # });
/// ```
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        device::register(Driver {
            name: NAME,
            // Before Vulkan and DirectX 12, which find the same GPUs.
            rank: -1,
            has_only_gpus: true,
            discover: || Box::pin(ready(machines())),
            open: |number| Box::pin(ready(open(number))),
        });
    });
}

/// A GPU that the driver finds.
struct Gpu {
    device: CUdevice,
    machine: Machine,
    /// The compute capability, such as 90.
    sm: u32,
    /// Whether the GPU has memory pools.
    has_pools: bool,
}

/// Returns the GPUs that can be used.
///
/// # Errors
/// The reason if there is none.
fn gpus() -> Result<(&'static Api, u32, Vec<Gpu>)> {
    let none = |why: &str| Error::new(ErrorKind::NoDevice, why);
    let api = Api::get().map_err(none)?;
    let done = |call: &str, code: u32| match code {
        SUCCESS => Ok(()),
        code => Err(none(&format!("NVIDIA's driver fails: {call} returned {}", api.name(code)))),
    };
    let (mut version, mut count) = (0, 0);
    // SAFETY: the driver was started, and the pointers are valid.
    unsafe {
        done("cuDriverGetVersion", (api.cuDriverGetVersion)(&mut version))?;
        done("cuDeviceGetCount", (api.cuDeviceGetCount)(&mut count))?;
    }
    let version = version.unsigned_abs();
    let mut too_old = None;
    let mut found = Vec::new();
    for number in 0..count {
        let mut device = 0;
        // SAFETY: the driver has a device of this number, and the pointer is valid.
        done("cuDeviceGet", unsafe { (api.cuDeviceGet)(&mut device, number) })?;
        let gpu = gpu(api, device, version).map_err(|(call, code)| match done(call, code) {
            Err(error) => error,
            Ok(()) => none("NVIDIA's driver fails"),
        })?;
        match gpu.sm < *ptx::ARCHITECTURES.start() {
            true => too_old = Some(gpu),
            false => found.push(gpu),
        }
    }
    match (found.is_empty(), too_old) {
        (false, _) => Ok((api, version, found)),
        (true, None) => Err(none(NO_DEVICE)),
        (true, Some(Gpu { machine, sm, .. })) => Err(none(&format!(
            "the GPU must have a compute capability of at least 7.5, but {} has {}.{}",
            machine.info.name,
            sm / 10,
            sm % 10
        ))),
    }
}

/// Returns the properties of a device, or the call that failed and its code.
fn gpu(api: &Api, device: CUdevice, version: u32) -> std::result::Result<Gpu, (&'static str, u32)> {
    let done = |call, code| if code == SUCCESS { Ok(()) } else { Err((call, code)) };
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: the pointer is valid, and the device exists.
        let code = unsafe { (api.cuDeviceGetAttribute)(&mut value, attribute, device) };
        done("cuDeviceGetAttribute", code).map(|()| value.unsigned_abs())
    };
    use CUdevice_attribute as Attribute;
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let is_integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0;
    let has_pools = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
    let (mut name, mut bytes) = ([0u8; NAME_BYTES], 0);
    // SAFETY: the name has the length that is passed, and the pointers are valid.
    unsafe {
        let code = (api.cuDeviceGetName)(name.as_mut_ptr().cast(), NAME_BYTES as i32, device);
        done("cuDeviceGetName", code)?;
        done("cuDeviceTotalMem", (api.cuDeviceTotalMem_v2)(&mut bytes, device))?;
    }
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy();
    let info = Info {
        backend: NAME,
        name: name.into_owned(),
        vendor: "NVIDIA".to_string(),
        kind: if is_integrated { DeviceKind::IntegratedGpu } else { DeviceKind::DiscreteGpu },
        driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
    };
    let sm = 10 * major + minor;
    let limits = Limits { timestamps: true, ..CudaBackend::<DriverStream>::limits_of(sm) };
    let machine = Machine { info, limits, memory: Some(bytes as u64) };
    Ok(Gpu { device, machine, sm, has_pools })
}

fn machines() -> Result<Vec<Machine>> {
    Ok(gpus()?.2.into_iter().map(|gpu| gpu.machine).collect())
}

/// Opens the n-th GPU that can be used.
fn open(number: usize) -> Result<Box<dyn Backend>> {
    let (api, version, gpus) = gpus()?;
    let count = gpus.len();
    let gpu = gpus.into_iter().nth(number).ok_or_else(|| {
        let message = format!("cuda: the number of a GPU must be below {count}, got {number}");
        Error::new(ErrorKind::NoDevice, message)
    })?;
    let context = Context::open(api, gpu.device, gpu.has_pools)?;
    let stream = DriverStream::new(context, KernelCache::usual(gpu.sm, version));
    // A GPU that is newer than all known ones runs the PTX of the newest known one.
    let sm = gpu.sm.min(*ptx::ARCHITECTURES.end());
    check(&stream, sm)?;
    let Machine { info, limits, .. } = gpu.machine;
    Ok(Box::new(CudaBackend::new(stream, info, limits, sm)))
}

/// Computes four numbers, so that a driver or a GPU that does not work fails to open. Another device is chosen then.
fn check(stream: &DriverStream, sm: u32) -> Result<()> {
    let kernel = ptx::translate_entry(CHECK, "main", &ptx::Options { sm, ..Default::default() })
        .map_err(|error| Error::state(error.to_string()))?;
    let function = stream.load(&kernel)?;
    let bytes = |numbers: [u32; 4]| numbers.map(u32::to_le_bytes).concat();
    let address = stream.allocate(16)?;
    let bindings = vec![(address, 16)];
    let launch = Launch { grid: [1, 1, 1], workgroup_size: kernel.workgroup_size, bindings };
    let computed = stream
        .write(address, &bytes([7, 8, 9, 10]))
        .and_then(|()| stream.launch(&function, &launch))
        .and_then(|()| stream.finish(stream.read(address, 16)?));
    stream.free(address);
    match computed? == bytes([15, 17, 19, 21]) {
        true => Ok(()),
        false => {
            let message = "cuda: the GPU must compute the numbers of a check, got others";
            Err(Error::new(ErrorKind::NoDevice, message))
        }
    }
}
