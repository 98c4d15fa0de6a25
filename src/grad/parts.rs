//! Gradients that come in many parts. A sequence is sliced at each step, and a weight used at each step: added one by one,
//! the slices' gradients would be as many tensors of the whole sequence's size, and the weight's as many of its own.

use super::{Part, Path, Product, Slice, Tape};
use crate::error::Result;
use crate::graph::NodeId;
use crate::op::{Op, Pointwise, Routine, Span, Start};
use crate::shape::Shape;
use crate::sorted;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many parts are added one by one: one kernel reads them all.
const FEW: usize = 8;

impl Tape<'_> {
    /// Adds a part to a node's gradient, or keeps it until all are there.
    pub(super) fn add_to(
        &mut self,
        path: &mut Path,
        node: NodeId,
        part: Option<Part>,
    ) -> Result<()> {
        let (Some(place), Some(part)) = (path.place(node), part) else { return Ok(()) };
        match part {
            Part::Whole(part) => {
                path.gradients[place] = self.sum_of(path.gradients[place], part).map(Some)?;
            }
            part => path.parts.entry(place).or_default().push(part),
        }
        Ok(())
    }

    fn sum_of(&mut self, before: Option<NodeId>, part: NodeId) -> Result<NodeId> {
        match before {
            Some(before) => self.row(Pointwise::add, &[before, part]),
            None => Ok(part),
        }
    }

    /// Hands products of a transposed matrix on to the matrix itself: so those of all steps meet there, even if each step
    /// transposed it anew.
    pub(super) fn pass_transposed(&self, path: &mut Path, place: usize, wrt: &[NodeId]) {
        let node = path.nodes[place];
        let (Op::Permute(order), &[matrix]) = self.graph.history_of(node) else { return };
        let Some(to) = path.place(matrix).filter(|_| order[..] == [1, 0]) else { return };
        if wrt.contains(&node) || self.graph.checkpoint(node).is_some() {
            return;
        }
        let Some(mut parts) = path.parts.remove(&place) else { return };
        let turned = |part: &mut Part| match part {
            Part::Product(Product { left, right, .. }) => {
                std::mem::swap(left, right);
                true
            }
            _ => false,
        };
        let products: Vec<Part> = parts.extract_if(.., turned).collect();
        path.parts.entry(to).or_default().extend(products);
        path.parts.entry(place).or_default().extend(parts);
    }

    /// Adds the parts that were kept: no more will come.
    pub(super) fn settle(&mut self, path: &mut Path, place: usize) -> Result<()> {
        let Some(parts) = path.parts.remove(&place) else { return Ok(()) };
        let shape = self.shape(path.nodes[place]);
        let (mut slices, mut products) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Whole(part) => {
                    path.gradients[place] = self.sum_of(path.gradients[place], part).map(Some)?;
                }
                Part::Slice(slice) => slices.push(slice),
                Part::Product(product) => products.push(product),
            }
        }
        let mut wholes = self.place_slices(slices, &shape)?;
        wholes.extend(self.multiply(products, &shape)?);
        for whole in wholes {
            path.gradients[place] = self.sum_of(path.gradients[place], whole).map(Some)?;
        }
        Ok(())
    }

    /// What products add to the gradient of a matrix: many of them are one, over the rows of all.
    fn multiply(&mut self, mut products: Vec<Product>, shape: &Shape) -> Result<Vec<NodeId>> {
        let pairs = match products.len() > FEW {
            true => {
                // In the order of the uses: so they may be rows of one tensor.
                sorted::by_key(&mut products, |product| product.born);
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

    /// Matrices one below the other. Weights that are used together share a side of their products.
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

    /// The tensor that these matrices are slices of, one after the other, and the shape of all of them together, if they are.
    /// Slices that somebody holds stay: derivatives by them may be asked for.
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
            // Whole but for the outermost axis: elements that follow each other.
            let axis = shape.iter().position(|&extent| extent != 1)?;
            let inner = |(span, &extent): (&Span, &usize)| *span == Span::whole(extent);
            let start = match (spans[axis].start, starts) {
                (Start::At(start), _) => start,
                (Start::Times(unit), &[start]) => self.graph.number(start)? as usize * unit,
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

    /// What slices add to the gradient of a tensor of this shape. Many that lie side by side along an axis are joined.
    fn place_slices(&mut self, slices: Vec<Slice>, shape: &Shape) -> Result<Vec<NodeId>> {
        let mut wholes = Vec::new();
        let mut lines: Vec<Vec<(usize, NodeId)>> = vec![Vec::new(); shape.rank()];
        let many = slices.len() > FEW || self.make_up(&slices, shape);
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

    /// Whether slices are the parts that a tensor of this shape was cut into: no zeros are to be around them.
    fn make_up(&self, slices: &[Slice], shape: &Shape) -> bool {
        let lines: Option<Vec<_>> = slices.iter().map(|slice| self.line(slice)).collect();
        // Each part is a kernel: a product that two halves share, and nothing else uses, would be computed in both.
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

    /// The axis along which a slice is a part of its tensor, and where it begins, if both are known and there is one.
    fn line(&self, slice: &Slice) -> Option<(usize, usize)> {
        let mut starts = slice.starts.iter();
        let mut found = None;
        for (axis, margin) in slice.margins.iter().enumerate() {
            let start = match margin.before {
                Start::At(start) => Some(start),
                Start::Times(unit) => self.graph.number(*starts.next()?).map(|n| n as usize * unit),
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

    /// Parts of an axis by where they begin, as few lists of parts that do not overlap, in order. Those of one place are
    /// added.
    fn layers(
        &mut self,
        mut line: Vec<(usize, NodeId)>,
        axis: usize,
    ) -> Result<Vec<Vec<(usize, NodeId)>>> {
        sorted::by_key(&mut line, |&(start, node)| (start, self.shape(node)[axis]));
        let mut layers: Vec<Vec<(usize, NodeId)>> = Vec::new();
        // Where the layers end: a part goes behind the one that ends first.
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

    /// Parts that lie along an axis, in order, as one tensor; zeros where there is none.
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
        // Products may need the same matrices below each other.
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

    /// The matrix of so many columns that a node is reshaped from.
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

    /// A slice with zeros around it.
    fn surround(&mut self, slice: Slice) -> Result<NodeId> {
        let Slice { node, margins, starts } = slice;
        if margins.iter().all(|margin| margin.more == 0) {
            return Ok(node);
        }
        let zero = self.number(node, 0.0)?;
        self.push(Op::Pad(margins), &[&[node, zero], &starts[..]].concat())
    }
}
