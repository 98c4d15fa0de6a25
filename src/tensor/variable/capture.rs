//! Variables that a program reads.
//!
//! A program computes with the values that variables have when it runs. While it is compiled, each variable that is read gives
//! a tensor that stands for its value, as the program's inputs do, and the program keeps the variable.

use super::Variable;
use crate::device::Device;
use crate::graph::{NodeId, VariableId};
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// A program that is being compiled by this thread.
struct Build {
    device: Device,
    reads: Vec<(Variable, Tensor)>,
    /// Where each variable is in `reads`.
    known: FxHashMap<VariableId, usize>,
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

fn end() -> Vec<(Variable, Tensor)> {
    // Dropping tensors and variables may read variables again: not while the list is borrowed.
    BUILDS.with(|builds| builds.borrow_mut().pop()).map_or_else(Vec::new, |build| build.reads)
}

/// What `work` gives, and the variables of the device that it read, with what stood for their values.
pub(in crate::tensor) fn during<T>(
    device: &Device,
    work: impl FnOnce() -> T,
) -> (T, Vec<(Variable, Tensor)>) {
    let (reads, known) = Default::default();
    let build = Build { device: device.clone(), reads, known };
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
            for (variable, stand_in) in &build.reads {
                let place = stand_in.node().ok().and_then(|node| places.get(&node));
                let Some(&n) = place else { continue };
                variables.push((n, variable.clone()));
                // A program around this one has a tensor of its own for the value.
                for outer in &builds[..depth] {
                    let at = outer.known.get(&variable.id()).map(|&at| &outer.reads[at].1);
                    found.extend(at.and_then(|value| Some((n, value.node().ok()?))));
                }
            }
        }
    });
    // A value that is not known yet went into nothing.
    found.extend(variables.iter().filter_map(|(n, of)| Some((*n, of.known_value()?))));
    found
}

/// What stands for the value of a variable in the program that is being compiled; nothing where none is, for its device.
pub(super) fn read(variable: &Variable) -> Option<Tensor> {
    BUILDS.with(|builds| {
        let mut builds = builds.borrow_mut();
        let build = builds.last_mut()?;
        let device = variable.device();
        if !build.device.is_same(&device) || variable.has_failed() {
            return None;
        }
        let id = variable.id();
        if let Some(&at) = build.known.get(&id) {
            return Some(build.reads[at].1.clone());
        }
        let (shape, dtype) = variable.kind();
        let node = device.placeholder(shape, dtype);
        device.set_value_of(node, id);
        let stand_in = Tensor::adopt(&device, node);
        build.known.insert(id, build.reads.len());
        build.reads.push((variable.clone(), stand_in.clone()));
        Some(stand_in)
    })
}
