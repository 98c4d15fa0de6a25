//! Gradients of matrix products and convolutions, which are matrix products and convolutions again.

use super::{Contribution, Product, Tape};
use crate::error::Result;
use crate::graph::NodeId;
use crate::op::{Conv2d, Op, Routine, Span};

impl Tape<'_> {
    /// Returns the gradient of a matrix product: `g b^T` or `a^T g`. Products over rows are collected if both operands are
    /// smaller than the result.
    pub(super) fn pull_matmul(
        &mut self,
        node: NodeId,
        inputs: &[NodeId],
        g: NodeId,
        n: usize,
    ) -> Result<Contribution> {
        let (a, b) = (inputs[0], inputs[1]);
        let matmul = Op::Routine(Routine::Matmul);
        let (wide, narrow) = (self.shape(a), self.shape(b));
        let columns = narrow[narrow.rank() - 1];
        let inner = wide[wide.rank() - 1];
        if n == 0 {
            let b = self.transpose(b)?;
            if wide.rank() == 2 && narrow.rank() == 2 && is_thin(columns, wide[0], inner) {
                let left = self.transpose(g)?;
                return Ok(Contribution::Product(Product { left, right: b, seq: node.seq }));
            }
            let product = self.push(matmul, &[g, b])?;
            return self.shrink(product, &wide).map(Contribution::Whole);
        }
        let one = narrow.numel() == inner * columns;
        if one && wide.numel() / inner == self.shape(g).numel() / columns {
            // One matrix multiplies all rows, so its gradient is one product over all rows instead of a sum of products.
            let rows = wide.numel() / inner;
            let left = self.reshape(a, &[rows, inner])?;
            let right = self.reshape(g, &[rows, columns])?;
            if is_thin(rows, inner, columns) {
                return Ok(Contribution::Product(Product { left, right, seq: node.seq }));
            }
            let left = self.transpose(left)?;
            let product = self.push(matmul, &[left, right])?;
            return self.reshape(product, &narrow).map(Contribution::Whole);
        }
        let a = self.transpose(a)?;
        let product = self.push(matmul, &[a, g])?;
        self.shrink(product, &narrow).map(Contribution::Whole)
    }

    /// Returns the gradient of a convolution by its input. The gradient is dilated by the stride, and convolved with the
    /// flipped kernel whose input and output channels are exchanged.
    pub(super) fn conv_input(
        &mut self,
        conv: &Conv2d,
        g: NodeId,
        inputs: &[NodeId],
    ) -> Result<NodeId> {
        let (x, w) = (self.shape(inputs[0]), self.shape(inputs[1]));
        let (groups, per_group) = (conv.groups, w[0] / conv.groups);
        let kernel = self.reshape(inputs[1], &[groups, per_group, w[1], w[2], w[3]])?;
        let kernel = self.permute(kernel, &[0, 2, 1, 3, 4])?;
        let kernel = self.reshape(kernel, &[x[1], per_group, w[2], w[3]])?;
        let kernel = self.slice(kernel, &|axis, len| match axis {
            0 | 1 => Span::whole(len),
            _ => Span::at(len - 1, len, -1),
        })?;
        let mut apart = g;
        let mut ends = [(0, 0); 2];
        for i in 0..2 {
            apart = self.dilate(apart, 2 + i, conv.stride[i])?;
            let reach = (conv.dilation[i] * (w[2 + i] - 1)) as isize;
            let before = reach - conv.padding[i].0 as isize;
            let len = self.shape(apart)[2 + i] as isize;
            ends[i] = (before, x[2 + i] as isize + reach - len - before);
        }
        // The convolution pads with zeros, unless something must be cut off.
        let mut padding = [(0, 0); 2];
        if ends.iter().all(|&(a, b)| a >= 0 && b >= 0) {
            padding = ends.map(|(a, b)| (a as usize, b as usize));
        } else {
            apart = self.place(apart, &[(0, 0), (0, 0), ends[0], ends[1]])?;
        }
        let back = Conv2d { stride: [1, 1], padding, dilation: conv.dilation, groups };
        self.push(Op::Routine(Routine::Conv2d(back)), &[apart, kernel])
    }

    /// Returns the gradient of a convolution by its weight. The input is convolved with the gradient as the kernel. Batch and
    /// channels are exchanged, and so are stride and dilation.
    pub(super) fn conv_weight(
        &mut self,
        conv: &Conv2d,
        g: NodeId,
        inputs: &[NodeId],
    ) -> Result<NodeId> {
        let (x, w) = (self.shape(inputs[0]), self.shape(inputs[1]));
        let groups = conv.groups;
        let seen = self.reshape(inputs[0], &[x[0], groups, w[1], x[2], x[3]])?;
        let seen = self.permute(seen, &[2, 1, 0, 3, 4])?;
        let seen = self.reshape(seen, &[w[1], groups * x[0], x[2], x[3]])?;
        let kernel = self.permute(g, &[1, 0, 2, 3])?;
        let across =
            Conv2d { stride: conv.dilation, padding: conv.padding, dilation: conv.stride, groups };
        let mut sums = self.push(Op::Routine(Routine::Conv2d(across)), &[seen, kernel])?;
        // Rows and columns that no window reached add positions at the end.
        for axis in 2..4 {
            sums = self.part(sums, axis, 0, w[axis])?;
        }
        self.permute(sums, &[1, 0, 2, 3])
    }
}

/// Whether two matrices of `rows` rows are together at most as large as the product `[m, n]` over their rows. Many pairs are
/// then concatenated instead of multiplied one by one.
fn is_thin(rows: usize, m: usize, n: usize) -> bool {
    rows.saturating_mul(m + n) <= m * n
}
