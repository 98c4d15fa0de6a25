//! Dynamic shapes. A batch that was seen with two sizes and comes with a third is compiled anew once more, so that what
//! differed is read from the params: from then on it fits all sizes. What is computed is the same.

use crate::codegen::Source;
use crate::lru::Lru;
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes that are kept about what was seen.
const MOST_BYTES: u64 = 4 << 20;

/// How often a batch must have come before its sizes are read.
const ENOUGH: u32 = 2;

/// The batches that were compiled, by structure.
#[derive(Default)]
pub(super) struct Shapes {
    all: Lru<u64, Seen>,
    /// Whether every size is read, always: for tests.
    pub(super) always: bool,
}

/// The batches of one structure.
#[derive(Default)]
pub(super) struct Seen {
    times: u32,
    always: bool,
    /// By the structure of its text, and how many of the batch before it have the same.
    kernels: FxHashMap<(u64, u32), Sizes>,
    /// How many kernels of the batch that is being compiled have such a structure.
    met: FxHashMap<u64, u32>,
    /// The sizes that stayed in all batches before it.
    stayed: FxHashSet<u32>,
}

/// The sizes in a kernel's text. Those that were equal whenever it came are one group.
struct Sizes {
    times: u32,
    /// Of each size.
    group: Vec<usize>,
    /// Of each group.
    values: Vec<u32>,
    varies: Vec<bool>,
}

impl Shapes {
    /// Begins with a batch of this structure.
    pub(super) fn take(&mut self, structure: u64) -> Seen {
        let mut seen = self.all.remove(&structure).unwrap_or_default();
        seen.always = self.always;
        seen.stayed.clear();
        for sizes in seen.kernels.values().filter(|sizes| sizes.times > 1) {
            let groups = sizes.values.iter().zip(&sizes.varies);
            seen.stayed.extend(groups.filter(|(_, varies)| !**varies).map(|(value, _)| value));
        }
        seen
    }

    /// Such a batch was compiled.
    pub(super) fn keep(&mut self, structure: u64, mut seen: Seen) {
        seen.times += 1;
        (seen.met, seen.stayed) = Default::default();
        let of = |sizes: &Sizes| 64 + 8 * sizes.group.len() + 5 * sizes.values.len();
        let bytes = seen.kernels.values().map(of).sum::<usize>() as u64;
        self.all.insert(structure, seen, bytes);
        while self.all.evict(usize::MAX, MOST_BYTES).is_some() {}
    }
}

impl Seen {
    /// The text to compile for a kernel, and the sizes that it reads: words after the params there are.
    pub(super) fn settle(&mut self, source: &Source) -> Option<(Source, Vec<u32>)> {
        let structure = source.structure();
        let met = self.met.entry(structure).or_default();
        *met += 1;
        let values: Vec<u32> = source.sizes.iter().map(|size| size.value).collect();
        let sizes = self.kernels.entry((structure, *met)).or_insert_with(|| Sizes::new(&values));
        sizes.refine(&values);
        if sizes.times == 1 && self.times >= ENOUGH {
            // Kernels of another structure, as sizes near these bring them: what did not stay elsewhere will not here.
            let varies = sizes.varies.iter_mut().zip(&sizes.values);
            varies.for_each(|(varies, value)| *varies = !self.stayed.contains(value));
        }
        if self.times < ENOUGH && !self.always {
            return None;
        }
        let (mut of_group, mut read) = (vec![None; sizes.values.len()], Vec::new());
        for (group, &value) in sizes.values.iter().enumerate() {
            if sizes.varies[group] || self.always {
                of_group[group] = Some(read.len());
                read.push(value);
            }
        }
        let words: Vec<_> = sizes.group.iter().map(|&group| of_group[group]).collect();
        (!read.is_empty()).then(|| (source.dynamic(&words), read))
    }
}

impl Sizes {
    fn new(values: &[u32]) -> Sizes {
        let group = vec![0; values.len()];
        let mut sizes = Sizes { times: 0, group, values: vec![0], varies: vec![false] };
        sizes.refine(values);
        sizes.varies.fill(false);
        sizes.times = 0;
        sizes
    }

    /// It comes with these values.
    fn refine(&mut self, values: &[u32]) {
        self.times += 1;
        let before = std::mem::take(&mut self.values);
        let varied = std::mem::take(&mut self.varies);
        let mut groups: FxHashMap<(usize, u32), usize> = FxHashMap::default();
        for (group, &value) in self.group.iter_mut().zip(values) {
            let old = *group;
            *group = *groups.entry((old, value)).or_insert_with(|| {
                self.values.push(value);
                self.varies.push(varied[old] || before[old] != value);
                self.values.len() - 1
            });
        }
    }
}
