//! Assignments of several variables: all of them or none, and back again.

use super::{structure, Structure, Variable};
use crate::device::Device;
use crate::error::Result;
use crate::graph::NodeId;
use crate::tensor::Tensor;

/// Values that are assigned together: all of them, or none.
pub(crate) struct Assignment {
    all: Vec<(Variable, Tensor)>,
    /// Parts of these variables that the new value leaves as they are.
    unchanged: Vec<Vec<usize>>,
}

impl Assignment {
    /// Values for variables, which are checked now.
    ///
    /// # Errors
    /// `Shape`, `DType` or `Data` if a value does not fit its variable; `Limit` where there is no room for another node.
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

    /// As [`Assignment::new`], for values that were checked before and are nodes of their own already.
    pub(in crate::tensor) fn of_own(all: Vec<(Variable, Tensor)>) -> Assignment {
        let unchanged = vec![Vec::new(); all.len()];
        Assignment { all, unchanged }
    }

    /// Says which parts of the n-th variable, which is flat, have in its new value what they had before.
    pub fn leave(&mut self, n: usize, parts: Vec<usize>) {
        self.unchanged[n] = parts;
    }

    /// Assigns the values. What comes back can take that back, as long as nothing was computed.
    pub fn commit(self) -> Undo {
        self.commit_in(&structure())
    }

    /// The same, while the structure is locked.
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
            // It was checked: it is no failed tensor.
            drop(variable.store(new));
        }
        Undo { before, parts }
    }
}

/// What variables had before they were assigned together. It holds as little as it can: new values are computed from old
/// ones, which are there until then, and whose memory they may take.
pub(crate) struct Undo {
    before: Vec<Before>,
    /// The values of parts of flat variables, which parts they are, and how old they are.
    parts: Vec<(Variable, usize, Parked, Option<u64>)>,
}

impl Undo {
    /// Gives the variables their old values again.
    pub fn roll_back(self) {
        self.roll_back_in(&structure());
    }

    /// The same, while the structure is locked.
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

/// The value was cut out of the flat variable that this is the n-th part of.
pub(super) struct Cut {
    pub flat: Variable,
    pub n: usize,
    /// How old it was.
    pub since: Option<u64>,
}

/// A value that may come back.
pub(crate) enum Parked {
    /// Nothing else would keep it.
    Held(Tensor),
    /// What is computed from it keeps it, and may take its memory.
    Loose(WeakTensor),
    /// There is none.
    None,
}

impl Parked {
    /// Parks a value of which so many clones will be dropped.
    pub fn new(value: &Tensor, clones: usize) -> Parked {
        match value.weak() {
            Some(weak) if value.is_shared(clones) => Parked::Loose(weak),
            Some(_) if value.is_data() => Parked::Held(value.clone()),
            // Nothing was computed from it or of it.
            _ => Parked::None,
        }
    }

    /// The value, if it is still there.
    pub fn back(self) -> Option<Tensor> {
        match self {
            Parked::Held(value) => Some(value),
            Parked::Loose(weak) => weak.upgrade(),
            Parked::None => None,
        }
    }
}

/// A tensor that is not held.
pub(crate) struct WeakTensor {
    device: Device,
    node: NodeId,
}

impl WeakTensor {
    /// Of this node.
    pub(super) fn new(device: &Device, node: NodeId) -> WeakTensor {
        WeakTensor { device: device.clone(), node }
    }

    /// Its node, which may be gone.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The tensor, if something still needs it.
    pub fn upgrade(&self) -> Option<Tensor> {
        self.device.hold(self.node).then(|| Tensor::adopt(&self.device, self.node))
    }
}
