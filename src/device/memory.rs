//! Memory reports, and the device's access to the lifetimes of nodes.

use super::pool::PooledBuffer;
use super::state::State;
use super::Device;
use crate::backend::{Backend, BufferId};
use crate::debug::Place;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Holder, NodeId, StaleValue, VariableId};
use crate::sorted;
use rustc_hash::FxHashMap;
use std::fmt;

/// A report of a device's memory, in bytes. The fields from `tensors` to `pooled` add up to `allocated`. In Rust the report
/// prints as a table.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Values of tensors that the program holds.
    pub tensors: u64,
    /// Values of variables.
    pub variables: u64,
    /// Tensors that only compiled programs hold.
    pub constants: u64,
    /// Values that nothing holds, but that pending operations or gradients need.
    pub pending: u64,
    /// Intermediate values of batches that are being prepared.
    pub temporaries: u64,
    /// Unused memory kept for reuse.
    pub pooled: u64,
    /// All memory allocated for tensors.
    pub allocated: u64,
    /// Memory for uploads, reads and kernel parameters, in addition to `allocated`.
    pub staging: u64,
    /// The most bytes in use at once. In use is `allocated` without `pooled`.
    pub peak: u64,
    /// The uploaded part of the peak.
    pub peak_uploaded: u64,
    /// The computed part of the peak.
    pub peak_computed: u64,
    /// The part of the peak that was intermediate values of batches.
    pub peak_temporaries: u64,
    /// The work that reached the peak.
    pub peak_by: String,
    /// The ten largest values.
    #[cfg_attr(feature = "js", js(returns = "readonly HeldTensor[]"))]
    pub largest: Vec<HeldTensor>,
}

/// A value in a device's memory.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTensor {
    /// The bytes of its buffer, whose size may be rounded up.
    pub bytes: u64,
    /// The shape.
    #[cfg_attr(feature = "js", js(returns = "readonly number[]"))]
    pub shape: Vec<usize>,
    /// The type of its elements.
    #[cfg_attr(feature = "js", js(returns = "DType"))]
    pub dtype: DType,
    /// The operation that computed the value; `data` if it was uploaded.
    pub op: &'static str,
    /// `tensor`, `variable`, `constant` or `pending`, as in [`MemoryReport`].
    pub holder: &'static str,
    /// The source location that made the tensor: file and line, or the function if these are unknown. Set only while
    /// `WARPWEFT_DEBUG` or [`set_debug`](crate::debug::set_debug) contains `memory`.
    pub made_at: Option<String>,
}

/// The number of largest values in a report.
const LISTED: usize = 10;

#[cfg_attr(feature = "js", warpweft_macros::js(only(memory)))]
impl Device {
    /// Returns a report of what holds the device's memory, its peak, and the largest values. The report has the places where
    /// tensors were made if `WARPWEFT_DEBUG` or [`set_debug`](crate::debug::set_debug) contained `memory` when they were made.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32; 1024], &[1024])?;
    /// let memory = device.memory();
    /// println!("{memory}");
    /// assert_eq!((memory.tensors, memory.largest[0].op), (4096, "data"));
    /// drop(x);
    /// assert_eq!(device.memory().tensors, 0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn memory(&self) -> MemoryReport {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        let mut memory = state.memory(&*self.inner.backend);
        let mut all: Vec<(u64, NodeId)> =
            state.owners().map(|(node, held)| (held.bytes, node)).collect();
        // The older one of two equally large values comes first.
        sorted::by_key(&mut all, |&(bytes, node)| (std::cmp::Reverse(bytes), node.seq));
        all.truncate(LISTED);
        let mut places = Vec::with_capacity(all.len());
        for (bytes, node) in all {
            let (shape, dtype) = (state.graph.shape(node).to_vec(), state.graph.dtype(node));
            let (op, holder) = (state.graph.operation_name(node), state.graph.holder(node).name());
            memory.largest.push(HeldTensor { bytes, shape, dtype, op, holder, made_at: None });
            places.push(state.places.get(&node).cloned());
        }
        drop(state);
        // Resolving a source location is slow, so the state is unlocked.
        for (held, place) in memory.largest.iter_mut().zip(places) {
            held.made_at = place.map(|place| place.describe());
        }
        memory
    }
}

impl Device {
    /// Records an alias: a node with the value of another node, in the same memory.
    ///
    /// # Errors
    /// `Limit` if the graph is full.
    pub(crate) fn alias(&self, of: NodeId) -> Result<NodeId> {
        self.state().alias(of, &*self.inner.backend)
    }

    /// Marks the node as the value of a variable. Its gradient belongs to that variable.
    pub(crate) fn set_value_of(&self, node: NodeId, variable: VariableId) {
        self.state().graph.set_value_of(node, variable);
    }

    /// Pauses or resumes dropping useless history, because tensors that are released now may be held again.
    pub(crate) fn freeze_history(&self, whether: bool) {
        let mut state = self.state();
        match whether {
            true => state.graph.pause_history_drops(),
            false => state.graph.resume_history_drops(),
        }
        state.reclaim(&*self.inner.backend);
    }

    /// Returns the sequence number since when the value of a variable exists.
    pub(crate) fn since(&self, node: NodeId) -> u64 {
        self.state().graph.since(node)
    }

    /// Sets the sequence number since when the value of this node exists.
    pub(crate) fn set_since(&self, node: NodeId, since: u64) {
        self.state().graph.set_since(node, since);
    }

    /// Begins a step that consumes losses computed from these values of variables. Returns the nodes that the step consumes.
    pub(crate) fn use_up(&self, losses: &[NodeId], values: &[NodeId]) -> Vec<NodeId> {
        let mut state = self.state();
        let mut used = Vec::new();
        for &loss in losses {
            used.extend(state.graph.consume(loss, values));
        }
        used
    }

    /// Ends the step that consumes these nodes. `was_taken` is false if the step failed.
    pub(crate) fn finish_consume(&self, used: &[NodeId], was_taken: bool) {
        let mut state = self.state();
        state.graph.finish_consume(used, was_taken);
        state.reclaim(&*self.inner.backend);
    }

    /// Rejects a loss that was computed from earlier values of these variables.
    pub(crate) fn check_values(
        &self,
        of: NodeId,
        variables: &[(VariableId, NodeId)],
    ) -> std::result::Result<(), StaleValue> {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        state.graph.check_values(of, variables)
    }

    /// Whether anything but one tensor needs the node, or the node has or had a history.
    pub(crate) fn is_used(&self, node: NodeId) -> bool {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        state.graph.is_used(node)
    }

    /// Whether another tensor holds the node, or the node has users.
    pub(crate) fn is_shared(&self, node: NodeId) -> bool {
        self.state().graph.is_shared(node)
    }

    /// Adds a handle to a node. Returns false if the node was freed.
    pub(crate) fn hold(&self, node: NodeId) -> bool {
        let mut state = self.state();
        let there = !state.graph.is_freed(node);
        if there {
            state.graph.retain(node);
            state.reclaim(&*self.inner.backend);
        }
        there
    }

    /// Marks the node as the value of a variable, so that `submit` computes it even if other operations use it.
    pub(crate) fn hold_for_variable(&self, node: NodeId) {
        self.state().graph.hold_for_variable(node);
    }

    /// Replaces the value of a variable: `before` by `after`.
    pub(crate) fn replace(&self, before: NodeId, after: NodeId) {
        self.state().graph.replace(before, after);
    }

    /// Notes that a variable no longer has this value.
    pub(crate) fn release_variable(&self, node: NodeId) {
        self.state().graph.release_variable(node);
    }

    /// Notes that the variable was dropped while it had this value.
    pub(crate) fn outlive_variable(&self, node: NodeId) {
        self.state().graph.outlive_variable(node);
    }

    /// Notes that a handle of the node belongs to a compiled program, or no longer does.
    pub(crate) fn set_constant(&self, node: NodeId, whether: bool) {
        self.state().graph.set_constant(node, whether);
    }

    /// Stores the source location that records a node.
    pub(crate) fn note_place(&self, node: NodeId) {
        let place = Place::here();
        let mut state = self.state();
        state.places.entry(node).or_insert(place);
        state.tidy_places();
    }
}

impl State {
    /// Lists each buffer once, with the node that it is reported for. Of several nodes, one of a variable or a tensor is
    /// preferred.
    fn owners(&self) -> impl Iterator<Item = (NodeId, &PooledBuffer)> {
        let mut owners: FxHashMap<BufferId, (NodeId, &PooledBuffer)> = FxHashMap::default();
        for (&node, held) in &self.buffers {
            let rank = |node| (self.graph.holder(node) as u8, node.seq);
            let owner = owners.entry(held.buffer).or_insert((node, held));
            if rank(node) < rank(owner.0) {
                owner.0 = node;
            }
        }
        owners.into_values()
    }

    /// Makes the report without the largest values.
    fn memory(&self, backend: &dyn Backend) -> MemoryReport {
        let counters = backend.counters();
        let mut memory = MemoryReport {
            pooled: self.pool.pooled + self.pool.stale_bytes(),
            allocated: counters.bytes,
            staging: counters.staging_bytes,
            peak: self.pool.peak,
            ..MemoryReport::default()
        };
        [memory.peak_uploaded, memory.peak_computed, memory.peak_temporaries] = self.pool.peak_of;
        memory.peak_by.clone_from(&self.pool.peak_by);
        let mut held = 0;
        for (node, buffer) in self.owners() {
            held += buffer.bytes;
            *match self.graph.holder(node) {
                Holder::Tensor => &mut memory.tensors,
                Holder::Variable => &mut memory.variables,
                Holder::Constant => &mut memory.constants,
                Holder::Pending => &mut memory.pending,
            } += buffer.bytes;
        }
        memory.temporaries = self.pool.used.saturating_sub(held);
        memory
    }

    /// Removes the source locations of freed nodes, once most entries are out of date.
    pub fn tidy_places(&mut self) {
        if self.places.len() > 64 + 2 * self.graph.live() {
            let graph = &self.graph;
            self.places.retain(|&node, _| !graph.is_freed(node));
        }
    }
}

/// Prints an amount of memory: `1.50 MiB`.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let powers = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match powers.into_iter().find(|(power, _)| self.0 >> power > 0) {
            Some((power, unit)) => {
                f.pad(&format!("{:.2} {unit}", self.0 as f64 / (1u64 << power) as f64))
            }
            None => f.pad(&format!("{} bytes", self.0)),
        }
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("tensors", self.tensors),
            ("variables", self.variables),
            ("constants of programs", self.constants),
            ("operands of operations and gradients", self.pending),
            ("temporaries", self.temporaries),
            ("pooled", self.pooled),
            ("= allocated", self.allocated),
            ("staging", self.staging),
        ];
        for (name, bytes) in rows {
            writeln!(f, "{:>12}  {name}", Bytes(bytes))?;
        }
        let MemoryReport { peak, peak_uploaded, peak_computed, peak_temporaries, peak_by, .. } =
            self;
        let parts = [peak_uploaded, peak_computed, peak_temporaries].map(|&bytes| Bytes(bytes));
        let [uploaded, computed, temporaries] = parts;
        writeln!(
            f,
            "{:>12}  at the peak: {uploaded} uploaded, {computed} computed, {temporaries} of temporaries, by {peak_by}",
            Bytes(*peak)
        )?;
        if !self.largest.is_empty() {
            writeln!(f, "the largest:")?;
        }
        for HeldTensor { bytes, shape, dtype, op, holder, made_at } in &self.largest {
            write!(f, "{:>12}  {dtype} {shape:?} {op} ({holder})", Bytes(*bytes))?;
            match made_at {
                Some(place) => writeln!(f, " made at {place}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
