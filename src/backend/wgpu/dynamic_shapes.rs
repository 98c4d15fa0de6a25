//! Dynamic shapes: kernels that read their sizes from the params.
//!
//! Problem: a program runs with inputs of many sizes, and compiling kernels for each size takes long.
//!
//! Idea: the first two sizes of a structure compile specialized kernels. The third compiles kernels that read every size that
//! differed so far from the params, and later sizes reuse those. Results are equal bit for bit.
//!
//! Example: a text of 10, then 11, then 12 tokens. From the third length on, the length is a param.

use super::pipeline::Pipeline;
use crate::codegen::Source;
use crate::lru::Lru;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Arc, Weak};

/// The most bytes of statistics.
const MAX_STATS_BYTES: u64 = 4 << 20;

/// The number of compiled batches of a structure before its kernels read sizes from params.
const MIN_SIGHTINGS: u32 = 2;

/// Statistics of the compiled batches, by structure.
#[derive(Default)]
pub(super) struct Shapes {
    all: Lru<u64, StructureStats>,
    /// Whether kernels always read every size, for tests.
    pub(super) always: bool,
}

/// Statistics of the batches of one structure.
#[derive(Default)]
pub(super) struct StructureStats {
    times: u32,
    always: bool,
    kernels: FxHashMap<Key, Sizes>,
    /// The number of kernels in the current batch with each structure.
    occurrences: FxHashMap<(u64, (usize, usize)), u32>,
    /// The sizes that were equal in all earlier batches.
    constant_sizes: FxHashSet<u32>,
}

/// The key of a kernel of a batch: the structure of its text, its numbers of inputs and outputs, and a counter. The counter
/// distinguishes kernels of one batch that are otherwise equal.
type Key = (u64, (usize, usize), u32);

/// A kernel that reads sizes.
pub(super) struct Dynamic {
    key: Key,
    /// The word that each size is read from, if it is read.
    positions: Vec<Option<usize>>,
    /// The values of the words.
    pub(super) sizes: Vec<u32>,
    /// The pipeline that was compiled before, if it still exists.
    pub(super) pipeline: Option<Arc<Pipeline>>,
}

impl Dynamic {
    pub(super) fn source(&self, source: &Source) -> Source {
        source.dynamic(&self.positions)
    }
}

/// The sizes in a kernel's text. Sizes that were equal at every sighting form a group.
struct Sizes {
    times: u32,
    /// The group of each size.
    group: Vec<usize>,
    /// The value of each group.
    values: Vec<u32>,
    varies: Vec<bool>,
    /// The kernel that reads the groups that vary.
    pipeline: Weak<Pipeline>,
}

impl Shapes {
    /// Starts a batch of this structure.
    pub(super) fn take(&mut self, structure: u64) -> StructureStats {
        let mut seen = self.all.remove(&structure).unwrap_or_default();
        seen.always = self.always;
        seen.constant_sizes.clear();
        for sizes in seen.kernels.values().filter(|sizes| sizes.times > 1) {
            let groups = sizes.values.iter().zip(&sizes.varies);
            seen.constant_sizes
                .extend(groups.filter(|(_, varies)| !**varies).map(|(value, _)| value));
        }
        seen
    }

    /// Stores the statistics after the batch was compiled.
    pub(super) fn keep(&mut self, structure: u64, mut seen: StructureStats) {
        seen.times += 1;
        (seen.occurrences, seen.constant_sizes) = Default::default();
        let of = |sizes: &Sizes| 64 + 8 * sizes.group.len() + 5 * sizes.values.len();
        let bytes = seen.kernels.values().map(of).sum::<usize>() as u64;
        self.all.insert(structure, seen, bytes);
        while self.all.evict(usize::MAX, MAX_STATS_BYTES).is_some() {}
    }
}

impl StructureStats {
    /// Decides which sizes a kernel reads from params. `None` if all of them are constants.
    pub(super) fn choose_dynamic_sizes(
        &mut self,
        source: &Source,
        arity: (usize, usize),
    ) -> Option<Dynamic> {
        let structure = source.structure();
        let met = self.occurrences.entry((structure, arity)).or_default();
        *met += 1;
        let key = (structure, arity, *met);
        let values: Vec<u32> = source.sizes.iter().map(|size| size.value).collect();
        let sizes = self.kernels.entry(key).or_insert_with(|| Sizes::new(&values));
        sizes.refine(&values);
        if sizes.times == 1 && self.times >= MIN_SIGHTINGS && !self.constant_sizes.is_empty() {
            // The kernel has a new structure, because its sizes crossed a threshold. Only sizes that were constant in other
            // kernels stay constants here.
            let varies = sizes.varies.iter_mut().zip(&sizes.values);
            varies.for_each(|(varies, value)| *varies = !self.constant_sizes.contains(value));
        }
        if self.times < MIN_SIGHTINGS && !self.always {
            return None;
        }
        let (mut of_group, mut read) = (vec![None; sizes.values.len()], Vec::new());
        for (group, &value) in sizes.values.iter().enumerate() {
            if sizes.varies[group] || self.always {
                of_group[group] = Some(read.len());
                read.push(value);
            }
        }
        let positions: Vec<_> = sizes.group.iter().map(|&group| of_group[group]).collect();
        let pipeline = sizes.pipeline.upgrade();
        (!read.is_empty()).then_some(Dynamic { key, positions, sizes: read, pipeline })
    }

    /// Stores the pipeline that was compiled.
    pub(super) fn compiled(&mut self, dynamic: &Dynamic, pipeline: &Arc<Pipeline>) {
        if let Some(sizes) = self.kernels.get_mut(&dynamic.key) {
            sizes.pipeline = Arc::downgrade(pipeline);
        }
    }
}

impl Sizes {
    fn new(values: &[u32]) -> Sizes {
        let group = vec![0; values.len()];
        let mut sizes =
            Sizes { times: 0, group, values: vec![0], varies: vec![false], pipeline: Weak::new() };
        sizes.refine(values);
        sizes.varies.fill(false);
        sizes.times = 0;
        sizes
    }

    /// Splits groups whose sizes now differ, and marks the groups that changed.
    fn refine(&mut self, values: &[u32]) {
        self.times += 1;
        let before = std::mem::take(&mut self.values);
        let varied = std::mem::take(&mut self.varies);
        let mut groups: FxHashMap<(usize, u32), usize> = FxHashMap::default();
        let mut same = true;
        for (group, &value) in self.group.iter_mut().zip(values) {
            let old = *group;
            *group = *groups.entry((old, value)).or_insert_with(|| {
                self.values.push(value);
                self.varies.push(varied[old] || before[old] != value);
                self.values.len() - 1
            });
            same &= *group == old && self.varies[*group] == varied[old];
        }
        if !same {
            self.pipeline = Weak::new();
        }
    }
}
