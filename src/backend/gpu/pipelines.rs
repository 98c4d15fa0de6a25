//! Shaders compiled, once per text.

use super::{Fate, Machine};
use crate::codegen::Source;
use crate::error::{Error, ErrorKind};
use crate::kernel::Limits;
use std::collections::HashMap;
use std::sync::Arc;

/// A compiled kernel, or the reason why there is none.
pub struct Pipeline<P> {
    /// None where it was not even tried.
    pub(crate) compiled: Option<P>,
    pub(crate) fate: Fate,
}

/// The kernels with the same text: nearly always one, or else with other numbers of inputs and
/// outputs.
type Same<P> = Vec<((usize, usize), Arc<Pipeline<P>>)>;

/// All pipelines of a device.
pub(super) struct Pipelines<P> {
    all: HashMap<String, Same<P>>,
    /// How many were ever compiled.
    pub(super) made: u64,
}

impl<P> Default for Pipelines<P> {
    fn default() -> Pipelines<P> {
        Pipelines { all: HashMap::default(), made: 0 }
    }
}

impl<P> Pipelines<P> {
    /// The pipeline of a text with these numbers of inputs and outputs. `kind` and `label` say in
    /// errors what it is.
    pub(super) fn get<M: Machine<Pipeline = P>>(
        &mut self,
        machine: &M,
        limits: &Limits,
        source: &Source,
        arity: (usize, usize),
        (kind, label): (&str, &str),
    ) -> Arc<Pipeline<P>> {
        let known = self.all.get(&source.text).into_iter().flatten();
        if let Some((_, found)) = known.into_iter().find(|(other, _)| *other == arity) {
            return found.clone();
        }
        let fate = Fate::default();
        let mut compiled = None;
        if source.f16 && !limits.f16 {
            let message =
                format!("{kind}: the kernel `{label}` needs f16, which this device lacks");
            fate.settle(Some(Error::new(ErrorKind::Unsupported, message)));
        } else {
            let what = format!("{kind}: the device refuses the kernel `{label}`");
            compiled = Some(machine.compile(&source.text, arity, kind, what, &fate));
            self.made += 1;
        }
        let made = Arc::new(Pipeline { compiled, fate });
        self.all.entry(source.text.clone()).or_default().push((arity, made.clone()));
        made
    }
}

/// A number of workgroups as two dimensions of at most `limit` each, with less than one row too
/// many. None where two do not suffice.
pub fn fold(workgroups: u64, limit: u32) -> Option<(u32, u32)> {
    let limit = u64::from(limit.max(1));
    let rows = workgroups.div_ceil(limit).max(1);
    if rows > limit {
        return None;
    }
    Some((workgroups.div_ceil(rows) as u32, rows as u32))
}
