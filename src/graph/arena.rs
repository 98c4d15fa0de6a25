//! Where nodes lie: places that were left are used again, and those at the end given back.

use super::{Graph, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};
use std::cmp::Reverse;

impl Graph {
    /// How many entries of lists may be out of date before they are looked through.
    pub(super) const MAX_STALE_ENTRIES: usize = 64;
    /// Room for so many nodes, about a megabyte, is kept: what the next round of a loop records lies where the last did.
    const RETAINED_NODES: usize = 4096;

    /// How many nodes there can be: they fill half of the largest list, a copy of which is twice as large while it grows, and
    /// what they point to takes about as much. In browsers, whose memory has 32-bit addresses, that is more than a million.
    const MAX_NODES: usize = isize::MAX as usize / 4 / size_of::<(u64, Option<Node>)>();

    /// Refuses to record more than there is room for.
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

    /// A place for a node.
    pub(super) fn allocate(&mut self) -> u32 {
        while let Some(Reverse(index)) = self.free_slots.pop() {
            if matches!(self.nodes.get(index as usize), Some((_, None))) {
                return index;
            }
        }
        self.nodes.push((u64::MAX, None));
        (self.nodes.len() - 1) as u32
    }

    /// Frees a node's place, and those at the end of the arena with it.
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

    /// The node, unless it is gone.
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        let (born, node) = self.nodes.get(id.index as usize)?;
        node.as_ref().filter(|_| *born == id.seq)
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let (born, node) = self.nodes.get_mut(id.index as usize)?;
        node.as_mut().filter(|_| *born == id.seq)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.get(id).expect("a tensor outlived its node")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.get_mut(id).expect("a tensor outlived its node")
    }
}
