//! Gradient accumulation for tensors that are used many times.
//!
//! Problem: a sequence is sliced at each step of a loop, and a weight is multiplied at each step. Added one by one, the
//! gradients of 100 slices would be 100 tensors of the size of the whole sequence. The gradients of a weight would be 100
//! tensors of the weight's size.
//!
//! Idea: contributions are collected until the node is reached. Slices that are next to each other are concatenated instead of
//! padded and added. Products `a1^T b1 + a2^T b2` become one product of the stacked rows `[a1; a2]^T [b1; b2]`.
//!
//! Cost: sorting the contributions. Up to `MAX_SEPARATE_ADDS` contributions are added one by one.
//!
//! Example: `y = concat(x[0] @ w, x[1] @ w, ...)` over 100 steps. The gradient of `w` is one matmul, and that of `x` one
//! concat.

use super::{Contribution, Path, Product, Slice, Tape};
use crate::error::Result;
use crate::graph::NodeId;
use crate::op::{Offset, Op, Pointwise, Routine, Span};
use crate::shape::Shape;
use crate::sorted;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most contributions that are added one by one. These additions still fuse into one kernel.
const MAX_SEPARATE_ADDS: usize = 8;

impl Tape<'_> {
    /// Adds a contribution to a node's gradient, or stores the contribution until [`Tape::finish`].
    pub(super) fn add_to(
        &mut self,
        path: &mut Path,
        node: NodeId,
        part: Option<Contribution>,
    ) -> Result<()> {
        let (Some(place), Some(part)) = (path.place(node), part) else { return Ok(()) };
        match part {
            Contribution::Whole(part) => {
                path.gradients[place] = self.sum_of(path.gradients[place], part).map(Some)?;
            }
            part => path.contributions.entry(place).or_default().push(part),
        }
        Ok(())
    }

    fn sum_of(&mut self, before: Option<NodeId>, part: NodeId) -> Result<NodeId> {
        match before {
            Some(before) => self.row(Pointwise::add, &[before, part]),
            None => Ok(part),
        }
    }

    /// Moves product contributions of a transposed matrix to the matrix itself. The contributions of all steps are then joined
    /// there, even if each step transposed the matrix separately.
    pub(super) fn forward_through_transpose(&self, path: &mut Path, place: usize, wrt: &[NodeId]) {
        let node = path.nodes[place];
        let (Op::Permute(order), &[matrix]) = self.graph.history_of(node) else { return };
        let Some(to) = path.place(matrix).filter(|_| order[..] == [1, 0]) else { return };
        if wrt.contains(&node) || self.graph.checkpoint(node).is_some() {
            return;
        }
        let Some(mut parts) = path.contributions.remove(&place) else { return };
        let turned = |part: &mut Contribution| match part {
            Contribution::Product(Product { left, right, .. }) => {
                std::mem::swap(left, right);
                true
            }
            _ => false,
        };
        let products: Vec<Contribution> = parts.extract_if(.., turned).collect();
        path.contributions.entry(to).or_default().extend(products);
        path.contributions.entry(place).or_default().extend(parts);
    }

    /// Adds the stored contributions of a node. No others follow.
    pub(super) fn finish(&mut self, path: &mut Path, place: usize) -> Result<()> {
        let Some(parts) = path.contributions.remove(&place) else { return Ok(()) };
        let shape = self.shape(path.nodes[place]);
        let (mut slices, mut products) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Contribution::Whole(part) => {
                    path.gradients[place] = self.sum_of(path.gradients[place], part).map(Some)?;
                }
                Contribution::Slice(slice) => slices.push(slice),
                Contribution::Product(product) => products.push(product),
            }
        }
        let mut wholes = self.place_slices(slices, &shape)?;
        wholes.extend(self.multiply(products, &shape)?);
        for whole in wholes {
            path.gradients[place] = self.sum_of(path.gradients[place], whole).map(Some)?;
        }
        Ok(())
    }

    /// Computes product contributions. Many products become one product over all their rows.
    fn multiply(&mut self, mut products: Vec<Product>, shape: &Shape) -> Result<Vec<NodeId>> {
        let pairs = match products.len() > MAX_SEPARATE_ADDS {
            true => {
                // In recorded order, so that they may be consecutive rows of one tensor.
                sorted::by_key(&mut products, |product| product.seq);
                let lefts = products.iter().map(|product| product.left).collect();
                let rights = products.iter().map(|product| product.right).collect();
                vec![(self.rows(lefts)?, self.rows(rights)?)]
            }
            false => products.iter().map(|product| (product.left, product.right)).collect(),
        };
        let mut wholes = Vec::with_capacity(pairs.len());
        for (left, right) in pairs {
            let left = self.transpose(left)?;
            let product = self.push(Op::Routine(Routine::Matmul), &[left, right])?;
            wholes.push(self.reshape(product, shape)?);
        }
        Ok(wholes)
    }

    /// Concatenates matrices along their rows. Weights that are used together share one side of their products.
    fn rows(&mut self, matrices: Vec<NodeId>) -> Result<NodeId> {
        if let Some(&known) = self.joined.get(&matrices) {
            return Ok(known);
        }
        let joined = match self.cut_from(&matrices) {
            Some((whole, rows, columns)) => self.reshape(whole, &[rows, columns])?,
            None => self.push(Op::Concat { axis: 0 }, &matrices)?,
        };
        self.joined.insert(matrices, joined);
        Ok(joined)
    }

    /// Returns the tensor that these matrices are consecutive slices of, and the shape of all of them together. `None` if they
    /// are not, or if a slice is held, because a derivative by the slice may be requested.
    fn cut_from(&self, matrices: &[NodeId]) -> Option<(NodeId, usize, usize)> {
        let (mut from, mut end) = (None, 0);
        for &matrix in matrices {
            let (mut at, mut past) = (matrix, self.graph.history_of(matrix));
            while let (Op::Reshape(_), &[input]) = past {
                if self.is_held(at) {
                    return None;
                }
                (at, past) = (input, self.graph.history_of(input));
            }
            if self.is_held(at) {
                return None;
            }
            let (Op::Slice(spans), &[whole, ref starts @ ..]) = past else { return None };
            let shape = self.shape(whole);
            // A slice of only the outermost axis is contiguous.
            let axis = shape.iter().position(|&extent| extent != 1)?;
            let inner = |(span, &extent): (&Span, &usize)| *span == Span::whole(extent);
            let start = match (spans[axis].start, starts) {
                (Offset::Static(start), _) => start,
                (Offset::Dynamic(unit), &[start]) => self.graph.number(start)? as usize * unit,
                _ => return None,
            };
            let follows = spans[axis].step == 1 && start == end;
            let same = *from.get_or_insert(whole) == whole;
            if !(same && follows && spans[axis + 1..].iter().zip(&shape[axis + 1..]).all(inner)) {
                return None;
            }
            end += self.shape(at)[axis];
        }
        let whole = from.filter(|&whole| {
            let shape = self.shape(whole);
            shape.iter().find(|&&extent| extent != 1) == Some(&end)
        })?;
        let columns = self.shape(matrices[0])[1];
        Some((whole, self.shape(whole).numel() / columns.max(1), columns))
    }

    /// Computes slice contributions to a tensor of this shape. Many slices along one axis are concatenated.
    fn place_slices(&mut self, slices: Vec<Slice>, shape: &Shape) -> Result<Vec<NodeId>> {
        let mut wholes = Vec::new();
        let mut lines: Vec<Vec<(usize, NodeId)>> = vec![Vec::new(); shape.rank()];
        let many = slices.len() > MAX_SEPARATE_ADDS || self.make_up(&slices, shape);
        for slice in slices {
            match self.line(&slice).filter(|_| many) {
                Some((axis, start)) => lines[axis].push((start, slice.node)),
                None => wholes.push(self.surround(slice)?),
            }
        }
        for (axis, line) in lines.into_iter().enumerate() {
            for layer in self.layers(line, axis)? {
                wholes.push(self.lay(&layer, axis, shape)?);
            }
        }
        Ok(wholes)
    }

    /// Whether the slices cover a tensor of this shape without gaps or overlaps, so that no padding is needed.
    fn make_up(&self, slices: &[Slice], shape: &Shape) -> bool {
        let lines: Option<Vec<_>> = slices.iter().map(|slice| self.line(slice)).collect();
        // Each operand of a concatenation is a kernel. A product that only two halves use would be computed in both.
        let Some(mut lines) = lines.filter(|lines| lines.len() > 2) else { return false };
        let axis = lines[0].0;
        let mut parts = Vec::with_capacity(lines.len());
        for ((along, start), slice) in lines.drain(..).zip(slices) {
            if along != axis {
                return false;
            }
            parts.push((start, start + self.shape(slice.node)[axis]));
        }
        sorted::sort(&mut parts);
        let mut end = 0;
        parts.iter().all(|&(start, past)| std::mem::replace(&mut end, past) == start)
            && end == shape[axis]
    }

    /// Returns the one axis that a slice cuts, and its start, if the start is known.
    fn line(&self, slice: &Slice) -> Option<(usize, usize)> {
        let mut starts = slice.starts.iter();
        let mut found = None;
        for (axis, margin) in slice.margins.iter().enumerate() {
            let start = match margin.before {
                Offset::Static(start) => Some(start),
                Offset::Dynamic(unit) => {
                    self.graph.number(*starts.next()?).map(|n| n as usize * unit)
                }
            };
            if margin.more > 0 {
                match found {
                    None => found = Some((axis, start?)),
                    Some(_) => return None,
                }
            }
        }
        found
    }

    /// Sorts slices of an axis into as few layers of non-overlapping slices as possible. Slices of equal ranges are added.
    fn layers(
        &mut self,
        mut line: Vec<(usize, NodeId)>,
        axis: usize,
    ) -> Result<Vec<Vec<(usize, NodeId)>>> {
        sorted::by_key(&mut line, |&(start, node)| (start, self.shape(node)[axis]));
        let mut layers: Vec<Vec<(usize, NodeId)>> = Vec::new();
        // The ends of the layers. A slice is appended to the layer that ends first.
        let mut ends: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
        let mut line = line.into_iter().peekable();
        while let Some((start, mut node)) = line.next() {
            let len = self.shape(node)[axis];
            let same = |tape: &Self, other: &(usize, NodeId)| {
                other.0 == start && tape.shape(other.1)[axis] == len
            };
            while let Some((_, other)) = line.next_if(|other| same(self, other)) {
                node = self.row(Pointwise::add, &[node, other])?;
            }
            let layer = match ends.peek() {
                Some(&Reverse((end, layer))) if end <= start => {
                    ends.pop();
                    layer
                }
                _ => {
                    layers.push(Vec::new());
                    layers.len() - 1
                }
            };
            ends.push(Reverse((start + len, layer)));
            layers[layer].push((start, node));
        }
        Ok(layers)
    }

    /// Concatenates the slices of a layer into one tensor, with zeros in the gaps.
    fn lay(&mut self, parts: &[(usize, NodeId)], axis: usize, shape: &Shape) -> Result<NodeId> {
        let mut joined = Vec::with_capacity(parts.len());
        for (n, &(start, node)) in parts.iter().enumerate() {
            let end = start + self.shape(node)[axis];
            let next = parts.get(n + 1).map_or(shape[axis], |part| part.0);
            let mut ends = vec![(0, 0); shape.rank()];
            ends[axis] = (if n == 0 { start as isize } else { 0 }, (next - end) as isize);
            joined.push(self.place(node, &ends)?);
        }
        if let [whole] = joined[..] {
            return Ok(whole);
        }
        // Product contributions may need the same matrices concatenated.
        let columns = shape[shape.rank() - 1];
        let matrices: Option<Vec<NodeId>> =
            joined.iter().map(|&part| self.matrix(part, columns)).collect();
        match matrices.filter(|_| axis == 0 && shape.rank() > 2) {
            Some(matrices) => {
                let rows = self.rows(matrices)?;
                self.reshape(rows, shape)
            }
            None => self.push(Op::Concat { axis }, &joined),
        }
    }

    /// Returns the matrix of `columns` columns that a node is a reshape of.
    fn matrix(&self, mut node: NodeId, columns: usize) -> Option<NodeId> {
        while self.shape(node).rank() != 2 {
            let (Op::Reshape(_), &[input]) = self.graph.history_of(node) else { return None };
            if self.is_held(node) {
                return None;
            }
            node = input;
        }
        (self.shape(node)[1] == columns).then_some(node)
    }

    /// Pads a slice with zeros to the size of its tensor.
    fn surround(&mut self, slice: Slice) -> Result<NodeId> {
        let Slice { node, margins, starts } = slice;
        if margins.iter().all(|margin| margin.more == 0) {
            return Ok(node);
        }
        let zero = self.number(node, 0.0)?;
        self.push(Op::Pad(margins), &[&[node, zero], &starts[..]].concat())
    }
}
