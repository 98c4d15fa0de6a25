//! Which machine to use: discovery, preference, and the fallback to the CPU.

use crate::backend::{Backend, DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// What device is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// A discrete GPU, else an integrated one, else the CPU. Never a software GPU.
    Auto,
    /// A GPU, or an error.
    Gpu,
    /// The GPU that takes least power, or an error.
    LowPower,
    /// The CPU backend.
    Cpu,
    /// A software GPU (lavapipe, SwiftShader, WARP): for tests.
    Software,
    /// The n-th of [`Device::discover`](crate::device::Device::discover).
    Index(usize),
    /// The first whose name contains this, in any case.
    Name(String),
}

impl Preference {
    /// What a word says: `auto`, `gpu`, `low-power`, `cpu`, `software`, an index, or part of a name.
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

    /// What `WARPWEFT_DEVICE` says, `Auto` where it is not set.
    pub fn from_environment() -> Result<Preference> {
        match std::env::var("WARPWEFT_DEVICE") {
            Ok(word) => Ok(Preference::parse(&word)),
            Err(std::env::VarError::NotPresent) => Ok(Preference::Auto),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Error::data("WARPWEFT_DEVICE: it is not valid text"))
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
            Preference::Name(name) => write!(f, "a name with {name}"),
        }
    }
}

/// A device that was found, or why one is not there.
#[derive(Clone, Debug)]
pub struct Found {
    pub info: Info,
    /// The largest buffer a kernel can use, in bytes.
    pub binding_bytes: u64,
    pub f16: bool,
    /// Whether `Device::new` would take it.
    pub recommended: bool,
    /// Why it cannot be used, or is not chosen unasked.
    pub reason: Option<String>,
    open: Choice,
}

#[derive(Clone, Debug)]
enum Choice {
    #[cfg(feature = "gpu")]
    Gpu(Box<crate::backend::wgpu::Adapter>),
    #[cfg(feature = "cpu")]
    Cpu,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Info { backend, name, kind, .. } = &self.info;
        let mark = if self.recommended { "*" } else { " " };
        let megabytes = self.binding_bytes >> 20;
        let f16 = if self.f16 { ", f16" } else { "" };
        write!(f, "{mark} {backend}: {name} ({}, buffers to {megabytes} MiB{f16})", kind.name())?;
        self.reason.iter().try_for_each(|reason| write!(f, " - {reason}"))
    }
}

/// All devices, the recommended one first.
pub async fn discover() -> Vec<Found> {
    find(false).await
}

/// All devices; `low_power` is what a browser, which offers one GPU, chooses it by.
#[cfg_attr(not(feature = "gpu"), allow(unused_variables))]
async fn find(low_power: bool) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    #[cfg(feature = "gpu")]
    use crate::backend::wgpu::{adapters, Power};
    #[cfg(feature = "gpu")]
    for adapter in adapters(if low_power { Power::Low } else { Power::High }).await {
        let software = adapter.info.kind == DeviceKind::Software;
        found.push(Found {
            binding_bytes: adapter.limits.binding_bytes,
            f16: adapter.limits.f16,
            recommended: false,
            reason: software.then(|| "a software GPU: only when asked for".into()),
            info: adapter.info.clone(),
            open: Choice::Gpu(Box::new(adapter)),
        });
    }
    #[cfg(feature = "cpu")]
    {
        let cpu = crate::backend::cpu::CpuBackend::new();
        found.push(Found {
            info: cpu.info().clone(),
            binding_bytes: cpu.limits().binding_bytes,
            f16: cpu.limits().f16,
            recommended: false,
            reason: None,
            open: Choice::Cpu,
        });
    }
    found.sort_by_key(|f| f.info.kind);
    if let Some(first) = found.iter_mut().find(|f| f.reason.is_none()) {
        first.recommended = true;
    }
    found
}

fn is_gpu(found: &Found) -> bool {
    matches!(found.info.kind, DeviceKind::DiscreteGpu | DeviceKind::IntegratedGpu | DeviceKind::Gpu)
}

/// Opens what is preferred; also why it is the CPU, where a GPU was to be expected.
pub async fn open(preference: Preference) -> Result<(Box<dyn Backend>, Option<String>)> {
    // Asking for GPUs loads their drivers.
    #[cfg(feature = "cpu")]
    if preference == Preference::Cpu {
        return Ok((Box::new(crate::backend::cpu::CpuBackend::new()), None));
    }
    let found = find(preference == Preference::LowPower).await;
    let candidates: Vec<&Found> = match &preference {
        Preference::Auto => found.iter().filter(|f| f.reason.is_none()).collect(),
        Preference::Gpu => found.iter().filter(|f| is_gpu(f)).collect(),
        Preference::LowPower => {
            let mut gpus: Vec<&Found> = found.iter().filter(|f| is_gpu(f)).collect();
            gpus.sort_by_key(|f| f.info.kind != DeviceKind::IntegratedGpu);
            gpus
        }
        Preference::Cpu => found.iter().filter(|f| f.info.kind == DeviceKind::Cpu).collect(),
        Preference::Software => {
            found.iter().filter(|f| f.info.kind == DeviceKind::Software).collect()
        }
        Preference::Index(index) => found.get(*index).into_iter().collect(),
        Preference::Name(name) => {
            let name = name.to_ascii_lowercase();
            let matches = |f: &&Found| f.info.name.to_ascii_lowercase().contains(&name);
            found.iter().filter(matches).collect()
        }
    };
    let mut failures = Vec::new();
    for candidate in candidates {
        match open_found(candidate).await {
            Ok(backend) => {
                let expected = preference == Preference::Auto && !is_gpu(candidate);
                return Ok((backend, expected.then(|| why_not_gpu(&found, &failures))));
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    let there: Vec<String> = found.iter().map(|f| f.to_string().trim().to_string()).collect();
    let there = if there.is_empty() { "nothing".to_string() } else { there.join("; ") };
    let tried =
        if failures.is_empty() { String::new() } else { format!(" ({})", failures.join("; ")) };
    let message = format!("device: nothing answers to {preference}{tried}; there is: {there}");
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
    match found.open {
        #[cfg(feature = "gpu")]
        Choice::Gpu(ref adapter) => Ok(Box::new(adapter.open().await?)),
        #[cfg(feature = "cpu")]
        Choice::Cpu => Ok(Box::new(crate::backend::cpu::CpuBackend::new())),
    }
}

/// Opens what this build of the browser's core is for. What there is, JavaScript has looked at.
#[cfg(all(target_arch = "wasm32", feature = "js", feature = "gpu"))]
pub async fn open_only(low_power: bool) -> Result<Box<dyn Backend>> {
    use crate::backend::wgpu::{adapters, Power};
    match adapters(if low_power { Power::Low } else { Power::High }).await.first() {
        Some(adapter) => Ok(Box::new(adapter.open().await?)),
        None => Err(Error::new(ErrorKind::NoDevice, "device: the browser offers no GPU now")),
    }
}

/// Opens what this build of the browser's core is for.
#[cfg(all(target_arch = "wasm32", feature = "js", not(feature = "gpu")))]
pub async fn open_only(_: bool) -> Result<Box<dyn Backend>> {
    Ok(Box::new(crate::backend::cpu::CpuBackend::new()))
}
