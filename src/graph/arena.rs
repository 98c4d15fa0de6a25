//! The arena: storage of nodes. Indices of freed nodes are reused, and free space at the end is returned.

use super::{Graph, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};
use std::cmp::Reverse;

impl Graph {
    /// The most outdated entries of a list before the list is cleaned, and the most dirty nodes that one call updates.
    pub(super) const MAX_STALE_ENTRIES: usize = 64;
    /// The arena keeps capacity for this many nodes (about a megabyte), so that each iteration of a loop reuses the same
    /// memory.
    const RETAINED_NODES: usize = 4096;

    /// The most nodes that a graph can have. They fill half of the largest possible list, because the list doubles while it
    /// grows. In browsers, whose memory has 32-bit addresses, that is more than a million nodes.
    const MAX_NODES: usize = isize::MAX as usize / 4 / size_of::<(u64, Option<Node>)>();

    /// Rejects an operation if the graph is full.
    ///
    /// # Errors
    /// `Limit`.
    pub fn check_room(&self, op: &str) -> Result<()> {
        if self.live < Graph::MAX_NODES {
            return Ok(());
        }
        let must = format!("held tensors and operations must be fewer, got {}", self.live);
        let remedy = "drop tensors, at once or by a scope, `detach` those that are kept, or compute what is recorded";
        Err(Error::new(ErrorKind::Limit, format!("{op}: {must}; {remedy}")))
    }

    /// Returns a free index.
    pub(super) fn allocate(&mut self) -> u32 {
        while let Some(Reverse(index)) = self.free_slots.pop() {
            if matches!(self.nodes.get(index as usize), Some((_, None))) {
                return index;
            }
        }
        self.nodes.push((u64::MAX, None));
        (self.nodes.len() - 1) as u32
    }

    /// Frees the index of a node, and shrinks the arena if its end is free.
    pub(super) fn free(&mut self, id: NodeId) -> Option<Node> {
        let node = std::mem::replace(&mut self.nodes[id.index as usize], (u64::MAX, None)).1;
        self.live -= 1;
        self.free_slots.push(Reverse(id.index));
        while let Some((_, None)) = self.nodes.last() {
            self.nodes.pop();
        }
        if self.nodes.capacity() > Graph::RETAINED_NODES + 4 * self.nodes.len() {
            self.nodes.shrink_to(Graph::RETAINED_NODES.max(2 * self.nodes.len()));
            self.free_slots.clear();
            for (index, (_, node)) in self.nodes.iter().enumerate() {
                if node.is_none() {
                    self.free_slots.push(Reverse(index as u32));
                }
            }
            self.free_slots.shrink_to(Graph::RETAINED_NODES.max(2 * self.nodes.len()));
        }
        node
    }

    /// Returns the node, unless it was freed.
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        let (seq, node) = self.nodes.get(id.index as usize)?;
        node.as_ref().filter(|_| *seq == id.seq)
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let (seq, node) = self.nodes.get_mut(id.index as usize)?;
        node.as_mut().filter(|_| *seq == id.seq)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.get(id).expect("a tensor outlived its node")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.get_mut(id).expect("a tensor outlived its node")
    }
}
