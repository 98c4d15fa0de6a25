//! Shapes and the order of axes: `reshape`, `permute`, `expand`, `squeeze`, `flip` and related operations.
//!
//! Most of them are views: no element is copied until a kernel reads through the view.

use super::slice::{display_range, resolve_range};
use crate::error::{Error, Result};
use crate::op::{Op, Span};
use crate::tensor::{with_op_name, Axes, Extents, Tensor};
use std::ops::RangeBounds;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the same elements, row-major, in another shape. One extent may be -1, and is computed from the number of
    /// elements.
    ///
    /// # Errors
    /// `Shape` if the number of elements differs, or if -1 has no unique value.
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
        let shape = shape.into().resolve_for_reshape("reshape", &self.shape)?;
        self.apply(Op::Reshape(shape), &[])
    }

    /// Returns all elements along one axis, row-major.
    pub fn ravel(&self) -> Tensor {
        self.reshape(&[self.numel()]).unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// Merges neighboring axes into one. `..` merges all axes, and `1..` all but the first. Negative axes count from the
    /// end. A single number becomes a vector of one element. [`Tensor::ravel`] is the same as `..` and cannot fail.
    ///
    /// # Errors
    /// `Shape` if the range is empty, or has an axis that does not exist.
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
        let Some((start, end)) =
            resolve_range(&axes, self.rank()).filter(|(start, end)| start < end)
        else {
            let axes = display_range(&axes);
            return Err(Error::shape(format!(
                "flatten: the axes must be a range of the shape, got {axes} of shape {}",
                self.shape
            )));
        };
        let (before, rest) = self.shape.split_at(start);
        let (joined, after) = rest.split_at(end - start);
        with_op_name("flatten", || {
            self.reshape([before, &[joined.iter().product()], after].concat())
        })
    }

    /// Permutes the axes. Axis i of the result is axis `order[i]` of this tensor.
    ///
    /// # Errors
    /// `Shape` if `order` does not list each axis once.
    pub fn permute(&self, order: &[isize]) -> Result<Tensor> {
        let mut axes = Vec::with_capacity(order.len());
        for &axis in order {
            axes.push(self.shape.axis("permute", axis)?);
        }
        self.apply(Op::Permute(axes), &[])
    }

    /// Swaps two axes.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist.
    #[cfg_attr(feature = "js", js(default(a = -2, b = -1)))]
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        if self.scalar_as_vector(a)?.is_some() && self.scalar_as_vector(b)?.is_some() {
            return Ok(self.clone());
        }
        let (a, b) = (self.shape.axis("transpose", a)?, self.shape.axis("transpose", b)?);
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.apply(Op::Permute(order), &[])
    }

    /// Broadcasts to a shape. Axes of extent 1 are repeated, and new axes are added in front. -1 keeps the extent of an
    /// axis.
    ///
    /// # Errors
    /// `Shape` if the tensor does not broadcast to that shape.
    #[doc(alias = "broadcast_to")]
    pub fn expand(&self, shape: impl Into<Extents>) -> Result<Tensor> {
        let shape = shape.into().resolve_for_expand("expand", &self.shape)?;
        self.apply(Op::Expand(shape), &[])
    }

    /// Inserts an axis of extent 1 at `axis`; -1 appends it.
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
        with_op_name("unsqueeze", || self.reshape(&dims))
    }

    /// Removes these axes, which must have extent 1. Without axes, removes all axes of extent 1.
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
        for &at in axes.resolve("squeeze", &self.shape)?.iter().rev() {
            if dims.remove(at) != 1 {
                let message =
                    format!("squeeze: axis {at} must have extent 1, got shape {}", self.shape);
                return Err(Error::shape(message));
            }
        }
        self.reshape(dims)
    }

    /// Reverses the elements along each of `axes`. Without axes, nothing is reversed.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is listed twice.
    pub fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        let axes = match axes {
            [] => Vec::new(),
            axes => Axes::from(axes).resolve("flip", &self.shape)?,
        };
        let span = |(axis, &extent): (usize, &usize)| match axes.contains(&axis) && extent > 0 {
            true => Span::at(extent - 1, extent, -1),
            false => Span::whole(extent),
        };
        let spans = self.shape.iter().enumerate().map(span).collect();
        self.apply(Op::Slice(spans), &[])
    }

    /// Rotates by `k` quarter turns in the plane of two axes, from the first towards the second.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist, or both are the same.
    #[cfg_attr(feature = "js", js(default(k = 1, axes = (0, 1))))]
    pub fn rot90(&self, k: i32, axes: (isize, isize)) -> Result<Tensor> {
        let (a, b) = axes;
        self.shape.axes("rot90", &[a, b])?;
        with_op_name("rot90", || match k.rem_euclid(4) {
            0 => Ok(self.clone()),
            1 => self.flip(&[b])?.transpose(a, b),
            2 => self.flip(&[a, b]),
            _ => self.transpose(a, b)?.flip(&[b]),
        })
    }

    /// Moves the axes in `source` to the positions in `destination`. The other axes keep their order.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is listed twice, or if the lists differ in length.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2, 3, 4])?;
    /// assert_eq!(x.movedim(&[0], &[-1])?.shape(), [3, 4, 2]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "moveaxis")]
    pub fn movedim(&self, source: &[isize], destination: &[isize]) -> Result<Tensor> {
        let name = "movedim";
        if source.len() != destination.len() {
            let message = format!(
                "{name}: there must be one destination for each axis, got {} axes and {} destinations",
                source.len(),
                destination.len()
            );
            return Err(Error::shape(message));
        }
        if source.is_empty() {
            return self.reshape(&self.shape);
        }
        self.shape.axes(name, source)?;
        self.shape.axes(name, destination)?;
        let mut order: Vec<Option<usize>> = vec![None; self.rank()];
        for (&from, &to) in source.iter().zip(destination) {
            order[self.shape.axis(name, to)?] = Some(self.shape.axis(name, from)?);
        }
        let rest: Vec<usize> =
            (0..self.rank()).filter(|axis| !order.contains(&Some(*axis))).collect();
        let mut rest = rest.into_iter();
        let order = order.into_iter().filter_map(|axis| axis.or_else(|| rest.next())).collect();
        self.apply(Op::Permute(order), &[])
    }

    /// Moves channels to pixels: `[.., c * factor^2, h, w] -> [.., c, h * factor, w * factor]`.
    ///
    /// Each block of `factor * factor` channels becomes a square of `factor` by `factor` pixels. The first channel of a
    /// block is the upper left pixel, and the next one is to its right. Shi et al. 2016, "Real-time single image and
    /// video super-resolution".
    ///
    /// # Errors
    /// `Shape` below rank 3, for a factor of 0, or if the number of channels is not a multiple of the factor's square.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[4, 1, 1])?;
    /// let picture = x.pixel_shuffle(2)?;
    /// assert_eq!(picture.shape(), [1, 2, 2]);
    /// assert_eq!(picture.read::<f32>().await?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "depth_to_space")]
    pub fn pixel_shuffle(&self, factor: usize) -> Result<Tensor> {
        let name = "pixel_shuffle";
        let (before, [channels, height, width]) = self.split_image_shape(name)?;
        let square = factor.checked_mul(factor).filter(|&square| square > 0);
        let Some(blocks) =
            square.and_then(|square| (channels % square == 0).then(|| channels / square))
        else {
            let shape = &self.shape;
            let message = format!(
                "{name}: the channels must be a multiple of {factor} * {factor}, got shape {shape}"
            );
            return Err(Error::shape(message));
        };
        with_op_name(name, || {
            let count = before.iter().product();
            let parted = self.reshape(&[count, blocks, factor, factor, height, width])?;
            let whole = [before, &[blocks, height * factor, width * factor]].concat();
            parted.permute(&[0, 1, 4, 2, 5, 3])?.reshape(&whole)
        })
    }

    /// Moves pixels to channels, as the inverse of [`Tensor::pixel_shuffle`]:
    /// `[.., c, h * factor, w * factor] -> [.., c * factor^2, h, w]`.
    ///
    /// # Errors
    /// `Shape` below rank 3, for a factor of 0, or if height or width is not a multiple of it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[3, 4, 6])?;
    /// assert_eq!(x.pixel_unshuffle(2)?.shape(), [12, 2, 3]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "space_to_depth")]
    pub fn pixel_unshuffle(&self, factor: usize) -> Result<Tensor> {
        let name = "pixel_unshuffle";
        let (before, [channels, height, width]) = self.split_image_shape(name)?;
        if factor == 0 || height % factor != 0 || width % factor != 0 {
            let message = format!(
                "{name}: height and width must be multiples of {factor}, got shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        with_op_name(name, || {
            let (rows, columns) = (height / factor, width / factor);
            let count = before.iter().product();
            let parted = self.reshape(&[count, channels, rows, factor, columns, factor])?;
            let whole = [before, &[channels * factor * factor, rows, columns]].concat();
            parted.permute(&[0, 1, 3, 5, 2, 4])?.reshape(&whole)
        })
    }

    /// Returns the leading axes of an image, and its channels, height and width.
    fn split_image_shape(&self, name: &str) -> Result<(&[usize], [usize; 3])> {
        match self.shape.split_last_chunk() {
            Some((before, &picture)) => Ok((before, picture)),
            None => {
                let message = format!(
                    "{name}: the input must be [.., channels, height, width], got shape {}",
                    self.shape
                );
                Err(Error::shape(message))
            }
        }
    }
}
