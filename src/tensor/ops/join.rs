//! Joining, splitting and repeating tensors: `concat`, `stack`, `split`, `tile`, `roll` and related operations.

use crate::error::{brief, Error, Result};
use crate::op::{Op, Span};
use crate::tensor::{check_output_count, with_op_name, Axes, Integers, Sections, Tensor};
use std::borrow::Borrow;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The tensors joined along an axis that they have.
    ///
    /// # Errors
    /// `Shape` if there are none or they differ along another axis, `DType` if their types differ, `Data` if they live on
    /// two devices.
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

    /// The tensors, all of one shape, joined along a new axis.
    ///
    /// # Errors
    /// `Shape` if there are none or their shapes differ, `DType` if their types differ, `Data` if they live on two devices.
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

    /// Cut into pieces along an axis: a number is the length of each piece, of which the last may be shorter; a list is the
    /// lengths of all.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, the length is 0, or the lengths do not add up to the axis; `Limit` beyond 65,536
    /// pieces.
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
        // What all begin at multiples of.
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

    /// Cut into `count` pieces along an axis: of equal length but for the last, which is shorter where they do not come
    /// out even. They may be fewer, as PyTorch's are.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or `count` is 0; `Limit` beyond 65,536 pieces.
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

    /// Moved along axes, by the shift of each, to the end where it is positive; what leaves it there comes in at the other
    /// side. One shift is for all axes. If no axis is named, all elements move, in row-major order.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist, or there is not one shift for each; `Limit` beyond 2^30 elements.
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

    /// Repeated `repeats[axis]` times along each axis.
    ///
    /// # Errors
    /// `Shape` if there is not one number per axis; `Limit`.
    pub fn tile(&self, repeats: &[usize]) -> Result<Tensor> {
        if repeats.len() != self.rank() {
            let message = format!(
                "tile: there must be one count for each axis, or more, got {} for shape {}",
                brief(repeats),
                self.shape
            );
            return Err(Error::shape(message));
        }
        with_op_name("tile", || {
            let mut tiled = self.clone();
            for (axis, &repeat) in repeats.iter().enumerate().filter(|(_, r)| **r != 1) {
                // Axis by axis as [before, repeat, the rest], which any rank has room for.
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

    /// The elements at each position along an axis, without that axis: as many tensors as it has elements.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit` beyond 65,536 tensors.
    #[cfg_attr(feature = "js", js(default(axis = 0)))]
    pub fn unbind(&self, axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("unbind", axis)?;
        check_output_count("unbind", self.shape[at])?;
        let select = |n| self.span_dynamic(at, Span::at(n, 1, 1), 1)?.squeeze(at as isize);
        (0..self.shape[at]).map(select).collect()
    }

    /// Each element along an axis `repeats` times, one beside the other: `[a, b]` becomes `[a, a, b, b]`.
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

/// The greatest common divisor.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// Splits an axis into pieces of `size` elements, of which the last one may be shorter. An empty axis gives one empty
/// piece.
fn even_lengths(extent: usize, size: usize) -> Vec<usize> {
    let mut lengths = vec![size; extent / size];
    if !extent.is_multiple_of(size) || extent == 0 {
        lengths.push(extent % size);
    }
    lengths
}
