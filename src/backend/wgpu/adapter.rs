//! Adapters: GPUs before they are opened, and the options that choose one.

use super::platform::Handle;
use crate::backend::{DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;

/// A GPU that can be opened. In a browser it can be opened once.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The name and kind.
    pub info: Info,
    /// The limits of the opened device.
    pub limits: Limits,
    /// The bytes of GPU memory, if the platform reports them.
    pub memory: Option<u64>,
    pub(super) handle: Handle,
}

/// A preference among several GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PowerPreference {
    /// The fastest: a discrete GPU before an integrated one.
    #[default]
    High,
    /// The most economical: an integrated GPU before a discrete one.
    Low,
}

/// Options that choose a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AdapterOptions {
    /// The position in the list of adapters. Takes precedence over the other options.
    pub index: Option<usize>,
    /// The preference, if there is no index.
    pub power: PowerPreference,
    /// Whether a software GPU is accepted if there is no other.
    pub software: bool,
}

impl AdapterOptions {
    /// Returns the position of the chosen GPU in a list sorted by kind. The error lists the available GPUs, or has the text
    /// `none` if the list is empty.
    pub(crate) fn pick(self, found: &[&Info], none: &str) -> Result<usize> {
        let mut order: Vec<usize> = (0..found.len()).collect();
        if self.power == PowerPreference::Low {
            order.sort_by_key(|&at| match found[at].kind {
                DeviceKind::IntegratedGpu => 0,
                DeviceKind::Gpu => 1,
                DeviceKind::DiscreteGpu => 2,
                DeviceKind::Cpu | DeviceKind::Software => 3,
            });
        }
        let chosen = match self.index {
            Some(index) => (index < found.len()).then_some(index),
            None => order
                .into_iter()
                .find(|&at| self.software || found[at].kind != DeviceKind::Software),
        };
        chosen.ok_or_else(|| self.nothing(found, none))
    }

    fn nothing(self, found: &[&Info], none: &str) -> Error {
        let wanted = match (self.index, self.software) {
            (Some(index), _) => format!("GPU number {index}"),
            (None, true) => "a GPU, also a software one".to_string(),
            (None, false) => "a GPU, other than a software one".to_string(),
        };
        let names: Vec<String> =
            found.iter().map(|info| format!("{} ({})", info.name, info.kind.name())).collect();
        let there = match names.as_slice() {
            [] => none.to_string(),
            names => names.join(", "),
        };
        Error::new(ErrorKind::NoDevice, format!("open: there must be {wanted}, got {there}"))
    }
}
