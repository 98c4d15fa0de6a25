//! Selection of a machine: discovery, preference, and the fallback to the CPU.

use super::drivers::{registered, Driver, Machine};
use crate::backend::{Backend, DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The device that a program prefers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preference {
    /// A discrete GPU, otherwise an integrated one, otherwise the CPU. Among GPUs of one kind, the registered driver with the
    /// lowest rank comes first. A software GPU is never selected.
    Auto,
    /// A GPU, or an error.
    Gpu,
    /// The GPU with the lowest power consumption, or an error.
    LowPower,
    /// The CPU backend.
    Cpu,
    /// A software GPU (lavapipe, SwiftShader, WARP), for tests.
    Software,
    /// The n-th of [`Device::discover`](crate::device::Device::discover).
    Index(usize),
    /// The first device whose backend has this name, otherwise the first whose name contains it. Case is ignored.
    Name(String),
}

impl Preference {
    /// Parses `auto`, `gpu`, `low-power`, `cpu`, `software`, an index, the name of a backend, or part of a device name.
    pub fn parse(word: &str) -> Preference {
        match word.trim() {
            "" | "auto" => Preference::Auto,
            "gpu" | "high-performance" => Preference::Gpu,
            "low-power" => Preference::LowPower,
            "cpu" => Preference::Cpu,
            "software" => Preference::Software,
            other => match other.parse() {
                Ok(index) => Preference::Index(index),
                Err(_) => Preference::Name(other.to_string()),
            },
        }
    }

    /// Returns the positions of the devices that match, the preferred one first. The devices must be sorted by kind. `Auto`
    /// begins with discrete GPUs, followed by integrated GPUs, GPUs of unknown kind, and the CPU.
    ///
    /// ```
    /// use warpweft::{backend::Info, device::{Device, Preference}};
    ///
    /// # pollster::block_on(async {
    /// let infos: Vec<Info> = Device::discover().await.into_iter().map(|found| found.info).collect();
    /// let cpu = Preference::Cpu.rank(&infos);
    /// assert_eq!(infos[cpu[0]].backend, "cpu");
    /// # });
    /// ```
    pub fn rank(&self, infos: &[Info]) -> Vec<usize> {
        let those = |which: &dyn Fn(&Info) -> bool| -> Vec<usize> {
            (0..infos.len()).filter(|&at| which(&infos[at])).collect()
        };
        match self {
            Preference::Auto => those(&|info| info.kind != DeviceKind::Software),
            Preference::Gpu => those(&|info| is_gpu(info.kind)),
            Preference::LowPower => {
                let mut gpus = those(&|info| is_gpu(info.kind));
                gpus.sort_by_key(|&at| infos[at].kind != DeviceKind::IntegratedGpu);
                gpus
            }
            Preference::Cpu => those(&|info| info.kind == DeviceKind::Cpu),
            Preference::Software => those(&|info| info.kind == DeviceKind::Software),
            Preference::Index(index) => {
                (*index < infos.len()).then_some(*index).into_iter().collect()
            }
            Preference::Name(part) => {
                let part = part.to_lowercase();
                match those(&|info| info.backend == part) {
                    none if none.is_empty() => {
                        those(&|info| info.name.to_lowercase().contains(&part))
                    }
                    of_backend => of_backend,
                }
            }
        }
    }

    /// Reads `WARPWEFT_DEVICE`. Returns `Auto` if it is not set.
    pub fn from_environment() -> Result<Preference> {
        match std::env::var("WARPWEFT_DEVICE") {
            Ok(word) => Ok(Preference::parse(&word)),
            Err(std::env::VarError::NotPresent) => Ok(Preference::Auto),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Error::argument("WARPWEFT_DEVICE: the value must be UTF-8, got other bytes"))
            }
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Preference::Auto => f.write_str("auto"),
            Preference::Gpu => f.write_str("gpu"),
            Preference::LowPower => f.write_str("low-power"),
            Preference::Cpu => f.write_str("cpu"),
            Preference::Software => f.write_str("software"),
            Preference::Index(index) => write!(f, "number {index}"),
            Preference::Name(name) => write!(f, "the name {name:?}"),
        }
    }
}

impl FromStr for Preference {
    type Err = Infallible;

    fn from_str(word: &str) -> std::result::Result<Preference, Infallible> {
        Ok(Preference::parse(word))
    }
}

/// A device that was found, or a backend without devices and the reason for that.
#[derive(Clone, Debug)]
pub struct Found {
    /// The machine. For a backend without devices only `backend` is set.
    pub info: Info,
    /// Limits and features. `None` for a backend without devices.
    pub limits: Option<Limits>,
    /// The bytes of memory for buffers, if the platform reports them. A GPU has its own memory, or shares the CPU's.
    pub memory: Option<u64>,
    /// Whether `Device::new` would open it.
    pub recommended: bool,
    /// Why the device is missing, or is not the default.
    pub reason: Option<String>,
    open: Option<Choice>,
}

#[derive(Clone, Debug)]
enum Choice {
    #[cfg(feature = "gpu")]
    Gpu(Box<crate::backend::wgpu::Adapter>),
    #[cfg(feature = "cpu")]
    Cpu,
    /// The n-th machine of a registered driver.
    Driver(Driver, usize),
}

impl Found {
    /// Returns the sort key among machines of one kind. Lower ranks come first.
    fn rank(&self) -> i32 {
        match &self.open {
            Some(Choice::Driver(driver, _)) => driver.rank,
            _ => 0,
        }
    }

    /// Whether the device can be opened.
    pub fn is_available(&self) -> bool {
        self.open.is_some()
    }

    /// Makes the entry of a backend that offers no device.
    fn absent(backend: &'static str, reason: &str) -> Found {
        let (name, vendor, driver) = Default::default();
        Found {
            info: Info { backend, name, vendor, kind: DeviceKind::Gpu, driver },
            limits: None,
            memory: None,
            recommended: false,
            reason: Some(reason.to_string()),
            open: None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Info { backend, name, kind, .. } = &self.info;
        match &self.limits {
            Some(limits) => {
                let mark = if self.recommended { "*" } else { " " };
                let megabytes = limits.binding_bytes >> 20;
                let f16 = if limits.f16 { ", f16" } else { "" };
                let kind = kind.name();
                write!(f, "{mark} {backend}: {name} ({kind}, buffers to {megabytes} MiB{f16})")?;
            }
            None => write!(f, "  {backend}: none")?,
        }
        self.reason.iter().try_for_each(|reason| write!(f, " - {reason}"))
    }
}

/// Lists all devices, the recommended one first, and then the backends that offer none.
pub async fn discover() -> Vec<Found> {
    find(false).await
}

/// Lists all devices. A browser offers only one GPU, and chooses it by `low_power`.
#[cfg_attr(not(feature = "gpu"), allow(unused_variables))]
async fn find(low_power: bool) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let there = |info: &Info, limits: &Limits, memory, open| Found {
        info: info.clone(),
        limits: Some(limits.clone()),
        memory,
        recommended: false,
        reason: None,
        open: Some(open),
    };
    #[cfg(feature = "gpu")]
    use crate::backend::wgpu::{adapters, PowerPreference, EXPECTED};
    #[cfg(feature = "gpu")]
    for adapter in
        adapters(if low_power { PowerPreference::Low } else { PowerPreference::High }).await
    {
        let (info, limits) = (adapter.info.clone(), adapter.limits.clone());
        found.push(there(&info, &limits, adapter.memory, Choice::Gpu(Box::new(adapter))));
    }
    #[cfg(feature = "cpu")]
    {
        let cpu = crate::backend::cpu::CpuBackend::new();
        found.push(there(cpu.info(), cpu.limits(), cpu.memory(), Choice::Cpu));
    }
    let mut absent = Vec::new();
    for driver in registered() {
        let machines = (driver.discover)().await.unwrap_or_else(|error| {
            absent.push(Found::absent(driver.name, error.message()));
            Vec::new()
        });
        for (number, Machine { info, limits, memory }) in machines.into_iter().enumerate() {
            found.push(there(&info, &limits, memory, Choice::Driver(driver, number)));
        }
    }
    found.sort_by_key(|f| (f.info.kind, f.rank()));
    give_reasons(&mut found);
    found.append(&mut absent);
    #[cfg(feature = "gpu")]
    for &(backend, reason) in EXPECTED {
        if found.iter().all(|f| f.info.backend != backend) {
            found.push(Found::absent(backend, reason));
        }
    }
    #[cfg(not(feature = "gpu"))]
    found.push(Found::absent("gpu", "built without the feature `gpu`"));
    #[cfg(not(feature = "cpu"))]
    found.push(Found::absent("cpu", "built without the feature `cpu`"));
    found
}

/// Marks the default device, and gives each other device the reason why it is not the default.
fn give_reasons(found: &mut [Found]) {
    let infos: Vec<Info> = found.iter().map(|f| f.info.clone()).collect();
    let first = Preference::Auto.rank(&infos).first().copied();
    for (at, it) in found.iter_mut().enumerate() {
        it.recommended = Some(at) == first;
        it.reason = match (it.info.kind, first) {
            (DeviceKind::Software, _) => {
                Some("a software GPU, which must be selected explicitly".to_string())
            }
            (_, Some(first)) if first != at => Some(format!("{} is preferred", infos[first].name)),
            _ => None,
        };
    }
}

fn is_gpu(kind: DeviceKind) -> bool {
    matches!(kind, DeviceKind::DiscreteGpu | DeviceKind::IntegratedGpu | DeviceKind::Gpu)
}

/// Opens the preferred device. Also returns the reason if it is the CPU although a GPU was expected.
pub async fn open(preference: Preference) -> Result<(Box<dyn Backend>, Option<String>)> {
    // Listing GPUs loads their drivers.
    #[cfg(feature = "cpu")]
    if preference == Preference::Cpu && registered().iter().all(|driver| driver.has_only_gpus) {
        return Ok((Box::new(crate::backend::cpu::CpuBackend::new()), None));
    }
    let found = find(preference == Preference::LowPower).await;
    let there = found.iter().filter(|f| f.is_available());
    let infos: Vec<Info> = there.map(|f| f.info.clone()).collect();
    let mut failures = Vec::new();
    for at in preference.rank(&infos) {
        let candidate = &found[at];
        match open_found(candidate).await {
            Ok(backend) => {
                let expected = preference == Preference::Auto && !is_gpu(candidate.info.kind);
                return Ok((backend, expected.then(|| why_not_gpu(&found, &failures))));
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    let there: Vec<String> = found.iter().map(|f| f.to_string().trim().to_string()).collect();
    let there = there.join("; ");
    let tried =
        if failures.is_empty() { String::new() } else { format!(" ({})", failures.join("; ")) };
    let message = format!(
        "device: the preference must match a device, got {preference}{tried}; available: {there}"
    );
    Err(Error::new(ErrorKind::NoDevice, message))
}

fn why_not_gpu(found: &[Found], failures: &[String]) -> String {
    let software: Vec<&str> = found
        .iter()
        .filter(|f| f.info.kind == DeviceKind::Software)
        .map(|f| f.info.name.as_str())
        .collect();
    let mut why = match failures {
        [] => "no GPU was found".to_string(),
        failures => format!("no GPU could be opened: {}", failures.join("; ")),
    };
    if !software.is_empty() {
        why += &format!("; {} is a software GPU", software.join(", "));
    }
    why + "; computing on the CPU"
}

async fn open_found(found: &Found) -> Result<Box<dyn Backend>> {
    match &found.open {
        #[cfg(feature = "gpu")]
        Some(Choice::Gpu(adapter)) => Ok(Box::new(adapter.open().await?)),
        #[cfg(feature = "cpu")]
        Some(Choice::Cpu) => Ok(Box::new(crate::backend::cpu::CpuBackend::new())),
        Some(Choice::Driver(driver, number)) => (driver.open)(*number).await,
        None => {
            let why = found.reason.as_deref().unwrap_or_default();
            let message = format!("device: {} is not available: {why}", found.info.backend);
            Err(Error::new(ErrorKind::NoDevice, message))
        }
    }
}

/// Opens the GPU that this build of the browser core supports. JavaScript has already checked what the browser offers.
#[cfg(all(target_arch = "wasm32", feature = "js", feature = "gpu"))]
pub async fn open_only(low_power: bool) -> Result<Box<dyn Backend>> {
    use crate::backend::wgpu::{adapters, PowerPreference};
    match adapters(if low_power { PowerPreference::Low } else { PowerPreference::High })
        .await
        .first()
    {
        Some(adapter) => Ok(Box::new(adapter.open().await?)),
        None => {
            Err(Error::new(ErrorKind::NoDevice, "device: the browser must offer a GPU, got none"))
        }
    }
}

/// Opens the CPU, the only device of this build of the browser core.
#[cfg(all(target_arch = "wasm32", feature = "js", not(feature = "gpu")))]
pub async fn open_only(_: bool) -> Result<Box<dyn Backend>> {
    Ok(Box::new(crate::backend::cpu::CpuBackend::new()))
}
