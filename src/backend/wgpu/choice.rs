//! Which of the GPUs that are there is wanted.

use crate::backend::{DeviceKind, Info};
use crate::error::{Error, ErrorKind, Result};

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
    /// This one in the list of adapters, whatever it is.
    pub index: Option<usize>,
    /// Otherwise the best of them by this preference.
    pub power: Power,
    /// Whether a software GPU will do, where there is no real one.
    pub software: bool,
}

impl Choice {
    /// The position of what is wanted in a list sorted by kind, or an error that says what is there;
    /// `none` says it for an empty list.
    pub(crate) fn pick(self, found: &[&Info], none: &str) -> Result<usize> {
        let mut order: Vec<usize> = (0..found.len()).collect();
        if self.power == Power::Low {
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
