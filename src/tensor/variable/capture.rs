//! Variables that a program reads and assigns.
//!
//! A program computes with the values that variables have when it runs. While it is compiled, each variable that is read gives
//! a tensor that stands for its value, as the program's inputs do, and the program keeps the variable. What a variable is
//! assigned meanwhile is its value from there on in the program; outside nothing changes before the program runs.

use super::Variable;
use crate::device::Device;
use crate::error::Result;
use crate::graph::{NodeId, VariableId};
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// A program that is being compiled by this thread.
struct Build {
    device: Device,
    captured: Captured,
    /// The value of each variable at this point of the program.
    known: FxHashMap<VariableId, Tensor>,
}

/// The variables that a program reads and assigns.
#[derive(Default)]
pub(in crate::tensor) struct Captured {
    /// Variables whose values it needs, and what stands for those.
    pub reads: Vec<(Variable, Tensor)>,
    /// Variables that it assigns, and what they have in the end.
    pub writes: Vec<(Variable, Tensor)>,
}

thread_local! {
    /// The programs that are being compiled, the innermost last.
    static BUILDS: RefCell<Vec<Build>> = const { RefCell::new(Vec::new()) };
}

/// Ends the innermost build, in whichever way its function ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        end();
    }
}

fn end() -> Captured {
    // Dropping tensors and variables may read variables again: not while the list is borrowed.
    let build = BUILDS.with(|builds| builds.borrow_mut().pop());
    build.map_or_else(Captured::default, |build| build.captured)
}

/// What `work` gives, and what it did with variables of the device.
pub(in crate::tensor) fn during<T>(device: &Device, work: impl FnOnce() -> T) -> (T, Captured) {
    let (captured, known) = Default::default();
    let build = Build { device: device.clone(), captured, known };
    BUILDS.with(|builds| builds.borrow_mut().push(build));
    let guard = Guard;
    let made = work();
    std::mem::forget(guard);
    (made, end())
}

/// The values that variables have outside of the program that is being compiled, for those of these nodes that stand for
/// one inside: the place of the node, and the value.
pub(in crate::tensor) fn outside(device: &Device, nodes: &[NodeId]) -> Vec<(usize, NodeId)> {
    let mut found: Vec<(usize, NodeId)> = Vec::new();
    let mut variables: Vec<(usize, Variable)> = Vec::new();
    BUILDS.with(|builds| {
        let builds = builds.borrow();
        if builds.is_empty() {
            return;
        }
        // Nodes of two devices may have equal numbers.
        let builds: Vec<&Build> = builds.iter().filter(|b| b.device.is_same(device)).collect();
        let places: FxHashMap<NodeId, usize> =
            nodes.iter().enumerate().map(|(n, &node)| (node, n)).collect();
        for (depth, build) in builds.iter().enumerate() {
            for (variable, stand_in) in &build.captured.reads {
                let place = stand_in.node().ok().and_then(|node| places.get(&node));
                let Some(&n) = place else { continue };
                variables.push((n, variable.clone()));
                // A program around this one has a tensor of its own for the value.
                for outer in &builds[..depth] {
                    let value = outer.known.get(&variable.id());
                    found.extend(value.and_then(|value| Some((n, value.node().ok()?))));
                }
            }
        }
    });
    // A value that is not known yet went into nothing.
    found.extend(variables.iter().filter_map(|(n, of)| Some((*n, of.known_value()?))));
    found
}

/// Whether this thread compiles a program for the device.
pub(in crate::tensor) fn is_compiling(device: &Device) -> bool {
    BUILDS.with(|builds| builds.borrow().last().is_some_and(|build| build.device.is_same(device)))
}

/// Does `work` with the program that is being compiled; nothing where none is for the variable's device.
fn with_build<T>(variable: &Variable, work: impl FnOnce(&mut Build) -> T) -> Option<T> {
    BUILDS.with(|builds| {
        let mut builds = builds.borrow_mut();
        let build = builds.last_mut()?;
        let is_its = build.device.is_same(&variable.device()) && !variable.has_failed();
        is_its.then(|| work(build))
    })
}

/// The value that a variable has in the program that is being compiled, if one is.
pub(super) fn read(variable: &Variable) -> Option<Tensor> {
    with_build(variable, |build| {
        let id = variable.id();
        if let Some(value) = build.known.get(&id) {
            return value.clone();
        }
        let (shape, dtype) = variable.kind();
        let node = build.device.placeholder(shape, dtype);
        build.device.set_value_of(node, id);
        let stand_in = Tensor::adopt(&build.device, node);
        build.known.insert(id, stand_in.clone());
        build.captured.reads.push((variable.clone(), stand_in.clone()));
        stand_in
    })
}

/// Has a variable this value, which fits it, in the program that is being compiled, if one is.
pub(super) fn write(variable: &Variable, value: &Tensor) -> Option<Result<()>> {
    let before = with_build(variable, |build| {
        let own = value.value_of(variable.id())?;
        let writes = &mut build.captured.writes;
        let before = match writes.iter_mut().find(|(other, _)| other.is_same(variable)) {
            Some((_, last)) => Some(std::mem::replace(last, own.clone())),
            None => {
                writes.push((variable.clone(), own.clone()));
                None
            }
        };
        Ok((before, build.known.insert(variable.id(), own)))
    });
    // What is dropped here may read variables again.
    before.map(|before| before.map(drop))
}
