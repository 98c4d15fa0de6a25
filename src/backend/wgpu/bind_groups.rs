//! The bind group cache. A bind group is cached until one of its buffers is freed, or the cache is full.

use super::memory::GpuBuffer;
use super::pipeline::Layout;
use super::platform::Gpu;
use super::prepared_dispatch::PreparedDispatch;
use crate::lru::{EntryId, Lru};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The key of a bind group: the numbers of inputs and outputs, followed by each buffer's number and bound bytes.
type Key = Arc<[u64]>;

/// A buffer with the bytes that are bound, from its start. The whole buffer is bound whatever a kernel needs, so that kernels
/// of other sizes find the same bind group.
pub(super) type Bound<'a> = (&'a GpuBuffer, u64);

/// The words of a key before the first buffer.
const KEY_HEADER_WORDS: usize = 2;

/// The bind groups of a device.
#[derive(Default)]
pub(super) struct BindGroupCache {
    pub(super) all: Lru<Key, wgpu::BindGroup>,
    /// The bind groups that each buffer is in.
    of_buffer: FxHashMap<u64, FxHashSet<EntryId>>,
    /// The key of the current lookup, reused so that a lookup allocates nothing.
    key: Vec<u64>,
    /// The number of bind groups made so far.
    pub(super) made: u64,
}

/// The bind groups of a batch's dispatches, by the buffers of its latest runs. A batch that runs with the same buffers again
/// needs no lookup.
#[derive(Default)]
pub(super) struct DispatchBindings(Vec<BindingSet>);

struct BindingSet {
    /// The number of the uniform buffer, and those of the slots.
    buffers: Vec<u64>,
    groups: Vec<EntryId>,
}

impl DispatchBindings {
    /// The most sets of buffers that may alternate.
    const MAX_BINDING_SETS: usize = 16;
}

impl BindGroupCache {
    /// Returns the bind groups of a batch's dispatches for these buffers. They are kept even if there are more than `most`, and
    /// others are evicted.
    pub(super) fn of_batch<'a>(
        &'a mut self,
        gpu: &Gpu,
        sets: &'a mut DispatchBindings,
        steps: &[PreparedDispatch],
        (uniform, slots): (&GpuBuffer, &[Bound<'_>]),
        most: usize,
    ) -> impl Iterator<Item = &'a wgpu::BindGroup> + use<'a> {
        let numbers =
            || std::iter::once(uniform.number).chain(slots.iter().map(|(held, _)| held.number));
        let known = sets.0.iter().position(|set| set.buffers.iter().copied().eq(numbers()));
        let known = known.filter(|&at| self.touch(&sets.0[at].groups));
        match known {
            // The most recently used set comes first.
            Some(at) => sets.0[..=at].rotate_right(1),
            None => {
                let buffers: Vec<u64> = numbers().collect();
                sets.0.retain(|set| set.buffers != buffers);
                sets.0.truncate(DispatchBindings::MAX_BINDING_SETS - 1);
                let groups = steps.iter().map(|step| self.find(gpu, step, uniform, slots));
                sets.0.insert(0, BindingSet { groups: groups.collect(), buffers });
            }
        }
        // The groups of this batch were used last, so they are not evicted.
        self.shrink(most.max(steps.len()));
        let all = &self.all;
        sets.0[0].groups.iter().map(|&spot| match all.at(spot) {
            Some(found) => found,
            None => unreachable!("it was used now"),
        })
    }

    /// Marks the groups as used. Returns false if one of them was evicted.
    fn touch(&mut self, groups: &[EntryId]) -> bool {
        groups.iter().all(|&spot| self.all.touch(spot))
    }

    /// Returns the bind group of a dispatch: its params and its slots.
    fn find(
        &mut self,
        gpu: &Gpu,
        step: &PreparedDispatch,
        uniform: &GpuBuffer,
        slots: &[Bound<'_>],
    ) -> EntryId {
        let layout = &step.compiled().layout;
        let own = step.slots.iter().map(|&slot| slots[slot]);
        let bound = std::iter::once((uniform, step.block)).chain(own);
        self.key.clear();
        self.key.extend([layout.inputs as u64, layout.outputs as u64]);
        for (held, bytes) in bound.clone() {
            self.key.extend([held.number, bytes]);
        }
        match self.all.find(self.key.as_slice()) {
            Some(found) => found,
            None => self.make(gpu, layout, bound),
        }
    }

    /// Creates the bind group of `self.key`.
    fn make<'a>(
        &mut self,
        gpu: &Gpu,
        layout: &Layout,
        bound: impl Iterator<Item = Bound<'a>>,
    ) -> EntryId {
        let entry = |(i, (held, bytes)): (usize, Bound<'a>)| wgpu::BindGroupEntry {
            binding: i as u32,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &held.buffer,
                offset: 0,
                size: wgpu::BufferSize::new(bytes),
            }),
        };
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bound.enumerate().map(entry).collect();
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout.bindings,
            entries: &entries,
        });
        self.made += 1;
        let key: Key = self.key.as_slice().into();
        let spot = self.all.insert(key.clone(), group, 0);
        for number in numbers(&key) {
            self.of_buffer.entry(number).or_default().insert(spot);
        }
        spot
    }

    /// Evicts the least recently used groups beyond `most`.
    pub(super) fn shrink(&mut self, most: usize) {
        while let Some((spot, key, _)) = self.all.evict(most, u64::MAX) {
            self.unlist(spot, &key);
        }
    }

    /// Removes the groups of a freed buffer.
    pub(super) fn remove_buffer(&mut self, number: u64) {
        for spot in self.of_buffer.remove(&number).unwrap_or_default() {
            if let Some((key, _)) = self.all.remove_at(spot) {
                self.unlist(spot, &key);
            }
        }
    }

    /// Removes a group from the lists of its buffers.
    fn unlist(&mut self, spot: EntryId, key: &Key) {
        for number in numbers(key) {
            if let Some(spots) = self.of_buffer.get_mut(&number) {
                spots.remove(&spot);
                if spots.is_empty() {
                    self.of_buffer.remove(&number);
                }
            }
        }
    }
}

/// Returns the buffers of a key.
fn numbers(key: &Key) -> impl Iterator<Item = u64> + '_ {
    key[KEY_HEADER_WORDS..].chunks_exact(2).map(|pair| pair[0])
}
