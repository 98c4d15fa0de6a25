//! Moving elements without copying them: shapes, orders of axes, diagonals. All are views, which cost nothing until a kernel
//! reads through them.

use super::slices::{resolve, written};
use super::{within, Axes, Extents, Tensor};
use crate::error::{Error, Result};
use crate::op::{Offset, Op, PadAmount, Span};
use crate::shape::Shape;
use std::ops::RangeBounds;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The same elements, row-major in another shape. One extent may be -1: it follows from the number of elements.
    ///
    /// # Errors
    /// `Shape` if the number of elements differs, or if there is no one extent that -1 can stand for.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2, 3, 4])?;
    /// assert_eq!(x.reshape(&[6, -1])?.shape(), [6, 4]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "view")]
    pub fn reshape(&self, shape: impl Into<Extents>) -> Result<Tensor> {
        let shape = shape.into().sharing("reshape", &self.shape)?;
        self.apply(Op::Reshape(shape), &[])
    }

    /// All elements along one axis, row-major.
    pub fn ravel(&self) -> Tensor {
        self.reshape(&[self.numel()]).unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// These neighbouring axes as one: `..` is all of them, `1..` all but the first. Negative axes count from the end. A
    /// single number becomes a vector of one element. [`Tensor::ravel`] is the same as `..` and cannot fail.
    ///
    /// # Errors
    /// `Shape` if the range has no axis, or one that does not exist.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2, 3, 4])?;
    /// assert_eq!(x.flatten(1..)?.shape(), [2, 12]);
    /// assert_eq!(x.flatten(..2)?.shape(), [6, 4]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn flatten(&self, axes: impl RangeBounds<isize>) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.reshape(&[1]);
        }
        let Some((start, end)) = resolve(&axes, self.rank()).filter(|(start, end)| start < end)
        else {
            let axes = written(&axes);
            return Err(Error::shape(format!(
                "flatten: the axes must be a range of the shape, got {axes} of shape {}",
                self.shape
            )));
        };
        let (before, rest) = self.shape.split_at(start);
        let (joined, after) = rest.split_at(end - start);
        within("flatten", || self.reshape([before, &[joined.iter().product()], after].concat()))
    }

    /// Axis i of the result is axis `order[i]` of this.
    ///
    /// # Errors
    /// `Shape` if `order` does not name each axis once.
    pub fn permute(&self, order: &[isize]) -> Result<Tensor> {
        let mut axes = Vec::with_capacity(order.len());
        for &axis in order {
            axes.push(self.shape.axis("permute", axis)?);
        }
        self.apply(Op::Permute(axes), &[])
    }

    /// With two axes exchanged.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist.
    #[cfg_attr(feature = "js", js(default(a = -2, b = -1)))]
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        if self.as_line(a)?.is_some() && self.as_line(b)?.is_some() {
            return Ok(self.clone());
        }
        let (a, b) = (self.shape.axis("transpose", a)?, self.shape.axis("transpose", b)?);
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.apply(Op::Permute(order), &[])
    }

    /// Broadcast to a shape: axes of extent 1 are repeated, axes are added in front. -1 is the extent that is there.
    ///
    /// # Errors
    /// `Shape` if it does not broadcast to that.
    #[doc(alias = "broadcast_to")]
    pub fn expand(&self, shape: impl Into<Extents>) -> Result<Tensor> {
        let shape = shape.into().over("expand", &self.shape)?;
        self.apply(Op::Expand(shape), &[])
    }

    /// With an axis of extent 1 at `axis`; -1 puts it last.
    ///
    /// # Errors
    /// `Shape` if the rank would exceed 8 or the axis does not exist.
    pub fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        let rank = dims.len() as isize + 1;
        if axis < -rank || axis >= rank {
            let (most, last, shape) = (rank, rank - 1, &self.shape);
            let message = format!(
                "unsqueeze: axis must be in [-{most}, {last}], got {axis} for shape {shape}"
            );
            return Err(Error::shape(message));
        }
        dims.insert(axis.rem_euclid(rank) as usize, 1);
        within("unsqueeze", || self.reshape(&dims))
    }

    /// Without these axes, which have extent 1; without all axes of extent 1 if none is named.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or has another extent.
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let axes = axes.into();
        let mut dims = self.shape.to_vec();
        if axes.list().is_empty() {
            dims.retain(|&extent| extent != 1);
            return self.reshape(dims);
        }
        for &at in axes.within("squeeze", &self.shape)?.iter().rev() {
            if dims.remove(at) != 1 {
                let message =
                    format!("squeeze: axis {at} must have extent 1, got shape {}", self.shape);
                return Err(Error::shape(message));
            }
        }
        self.reshape(dims)
    }

    /// The elements along each of `axes` in reverse; nothing is reversed if none is named.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice.
    pub fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        let axes = match axes {
            [] => Vec::new(),
            axes => Axes::from(axes).within("flip", &self.shape)?,
        };
        let span = |(axis, &extent): (usize, &usize)| match axes.contains(&axis) && extent > 0 {
            true => Span::at(extent - 1, extent, -1),
            false => Span::whole(extent),
        };
        let spans = self.shape.iter().enumerate().map(span).collect();
        self.apply(Op::Slice(spans), &[])
    }

    /// The main diagonal of a matrix, or the one that lies `diagonal` places to the right of it (to the left where it is
    /// negative); of a vector, the matrix of zeros that has it there.
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
                within("diag", || self.ravel().part(0, span, 1))
            }
            [count] => within("diag", || {
                let rows = count.saturating_add(right.max(down));
                let whole = Shape::new("diag", &[rows, rows])?;
                if count == 0 {
                    return self.device.zeros((&whole[..], self.dtype));
                }
                // From one element to the next it is a row and a column.
                let spread = self.unsqueeze(1)?.pad_out(&[(0, 0), (0, rows)], 0.0)?.ravel();
                let length = (count - 1) * (rows + 1) + 1;
                let spread = spread.spans(0, Span::at(0, length, 1))?;
                let before = Offset::Static(right + down * rows);
                let margin = PadAmount { before, more: rows * rows - length };
                spread.margined(vec![margin], 0.0)?.reshape(&*whole)
            }),
            _ => {
                let message =
                    format!("diag: the input must have rank 1 or 2, got shape {}", self.shape);
                Err(Error::shape(message))
            }
        }
    }

    /// Turned by `k` quarter turns in the plane of two axes, from the first towards the second.
    ///
    /// # Errors
    /// `Shape` if the axes do not exist or are one.
    #[cfg_attr(feature = "js", js(default(k = 1, axes = (0, 1))))]
    pub fn rot90(&self, k: i32, axes: (isize, isize)) -> Result<Tensor> {
        let (a, b) = axes;
        self.shape.axes("rot90", &[a, b])?;
        within("rot90", || match k.rem_euclid(4) {
            0 => Ok(self.clone()),
            1 => self.flip(&[b])?.transpose(a, b),
            2 => self.flip(&[a, b]),
            _ => self.transpose(a, b)?.flip(&[b]),
        })
    }
}
