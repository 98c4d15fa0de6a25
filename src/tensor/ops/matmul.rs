//! Products of matrices and vectors, and distances between vectors.

use crate::error::{Error, Result};
use crate::op::{Op, Routine};
use crate::tensor::{keepdim, with_op_name, Tensor};

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the matrix product over the last two axes; leading axes broadcast. Sums are computed in `f32`.
    ///
    /// A vector on the left is a row, and a vector on the right is a column. The axis of such a vector is dropped from
    /// the result.
    ///
    /// # Errors
    /// `Shape` if the inner extents differ, the leading axes do not broadcast or an operand has rank 0; `DType` unless
    /// both have one float type.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() == 0 || other.rank() == 0 {
            let must = "both must have rank 1 or more";
            return Err(Error::shapes("matmul", must, &self.shape, &other.shape));
        }
        let (row, column) = (self.rank() == 1, other.rank() == 1);
        let inner = [self.rank() - 1, other.rank().max(2) - 2];
        if (row || column) && self.shape[inner[0]] != other.shape[inner[1]] {
            // The message shows the shapes of the caller's tensors.
            let must = "the inner extents must be equal";
            return Err(Error::shapes("matmul", must, &self.shape, &other.shape));
        }
        let a = if row { self.unsqueeze(0)? } else { self.clone() };
        let b = if column { other.unsqueeze(1)? } else { other.clone() };
        let mut product = a.apply(Op::Routine(Routine::Matmul), &[&b])?;
        if column {
            product = product.squeeze(-1)?;
        }
        if row {
            product = product.squeeze(if column { -1 } else { -2 })?;
        }
        Ok(product)
    }

    /// Returns the products of all elements of one vector with all elements of another: `[m], [n] -> [m, n]`.
    ///
    /// # Errors
    /// `Shape` unless both have rank 1; `DType` unless both have one numeric type.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || other.rank() != 1 {
            return Err(Error::shapes("outer", "both must have rank 1", &self.shape, &other.shape));
        }
        with_op_name("outer", || self.unsqueeze(1)?.mul(other))
    }

    /// Returns the sum of products of two vectors, a number.
    ///
    /// # Errors
    /// `Shape` unless both have rank 1 and the same length; `DType` unless both have one numeric type.
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || self.shape != other.shape {
            let must = "both must have rank 1 and one length";
            return Err(Error::shapes("dot", must, &self.shape, &other.shape));
        }
        with_op_name("dot", || {
            if !self.dtype.is_float() || other.dtype != self.dtype {
                return self.mul(other)?.sum(());
            }
            self.compute_in_f32(|x| x.mul(other.cast(x.dtype)?)?.sum(()))
        })
    }

    /// Returns the cross products of vectors of three elements along an axis. The shapes broadcast.
    ///
    /// # Errors
    /// `Shape` if the shapes do not broadcast, or the axis does not exist or does not have three elements; `DType` if the
    /// types differ or are `bool`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let (x, y) = (device.tensor(&[1.0f32, 0.0, 0.0], &[3])?, device.tensor(&[0.0f32, 1.0, 0.0], &[3])?);
    /// assert_eq!(x.cross(&y, -1)?.read::<f32>().await?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn cross(&self, other: &Tensor, axis: isize) -> Result<Tensor> {
        let name = "cross";
        let shape = crate::shape::Shape::broadcast(name, &self.shape, &other.shape)?;
        let at = shape.axis(name, axis)?;
        if shape[at] != 3 {
            let must = format!("axis {axis} must have 3 elements");
            return Err(Error::shapes(name, &must, &self.shape, &other.shape));
        }
        with_op_name(name, || {
            let (x, y) = (self.expand(&shape)?, other.expand(&shape)?);
            let axis = at as isize;
            let turned = |x: &Tensor, by: isize| {
                Tensor::concat(
                    &[x.slice_static(axis, by.., 1)?, x.slice_static(axis, ..by, 1)?],
                    axis,
                )
            };
            turned(&x, 1)?.mul(turned(&y, 2)?)?.sub(turned(&x, 2)?.mul(turned(&y, 1)?)?)
        })
    }

    /// Returns the Kronecker product: blocks in which each element of this tensor is multiplied with all of another.
    ///
    /// The extents are those of both tensors, multiplied axis by axis. If the ranks differ, axes are added in front.
    ///
    /// # Errors
    /// `Shape` beyond rank 4; `DType` if the types differ or are `bool`; `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let (x, y) = (device.tensor(&[1.0f32, 10.0], &[2])?, device.tensor(&[1.0f32, 2.0], &[2])?);
    /// assert_eq!(x.kron(&y)?.read::<f32>().await?, [1.0, 2.0, 10.0, 20.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let rank = self.rank().max(other.rank());
        if 2 * rank > crate::shape::MAX_RANK {
            let must = "both must have rank 4 or less";
            return Err(Error::shapes("kron", must, &self.shape, &other.shape));
        }
        let extent = |x: &Tensor, axis: usize| {
            (axis + x.rank()).checked_sub(rank).map_or(1, |axis| x.shape[axis])
        };
        let (mut own, mut its, mut dims) = (Vec::new(), Vec::new(), Vec::new());
        for axis in 0..rank {
            let (a, b) = (extent(self, axis), extent(other, axis));
            own.extend([a, 1]);
            its.extend([1, b]);
            dims.push(a.saturating_mul(b));
        }
        with_op_name("kron", || self.reshape(&own)?.mul(other.reshape(&its)?)?.reshape(&dims))
    }

    /// Returns the distances of all pairs of vectors of two sets, by the `p`-norm:
    /// `[.., m, d], [.., n, d] -> [.., m, n]`.
    ///
    /// Leading axes broadcast. It is one kernel, which does not store the differences. The gradient of equal vectors is
    /// 0. The distance of vectors without elements is 0, or infinity if `p` is negative.
    ///
    /// # Errors
    /// `Shape` if the shapes do not fit; `DType` unless both have one float type; `InvalidArgument` if `p` is NaN.
    #[cfg_attr(feature = "js", js(default(p = 2.0)))]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        let name = "cdist";
        self.check_float(name)?;
        if self.rank() < 2 || other.rank() < 2 || self.shape.last() != other.shape.last() {
            let must = "both must be sets of vectors of one length, [.., count, length]";
            return Err(Error::shapes(name, must, &self.shape, &other.shape));
        }
        self.check_same_dtype(name, &[other])?;
        with_op_name(name, || {
            self.compute_in_f32(|x| {
                let other = other.cast(x.dtype)?.unsqueeze(-3)?;
                x.unsqueeze(-2)?.sub(other)?.norm(p, -1)
            })
        })
    }

    /// Returns the cosine of the angle between vectors along `axis`:
    /// `sum(x * y) / (max(|x|, eps) * max(|y|, eps))`. The shapes broadcast. PyTorch's default `eps` is 1e-8.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or the shapes do not broadcast; `DType` unless both have one float type.
    #[cfg_attr(feature = "js", js(options(axis = -1, eps = 1e-8)))]
    pub fn cosine_similarity(&self, other: &Tensor, axis: isize, eps: f64) -> Result<Tensor> {
        let name = "cosine_similarity";
        self.check_float(name)?;
        self.check_same_dtype(name, &[other])?;
        with_op_name(name, || {
            let shape = crate::shape::Shape::broadcast("", &self.shape, &other.shape)?;
            let unit = |x: &Tensor| {
                let x = x.cast(x.dtype.compute())?.expand(&shape)?;
                x.div(x.norm_l2(keepdim(axis))?.maximum(eps)?)
            };
            unit(self)?.mul(unit(other)?)?.sum(axis)?.cast(self.dtype)
        })
    }
}
