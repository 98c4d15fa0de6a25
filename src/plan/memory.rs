//! Gives every value in memory a slot; temporaries whose lifetimes do not meet share one.

use super::piece::Piece;
use crate::graph::Trace;
use crate::kernel::{Place, Slot};
use crate::op::Op;

/// Where everything lies.
pub struct Memory {
    pub slots: Vec<Slot>,
    /// For each node in memory, its slot.
    pub slot: Vec<Option<usize>>,
    pub outputs: Vec<u64>,
    pub in_place: Vec<(usize, usize)>,
    pub temporaries: Vec<u64>,
    pub inputs: usize,
}

/// Bytes of a node's value; a buffer is never empty, and `vec4` accesses want multiples of 16.
pub fn bytes(trace: &Trace, node: usize) -> u64 {
    let traced = &trace.nodes[node];
    let bytes = traced.shape.numel() as u64 * traced.dtype.size() as u64;
    bytes.max(1).next_multiple_of(16)
}

/// Places sources, results and temporaries of the pieces, which run in order.
/// `donated` are results in the memory of data.
pub fn place(trace: &Trace, pieces: &[Piece], donated: &[(usize, usize)]) -> Memory {
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
            memory.push(trace, n, Place::Input(memory.inputs));
            memory.inputs += 1;
        }
    }
    // Of what is written in place, the data whose place that is.
    let mut in_place = vec![None; count];
    let updated = trace.in_place.iter().map(|&n| (n, trace.nodes[n].inputs[1]));
    for (n, data) in updated.chain(donated.iter().copied()) {
        in_place[n] = Some(data);
    }
    for (i, &output) in trace.outputs.iter().enumerate() {
        if let Some(data) = in_place[output] {
            let slot = memory.slot[data].expect("data has a slot");
            memory.slot[output] = Some(slot);
            // Data has the first slots.
            memory.in_place.push((i, slot));
            continue;
        }
        memory.push(trace, output, Place::Output(memory.outputs.len()));
        memory.outputs.push(bytes(trace, output));
    }
    let mut last_use = vec![0; count];
    for (at, piece) in pieces.iter().enumerate() {
        for &n in piece.inputs.iter().chain(&piece.outputs) {
            last_use[n] = at;
        }
    }
    let mut vacant: Vec<usize> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        for &n in &piece.outputs {
            if memory.slot[n].is_none() {
                let temporary = memory.temporary(&mut vacant, bytes(trace, n));
                memory.push(trace, n, Place::Temporary(temporary));
            }
        }
        // Only after this piece's outputs have theirs: it may not write what it reads.
        let mut done = [&piece.inputs[..], &piece.outputs].concat();
        done.sort_unstable();
        done.dedup();
        for n in done {
            let place = memory.slot[n].map(|s| memory.slots[s].place);
            if let (true, Some(Place::Temporary(t))) = (last_use[n] == at, place) {
                vacant.push(t);
            }
        }
    }
    memory
}

impl Memory {
    fn push(&mut self, trace: &Trace, node: usize, place: Place) {
        let dtype = trace.nodes[node].dtype;
        self.slot[node] = Some(self.slots.len());
        self.slots.push(Slot { place, bytes: bytes(trace, node), dtype });
    }

    /// The slots of nodes in memory.
    pub fn slots_of(&self, nodes: &[usize]) -> Vec<usize> {
        let mut slots = Vec::with_capacity(nodes.len());
        for &node in nodes {
            slots.extend(self.slot[node]);
        }
        slots
    }

    /// The smallest vacant temporary that holds `bytes`, else the largest one grown, else a new one.
    fn temporary(&mut self, vacant: &mut Vec<usize>, bytes: u64) -> usize {
        let sizes = &mut self.temporaries;
        let mut best: Option<usize> = None;
        for (at, &temporary) in vacant.iter().enumerate() {
            let (size, other) = (sizes[temporary], best.map_or(0, |best| sizes[vacant[best]]));
            let better = if other < bytes { size >= other } else { size >= bytes && size < other };
            if best.is_none() || better {
                best = Some(at);
            }
        }
        match best {
            Some(at) => {
                let temporary = vacant.swap_remove(at);
                sizes[temporary] = sizes[temporary].max(bytes);
                temporary
            }
            None => {
                sizes.push(bytes);
                sizes.len() - 1
            }
        }
    }
}
