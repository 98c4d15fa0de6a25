//! The bind group cache. A bind group is cached until one of its buffers is freed, or the cache is full.

use super::memory::GpuBuffer;
use super::pipeline::Layout;
use super::platform::Gpu;
use super::prepared_dispatch::PreparedDispatch;
use crate::lru::{EntryId, Lru};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What a bind group binds: the numbers of inputs and outputs, then each buffer's number and the
/// bytes bound of it.
type Key = Arc<[u64]>;

/// A buffer as it is bound: so many bytes from its beginning. That is all of it, whatever a kernel needs, so that other
/// sizes in the same buffers find their groups.
pub(super) type Bound<'a> = (&'a GpuBuffer, u64);

/// The words of a key before the first buffer.
const KEY_HEADER_WORDS: usize = 2;

/// The bind groups of a device.
#[derive(Default)]
pub(super) struct BindGroupCache {
    pub(super) all: Lru<Key, wgpu::BindGroup>,
    /// Which groups a buffer is in.
    of_buffer: FxHashMap<u64, FxHashSet<EntryId>>,
    /// The key of the current lookup, reused so that a lookup allocates nothing.
    key: Vec<u64>,
    /// How many were ever made.
    pub(super) made: u64,
}

/// The bind groups of a batch's dispatches, by the buffers of its latest runs. A batch that runs with the same buffers again
/// needs no lookup.
#[derive(Default)]
pub(super) struct DispatchBindings(Vec<BindingSet>);

struct BindingSet {
    /// The uniform buffer's number, and those of its slots.
    buffers: Vec<u64>,
    groups: Vec<EntryId>,
}

impl DispatchBindings {
    /// The most sets of buffers that may alternate.
    const MAX_BINDING_SETS: usize = 16;
}

impl BindGroupCache {
    /// The groups of a batch's steps with these buffers; they stay where there are more than `most`, and others go.
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
            // Those used last come first.
            Some(at) => sets.0[..=at].rotate_right(1),
            None => {
                let buffers: Vec<u64> = numbers().collect();
                sets.0.retain(|set| set.buffers != buffers);
                sets.0.truncate(DispatchBindings::MAX_BINDING_SETS - 1);
                let groups = steps.iter().map(|step| self.find(gpu, step, uniform, slots));
                sets.0.insert(0, BindingSet { groups: groups.collect(), buffers });
            }
        }
        // Those of the batch were used last.
        self.shrink(most.max(steps.len()));
        let all = &self.all;
        sets.0[0].groups.iter().map(|&spot| match all.at(spot) {
            Some(found) => found,
            None => unreachable!("it was used now"),
        })
    }

    /// Whether all of these are there still, which are used now.
    fn touch(&mut self, groups: &[EntryId]) -> bool {
        groups.iter().all(|&spot| self.all.touch(spot))
    }

    /// The bind group of a step: its params and its slots.
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

    /// Makes the group that `self.key` tells of.
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

    /// Those that were not used for longest go where there are more than `most`.
    pub(super) fn shrink(&mut self, most: usize) {
        while let Some((spot, key, _)) = self.all.evict(most, u64::MAX) {
            self.unlist(spot, &key);
        }
    }

    /// A buffer goes, and so do the groups it is in.
    pub(super) fn forget(&mut self, number: u64) {
        for spot in self.of_buffer.remove(&number).unwrap_or_default() {
            if let Some((key, _)) = self.all.remove_at(spot) {
                self.unlist(spot, &key);
            }
        }
    }

    /// A group is gone.
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

/// The buffers of a key.
fn numbers(key: &Key) -> impl Iterator<Item = u64> + '_ {
    key[KEY_HEADER_WORDS..].chunks_exact(2).map(|pair| pair[0])
}
