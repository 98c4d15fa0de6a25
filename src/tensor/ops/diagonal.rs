//! Diagonals of the matrices in any two axes.

use crate::error::{Error, Result};
use crate::op::{Op, Span};
use crate::tensor::{within, Tensor};

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The diagonals of the matrices in two axes: the elements whose place along `axis2` is `offset` more than along
    /// `axis1`. They lie along a new last axis, in place of both.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist, or both are one.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.arange(8.0)?.reshape(&[2, 2, 2])?;
    /// assert_eq!(x.diagonal(0, -2, -1)?.read::<f32>().await?, [0.0, 3.0, 4.0, 7.0]);
    /// assert_eq!(x.diagonal(1, -2, -1)?.shape(), [2, 1]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(offset = 0, axis1 = 0, axis2 = 1)))]
    pub fn diagonal(&self, offset: i32, axis1: isize, axis2: isize) -> Result<Tensor> {
        self.shape.axes("diagonal", &[axis1, axis2])?;
        let (row, column) =
            (self.shape.axis("diagonal", axis1)?, self.shape.axis("diagonal", axis2)?);
        let (rows, columns) = (self.shape[row], self.shape[column]);
        let (right, down) = (offset.max(0) as usize, offset.min(0).unsigned_abs() as usize);
        let count = rows.saturating_sub(down).min(columns.saturating_sub(right));
        let start = if count > 0 { right + down * columns } else { 0 };
        let span = Span::at(start, count, (columns + 1) as isize);
        within("diagonal", || {
            let flat = self.flat_matrices(row, column)?;
            flat.part(flat.rank() - 1, span, 1)
        })
    }

    /// The sums of the main diagonals of the matrices in the last two axes. (As `trace` of PyTorch for one matrix; that of
    /// NumPy is along the first two.)
    ///
    /// # Errors
    /// `Shape` below rank 2.
    pub fn trace(&self) -> Result<Tensor> {
        let Some(row) = self.rank().checked_sub(2) else {
            return Err(Error::shape(format!(
                "trace: the input must have rank 2 or more, got shape {}",
                self.shape
            )));
        };
        within("trace", || self.main_diagonal(row, row + 1)?.sum(-1))
    }

    /// The main diagonals, as structure.
    pub(super) fn main_diagonal(&self, row: usize, column: usize) -> Result<Tensor> {
        let (rows, columns) = (self.shape[row], self.shape[column]);
        let flat = self.flat_matrices(row, column)?;
        let span = Span::at(0, rows.min(columns), (columns + 1) as isize);
        flat.spans(flat.rank() - 1, span)
    }

    /// With two axes as one, the last.
    fn flat_matrices(&self, row: usize, column: usize) -> Result<Tensor> {
        let mut order: Vec<usize> =
            (0..self.rank()).filter(|&axis| axis != row && axis != column).collect();
        let mut dims: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        order.extend([row, column]);
        dims.push(self.shape[row] * self.shape[column]);
        self.apply(Op::Permute(order), &[])?.reshape(&dims)
    }
}
