//! Bind groups, kept as long as their buffers live.

use super::batch::Step;
use super::memory::Numbered;
use super::pipelines::Layout;
use super::platform::Gpu;
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
    /// Not used twice.
    number: u64,
    key: Key,
    group: wgpu::BindGroup,
    used: u64,
}

/// All bind groups of a device.
#[derive(Default)]
pub(super) struct Groups {
    all: Vec<Option<Group>>,
    vacant: Vec<usize>,
    by_key: HashMap<Key, usize>,
    /// Which groups a buffer is in.
    of_buffer: HashMap<u64, HashSet<usize>>,
    /// Written anew for every lookup, so that finding a group allocates nothing.
    key: Vec<u64>,
    /// Batches run so far, to tell which groups are used.
    now: u64,
    /// How many were ever made.
    pub(super) made: u64,
}

/// The groups of a batch's steps, by the buffers it ran with lately: a batch that is run with the same again looks
/// nothing up.
#[derive(Default)]
pub(super) struct Sets(Vec<Set>);

struct Set {
    /// The uniform buffer's number, and those of its slots.
    buffers: Vec<u64>,
    groups: Vec<Place>,
}

/// Where a group lies, if it still does.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    number: u64,
}

impl Sets {
    /// So many sets of buffers may alternate.
    const MOST: usize = 16;
}

impl Groups {
    /// The groups of a batch's steps with these buffers.
    pub(super) fn of_batch<'a>(
        &'a mut self,
        gpu: &Gpu,
        sets: &'a mut Sets,
        steps: &[Step],
        uniform: &Numbered,
        slots: &[&Numbered],
    ) -> impl Iterator<Item = &'a wgpu::BindGroup> {
        let numbers = || std::iter::once(uniform).chain(slots.iter().copied()).map(|h| h.number);
        let known = sets.0.iter().position(|set| set.buffers.iter().copied().eq(numbers()));
        let known = known.filter(|&at| self.touch(&sets.0[at].groups));
        match known {
            // Those used last come first.
            Some(at) => sets.0[..=at].rotate_right(1),
            None => {
                let buffers: Vec<u64> = numbers().collect();
                sets.0.retain(|set| set.buffers != buffers);
                sets.0.truncate(Sets::MOST - 1);
                let groups = steps.iter().map(|step| self.find(gpu, step, uniform, slots));
                sets.0.insert(0, Set { groups: groups.collect(), buffers });
            }
        }
        self.now += 1;
        self.drop_old();
        let all = &self.all;
        sets.0[0].groups.iter().map(|place| match &all[place.at] {
            Some(found) => &found.group,
            None => unreachable!("it was used now"),
        })
    }

    /// Whether all of these are there still, which are used now.
    fn touch(&mut self, places: &[Place]) -> bool {
        places.iter().all(|place| match &mut self.all[place.at] {
            Some(group) if group.number == place.number => {
                group.used = self.now;
                true
            }
            _ => false,
        })
    }

    /// The bind group of a step: its params, and so many bytes of its slots.
    fn find(&mut self, gpu: &Gpu, step: &Step, uniform: &Numbered, slots: &[&Numbered]) -> Place {
        let layout = &step.compiled().layout;
        let own = step.slots.iter().map(|&(slot, bytes)| (slots[slot], bytes));
        let bound = std::iter::once((uniform, step.block)).chain(own);
        self.key.clear();
        self.key.extend([layout.inputs as u64, layout.outputs as u64]);
        for (held, bytes) in bound.clone() {
            self.key.extend([held.number, bytes]);
        }
        let at = match self.by_key.get(self.key.as_slice()).copied() {
            Some(at) => at,
            None => self.make(gpu, layout, bound),
        };
        match &mut self.all[at] {
            Some(group) => {
                group.used = self.now;
                Place { at, number: group.number }
            }
            None => unreachable!("a key leads to a group"),
        }
    }

    /// Makes the group that `self.key` tells of.
    fn make<'a>(
        &mut self,
        gpu: &Gpu,
        layout: &Layout,
        bound: impl Iterator<Item = (&'a Numbered, u64)>,
    ) -> usize {
        let entry = |(i, (held, bytes)): (usize, (&'a Numbered, u64))| wgpu::BindGroupEntry {
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
        let at = self.vacant.pop().unwrap_or(self.all.len());
        for number in numbers(&key) {
            self.of_buffer.entry(number).or_default().insert(at);
        }
        self.by_key.insert(key.clone(), at);
        let made = Some(Group { number: self.made, key, group, used: self.now });
        if at == self.all.len() {
            self.all.push(made);
        } else {
            self.all[at] = made;
        }
        at
    }

    /// Where there are many, those go that were not used lately.
    fn drop_old(&mut self) {
        const LATELY: u64 = 256;
        if self.by_key.len() > MANY && self.now.is_multiple_of(LATELY) {
            let oldest = self.now - LATELY;
            for at in 0..self.all.len() {
                if self.all[at].as_ref().is_some_and(|group| group.used < oldest) {
                    self.remove(at);
                }
            }
        }
    }

    /// A buffer goes, and so do the groups it is in.
    pub(super) fn forget(&mut self, number: u64) {
        for at in self.of_buffer.remove(&number).unwrap_or_default() {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let Some(group) = self.all[at].take() else { return };
        self.vacant.push(at);
        self.by_key.remove(&group.key);
        for number in numbers(&group.key) {
            if let Some(places) = self.of_buffer.get_mut(&number) {
                places.remove(&at);
                if places.is_empty() {
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
