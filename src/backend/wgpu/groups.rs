//! Bind groups, kept as long as their buffers live.

use super::errors::Gate;
use super::{Layout, Numbered};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a bind group binds: the numbers of inputs and outputs, then each buffer's number and the
/// bytes bound of it.
type Key = Arc<[u64]>;

/// Words of a key before the first buffer.
const HEAD: usize = 2;

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
    of_buffer: HashMap<u64, HashSet<Key>>,
    /// Written anew for every lookup, so that finding a group allocates nothing.
    key: Vec<u64>,
    /// Batches run so far, to tell which groups are used.
    now: u64,
    /// How many were ever made.
    pub(super) made: u64,
}

impl Groups {
    /// The bind group of `layout` with so many bytes of these buffers, the params first.
    pub(super) fn get<'a>(
        &mut self,
        gate: &Gate,
        layout: &Layout,
        bound: impl Iterator<Item = (&'a Numbered, u64)> + Clone,
    ) -> wgpu::BindGroup {
        self.key.clear();
        self.key.extend([layout.inputs as u64, layout.outputs as u64]);
        for (held, bytes) in bound.clone() {
            self.key.extend([held.number, bytes]);
        }
        if let Some(found) = self.groups.get_mut(self.key.as_slice()) {
            found.used = self.now;
            return found.group.clone();
        }
        let entry = |(i, (held, bytes)): (usize, (&'a Numbered, u64))| wgpu::BindGroupEntry {
            binding: i as u32,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &held.buffer,
                offset: 0,
                size: wgpu::BufferSize::new(bytes),
            }),
        };
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bound.enumerate().map(entry).collect();
        let group = gate.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout.bindings,
            entries: &entries,
        });
        self.made += 1;
        let key: Key = self.key.as_slice().into();
        for number in numbers(&key) {
            self.of_buffer.entry(number).or_default().insert(key.clone());
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
    pub(super) fn forget(&mut self, number: u64) {
        for key in self.of_buffer.remove(&number).unwrap_or_default() {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        self.groups.remove(key);
        for number in numbers(key) {
            if let Some(keys) = self.of_buffer.get_mut(&number) {
                keys.remove(key);
                if keys.is_empty() {
                    self.of_buffer.remove(&number);
                }
            }
        }
    }
}

/// The buffers of a key.
fn numbers(key: &Key) -> impl Iterator<Item = u64> + '_ {
    key[HEAD..].chunks_exact(2).map(|pair| pair[0])
}
