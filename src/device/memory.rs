//! What a device's memory is held by.

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

/// What a device's memory is held by, in bytes. `tensors` to `pooled` together are `allocated`. In Rust it prints as a table.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Values of tensors that the program holds.
    pub tensors: u64,
    /// Values of variables.
    pub variables: u64,
    /// Tensors that compiled programs keep and nothing else holds.
    pub constants: u64,
    /// Values that nothing holds, but that operations still to be computed need.
    pub pending: u64,
    /// What batches need on the way, while they are made ready.
    pub temporaries: u64,
    /// Kept for reuse.
    pub pooled: u64,
    /// All that was allocated for tensors.
    pub allocated: u64,
    /// What uploads, reads and the numbers of kernels go through, beside that.
    pub staging: u64,
    /// The most that was in use at once, which is `allocated` without `pooled`.
    pub peak: u64,
    /// Of the peak, what was uploaded;
    pub peak_uploaded: u64,
    /// what was computed;
    pub peak_computed: u64,
    /// and what batches needed on the way.
    pub peak_temporaries: u64,
    /// What the peak was reached by.
    pub peak_by: String,
    /// The ten largest values.
    #[cfg_attr(feature = "js", js(returns = "readonly HeldTensor[]"))]
    pub largest: Vec<HeldTensor>,
}

/// A value in a device's memory.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTensor {
    /// What it takes; memory comes in certain sizes.
    pub bytes: u64,
    /// Its extents.
    #[cfg_attr(feature = "js", js(returns = "readonly number[]"))]
    pub shape: Vec<usize>,
    /// The type of its elements.
    #[cfg_attr(feature = "js", js(returns = "DType"))]
    pub dtype: DType,
    /// The operation that it is the result of; `data` if it was uploaded.
    pub op: &'static str,
    /// `tensor`, `variable`, `constant` or `pending`, as in [`MemoryReport`].
    pub holder: &'static str,
    /// Where the program made it: file and line, or the function where these are not known. Only while `memory` is said in
    /// `WARPWEFT_DEBUG` or to [`set_debug`](crate::debug::set_debug).
    pub made_at: Option<String>,
}

/// So many of the largest values are listed.
const LISTED: usize = 10;

#[cfg_attr(feature = "js", warpweft_macros::js(only(memory)))]
impl Device {
    /// What its memory is held by, what it was at its peak, and the largest values. Where they were made it says if
    /// `WARPWEFT_DEBUG`, or [`set_debug`](crate::debug::set_debug), says `memory` before they are.
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
        // Of as many bytes the one that was made first.
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
        // Finding out where a place is takes long.
        for (held, place) in memory.largest.iter_mut().zip(places) {
            held.made_at = place.map(|place| place.describe());
        }
        memory
    }
}

impl Device {
    /// A node with the value of another, in the same memory.
    ///
    /// # Errors
    /// `Limit` where there is no room for it.
    pub(crate) fn alias(&self, of: NodeId) -> Result<NodeId> {
        self.state().alias(of, &*self.inner.backend)
    }

    /// The node is the value of a variable, whose gradient it is.
    pub(crate) fn set_value_of(&self, node: NodeId, variable: VariableId) {
        self.state().graph.set_value_of(node, variable);
    }

    /// Whether histories stay that are of no use, because what was let go of may come back.
    pub(crate) fn freeze_history(&self, whether: bool) {
        let mut state = self.state();
        match whether {
            true => state.graph.pause_forgetting(),
            false => state.graph.resume_forgetting(),
        }
        state.reclaim(&*self.inner.backend);
    }

    /// How many nodes were recorded before the value of a variable was there.
    pub(crate) fn since(&self, node: NodeId) -> u64 {
        self.state().graph.since(node)
    }

    /// Says that of a node that stands for that value now.
    pub(crate) fn set_since(&self, node: NodeId, since: u64) {
        self.state().graph.set_since(node, since);
    }

    /// A step uses up losses that were computed from these values of variables: the nodes that it uses up.
    pub(crate) fn use_up(&self, losses: &[NodeId], values: &[NodeId]) -> Vec<NodeId> {
        let mut state = self.state();
        let mut used = Vec::new();
        for &loss in losses {
            used.extend(state.graph.consume(loss, values));
        }
        used
    }

    /// The step that used up these nodes was taken, or it was not.
    pub(crate) fn finish_consume(&self, used: &[NodeId], was_taken: bool) {
        let mut state = self.state();
        state.graph.finish_consume(used, was_taken);
        state.reclaim(&*self.inner.backend);
    }

    /// Refuses a loss that used earlier values of variables than these.
    pub(crate) fn check_values(
        &self,
        of: NodeId,
        variables: &[(VariableId, NodeId)],
    ) -> std::result::Result<(), StaleValue> {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        state.graph.check_values(of, variables)
    }

    /// Whether something else than one tensor needs the node.
    pub(crate) fn is_used(&self, node: NodeId) -> bool {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        state.graph.is_used(node)
    }

    /// Whether another tensor holds the node, or something is computed from it, or remembers that it was.
    pub(crate) fn is_shared(&self, node: NodeId) -> bool {
        self.state().graph.is_shared(node)
    }

    /// Holds a node once more, unless it is gone.
    pub(crate) fn hold(&self, node: NodeId) -> bool {
        let mut state = self.state();
        let there = !state.graph.is_freed(node);
        if there {
            state.graph.retain(node);
            state.reclaim(&*self.inner.backend);
        }
        there
    }

    /// Marks the node as the value of a variable, so that `flush` computes it even if other operations use it.
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
    /// Each buffer once, with the node that it is reported for: of those that share it, one that a variable or a tensor has.
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

    /// All but the largest values.
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

    /// Forgets the places of nodes that are gone, where these are most.
    pub fn tidy_places(&mut self) {
        if self.places.len() > 64 + 2 * self.graph.live() {
            let graph = &self.graph;
            self.places.retain(|&node, _| !graph.is_freed(node));
        }
    }
}

/// An amount of memory: `1.50 MiB`.
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
            ("operands of pending operations", self.pending),
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
