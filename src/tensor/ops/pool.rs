//! Pooling: windows over the axes after batch and channels, each reduced to one element.

use super::conv::Ends;
use crate::dtype::NUMBERS;
use crate::error::{Error, Result};
use crate::op::{Reduction, Windows};
use crate::tensor::{kept, within, Padding, Tensor};

/// The windows of a pooling over `N` axes.
#[cfg_attr(feature = "js", warpweft_macros::js(new(kernel_size)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions<const N: usize> {
    /// The extents of a window.
    pub kernel_size: [usize; N],
    /// From one window to the next. The default is the window's size: side by side.
    pub stride: [usize; N],
    /// What is outside is no maximum, and counts in an average only by `count_include_pad`. The default is none.
    pub padding: Padding<N>,
    /// From one element of a window to the next. The default is 1.
    pub dilation: [usize; N],
    /// Whether a last window that reaches beyond the end is taken, too, if it begins before it. The default is `false`.
    pub ceil_mode: bool,
    /// Whether an average counts the padding, as zeros. The default is `false`, where PyTorch's is true.
    pub count_include_pad: bool,
}

impl<const N: usize> PoolOptions<N> {
    /// Windows of this size side by side, without padding.
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

/// What becomes of a window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    Max,
    /// The mean of what is inside, or of the padding, too.
    Average {
        count_padding: bool,
    },
    L2,
}

/// The same without the number of axes in its type.
pub(crate) struct PoolWindow<'a> {
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
    /// The largest element of each window over the last `N` axes (1 to 3), `[batch, channels, ...]` or
    /// `[channels, ...]`; NaN if there is one.
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

    /// Where the largest element of each window stands, counted row-major within its channel, as `i32`; of several the
    /// first. Goes with [`Tensor::max_pool`]. (PyTorch's `return_indices`.)
    ///
    /// # Errors
    /// As [`Tensor::max_pool`].
    #[cfg_attr(feature = "js", js(spread(options), required, dtype = I32))]
    pub fn max_pool_indices<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        self.pool_indices(&PoolWindow::new("max_pool_indices", &options))
    }

    /// The mean of each window over the last `N` axes (1 to 3), as [`Tensor::max_pool`]; padding counts as zeros with
    /// [`PoolOptions::count_include_pad`], else the mean is of what is inside.
    ///
    /// # Errors
    /// As [`Tensor::max_pool`]; `DType` unless it is of floats.
    #[cfg_attr(feature = "js", js(spread(options), required))]
    pub fn avg_pool<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        let count_padding = options.count_include_pad;
        self.pool(Pool::Average { count_padding }, &PoolWindow::new("avg_pool", &options))
    }

    /// The square root of the sum of squares of each window over the last `N` axes (1 to 3), as
    /// [`Tensor::max_pool`].
    ///
    /// # Errors
    /// As [`Tensor::avg_pool`].
    #[cfg_attr(feature = "js", js(spread(options), required))]
    pub fn l2_pool<const N: usize>(&self, options: PoolOptions<N>) -> Result<Tensor> {
        self.pool(Pool::L2, &PoolWindow::new("l2_pool", &options))
    }

    pub(crate) fn pool(&self, kind: Pool, asked: &PoolWindow) -> Result<Tensor> {
        if self.rank() == asked.size.len() + 1 {
            return self.unsqueeze(0)?.pool(kind, asked)?.squeeze(0);
        }
        if kind != Pool::Max {
            self.need_float(asked.name)?;
        }
        match kind {
            Pool::Max => self.pooled(asked, Reduction::Max, f64::NEG_INFINITY),
            Pool::L2 => self.widely(|x| Ok(x.square().pooled(asked, Reduction::Sum, 0.0)?.sqrt())),
            Pool::Average { count_padding } => self.widely(|x| {
                let sum = x.pooled(asked, Reduction::Sum, 0.0)?;
                sum.div(&x.counts(asked, count_padding)?)
            }),
        }
    }

    pub(crate) fn pool_indices(&self, asked: &PoolWindow) -> Result<Tensor> {
        if self.rank() == asked.size.len() + 1 {
            return self.unsqueeze(0)?.pool_indices(asked)?.squeeze(0);
        }
        let (windows, axes) = self.windowed(asked, f64::NEG_INFINITY)?;
        let largest = windows.max(kept(&axes))?;
        let mut found = windows.eq(&largest)?;
        if self.dtype.is_float() {
            found = found.logical_or(&windows.is_nan().logical_and(&largest.is_nan())?)?;
        }
        let plane = &self.shape[2..];
        let places = self.device.iota(&[plane.iter().product()], 0)?;
        let places = places.reshape([&[1, 1], plane].concat())?;
        // What is padded is beyond all places.
        let (places, _) = places.windowed(asked, f64::from(i32::MAX))?;
        found.where_cond(&places, f64::from(i32::MAX))?.min(&axes)
    }

    /// How many elements each window has, which depends on where it is alone.
    fn counts(&self, asked: &PoolWindow, padding: bool) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        dims[..2].fill(1);
        let ones = self.device.constant(&dims, 1.0, self.dtype)?;
        if !padding {
            return ones.pooled(asked, Reduction::Sum, 0.0);
        }
        let (mut inside, mut outside) = (vec![(0, 0); 2], vec![(0, 0); 2]);
        for (padding, more) in self.overhang(asked)? {
            inside.push(padding);
            outside.push((0, more));
        }
        let places = ones.pad_out(&inside, 1.0)?.pad_out(&outside, 0.0)?;
        let padding = Ends::Explicit(&[]);
        places.pooled(&PoolWindow { padding, ceil: false, ..*asked }, Reduction::Sum, 0.0)
    }

    /// Each window reduced; outside there is `fill`.
    fn pooled(&self, asked: &PoolWindow, op: Reduction, fill: f64) -> Result<Tensor> {
        let (windows, axes) = self.windowed(asked, fill)?;
        within(asked.name, || windows.reduce(op, &axes))
    }

    /// Windows with their elements along further axes, and these axes; outside there is `fill`.
    fn windowed(&self, asked: &PoolWindow, fill: f64) -> Result<(Tensor, Vec<isize>)> {
        let name = asked.name;
        let n = asked.size.len();
        let zero = [asked.size, asked.stride, asked.dilation].iter().any(|list| list.contains(&0));
        if !(1..=3).contains(&n) || self.rank() != n + 2 || zero {
            let must = "the input must have a channel axis and those of the window, and sizes, strides and dilations \
                        must be at least 1";
            return Err(Error::shapes(name, must, &self.shape, asked.size));
        }
        if !self.dtype.is_number() {
            return Err(Error::wrong_dtype(name, NUMBERS, self.dtype));
        }
        within(name, || {
            let ends = self.overhang(asked)?;
            let mut windows = self.clone();
            if ends.iter().any(|&(padding, more)| padding != (0, 0) || more > 0) {
                let mut amounts = vec![(0, 0); 2];
                amounts.extend(
                    ends.iter()
                        .map(|&((before, after), more)| (before, after.saturating_add(more))),
                );
                windows = self.padded(&amounts, fill)?;
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

    /// Padded with the closest that the type has to a number.
    fn padded(&self, amounts: &[(usize, usize)], fill: f64) -> Result<Tensor> {
        let fill = self.dtype.range().map_or(fill, |(low, high)| fill.clamp(low, high));
        self.pad_out(amounts, fill)
    }

    /// For each axis: the padding, and how much more the last window reaches beyond it.
    fn overhang(&self, asked: &PoolWindow) -> Result<Vec<((usize, usize), usize)>> {
        let mut ends = Vec::with_capacity(asked.size.len());
        for i in 0..asked.size.len() {
            let extent = self.shape[2 + i];
            let windows = asked.windows(i, 2 + i);
            let (before, after) = asked.padding.of(i, extent, &windows);
            let padded = extent.saturating_add(before).saturating_add(after);
            let mut more = 0;
            if let (true, Some(count)) = (asked.ceil, windows.count(padded)) {
                let reach = windows.dilation * (windows.size - 1) + 1;
                let next = count * windows.step;
                // It has to begin inside, or in the padding before.
                let begins = next < extent.saturating_add(before);
                if begins && !(padded - reach).is_multiple_of(windows.step) {
                    more = (next + reach).saturating_sub(padded);
                }
            }
            ends.push(((before, after), more));
        }
        Ok(ends)
    }
}
