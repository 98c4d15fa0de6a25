//! Bind groups, kept as long as their buffers live.

use super::errors::Gate;
use super::pipelines::Layout;
use crate::backend::BufferId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a bind group binds: the numbers of inputs and outputs, the bytes of the params block, then
/// each buffer's number and the bytes bound of it.
type Key = Arc<[u64]>;

/// Words of a key before the first buffer.
const HEAD: usize = 3;

/// More bind groups than this, and those that were not used lately go.
const MANY: usize = 8192;

struct Group {
    group: wgpu::BindGroup,
    used: u64,
}

/// All bind groups of a device.
#[derive(Default)]
pub(super) struct Groups {
    groups: HashMap<Key, Group>,
    /// Which groups a buffer is in.
    of_buffer: HashMap<BufferId, HashSet<Key>>,
    /// Written anew for every lookup, so that finding a group allocates nothing.
    key: Vec<u64>,
    /// Batches run so far, to tell which groups are used.
    now: u64,
    /// How many were ever made.
    pub(super) made: u64,
}

/// One storage binding.
pub(super) struct Bound<'a> {
    pub(super) id: BufferId,
    pub(super) buffer: &'a wgpu::Buffer,
    pub(super) bytes: u64,
}

impl Groups {
    /// The bind group of `layout` with these buffers; the first binding is `block` bytes of
    /// `uniform`.
    pub(super) fn get(
        &mut self,
        gate: &Gate,
        layout: &Layout,
        (uniform, block): (&wgpu::Buffer, u64),
        bound: &[Bound<'_>],
    ) -> wgpu::BindGroup {
        self.key.clear();
        self.key.extend([layout.inputs as u64, layout.outputs as u64, block]);
        for binding in bound {
            self.key.extend([binding.id.0, binding.bytes]);
        }
        if let Some(found) = self.groups.get_mut(self.key.as_slice()) {
            found.used = self.now;
            return found.group.clone();
        }
        let binding = |buffer, bytes| {
            wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset: 0,
                size: wgpu::BufferSize::new(bytes),
            })
        };
        let mut entries =
            vec![wgpu::BindGroupEntry { binding: 0, resource: binding(uniform, block) }];
        for (i, b) in bound.iter().enumerate() {
            entries.push(wgpu::BindGroupEntry {
                binding: i as u32 + 1,
                resource: binding(b.buffer, b.bytes),
            });
        }
        let group = gate.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout.bindings,
            entries: &entries,
        });
        self.made += 1;
        let key: Key = self.key.as_slice().into();
        for id in ids(&key) {
            self.of_buffer.entry(id).or_default().insert(key.clone());
        }
        self.groups.insert(key, Group { group: group.clone(), used: self.now });
        group
    }

    /// A batch has been run.
    pub(super) fn tick(&mut self) {
        const LATELY: u64 = 256;
        self.now += 1;
        if self.groups.len() > MANY && self.now.is_multiple_of(LATELY) {
            let oldest = self.now - LATELY;
            let old: Vec<Key> =
                self.groups.iter().filter(|g| g.1.used < oldest).map(|g| g.0.clone()).collect();
            for key in old {
                self.remove(&key);
            }
        }
    }

    /// A buffer goes, and so do the groups it is in.
    pub(super) fn forget(&mut self, buffer: BufferId) {
        for key in self.of_buffer.remove(&buffer).unwrap_or_default() {
            self.remove(&key);
        }
    }

    /// The params buffer was replaced.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.of_buffer.clear();
    }

    fn remove(&mut self, key: &Key) {
        self.groups.remove(key);
        for id in ids(key) {
            if let Some(keys) = self.of_buffer.get_mut(&id) {
                keys.remove(key);
                if keys.is_empty() {
                    self.of_buffer.remove(&id);
                }
            }
        }
    }
}

/// The buffers of a key.
fn ids(key: &Key) -> impl Iterator<Item = BufferId> + '_ {
    key[HEAD..].chunks_exact(2).map(|pair| BufferId(pair[0]))
}
