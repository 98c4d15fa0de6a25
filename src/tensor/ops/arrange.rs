//! Axes and elements arranged otherwise: views, repetitions, differences of neighbours.

use crate::error::{Error, Result};
use crate::op::{Op, Span};
use crate::tensor::{need_few, within, Tensor};
use std::borrow::Borrow;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// With the axes in `source` at the places in `destination`; the others stay in their order.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice, or the lists differ in length.
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

    /// The elements at each position along an axis, without that axis: as many tensors as it has elements.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit` beyond 65,536 tensors.
    #[cfg_attr(feature = "js", js(default(axis = 0)))]
    pub fn unbind(&self, axis: isize) -> Result<Vec<Tensor>> {
        let at = self.shape.axis("unbind", axis)?;
        need_few("unbind", self.shape[at])?;
        let one = |n| self.part(at, Span::at(n, 1, 1), 1)?.squeeze(at as isize);
        (0..self.shape[at]).map(one).collect()
    }

    /// `length` elements along an axis from `start` on, which counts from the end where it is negative: as
    /// [`Tensor::slice`] of `start..start + length`.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or they do not lie within it.
    pub fn narrow(&self, axis: isize, start: isize, length: usize) -> Result<Tensor> {
        let name = "narrow";
        let at = self.shape.axis(name, axis)?;
        let extent = self.shape[at] as isize;
        let first = if start < 0 { start.saturating_add(extent) } else { start };
        let fits = first >= 0 && length <= self.shape[at] && first <= extent - length as isize;
        if !fits {
            let shape = &self.shape;
            let message =
                format!("{name}: the range must be inside axis {axis} of shape {shape}, got {length} elements from {start} on");
            return Err(Error::shape(message));
        }
        self.part(at, Span::at(first as usize, length, 1), 1)
    }

    /// Each element along an axis `repeats` times, one beside the other: `[a, b]` becomes `[a, a, b, b]`.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit`.
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn repeat_interleave(&self, repeats: usize, axis: isize) -> Result<Tensor> {
        let name = "repeat_interleave";
        let at = self.shape.axis(name, axis)?;
        within(name, || {
            let mut dims = self.shape.to_vec();
            let before: usize = dims[..=at].iter().product();
            let after: usize = dims[at + 1..].iter().product();
            dims[at] = dims[at].saturating_mul(repeats);
            let spread = self.reshape(&[before, 1, after])?.expand(&[before, repeats, after])?;
            spread.reshape(&dims)
        })
    }

    /// The points of a grid, from the coordinates along each of its axes, which are vectors: one tensor for each axis, all
    /// of the shape of the grid. The first vector varies along the first axis (`indexing="ij"` of NumPy and PyTorch).
    ///
    /// # Errors
    /// `Shape` unless all have rank 1, or for more than 8; `Limit`.
    #[cfg_attr(feature = "js", js(returns = "Tensor<T>[]"))]
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
        let name = "meshgrid";
        let all: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
        if let Some(other) = all.iter().find(|tensor| tensor.rank() != 1) {
            let message = format!("{name}: the input must be a vector, got shape {}", other.shape);
            return Err(Error::shape(message));
        }
        let dims: Vec<usize> = all.iter().map(|tensor| tensor.numel()).collect();
        let spread = |(axis, tensor): (usize, &&Tensor)| {
            let mut own = vec![1; dims.len()];
            own[axis] = dims[axis];
            within(name, || tensor.reshape(&own)?.expand(&dims))
        };
        all.iter().enumerate().map(spread).collect()
    }

    /// Channels become pixels: each block of `factor * factor` channels is spread over squares of so many pixels,
    /// `[.., c * factor^2, h, w] -> [.., c, h * factor, w * factor]`. The first of a block is the upper left pixel of each
    /// square, the next one is right of it. Shi et al. 2016, "Real-time single image and video super-resolution".
    ///
    /// # Errors
    /// `Shape` below rank 3, for a factor of 0, or if the channels are no multiple of its square.
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
        let (before, [channels, height, width]) = self.picture(name)?;
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
        within(name, || {
            let count = before.iter().product();
            let parted = self.reshape(&[count, blocks, factor, factor, height, width])?;
            let whole = [before, &[blocks, height * factor, width * factor]].concat();
            parted.permute(&[0, 1, 4, 2, 5, 3])?.reshape(&whole)
        })
    }

    /// Pixels become channels, the inverse of [`Tensor::pixel_shuffle`]:
    /// `[.., c, h * factor, w * factor] -> [.., c * factor^2, h, w]`.
    ///
    /// # Errors
    /// `Shape` below rank 3, for a factor of 0, or if height or width are no multiple of it.
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
        let (before, [channels, height, width]) = self.picture(name)?;
        if factor == 0 || height % factor != 0 || width % factor != 0 {
            let message = format!(
                "{name}: height and width must be multiples of {factor}, got shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        within(name, || {
            let (rows, columns) = (height / factor, width / factor);
            let count = before.iter().product();
            let parted = self.reshape(&[count, channels, rows, factor, columns, factor])?;
            let whole = [before, &[channels * factor * factor, rows, columns]].concat();
            parted.permute(&[0, 1, 3, 5, 2, 4])?.reshape(&whole)
        })
    }

    /// The axes before a picture's, and its channels, height and width.
    fn picture(&self, name: &str) -> Result<(&[usize], [usize; 3])> {
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

    /// The differences of neighbours along an axis, each element less the one before; `n` times.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has fewer than `n` elements; `DType` for `bool`; `Limit` for `n` beyond 65,536.
    #[cfg_attr(feature = "js", js(default(n = 1, axis = -1)))]
    pub fn diff(&self, n: usize, axis: isize) -> Result<Tensor> {
        let name = "diff";
        let at = self.shape.axis(name, axis)?;
        if n > self.shape[at] {
            let message = format!(
                "{name}: n must be at most the extent of axis {axis}, got {n} for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        need_few(name, n)?;
        let mut done = self.reshape(&self.shape)?;
        for _ in 0..n {
            done = within(name, || done.cut(axis, 1.., 1)?.sub(done.cut(axis, ..-1, 1)?))?;
        }
        Ok(done)
    }

    /// The integral along an axis by the trapezoidal rule, of values that are `dx` apart.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty; `DType` unless it is of floats.
    #[doc(alias = "trapz")]
    #[cfg_attr(feature = "js", js(default(dx = 1.0, axis = -1)))]
    pub fn trapezoid(&self, dx: f64, axis: isize) -> Result<Tensor> {
        let name = "trapezoid";
        self.need_float(name)?;
        let at = self.shape.axis(name, axis)?;
        if self.shape[at] == 0 {
            let message =
                format!("{name}: axis {axis} must not be empty, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        within(name, || {
            self.widely(|x| {
                let pairs = x.cut(axis, 1.., 1)?.add(x.cut(axis, ..-1, 1)?)?;
                pairs.sum(axis)?.mul(dx / 2.0)
            })
        })
    }

    /// The cross products of vectors of three elements along an axis. The shapes broadcast.
    ///
    /// # Errors
    /// `Shape` if they do not broadcast, or the axis does not exist or has other than three elements; `DType` if the types
    /// differ or are `bool`.
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
        within(name, || {
            let (x, y) = (self.expand(&shape)?, other.expand(&shape)?);
            let axis = at as isize;
            let turned = |x: &Tensor, by: isize| {
                Tensor::concat(&[x.cut(axis, by.., 1)?, x.cut(axis, ..by, 1)?], axis)
            };
            turned(&x, 1)?.mul(turned(&y, 2)?)?.sub(turned(&x, 2)?.mul(turned(&y, 1)?)?)
        })
    }

    /// The products of every element of this with all of another, block by block: Kronecker's product. The shape is that
    /// of both, multiplied axis by axis; axes are added in front of the one that has fewer.
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
        within("kron", || self.reshape(&own)?.mul(other.reshape(&its)?)?.reshape(&dims))
    }
}
