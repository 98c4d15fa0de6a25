//! Captures the variables that a program reads and assigns while it is compiled.
//!
//! A program computes with the values that its variables have when it runs. While it is compiled, reading a variable
//! therefore returns a placeholder, like those of the program's inputs, and the program keeps the variable. An assignment
//! changes the value that the rest of the program sees. Outside the program, nothing changes until it runs.
//!
//! In the same way, seeds are drawn when a program runs. While it is compiled, drawing a seed returns a number that stands for
//! the draw. An operation with that number as its seed gets a placeholder.

use super::Variable;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{NodeId, VariableId};
use crate::shape::Shape;
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// A source of seeds, such as a generator.
pub(crate) trait SeedSource: Send + Sync {
    /// Draws the next seed.
    fn draw(&self) -> u32;

    /// Undoes the last draw, because the run that needed it failed.
    fn give_back(&self);
}

/// A source of which a program draws a seed in each run.
pub(crate) type Draw = Arc<dyn SeedSource>;

/// A program that is being compiled by this thread.
struct Build {
    device: Device,
    captured: Captured,
    /// The value of each variable at this point of the program.
    known: FxHashMap<VariableId, Tensor>,
    /// The numbers that stand for seeds, each with its draw.
    seeds: Vec<(u32, Draw)>,
}

/// The variables that a program reads and assigns, and the seeds that it draws.
#[derive(Default)]
pub(in crate::tensor) struct Captured {
    /// The draws of the seeds that operations use, each with the number that stands for the seed and its placeholder.
    pub draws: Vec<(Draw, u32, Tensor)>,
    /// Variables that the program reads, each with its placeholder.
    pub reads: Vec<(Variable, Tensor)>,
    /// Variables that the program assigns, each with its last value.
    pub writes: Vec<(Variable, Tensor)>,
}

thread_local! {
    /// The programs that this thread is compiling, innermost last.
    static BUILDS: RefCell<Vec<Build>> = const { RefCell::new(Vec::new()) };
}

/// Ends the innermost build when its function returns or panics.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        end();
    }
}

fn end() -> Captured {
    // Dropping tensors and variables may read variables again, so it must not happen while the list is borrowed.
    let build = BUILDS.with(|builds| builds.borrow_mut().pop());
    build.map_or_else(Captured::default, |build| build.captured)
}

/// Returns the result of `work`, and the variables of the device that it read and assigned.
pub(in crate::tensor) fn during<T>(device: &Device, work: impl FnOnce() -> T) -> (T, Captured) {
    let (captured, known, seeds) = Default::default();
    let build = Build { device: device.clone(), captured, known, seeds };
    BUILDS.with(|builds| builds.borrow_mut().push(build));
    let guard = Guard;
    let made = work();
    std::mem::forget(guard);
    (made, end())
}

/// Finds the placeholders of variables among `nodes`, and returns the values outside the program. Each result is the
/// index of the placeholder in `nodes`, and the node of the value.
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
                // An enclosing program has another placeholder for the value.
                for outer in &builds[..depth] {
                    let value = outer.known.get(&variable.id());
                    found.extend(value.and_then(|value| Some((n, value.node().ok()?))));
                }
            }
        }
    });
    // Nothing was computed from a value that has no node yet.
    found.extend(variables.iter().filter_map(|(n, of)| Some((*n, of.known_value()?))));
    found
}

/// Returns a number that stands for a seed which each run of the program draws. `None` outside a program.
pub(crate) fn stand_for(draw: impl FnOnce() -> Draw) -> Option<u32> {
    BUILDS.with(|builds| {
        let mut builds = builds.borrow_mut();
        let seeds = &mut builds.last_mut()?.seeds;
        // A multiple of an odd constant, so that the numbers differ and users' seeds are unlikely to be among them.
        let number = 0x9e37_79b9_u32.wrapping_mul(seeds.len() as u32 + 1) ^ 0x5eed_5eed;
        seeds.push((number, draw()));
        Some(number)
    })
}

/// Returns the placeholder of a seed that stands for a draw in the program that is being compiled, a `u32` of rank 0.
pub(in crate::tensor) fn seed(device: &Device, number: u32) -> Option<Tensor> {
    BUILDS.with(|builds| {
        let mut builds = builds.borrow_mut();
        let Build { device: own, captured, seeds, .. } = builds.last_mut()?;
        let (_, draw) = seeds.iter().find(|(known, _)| *known == number)?;
        if !own.is_same(device) {
            return None;
        }
        if let Some((_, _, stand_in)) = captured.draws.iter().find(|(_, known, _)| *known == number)
        {
            return Some(stand_in.clone());
        }
        let stand_in = Tensor::adopt(device, device.placeholder(Shape::SCALAR, DType::U32));
        captured.draws.push((draw.clone(), number, stand_in.clone()));
        Some(stand_in)
    })
}

/// Whether this thread compiles a program for the device.
pub(in crate::tensor) fn is_compiling(device: &Device) -> bool {
    BUILDS.with(|builds| builds.borrow().last().is_some_and(|build| build.device.is_same(device)))
}

/// Calls `work` with the program that is being compiled. `None` if no program is being compiled for the variable's
/// device.
fn with_build<T>(variable: &Variable, work: impl FnOnce(&mut Build) -> T) -> Option<T> {
    BUILDS.with(|builds| {
        let mut builds = builds.borrow_mut();
        let build = builds.last_mut()?;
        let is_its = build.device.is_same(&variable.device()) && !variable.has_failed();
        is_its.then(|| work(build))
    })
}

/// Returns the value of a variable in the program that is being compiled. `None` outside a program.
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

/// Assigns a value, which must fit, in the program that is being compiled. `None` outside a program.
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
    // Dropping the previous values may read variables again, so it happens here.
    before.map(|before| before.map(drop))
}
