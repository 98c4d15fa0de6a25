//! Pooling: windows over the axes after batch and channels, each reduced to one element.
//!
//! An adaptive pooling splits an axis into a given number of parts. The parts overlap if their number does not divide the
//! axis.

use super::conv::Ends;
use crate::dtype::{DType, NUMBERS};
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Reduction, Windows};
use crate::tensor::helpers::identity_element;
use crate::tensor::{keepdim, with_op_name, Padding, Tensor};

/// The windows of a pooling over `N` axes.
#[cfg_attr(feature = "js", warpweft_macros::js(new(kernel_size)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions<const N: usize> {
    /// The extents of a window.
    pub kernel_size: [usize; N],
    /// The distance from one window to the next. The default is the window size, so that windows do not overlap.
    pub stride: [usize; N],
    /// The padding. It is never a maximum, and counts in an average only with `count_include_pad`. The default is none.
    pub padding: Padding<N>,
    /// The distance from one element of a window to the next. The default is 1.
    pub dilation: [usize; N],
    /// Whether to include a last window that starts inside the input but extends beyond it. The default is `false`.
    pub ceil_mode: bool,
    /// Whether an average counts the padding as zeros. The default is `false`, unlike in PyTorch.
    pub count_include_pad: bool,
}

impl<const N: usize> PoolOptions<N> {
    /// Creates options for adjacent windows of this size, without padding.
    pub fn new(kernel_size: [usize; N]) -> PoolOptions<N> {
        PoolOptions {
            kernel_size,
            stride: kernel_size,
            padding: Padding::Valid,
            dilation: [1; N],
            ceil_mode: false,
            count_include_pad: false,
        }
    }
}

/// The reduction of a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pool {
    Max,
    /// The mean of the elements inside the input, or of the padding as well.
    Average {
        count_padding: bool,
    },
    L2,
}

/// The parameters of a pooling, without the number of axes in the type.
struct PoolWindow<'a> {
    pub name: &'static str,
    pub size: &'a [usize],
    pub stride: &'a [usize],
    pub padding: Ends<'a>,
    pub dilation: &'a [usize],
    pub ceil: bool,
}

impl<'a> PoolWindow<'a> {
    fn new<const N: usize>(name: &'static str, options: &'a PoolOptions<N>) -> PoolWindow<'a> {
        PoolWindow {
            name,
            size: &options.kernel_size,
            stride: &options.stride,
            padding: options.padding.ends(),
            dilation: &options.dilation,
            ceil: options.ceil_mode,
        }
    }

    fn windows(&self, i: usize, axis: usize) -> Windows {
        Windows { axis, size: self.size[i], step: self.stride[i], dilation: self.dilation[i] }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the largest element of each window over the last `N` axes (1 to 3) of `[batch, channels, ...]` or
    /// `[channels, ...]`, or NaN if there is one.
    ///
    /// # Errors
    /// `Shape` unless the rank is `N + 2` or `N + 1`, or if no window fits; `DType` for `bool`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::PoolOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 5.0, 2.0, 4.0], &[1, 4])?;
    /// assert_eq!(x.max_pool(PoolOptions::new([2]))?.read::<f32>().await?, [5.0, 4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options), required))]
    pub fn max_pool<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        self.pool(Pool::Max, &PoolWindow::new("max_pool", &options))
    }

    /// Returns the position of the largest element of each window, row-major in its channel, as `i32`. Of equal elements,
    /// it is the first one. Use it with [`Tensor::max_pool`]. (`return_indices` in PyTorch.)
    ///
    /// # Errors
    /// The errors of [`Tensor::max_pool`].
    #[cfg_attr(feature = "js", js(spread(options), required, dtype = I32))]
    pub fn max_pool_indices<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        self.pool_indices(&PoolWindow::new("max_pool_indices", &options))
    }

    /// Returns the mean of each window over the last `N` axes (1 to 3), in the shapes of [`Tensor::max_pool`]. Padding
    /// counts as zeros with [`PoolOptions::count_include_pad`]; otherwise only elements inside the input count.
    ///
    /// # Errors
    /// The errors of [`Tensor::max_pool`]; `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(spread(options), required))]
    pub fn avg_pool<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        let count_padding = options.count_include_pad;
        self.pool(Pool::Average { count_padding }, &PoolWindow::new("avg_pool", &options))
    }

    /// Returns the square root of the sum of squares of each window over the last `N` axes (1 to 3), in the shapes of
    /// [`Tensor::max_pool`]. Its gradient at 0 is 0.
    ///
    /// # Errors
    /// The errors of [`Tensor::avg_pool`].
    #[cfg_attr(feature = "js", js(spread(options), required))]
    pub fn l2_pool<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        self.pool(Pool::L2, &PoolWindow::new("l2_pool", &options))
    }

    fn pool(&self, kind: Pool, asked: &PoolWindow) -> Result<Tensor> {
        if self.rank() == asked.size.len() + 1 {
            return self.unsqueeze(0)?.pool(kind, asked)?.squeeze(0);
        }
        if kind != Pool::Max {
            self.check_float(asked.name)?;
        }
        match kind {
            Pool::Max => self.reduce_windows(asked, Reduction::Max, f64::NEG_INFINITY),
            Pool::L2 => self.compute_in_f32(|x| {
                x.square().reduce_windows(asked, Reduction::Sum, 0.0)?.safe_sqrt()
            }),
            Pool::Average { count_padding } => self.compute_in_f32(|x| {
                let sum = x.reduce_windows(asked, Reduction::Sum, 0.0)?;
                sum.div(&x.count_window_elements(asked, count_padding)?)
            }),
        }
    }

    fn pool_indices(&self, asked: &PoolWindow) -> Result<Tensor> {
        if self.rank() == asked.size.len() + 1 {
            return self.unsqueeze(0)?.pool_indices(asked)?.squeeze(0);
        }
        let (windows, axes) = self.extract_windows(asked, f64::NEG_INFINITY)?;
        let largest = windows.max(keepdim(&axes))?;
        let mut found = windows.eq(&largest)?;
        if self.dtype.is_float() {
            found = found.logical_or(&windows.is_nan().logical_and(&largest.is_nan())?)?;
        }
        let plane = &self.shape[2..];
        let places = self.device.iota(&[plane.iter().product()], 0)?;
        let places = places.reshape([&[1, 1], plane].concat())?;
        // Padding gets a position beyond all others.
        let (places, _) = places.extract_windows(asked, f64::from(i32::MAX))?;
        found.where_cond(&places, f64::from(i32::MAX))?.min(&axes)
    }

    /// Counts the elements in each window. The count depends only on the position of the window.
    fn count_window_elements(&self, asked: &PoolWindow, padding: bool) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        dims[..2].fill(1);
        let ones = self.device.constant(&dims, 1.0, self.dtype)?;
        if !padding {
            return ones.reduce_windows(asked, Reduction::Sum, 0.0);
        }
        let (mut inside, mut outside) = (vec![(0, 0); 2], vec![(0, 0); 2]);
        for (padding, more) in self.pool_padding(asked)? {
            inside.push(padding);
            outside.push((0, more));
        }
        let places = ones.pad_static(&inside, 1.0)?.pad_static(&outside, 0.0)?;
        let padding = Ends::Explicit(&[]);
        places.reduce_windows(&PoolWindow { padding, ceil: false, ..*asked }, Reduction::Sum, 0.0)
    }

    /// Reduces each window. Elements outside the input are `fill`.
    fn reduce_windows(&self, asked: &PoolWindow, op: Reduction, fill: f64) -> Result<Tensor> {
        let (windows, axes) = self.extract_windows(asked, fill)?;
        with_op_name(asked.name, || windows.reduce(op, &axes))
    }

    /// Returns the windows, with their elements along new axes, and these axes. Elements outside the input are `fill`.
    fn extract_windows(&self, asked: &PoolWindow, fill: f64) -> Result<(Tensor, Vec<isize>)> {
        let name = asked.name;
        let n = asked.size.len();
        let zero = [asked.size, asked.stride, asked.dilation].iter().any(|list| list.contains(&0));
        if zero {
            let PoolWindow { size, stride, dilation, .. } = asked;
            return Err(Error::shape(format!(
                "{name}: kernel size, stride and dilation must be at least 1, got {size:?}, {stride:?} and {dilation:?}"
            )));
        }
        if !(1..=3).contains(&n) || self.rank() != n + 2 {
            let must = "the window must have 1 to 3 axes, and the input these, channels, and at most one batch axis";
            return Err(Error::shapes(name, must, &self.shape, asked.size));
        }
        if !self.dtype.is_number() {
            return Err(Error::wrong_dtype(name, NUMBERS, self.dtype));
        }
        with_op_name(name, || {
            let ends = self.pool_padding(asked)?;
            let mut windows = self.clone();
            if ends.iter().any(|&(padding, more)| padding != (0, 0) || more > 0) {
                let mut amounts = vec![(0, 0); 2];
                amounts.extend(
                    ends.iter()
                        .map(|&((before, after), more)| (before, after.saturating_add(more))),
                );
                windows = self.pad_windows(&amounts, fill)?;
            }
            let mut axes = Vec::with_capacity(n);
            for i in 0..n {
                let Windows { size, step, dilation, .. } = asked.windows(i, 2 + i);
                windows = windows.unfold(2 + i as isize, size, step, dilation)?;
                axes.push(-1 - i as isize);
            }
            Ok((windows, axes))
        })
    }

    /// Pads with the value of the type that is closest to `fill`.
    fn pad_windows(&self, amounts: &[(usize, usize)], fill: f64) -> Result<Tensor> {
        let fill = self.dtype.range().map_or(fill, |(low, high)| fill.clamp(low, high));
        self.pad_static(amounts, fill)
    }

    /// Returns, for each axis, the padding and the number of elements that the last window extends beyond it.
    fn pool_padding(&self, asked: &PoolWindow) -> Result<Vec<((usize, usize), usize)>> {
        let mut ends = Vec::with_capacity(asked.size.len());
        for i in 0..asked.size.len() {
            let extent = self.shape[2 + i];
            let windows = asked.windows(i, 2 + i);
            let (before, after) = asked.padding.of(i, extent, &windows);
            let padded = extent.saturating_add(before).saturating_add(after);
            let mut more = 0;
            if let (true, Some(count)) = (asked.ceil, windows.count(padded)) {
                // This does not overflow, because a window fits.
                let reach = windows.dilation * (windows.size - 1) + 1;
                // The window must start inside the input, or in the padding before it.
                let inside = extent.saturating_add(before);
                let next = count.checked_mul(windows.step).filter(|&next| next < inside);
                let is_cut = !(padded - reach).is_multiple_of(windows.step);
                if let Some(next) = next.filter(|_| is_cut) {
                    more = next.saturating_add(reach).saturating_sub(padded);
                }
            }
            ends.push(((before, after), more));
        }
        Ok(ends)
    }

    /// Returns the mean of each of `sizes` parts of the last axes. Part i of n is from `floor(i * extent / n)` to
    /// `ceil((i + 1) * extent / n)`, so parts overlap if n does not divide the extent.
    ///
    /// # Errors
    /// `Shape` if a size is 0, there are more sizes than axes, or an axis is empty; `DType` unless the tensor is a float;
    /// `Limit` if `extent * size` is 2^30 or more.
    pub fn adaptive_avg_pool(&self, sizes: &[usize]) -> Result<Tensor> {
        let name = "adaptive_avg_pool";
        self.check_float(name)?;
        self.compute_in_f32(|x| {
            x.pool_axes(name, sizes, |pooled, axis, size| match pooled.shape[axis] % size {
                0 => pooled.split_evenly(axis, size)?.mean(-1),
                _ => pooled.average_parts(axis, size),
            })
        })
    }

    /// Returns the largest element of each of `sizes` parts of the last axes, or NaN if there is one. The parts are those
    /// of [`Tensor::adaptive_avg_pool`].
    ///
    /// # Errors
    /// The `Shape` and `Limit` errors of [`Tensor::adaptive_avg_pool`]; `DType` for `bool`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 5.0, 2.0], &[1, 3])?;
    /// assert_eq!(x.adaptive_max_pool(&[2])?.read::<f32>().await?, [5.0, 5.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn adaptive_max_pool(&self, sizes: &[usize]) -> Result<Tensor> {
        let name = "adaptive_max_pool";
        if self.dtype == DType::Bool {
            return Err(Error::wrong_dtype(name, NUMBERS, self.dtype));
        }
        self.pool_axes(name, sizes, |pooled, axis, size| match pooled.shape[axis] % size {
            0 => pooled.split_evenly(axis, size)?.max(-1),
            _ => pooled.max_of_parts(axis, size),
        })
    }

    /// Returns the position of the largest element of each part, row-major over the pooled axes, as `i32`. Of equal
    /// elements, it is the first one. Use it with [`Tensor::adaptive_max_pool`]. (`return_indices` in PyTorch.)
    ///
    /// # Errors
    /// The errors of [`Tensor::adaptive_max_pool`]; `Limit` for more than 2^31 positions.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 5.0, 2.0], &[1, 3])?;
    /// assert_eq!(x.adaptive_max_pool_indices(&[2])?.read::<i32>().await?, [1, 1]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(dtype = I32))]
    pub fn adaptive_max_pool_indices(&self, sizes: &[usize]) -> Result<Tensor> {
        let name = "adaptive_max_pool_indices";
        if self.dtype == DType::Bool {
            return Err(Error::wrong_dtype(name, NUMBERS, self.dtype));
        }
        let first = self.check_adaptive(name, sizes)?;
        let plane = &self.shape[first..];
        let count = plane.iter().fold(1usize, |count, &extent| count.saturating_mul(extent));
        if count > i32::MAX as usize {
            let message = format!("{name}: there must be at most 2^31 positions, got {count}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        with_op_name(name, || {
            let places = self.device.iota(&[count], 0)?.reshape(plane)?.expand(&self.shape)?;
            let (mut values, mut places) = (self.clone(), places);
            for (i, &size) in sizes.iter().enumerate() {
                (values, places) = values.argmax_of_parts(&places, first + i, size)?;
            }
            Ok(places)
        })
    }

    /// Pools one axis after the other.
    fn pool_axes(
        &self,
        name: &str,
        sizes: &[usize],
        pool: impl Fn(&Tensor, usize, usize) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let first = self.check_adaptive(name, sizes)?;
        let mut pooled = self.clone();
        for (i, &size) in sizes.iter().enumerate() {
            pooled = with_op_name(name, || pool(&pooled, first + i, size))?;
        }
        Ok(pooled)
    }

    /// Checks the sizes, and returns the first axis to split into parts.
    fn check_adaptive(&self, name: &str, sizes: &[usize]) -> Result<usize> {
        let first = self.rank().checked_sub(sizes.len());
        let fits = first.filter(|&first| !sizes.contains(&0) && !self.shape[first..].contains(&0));
        let Some(first) = fits else {
            let must =
                "there must be at most one size for each axis, and sizes and axes of at least 1";
            return Err(Error::shapes(name, must, &self.shape, sizes));
        };
        for (&extent, &size) in self.shape[first..].iter().zip(sizes) {
            if extent.checked_mul(size).is_none_or(|product| product > i32::MAX as usize / 2) {
                let most = i32::MAX / 2;
                let must = format!("the output size times the axis must be at most {most}");
                let message = format!("{name}: {must}, got {size} for an axis of {extent}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
        }
        Ok(first)
    }

    /// Splits an axis into parts that do not overlap, with their elements along a new last axis.
    fn split_evenly(&self, axis: usize, size: usize) -> Result<Tensor> {
        let part = self.shape[axis] / size;
        self.unfold(axis as isize, part, part, 1)
    }

    /// Returns the mean of each part, as a product with a matrix of the weight of each element in each part.
    fn average_parts(&self, axis: usize, size: usize) -> Result<Tensor> {
        let shape = &[self.shape[axis], size];
        let (element, part) = (self.device.iota(shape, 0)?, self.device.iota(shape, 1)?);
        let (start, end) = self.part_bounds(axis, size, &part)?;
        let inside = element.ge(&start)?.logical_and(&element.lt(&end)?)?.cast(self.dtype)?;
        let weights = inside.div(&end.sub(&start)?.cast(self.dtype)?)?;
        let axis = axis as isize;
        self.transpose(axis, -1)?.matmul(&weights)?.transpose(axis, -1)
    }

    /// Returns the largest element of each part.
    fn max_of_parts(&self, axis: usize, size: usize) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        dims[axis] = size;
        self.gather_parts(axis, size, identity_element(Reduction::Max, self.dtype))?
            .max(2)?
            .reshape(&dims)
    }

    /// Returns the largest element of each part, and its position.
    fn argmax_of_parts(
        &self,
        places: &Tensor,
        axis: usize,
        size: usize,
    ) -> Result<(Tensor, Tensor)> {
        let mut dims = self.shape.to_vec();
        dims[axis] = size;
        let values = self.gather_parts(axis, size, identity_element(Reduction::Max, self.dtype))?;
        let beyond = f64::from(i32::MAX);
        let places = places.gather_parts(axis, size, beyond)?;
        let largest = values.max(keepdim(2))?;
        let mut found = values.eq(&largest)?;
        if self.dtype.is_float() {
            found = found.logical_or(&values.is_nan().logical_and(&largest.is_nan())?)?;
        }
        let first = found.where_cond(&places, beyond)?.min(2)?.reshape(&dims)?;
        Ok((largest.reshape(&dims)?, first))
    }

    /// Returns the elements of each part, `[before, parts, longest, after]`. Shorter parts are filled with `none`.
    fn gather_parts(&self, axis: usize, size: usize, none: f64) -> Result<Tensor> {
        let extent = self.shape[axis];
        let longest = (extent.div_ceil(size) + 1).min(extent);
        let part = self.device.iota(&[size, 1], 0)?;
        let (start, end) = self.part_bounds(axis, size, &part)?;
        let place = start.add(self.device.iota(&[longest], 0)?)?;
        let inside = place.lt(end)?;
        let before: usize = self.shape[..axis].iter().product();
        let after: usize = self.shape[axis + 1..].iter().product();
        let lines = self.reshape(&[before, extent, after])?;
        let picked = lines.index_select_raw(1, &inside.where_cond(place, -1)?)?;
        let none = self.device.constant(&[], none, self.dtype)?;
        inside.unsqueeze(2)?.where_cond(picked, none)
    }

    /// Returns the start and the end of each part.
    fn part_bounds(&self, axis: usize, size: usize, part: &Tensor) -> Result<(Tensor, Tensor)> {
        let (long, count) = (self.shape[axis] as i32, size as i32);
        let start = part.mul(long)?.floor_divide(count)?;
        let end = part.add(1)?.mul(long)?.add(count - 1)?.floor_divide(count)?;
        Ok((start, end))
    }
}
