//! Memory planning: assigns a slot to every value in memory.
//!
//! Problem: temporaries of a batch take memory, but most of them are needed only for a few kernels.
//!
//! Idea: temporaries whose lifetimes do not overlap share a slot. They are placed greedily by size, the largest first
//! (Pisarchyk and Lee 2020). Each takes a temporary that is free during its whole lifetime, or a new one.
//!
//! Cost: sorting, and a search of at most `GAPS` free intervals for each value.
//!
//! Example: kernels 0, 1 and 2 form a chain with temporaries `a`, `b` and `c`. `a` is read last by kernel 1, so `c`, which
//! kernel 2 writes, takes its memory.

use super::planned_kernel::PlannedKernel;
use crate::graph::Trace;
use crate::kernel::{Slot, SlotStorage};
use crate::op::Op;
use crate::sorted;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The slots of a plan, and the slot of each node.
pub struct Memory {
    pub slots: Vec<Slot>,
    /// The slot of each node in memory.
    pub slot: Vec<Option<usize>>,
    pub outputs: Vec<u64>,
    pub in_place: Vec<(usize, usize)>,
    pub temporaries: Vec<u64>,
    pub inputs: usize,
}

/// Returns the bytes of a node's buffer. A buffer is never empty, and `vec4` accesses need multiples of 16.
pub fn bytes(trace: &Trace, node: usize) -> u64 {
    let traced = &trace.nodes[node];
    let bytes = traced.shape.numel() as u64 * traced.dtype.size() as u64;
    bytes.max(1).next_multiple_of(16)
}

/// Assigns slots to sources, results and temporaries. The kernels run in order. `donated` are the results in the memory of
/// data.
pub fn place(
    trace: &Trace,
    planned_kernels: &[PlannedKernel],
    donated: &[(usize, usize)],
) -> Memory {
    let count = trace.nodes.len();
    let mut memory = Memory {
        slots: Vec::new(),
        slot: vec![None; count],
        outputs: Vec::new(),
        in_place: Vec::new(),
        temporaries: Vec::new(),
        inputs: 0,
    };
    for (n, node) in trace.nodes.iter().enumerate() {
        if let Op::Source = node.op {
            memory.push(trace, n, SlotStorage::Input(memory.inputs));
            memory.inputs += 1;
        }
    }
    // The data whose memory each in-place result takes.
    let mut in_place = vec![None; count];
    for &(n, data) in donated {
        in_place[n] = Some(data);
    }
    for (i, &output) in trace.outputs.iter().enumerate() {
        if let Some(data) = in_place[output] {
            let slot = memory.slot[data].expect("data has a slot");
            memory.slot[output] = Some(slot);
            // Sources have the first slots, so the slot is also the number of the input.
            memory.in_place.push((i, slot));
            continue;
        }
        memory.push(trace, output, SlotStorage::Output(memory.outputs.len()));
        memory.outputs.push(bytes(trace, output));
    }
    // The lifetime of each node in a temporary.
    let mut lives: Vec<Option<Life>> = vec![None; count];
    for (at, planned) in planned_kernels.iter().enumerate() {
        for &node in planned.outputs.iter().chain(&planned.inputs) {
            if memory.slot[node].is_none() {
                let life = Life { node, bytes: bytes(trace, node), first: at, last: at };
                lives[node].get_or_insert(life).last = at;
            }
        }
    }
    memory.share(trace, lives.into_iter().flatten().collect());
    memory
}

/// A value with its lifetime, from the kernel that writes the value to the last one that reads it.
#[derive(Clone, Copy)]
struct Life {
    node: usize,
    bytes: u64,
    first: usize,
    last: usize,
}

/// The most free intervals that are searched for one value, so that planning takes linear time.
const GAPS: usize = 64;

impl Memory {
    fn push(&mut self, trace: &Trace, node: usize, place: SlotStorage) {
        let dtype = trace.nodes[node].dtype;
        self.slot[node] = Some(self.slots.len());
        self.slots.push(Slot { storage: place, bytes: bytes(trace, node), dtype });
    }

    /// Returns the slots of nodes in memory.
    pub fn slots_of(&self, nodes: &[usize]) -> Vec<usize> {
        let mut slots = Vec::with_capacity(nodes.len());
        for &node in nodes {
            slots.extend(self.slot[node]);
        }
        slots
    }

    /// Assigns temporaries to values, the largest first. Of the free intervals that cover a lifetime, the one that begins last
    /// is taken. (Greedy by size, Pisarchyk and Lee 2020.)
    fn share(&mut self, trace: &Trace, mut lives: Vec<Life>) {
        sorted::by_key(&mut lives, |life| (Reverse(life.bytes), life.first));
        // The intervals in which a temporary is free: from one kernel to before another.
        let mut gaps: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut sizes: Vec<u64> = Vec::new();
        let mut placed: Vec<(Life, usize)> = Vec::with_capacity(lives.len());
        for life in lives {
            let before = gaps.range(..=(life.first, usize::MAX)).rev().take(GAPS);
            let found =
                before.filter(|&(_, &end)| life.last < end).map(|(&gap, &end)| (gap, end)).next();
            let ((start, temporary), end) = found.unwrap_or_else(|| {
                sizes.push(life.bytes);
                ((0, sizes.len() - 1), usize::MAX)
            });
            gaps.remove(&(start, temporary));
            if start < life.first {
                gaps.insert((start, temporary), life.first);
            }
            gaps.insert((life.last + 1, temporary), end);
            placed.push((life, temporary));
        }
        // Temporaries are numbered in the order of first use.
        sorted::by_key(&mut placed, |(life, _)| (life.first, life.node));
        let mut numbers = vec![None; sizes.len()];
        for (life, temporary) in placed {
            let number = *numbers[temporary].get_or_insert_with(|| {
                self.temporaries.push(sizes[temporary]);
                self.temporaries.len() - 1
            });
            self.push(trace, life.node, SlotStorage::Temporary(number));
        }
    }
}
