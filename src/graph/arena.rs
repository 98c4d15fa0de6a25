//! Where nodes lie: places that were left are used again, and those at the end given back.

use super::{Graph, Node, NodeId};
use std::cmp::Reverse;

impl Graph {
    /// How many entries of lists may be out of date before they are looked through.
    pub(super) const SLACK: usize = 64;
    /// Room for so many nodes, about a megabyte, is kept: what the next round of a loop records lies where the last did.
    const ROOM: usize = 4096;

    /// A place for a node.
    pub(super) fn vacancy(&mut self) -> u32 {
        while let Some(Reverse(index)) = self.vacant.pop() {
            if matches!(self.nodes.get(index as usize), Some((_, None))) {
                return index;
            }
        }
        self.nodes.push((u64::MAX, None));
        (self.nodes.len() - 1) as u32
    }

    /// Frees a node's place, and those at the end of the arena with it.
    pub(super) fn vacate(&mut self, id: NodeId) -> Option<Node> {
        let node = std::mem::replace(&mut self.nodes[id.index as usize], (u64::MAX, None)).1;
        self.live -= 1;
        self.vacant.push(Reverse(id.index));
        while let Some((_, None)) = self.nodes.last() {
            self.nodes.pop();
        }
        if self.nodes.capacity() > Graph::ROOM + 4 * self.nodes.len() {
            self.nodes.shrink_to(Graph::ROOM.max(2 * self.nodes.len()));
            self.vacant.clear();
            for (index, (_, node)) in self.nodes.iter().enumerate() {
                if node.is_none() {
                    self.vacant.push(Reverse(index as u32));
                }
            }
            self.vacant.shrink_to(Graph::ROOM.max(2 * self.nodes.len()));
        }
        node
    }

    /// The node, unless it is gone.
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        let (born, node) = self.nodes.get(id.index as usize)?;
        node.as_ref().filter(|_| *born == id.born)
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let (born, node) = self.nodes.get_mut(id.index as usize)?;
        node.as_mut().filter(|_| *born == id.born)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.get(id).expect("a tensor outlived its node")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.get_mut(id).expect("a tensor outlived its node")
    }
}
