//! Eigenvalues and eigenvectors of symmetric matrices, by Jacobi's method.
//!
//! Problem: make a symmetric matrix diagonal by rotations.
//!
//! Idea: rotate two rows, and the same two columns, so that their common off-diagonal element becomes 0. Disjoint pairs
//! are rotated in the same kernel (Brent and Luk 1985). Each sweep rotates all pairs, and a few sweeps converge. A sweep
//! over n rows takes `2 n` kernels.
//!
//! Example: a sweep over four rows has three rounds. They rotate (0, 2) and (1, 3), (0, 3) and (1, 2), and (0, 1) and (2,
//! 3).

use super::SQUARE;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{keepdim, with_op_name, Tensor};

/// The number of sweeps over all pairs of rows. The last sweeps converge quadratically, and matrices of this size need 6
/// to 8 sweeps in `f32`.
const SWEEPS: usize = 9;

/// The most rows of a matrix. There are `2 * SWEEPS` kernels for each row.
const MAX_ROWS: usize = 128;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the eigenvalues, ascending, and the eigenvectors of symmetric matrices:
    /// `[.., n, n] -> [.., n], [.., n, n]`.
    ///
    /// Column i of the vectors belongs to value i. The vectors are orthonormal, and their signs are arbitrary. A matrix
    /// that is not symmetric is replaced by the mean of itself and its transpose.
    ///
    /// It uses Jacobi's method on disjoint pairs of rows (Brent and Luk 1985), in `f32`, for n up to 128. All matrices
    /// together take about `18 n` small kernels. The absolute error of values is about 1e-6 times the largest value.
    ///
    /// Read both results in one [`Device::batch`](crate::device::Device::batch), because otherwise everything is computed
    /// twice.
    ///
    /// Derivatives up to the second are correct if the values are distinct, and higher ones are an error. Derivatives of the
    /// vectors ignore pairs of equal values. Second derivatives of equal values are 1e30 or more, because an eigenvalue is
    /// not differentiable where it equals another. They are less if the largest element is above 1e30 in magnitude.
    ///
    /// # Errors
    /// `Shape` unless the last two axes are equal; `DType` unless the tensor is a float; `Limit` for larger matrices.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let (values, vectors) = device.tensor(&[2.0f32, 1.0, 1.0, 2.0], &[2, 2])?.eigh()?;
    /// let values = values.read::<f32>().await?;
    /// assert!((values[0] - 1.0).abs() < 1e-6 && (values[1] - 3.0).abs() < 1e-6);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(returns(values, vectors)))]
    pub fn eigh(&self) -> Result<(Tensor, Tensor)> {
        let square = self.rank() >= 2 && self.shape[self.rank() - 2] == self.shape[self.rank() - 1];
        if !square {
            return Err(Error::wrong_shape("eigh", SQUARE, &self.shape));
        }
        self.check_float("eigh")?;
        let rows = self.shape[self.rank() - 1];
        if rows > MAX_ROWS {
            let message = format!("eigh: matrices must have at most {MAX_ROWS} rows, got {rows}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let dims = &self.shape[..self.rank() - 1];
        if self.numel() == 0 {
            return Ok((self.device.constant(dims, 0.0, self.dtype)?, self.reshape(&self.shape)?));
        }
        with_op_name("eigh", || {
            let flat =
                self.cast(DType::F32)?.reshape(&[self.numel() / (rows * rows), rows, rows])?;
            let scale = flat.scales_along([1, 2])?;
            let flat = flat.div(&scale)?;
            let flat = flat.add(&flat.transpose(1, 2)?)?.mul(0.5)?.with_derivatives("eigh", 2)?;
            // Gradients by the values are multiplied by the scale, and the product must stay finite.
            let corner = scale.maximum(1.0)?.reciprocal().mul(CORNER)?;
            let (values, vectors) = flat.eigh_batched(&corner)?;
            let values = values.mul(scale.squeeze(2)?)?.reshape(dims)?.cast(self.dtype)?;
            Ok((values, vectors.reshape(&self.shape)?.cast(self.dtype)?))
        })
    }

    /// Returns the eigenvalues and eigenvectors of symmetric matrices, `[batch, n, n]`. `corner`, `[batch, 1, 1]`, replaces
    /// one over the distance of equal values.
    fn eigh_batched(&self, corner: &Tensor) -> Result<(Tensor, Tensor)> {
        let vectors = self.detach().rotate()?;
        // Rayleigh quotients are more accurate than the diagonal after the rotations, and their gradient is that of the
        // eigenvalues.
        let across = vectors.transpose(1, 2)?.matmul(self)?.matmul(&vectors)?.materialize()?;
        let change = Perturbation::of(&across)?.of_values(corner)?;
        let values = across.rotate_diagonal(0)?.add(change)?;
        let order = values.detach().sorted_positions(false, usize::MAX)?.materialize()?;
        let column =
            vectors.transpose(1, 2)?.gather_rows(&order)?.transpose(1, 2)?.materialize()?;
        let values = values.gather_rows(&order)?;
        let across = column.transpose(1, 2)?.matmul(self)?.matmul(&column)?.materialize()?;
        let turn = Perturbation::of(&across)?.of_vectors()?;
        Ok((values, column.add(column.matmul(&turn)?)?))
    }

    /// Returns the elements `[i, i + first]` of matrices, for all i that are inside.
    fn rotate_diagonal(&self, first: usize) -> Result<Tensor> {
        let (batch, rows) = (self.shape[0], self.shape[1]);
        let count = if first == 0 { rows } else { rows - first };
        let end = first + (count - 1) * (rows + 1) + 1;
        let flat = self.reshape(&[batch, rows * rows])?;
        flat.slice_static(1, first as isize..end as isize, rows + 1)
    }

    /// Returns the product of the rotations that make symmetric matrices diagonal.
    fn rotate(&self) -> Result<Tensor> {
        let (batch, rows) = (self.shape[0], self.shape[1]);
        let identity = self.device.eye(rows)?.expand(&[batch, rows, rows])?;
        if rows == 1 {
            return Ok(identity);
        }
        // An odd row is paired with a row of zeros, which does not change it.
        let odd = rows % 2;
        let mut matrix = self.pad_static(&[(0, 0), (0, odd), (0, odd)], 0.0)?.materialize()?;
        let mut vectors = identity.pad_static(&[(0, 0), (0, 0), (0, odd)], 0.0)?.materialize()?;
        let ring = Ring::new(self, (rows + odd) / 2)?;
        for _ in 0..SWEEPS * (rows + odd - 1) {
            (matrix, vectors) = ring.round(&matrix, &vectors)?;
        }
        // Many rotations in `f32` leave the vectors slightly non-orthonormal. A Newton step (Higham 1986) squares that
        // error.
        let vectors = vectors.slice_static(2, ..rows as isize, 1)?;
        let lengths = vectors.transpose(1, 2)?.matmul(&vectors)?;
        vectors.matmul(&lengths.mul(-0.5)?.add(&self.device.eye(rows)?.mul(1.5)?)?)?.materialize()
    }
}

/// The change E of a matrix `diag(values) + E`. Its value is 0, and its derivatives are those of the matrix. Eigenvalues
/// and eigenvectors are power series in E, whose first and second terms give their first and second derivatives (Kato
/// 1966, chapter 2).
struct Perturbation {
    change: Tensor,
    /// One over `values[i] - values[k]`, in row k and column i, or 0 if both values are equal.
    closeness: Tensor,
    /// Whether two values are equal. False on the diagonal.
    equal: Tensor,
}

/// Replaces one over the distance of equal values, divided by the scale of a large matrix. An eigenvalue has a corner there,
/// so its second derivative is infinite.
const CORNER: f64 = 1e30;

impl Perturbation {
    /// Creates the change of `[batch, n, n]` matrices that are diagonal up to rounding. They must be materialized, so
    /// that subtracting the detached copy gives exactly 0.
    fn of(across: &Tensor) -> Result<Perturbation> {
        let (row, column) = across.rows_and_columns()?;
        let fixed = across.detach().rotate_diagonal(0)?;
        let distance = fixed.unsqueeze(1)?.sub(&fixed.unsqueeze(2)?)?;
        let largest = fixed.abs().max(keepdim(1))?.unsqueeze(2)?.into_detached()?;
        let apart = distance.abs().gt(&largest.mul(1e-6)?)?;
        let closeness = apart.where_cond(&distance, 1.0)?.reciprocal();
        Ok(Perturbation {
            change: across.sub(across.detach())?,
            closeness: apart.where_cond(closeness, 0.0)?.materialize()?,
            equal: apart.logical_or(row.eq(&column)?)?.logical_not(),
        })
    }

    /// Returns the second-order change of the values: the sum over k of `E[k, i]^2 / (values[i] - values[k])`.
    fn of_values(&self, corner: &Tensor) -> Result<Tensor> {
        let closeness = self.equal.where_cond(corner, &self.closeness)?;
        self.change.square().mul(closeness)?.sum(1)
    }

    /// Returns the change of the eigenvectors, whose matrix is the identity: `C + F (E C - C diag(E)) - diag(C^T C) / 2`.
    /// F has one over the distances, and C is `F E`, both element by element. The last term keeps the vectors at length
    /// 1.
    fn of_vectors(&self) -> Result<Tensor> {
        let (row, column) = self.change.rows_and_columns()?;
        let first = self.change.mul(&self.closeness)?.materialize()?;
        let own = first.mul(self.change.rotate_diagonal(0)?.unsqueeze(1)?)?;
        let second = self.change.matmul(&first)?.sub(own)?.mul(&self.closeness)?;
        let shorter = first.square().sum(keepdim(1))?.mul(-0.5)?;
        first.add(second)?.add(row.eq(&column)?.where_cond(shorter, 0.0)?)
    }
}

/// The schedule of pairs. In each round, position i of the first half is paired with position i of the second half. Then
/// all rows except the first move on by one position, as in a round-robin tournament. After all rounds, each pair has met
/// once and all rows are back in their positions.
struct Ring {
    half: usize,
    /// For each position, the position that its row comes from, and the partner there.
    own: Tensor,
    partner: Tensor,
    /// For each position, the pair that its row was in, and the sign for its side of the pair.
    pair: Tensor,
    side: Tensor,
}

impl Ring {
    fn new(like: &Tensor, half: usize) -> Result<Ring> {
        let count = 2 * half;
        let (mut own, mut partner) = (vec![0i32; count], vec![0i32; count]);
        let (mut pair, mut side) = (vec![0i32; count], vec![0f32; count]);
        for at in 0..count {
            let from = match at {
                0 => 0,
                _ if half == 1 => at,
                _ if at == count - 1 => half - 1,
                1 => half,
                _ if at < half => at - 1,
                _ => at + 1,
            };
            own[at] = from as i32;
            partner[at] = ((from + half) % count) as i32;
            pair[at] = (from % half) as i32;
            side[at] = if from < half { -1.0 } else { 1.0 };
        }
        let device = &like.device;
        let size = &[count];
        Ok(Ring {
            half,
            own: device.tensor(&own, size)?,
            partner: device.tensor(&partner, size)?,
            pair: device.tensor(&pair, size)?,
            side: device.tensor(&side, size)?,
        })
    }

    /// Rotates each pair so that its off-diagonal element becomes 0 (Golub and Van Loan, 8.5.2), and moves the rows on.
    fn round(&self, matrix: &Tensor, vectors: &Tensor) -> Result<(Tensor, Tensor)> {
        let half = self.half as isize;
        let diagonal = matrix.rotate_diagonal(0)?;
        let across = matrix.rotate_diagonal(self.half)?;
        let flat = across.eq(0.0)?;
        let distance = diagonal
            .slice_static(1, half..2 * half, 1)?
            .sub(&diagonal.slice_static(1, ..half, 1)?)?;
        let ratio = distance.div(&flat.where_cond(1.0, &across.mul(2.0)?)?)?;
        let size = ratio.abs().add(&ratio.square().add(1.0)?.sqrt())?.reciprocal();
        let tangent = flat.where_cond(0.0, &ratio.lt(0.0)?.where_cond(&size.neg(), &size)?)?;
        let cosine = tangent.square().add(1.0)?.rsqrt();
        let sine = tangent.mul(&cosine)?.materialize()?;
        let cosine = cosine.materialize()?.index_select_raw(1, &self.pair)?;
        let sine = sine.index_select_raw(1, &self.pair)?.mul(&self.side)?;
        let turn = |x: &Tensor, axis: usize| {
            let along = 3 - axis as isize;
            let own = x.index_select_raw(axis, &self.own)?.mul(&cosine.unsqueeze(along)?)?;
            own.add(&x.index_select_raw(axis, &self.partner)?.mul(&sine.unsqueeze(along)?)?)
        };
        Ok((turn(&turn(matrix, 1)?, 2)?.materialize()?, turn(vectors, 2)?.materialize()?))
    }
}
