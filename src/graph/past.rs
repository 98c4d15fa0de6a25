//! What nodes know of their past.

/// What a node depends on, itself included, as far as gradients pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// Tensors hold nodes there: recorded before this number, the youngest just before.
    pub reach: u64,
    pub cut: Cut,
}

impl Past {
    /// Of two inputs; the younger cut, and of two as young the first.
    pub fn join(self, other: Past) -> Past {
        let cut = if other.cut.before > self.cut.before { other.cut } else { self.cut };
        Past { reach: self.reach.max(other.reach), cut }
    }
}

/// Where gradients end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    /// They do not get to nodes recorded before this number.
    pub before: u64,
    /// The operation whose result is gone.
    pub op: &'static str,
}

/// The number decides. Comparing names, empty ones mostly, took half the time of recording.
impl PartialEq for Cut {
    fn eq(&self, other: &Cut) -> bool {
        self.before == other.before
    }
}

impl Eq for Cut {}
