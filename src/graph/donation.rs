//! Buffer donation: the value that a variable has now may be written into the memory of the value before, if nothing needs
//! that any more. (Input-output aliasing of XLA.)

use super::{Graph, NodeId, Taken};
use crate::op::Op;

impl Graph {
    /// A variable's value is `after` from now on, and was `before`.
    pub fn replace(&mut self, before: NodeId, after: NodeId) {
        let node = self.node(before);
        // What was assigned and never computed has no memory, but what it replaces may have.
        let memory = if node.data { Some(before) } else { node.replaces };
        self.node_mut(after).replaces = memory;
        self.let_go(before);
        self.keep(after);
    }

    /// Offers the memory of values that variables had to those that they have now. `own` says whose memory may be used.
    ///
    /// A value is offered unless something needs it after this batch: a tensor that holds it, or something recorded that is
    /// not written by this batch and that a tensor holds, or that others need. What tensors hold is written by this batch,
    /// too, where that takes less memory than the value before. What is data by then and remembers how it was made of the
    /// value does not count: it forgets that (see [`overwrite`](Graph::overwrite)).
    pub fn donate(&self, taken: &mut Taken, own: impl Fn(NodeId) -> bool) {
        let mut offers: Vec<(usize, usize)> = Vec::new();
        for &n in &taken.trace.outputs {
            let after = self.node(taken.nodes[n]);
            let Some(before) = after.replaces else { continue };
            let (Some(node), Some(at)) = (self.get(before), self.places.get(before)) else {
                continue;
            };
            let alike = (node.shape, node.dtype) == (after.shape, after.dtype);
            let free = node.data && node.handles == 0 && alike && own(before);
            let again = taken.trace.in_place.contains(&n) || offers.iter().any(|&(_, s)| s == at);
            if free && !again {
                offers.push((n, at));
            }
        }
        if offers.is_empty() {
            return;
        }
        let needs = self.needs(taken);
        let trace = &mut taken.trace;
        offers.retain(|&(_, s)| !needs[s].itself);
        let held: Vec<(usize, usize)>;
        (held, trace.donated) = offers.into_iter().partition(|&(_, s)| needs[s].later);
        if held.is_empty() {
            return;
        }
        // What tensors hold and is made of those values.
        let (mut made, mut write) = (vec![false; trace.nodes.len()], Vec::new());
        held.iter().for_each(|&(_, s)| made[s] = true);
        for (n, node) in trace.nodes.iter().enumerate() {
            made[n] |= node.inputs.iter().any(|&input| made[input]) && !needs[n].written;
            if made[n] && needs[n].itself {
                if matches!(node.op, Op::Shader(_)) {
                    return;
                }
                write.push(n);
            }
        }
        let bytes = |nodes: &mut dyn Iterator<Item = usize>| -> u64 {
            let nodes = nodes.map(|n| &trace.nodes[n]);
            nodes.map(|node| node.shape.numel() as u64 * node.dtype.size() as u64).sum()
        };
        if bytes(&mut write.iter().copied()) < bytes(&mut held.iter().map(|&(_, s)| s)) {
            trace.outputs.extend(write);
            trace.donated.extend(held);
        }
    }

    /// Which nodes of a trace something needs when it was run.
    fn needs(&self, taken: &Taken) -> Vec<Need> {
        let mut needs = vec![Need::default(); taken.nodes.len()];
        for &output in &taken.trace.outputs {
            needs[output].written = true;
        }
        let mut users = vec![0u32; taken.nodes.len()];
        for (n, id) in taken.nodes.iter().enumerate().rev() {
            let node = self.node(*id);
            let Need { written, later, .. } = needs[n];
            needs[n].itself = !written && (node.handles > 0 || node.uses > users[n]);
            for &input in &taken.trace.nodes[n].inputs {
                users[input] += 1;
                needs[input].later |= !written && (needs[n].itself || later);
            }
        }
        needs
    }

    /// Another value lies where this one lay: what is data forgets that it was made of it, so that gradients that would pass
    /// it are an error.
    pub fn overwrite(&mut self, id: NodeId) {
        if self.get(id).is_none() {
            return;
        }
        let (mut changed, mut stack) = (vec![id], vec![id]);
        while let Some(id) = stack.pop() {
            for index in self.node(id).users.clone() {
                let user = NodeId { index, born: self.nodes[index as usize].0 };
                let node = self.node_mut(user);
                if std::mem::replace(&mut node.overwritten, true) {
                    continue;
                }
                match node.data {
                    true => changed.push(user),
                    false => stack.push(user),
                }
            }
        }
        self.node_mut(id).overwritten = true;
        self.changed(&changed);
    }

    /// Whether another value lies where this one lay.
    pub fn is_overwritten(&self, id: NodeId) -> bool {
        self.node(id).overwritten
    }
}

/// What of a node of a trace something needs when that was run.
#[derive(Clone, Copy, Default)]
struct Need {
    /// The batch writes it.
    written: bool,
    /// It is not written, and a tensor holds it, or what is no part of the trace is to be computed from it.
    itself: bool,
    /// Something that is made of it is such, or is made of such.
    later: bool,
}
