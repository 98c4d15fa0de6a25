//! Assignments to several variables at once: either all of them are made, or none. They can be rolled back.

use super::{structure, Structure, Variable};
use crate::device::Device;
use crate::error::Result;
use crate::graph::NodeId;
use crate::tensor::Tensor;

/// Values to assign together: either all of them, or none.
pub(crate) struct Assignment {
    all: Vec<(Variable, Tensor)>,
    /// For each variable, the parts that the new value does not change.
    unchanged: Vec<Vec<usize>>,
}

impl Assignment {
    /// Checks the values, and prepares their assignment.
    ///
    /// # Errors
    /// `Shape`, `DType` or `InvalidArgument` if a value does not fit its variable; `Limit` if the graph has no room for another
    /// node.
    pub fn new(all: Vec<(Variable, Tensor)>) -> Result<Assignment> {
        let mut values = Vec::with_capacity(all.len());
        for (variable, value) in all {
            variable.check(&value)?;
            let id = variable.id();
            let own = value.value_of(id)?;
            values.push((variable, own));
        }
        Ok(Assignment::of_own(values))
    }

    /// Prepares values that were already checked and already have separate nodes.
    pub(in crate::tensor) fn of_own(all: Vec<(Variable, Tensor)>) -> Assignment {
        let unchanged = vec![Vec::new(); all.len()];
        Assignment { all, unchanged }
    }

    /// Declares the parts of the n-th variable, a flat one, that its new value does not change.
    pub fn leave(&mut self, n: usize, parts: Vec<usize>) {
        self.unchanged[n] = parts;
    }

    /// Assigns the values. The result can undo the assignment, as long as nothing was computed since.
    pub fn commit(self) -> Undo {
        self.commit_in(&structure())
    }

    /// Assigns the values, and submits if many operations wait. After an error, nothing has changed.
    ///
    /// # Errors
    /// The errors of submitting.
    pub fn run(self, device: &Device) -> Result<()> {
        if !device.has_many_waiting() {
            drop(self.commit());
            return Ok(());
        }
        device.freeze_history(true);
        let undo = self.commit();
        let submitted = device.submit();
        if submitted.is_err() {
            undo.roll_back();
        }
        device.freeze_history(false);
        submitted
    }

    /// Assigns the values like [`Assignment::commit`], for callers that already hold the structure lock.
    pub(in crate::tensor) fn commit_in(self, _: &Structure) -> Undo {
        let (mut before, mut parts) = (Vec::with_capacity(self.all.len()), Vec::new());
        for ((variable, new), unchanged) in self.all.into_iter().zip(self.unchanged) {
            let (stored, cut) = (variable.stored(), variable.cut());
            let value = match (Parked::new(&stored, 2), &cut) {
                (Parked::None, None) => Parked::Held(stored),
                (parked, _) => parked,
            };
            before.push(Before { variable: variable.clone(), value, cut });
            variable.park_parts(&mut parts);
            variable.renew_parts(&unchanged);
            // The value was checked, so it carries no error and `store` succeeds.
            drop(variable.store(new));
        }
        Undo { before, parts }
    }
}

/// The previous values of variables that were assigned together. It holds as few of them as possible, because a held
/// value keeps its memory from being reused. Pending new values already keep the old values that they are computed from.
pub(crate) struct Undo {
    before: Vec<Before>,
    /// For each part of a flat variable: the flat variable, the index, the value, and the sequence number since when it
    /// exists.
    parts: Vec<(Variable, usize, Parked, Option<u64>)>,
}

impl Undo {
    /// Restores the previous values of the variables.
    pub fn roll_back(self) {
        self.roll_back_in(&structure());
    }

    /// Restores the values like [`Undo::roll_back`], for callers that already hold the structure lock.
    pub(in crate::tensor) fn roll_back_in(self, _: &Structure) {
        for Before { variable, value, cut } in self.before.into_iter().rev() {
            variable.renew_parts(&[]);
            match (value.back(), cut) {
                (value, Some(Cut { flat, n, since })) => flat.cut_again(n, value, since),
                (Some(value), None) => drop(variable.store(value)),
                (None, None) => {}
            }
        }
        for (flat, n, value, since) in self.parts {
            flat.set_part(n, value.back(), since);
        }
    }
}

/// The value of a variable before an assignment.
struct Before {
    variable: Variable,
    value: Parked,
    cut: Option<Cut>,
}

/// A value that was sliced from a flat variable. Its variable is the n-th part of `flat`.
pub(super) struct Cut {
    pub flat: Variable,
    pub n: usize,
    /// The sequence number since when the value existed.
    pub since: Option<u64>,
}

/// A previous value that may be restored.
pub(crate) enum Parked {
    /// A strong reference, because nothing else holds the value.
    Held(Tensor),
    /// A weak reference. A tensor that is computed from the value holds it, and may reuse its memory.
    Loose(WeakTensor),
    /// No value.
    None,
}

impl Parked {
    /// Parks a value of which this number of clones will be dropped.
    pub fn new(value: &Tensor, clones: usize) -> Parked {
        match value.weak() {
            Some(weak) if value.is_shared(clones) => Parked::Loose(weak),
            Some(_) if value.is_data() => Parked::Held(value.clone()),
            // No other tensor depends on the value.
            _ => Parked::None,
        }
    }

    /// Returns the value, if it still exists.
    pub fn back(self) -> Option<Tensor> {
        match self {
            Parked::Held(value) => Some(value),
            Parked::Loose(weak) => weak.upgrade(),
            Parked::None => None,
        }
    }
}

/// A weak reference to a tensor.
pub(crate) struct WeakTensor {
    device: Device,
    node: NodeId,
}

impl WeakTensor {
    /// Creates a weak reference to a node.
    pub(super) fn new(device: &Device, node: NodeId) -> WeakTensor {
        WeakTensor { device: device.clone(), node }
    }

    /// The node, which may be freed.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the tensor, if it still exists.
    pub fn upgrade(&self) -> Option<Tensor> {
        self.device.hold(self.node).then(|| Tensor::adopt(&self.device, self.node))
    }
}
