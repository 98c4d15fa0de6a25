//! Diagonals and triangles of matrices: `diagonal`, `diag`, `trace`, `tril` and `triu`.

use crate::error::{Error, Result};
use crate::op::{Offset, Op, PadAmount, Span};
use crate::shape::Shape;
use crate::tensor::{with_op_name, Operand, Pointwise, Tensor};

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the diagonals of the matrices in two axes: elements whose position along `axis2` is `offset` more than
    /// along `axis1`. A new last axis replaces both.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist, or if both are the same.
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
        with_op_name("diagonal", || {
            let flat = self.flat_matrices(row, column)?;
            flat.span_dynamic(flat.rank() - 1, span, 1)
        })
    }

    /// Returns the sums of the main diagonals of the matrices in the last two axes. For one matrix it is PyTorch's
    /// `trace`. NumPy uses the first two axes.
    ///
    /// # Errors
    /// `Shape` below rank 2.
    #[cfg_attr(feature = "js", js(returns = "Tensor<SumOf[D]>"))]
    pub fn trace(&self) -> Result<Tensor> {
        let Some(row) = self.rank().checked_sub(2) else {
            return Err(Error::shape(format!(
                "trace: the input must have rank 2 or more, got shape {}",
                self.shape
            )));
        };
        with_op_name("trace", || self.main_diagonal(row, row + 1)?.sum(-1))
    }

    /// Returns the main diagonals. Their position is part of the structure of the plan.
    pub(super) fn main_diagonal(&self, row: usize, column: usize) -> Result<Tensor> {
        let (rows, columns) = (self.shape[row], self.shape[column]);
        let flat = self.flat_matrices(row, column)?;
        let span = Span::at(0, rows.min(columns), (columns + 1) as isize);
        flat.span_static(flat.rank() - 1, span)
    }

    /// Merges two axes into a new last axis.
    fn flat_matrices(&self, row: usize, column: usize) -> Result<Tensor> {
        let mut order: Vec<usize> =
            (0..self.rank()).filter(|&axis| axis != row && axis != column).collect();
        let mut dims: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        order.extend([row, column]);
        dims.push(self.shape[row] * self.shape[column]);
        self.apply(Op::Permute(order), &[])?.reshape(&dims)
    }

    /// Returns a diagonal of a matrix. `diagonal` is its distance to the right of the main diagonal, or to the left if
    /// negative. For a vector, it returns the square matrix with this diagonal, and zeros elsewhere.
    ///
    /// # Errors
    /// `Shape` unless the rank is 1 or 2; `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.diag(0)?.read::<f32>().await?, [1.0, 4.0]);
    /// assert_eq!(x.diag(0)?.diag(0)?.read::<f32>().await?, [1.0, 0.0, 0.0, 4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(diagonal = 0)))]
    pub fn diag(&self, diagonal: i32) -> Result<Tensor> {
        let (right, down) = (diagonal.max(0) as usize, diagonal.min(0).unsigned_abs() as usize);
        match self.shape[..] {
            [rows, columns] => {
                let count = rows.saturating_sub(down).min(columns.saturating_sub(right));
                let start = if count > 0 { right + down * columns } else { 0 };
                let span = Span::at(start, count, (columns + 1) as isize);
                with_op_name("diag", || self.ravel().span_dynamic(0, span, 1))
            }
            [count] => with_op_name("diag", || {
                let rows = count.saturating_add(right.max(down));
                let whole = Shape::new("diag", &[rows, rows])?;
                if count == 0 {
                    return self.device.zeros((&whole[..], self.dtype));
                }
                // Each element is one row and one column after the previous one.
                let spread = self.unsqueeze(1)?.pad_static(&[(0, 0), (0, rows)], 0.0)?.ravel();
                let length = (count - 1) * (rows + 1) + 1;
                let spread = spread.span_static(0, Span::at(0, length, 1))?;
                let before = Offset::Static(right + down * rows);
                let margin = PadAmount { before, more: rows * rows - length };
                spread.pad_dynamic(vec![margin], 0.0)?.reshape(&*whole)
            }),
            _ => {
                let message =
                    format!("diag: the input must have rank 1 or 2, got shape {}", self.shape);
                Err(Error::shape(message))
            }
        }
    }

    /// Replaces elements above a diagonal by 0, in the matrices of the last two axes. Positive `diagonal`s are to the
    /// right of the main diagonal.
    ///
    /// # Errors
    /// `Shape` below rank 2.
    #[cfg_attr(feature = "js", js(default(diagonal = 0)))]
    pub fn tril(&self, diagonal: i32) -> Result<Tensor> {
        self.mask_triangle("tril", diagonal, Pointwise::le)
    }

    /// Replaces elements below a diagonal by 0, in the matrices of the last two axes. Positive `diagonal`s are to the
    /// right of the main diagonal.
    ///
    /// # Errors
    /// `Shape` below rank 2.
    #[cfg_attr(feature = "js", js(default(diagonal = 0)))]
    pub fn triu(&self, diagonal: i32) -> Result<Tensor> {
        self.mask_triangle("triu", diagonal, Pointwise::ge)
    }

    /// Keeps the elements for which `compare(column, row + diagonal)` is true, and replaces the others by 0.
    fn mask_triangle(&self, name: &str, diagonal: i32, compare: Pointwise) -> Result<Tensor> {
        if self.rank() < 2 {
            let message =
                format!("{name}: the input must have rank 2 or more, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        let matrix = &self.shape[self.rank() - 2..];
        // All diagonals beyond the matrix are equivalent.
        let diagonal = (diagonal as isize).clamp(-(matrix[0] as isize), matrix[1] as isize);
        let row = self.device.iota(matrix, 0)?.add(diagonal)?;
        let column = self.device.iota(matrix, 1)?;
        let keep = column.apply_row(compare, &[Operand::Tensor(row)])?;
        let zero = self.device.constant(&[], 0.0, self.dtype)?;
        keep.where_cond(self, &zero)
    }
}
