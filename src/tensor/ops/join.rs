//! Joining, splitting and repeating tensors: `concat`, `stack`, `split`, `tile`, `roll` and related operations.

use crate::error::{brief, Error, Result};
use crate::op::{Op, Span};
use crate::tensor::{check_output_count, with_op_name, Axes, Integers, Sections, Tensor};
use std::borrow::Borrow;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Joins tensors along an existing axis.
    ///
    /// # Errors
    /// `Shape` if the list is empty, or if extents along another axis differ; `DType` if the types differ; `InvalidArgument` if
    /// the tensors are on two devices.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Tensor};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[2, 3])?;
    /// let y = device.ones(&[1, 3])?;
    /// assert_eq!(Tensor::concat(&[x, y], 0)?.shape(), [3, 3]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "cat", alias = "concatenate")]
    #[cfg_attr(feature = "js", js(default(axis = 0)))]
    pub fn concat<T: Borrow<Tensor>>(tensors: &[T], axis: isize) -> Result<Tensor> {
        let Some((first, others)) = tensors.split_first() else {
            return Err(Error::shape("concat: there must be a tensor, got none"));
        };
        let first: &Tensor = first.borrow();
        let axis = first.shape.axis("concat", axis)?;
        let others: Vec<&Tensor> = others.iter().map(Borrow::borrow).collect();
        first.apply(Op::Concat { axis }, &others)
    }

    /// Joins tensors of one shape along a new axis.
    ///
    /// # Errors
    /// `Shape` if the list is empty or the shapes differ; `DType` if the types differ; `InvalidArgument` if the tensors are on
    /// two devices.
    #[cfg_attr(feature = "js", js(default(axis = 0)))]
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], axis: isize) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::shape("stack: there must be a tensor, got none"));
        };
        let first: &Tensor = first.borrow();
        let mut spread = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let tensor: &Tensor = tensor.borrow();
            if tensor.shape != first.shape {
                let must = "the shapes must be equal";
                return Err(Error::shapes("stack", must, &first.shape, &tensor.shape));
            }
            spread.push(with_op_name("stack", || tensor.unsqueeze(axis))?);
        }
        with_op_name("stack", || Tensor::concat(&spread, axis))
    }

    /// Splits along an axis. One number is the length of each piece, and the last piece may be shorter. A list has the
    /// lengths of all pieces.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, the length is 0, or the lengths do not add up to the extent; `Limit` for more
    /// than 65,536 pieces.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.zeros(&[5, 2])?;
    /// assert_eq!(x.split(2, 0)?.len(), 3);
    /// assert_eq!(x.split(&[4, 1], 0)?[1].shape(), [1, 2]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(axis = 0)))]
    pub fn split(&self, sections: impl Into<Sections>, axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("split", axis)?;
        let lengths = match sections.into() {
            Sections::Lengths(lengths) => lengths,
            Sections::Size(0) => {
                let message = format!(
                    "split: pieces must have at least 1 element, got 0 for shape {}",
                    self.shape
                );
                return Err(Error::shape(message));
            }
            Sections::Size(size) => {
                check_output_count("split", self.shape[at] / size)?;
                even_lengths(self.shape[at], size)
            }
        };
        check_output_count("split", lengths.len())?;
        let total = lengths.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
        if total != Some(self.shape[at]) {
            let lengths = brief(lengths);
            let message = format!(
                "split: the lengths must add up to axis {axis} of shape {}, got {lengths}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        // The greatest common divisor of all starts. The starts become data, in this unit.
        let (mut start, mut unit) = (0, 0);
        for &length in &lengths {
            unit = gcd(start, unit);
            start += length;
        }
        start = 0;
        let mut piece = |&len: &usize| {
            let piece = self.span_dynamic(at, Span::at(start, len, 1), unit.max(1));
            start += len;
            piece
        };
        lengths.iter().map(&mut piece).collect()
    }

    /// Splits an axis into at most `count` pieces of equal length. The last piece may be shorter. As in PyTorch, there
    /// may be fewer pieces than `count`.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or `count` is 0; `Limit` for more than 65,536 pieces.
    pub fn chunk(&self, count: usize, axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("chunk", axis)?;
        if count == 0 {
            let message = format!(
                "chunk: the number of pieces must be at least 1, got 0 for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        let size = self.shape[at].div_ceil(count).max(1);
        with_op_name("chunk", || self.split(size, axis))
    }

    /// Shifts elements along axes. A positive shift moves them towards the end, and elements that leave at one end enter
    /// at the other. One shift applies to all axes. Without axes, all elements are shifted in row-major order.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist, or if the number of shifts is neither 1 nor that of the axes; `Limit` for more
    /// than 2^30 elements.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.roll(1, 0)?.read::<f32>().await?, [3.0, 4.0, 1.0, 2.0]);
    /// assert_eq!(x.roll(1, ())?.read::<f32>().await?, [4.0, 1.0, 2.0, 3.0]);
    /// assert_eq!(x.roll([1, 1], [0, 1])?.read::<f32>().await?, [4.0, 3.0, 2.0, 1.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn roll(&self, shifts: impl Into<Integers>, axes: impl Into<Axes>) -> Result<Tensor> {
        let (shifts, axes) = (shifts.into().list, axes.into());
        if axes.list().is_empty() && shifts.len() == 1 {
            return self.ravel().roll_axis(shifts[0], 0)?.reshape(&self.shape);
        }
        if shifts.len() != 1 && shifts.len() != axes.list().len() {
            let (shifts, axes) = (shifts.len(), axes.list().len());
            return Err(Error::shape(format!(
                "roll: there must be one shift for each axis, got {shifts} shifts for {axes} axes"
            )));
        }
        let mut rolled = self.reshape(&self.shape)?;
        for (i, &axis) in axes.list().iter().enumerate() {
            let at = self.shape.axis("roll", axis)?;
            rolled = rolled.roll_axis(shifts[i % shifts.len()], at)?;
        }
        Ok(rolled)
    }

    fn roll_axis(&self, shift: isize, axis: usize) -> Result<Tensor> {
        let extent = self.shape[axis];
        if self.numel() == 0 || extent == 1 {
            return Ok(self.clone());
        }
        let mut twice = vec![1; self.rank()];
        twice[axis] = 2;
        let start = extent - shift.rem_euclid(extent as isize) as usize;
        with_op_name("roll", || {
            self.tile(&twice)?.span_dynamic(axis, Span::at(start, extent, 1), 1)
        })
    }

    /// Repeats the tensor `repeats[axis]` times along each axis.
    ///
    /// # Errors
    /// `Shape` unless there is one number for each axis; `Limit`.
    pub fn tile(&self, repeats: &[usize]) -> Result<Tensor> {
        if repeats.len() != self.rank() {
            let message = format!(
                "tile: there must be one count for each axis, got {} for shape {}",
                brief(repeats),
                self.shape
            );
            return Err(Error::shape(message));
        }
        with_op_name("tile", || {
            let mut tiled = self.clone();
            for (axis, &repeat) in repeats.iter().enumerate().filter(|(_, r)| **r != 1) {
                // Each axis is expanded as [before, repeat, rest], so that any rank is possible.
                let mut dims = tiled.shape.to_vec();
                let before: usize = dims[..axis].iter().product();
                let rest: usize = dims[axis..].iter().product();
                let spread = tiled.reshape(&[before, 1, rest])?.expand(&[before, repeat, rest])?;
                dims[axis] = dims[axis].saturating_mul(repeat);
                tiled = spread.reshape(&dims)?;
            }
            Ok(tiled)
        })
    }

    /// Returns one tensor for each position along an axis, without that axis.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit` for more than 65,536 tensors.
    #[cfg_attr(feature = "js", js(default(axis = 0)))]
    pub fn unbind(&self, axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("unbind", axis)?;
        check_output_count("unbind", self.shape[at])?;
        let select = |n| self.span_dynamic(at, Span::at(n, 1, 1), 1)?.squeeze(at as isize);
        (0..self.shape[at]).map(select).collect()
    }

    /// Repeats each element along an axis `repeats` times in a row: `[a, b]` becomes `[a, a, b, b]`.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit`.
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn repeat_interleave(&self, repeats: usize, axis: isize) -> Result<Tensor> {
        let name = "repeat_interleave";
        let at = self.shape.axis(name, axis)?;
        with_op_name(name, || {
            let mut dims = self.shape.to_vec();
            let before: usize = dims[..=at].iter().product();
            let after: usize = dims[at + 1..].iter().product();
            dims[at] = dims[at].saturating_mul(repeats);
            let spread = self.reshape(&[before, 1, after])?.expand(&[before, repeats, after])?;
            spread.reshape(&dims)
        })
    }
}

/// Returns the greatest common divisor.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// Returns the lengths of pieces of `size` elements, of which the last may be shorter. An empty axis has one empty piece.
fn even_lengths(extent: usize, size: usize) -> Vec<usize> {
    let mut lengths = vec![size; extent / size];
    if !extent.is_multiple_of(size) || extent == 0 {
        lengths.push(extent % size);
    }
    lengths
}
