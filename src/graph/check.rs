//! Validation of the graph: checks that the counters and links of all nodes agree. Debug builds run it regularly.

use super::{Graph, NodeId};
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;

impl Graph {
    /// Whether the graph should be validated now. It is validated each time an eighth of it is new, so that validation takes
    /// constant time per operation.
    pub fn check_is_due(&mut self) -> bool {
        let is_due = self.count - self.checked_at > self.live as u64 / 8;
        if is_due {
            self.checked_at = self.count;
        }
        is_due
    }

    /// Validates all nodes. No update may be pending.
    ///
    /// # Errors
    /// `InvalidState` that names the wrong node.
    pub fn check(&self) -> Result<()> {
        let mut live = 0;
        // Counts how often each node is an input, by the index of the user, and how many of these uses are pending.
        let mut users: FxHashMap<(NodeId, u32), i32> = FxHashMap::default();
        let mut uses: FxHashMap<NodeId, u32> = FxHashMap::default();
        for (id, node) in self.all() {
            live += 1;
            for &input in &node.inputs {
                if self.get(input).is_none() || input.seq >= id.seq {
                    return self.refuse(id, "must be computed from existing nodes");
                }
                *users.entry((input, id.index)).or_default() += 1;
                *uses.entry(input).or_default() += u32::from(node.is_pending_use);
            }
        }
        for (id, node) in self.all() {
            for &user in &node.users {
                *users.entry((id, user)).or_default() -= 1;
            }
            let uses = uses.get(&id).copied().unwrap_or(0);
            if node.pending_uses != uses {
                return self
                    .refuse(id, &format!("must have {uses} uses, got {}", node.pending_uses));
            }
            if node.handles == 0 && node.users.is_empty() {
                return self.refuse(id, "must be needed by something");
            }
            if node.handles < node.programs {
                return self.refuse(id, "must have as many handles as programs that hold it");
            }
        }
        if let Some(((id, user), _)) = users.into_iter().find(|(_, count)| *count != 0) {
            return self.refuse(id, &format!("must have node {user} as a user once"));
        }
        if live != self.live {
            let message = format!("graph: there must be {live} nodes, got {}", self.live);
            return Err(Error::state(message));
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = (NodeId, &super::Node)> {
        let all = self.nodes.iter().enumerate();
        all.filter_map(|(n, (seq, node))| {
            Some((NodeId { index: n as u32, seq: *seq }, node.as_ref()?))
        })
    }

    fn refuse(&self, id: NodeId, what: &str) -> Result<()> {
        let name = self.get(id).map_or("a node that is gone", |node| node.op.name());
        let message = format!("graph: %{} ({name}) {what}; this is a bug in warpweft", id.index);
        Err(Error::state(message))
    }
}
