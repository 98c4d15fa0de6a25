//! Statistics of data: covariance, quantiles, and counts.

use super::reduce::Moments;
use crate::dtype::{DType, INDICES};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::MAX_ELEMENTS;
use crate::tensor::{keepdim, with_op_name, Tensor};

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the covariances of variables, `[variables, variables]`, from the rows of `[variables, observations]`. For
    /// a vector it returns the variance.
    ///
    /// Sums are divided by the number of observations minus `correction`, which is 1 for the unbiased estimate.
    ///
    /// # Errors
    /// `Shape` unless the rank is 1 or 2; `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(options(correction = 1.0)))]
    pub fn cov(&self, correction: f64) -> Result<Tensor> {
        let name = "cov";
        self.check_float(name)?;
        match self.rank() {
            1 => with_op_name(name, || self.unsqueeze(0)?.cov(correction)?.reshape(())),
            2 => with_op_name(name, || {
                self.compute_in_f32(|x| {
                    let count = x.shape[1];
                    let distance = x.sub(Moments::of(x, &keepdim(1), count)?.mean)?;
                    let products = distance.matmul(&distance.transpose(0, 1)?)?;
                    products.div((count as f64 - correction).max(0.0))
                })
            }),
            _ => {
                let message = format!(
                    "{name}: the input must have rank 1 or 2 (variables, observations), got shape {}",
                    self.shape
                );
                Err(Error::shape(message))
            }
        }
    }

    /// Returns the `q`-quantile along an axis: the sorted element at position `q (n - 1)`, interpolated linearly between
    /// two elements. It is NaN if an element is NaN.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty; `DType` unless the tensor is a float; `InvalidArgument` unless q is from
    /// 0 to 1; the errors of [`Tensor::sort`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, 1.0, 2.0, 10.0], &[4])?;
    /// assert_eq!(x.quantile(0.5, 0)?.item::<f32>().await?, 2.5);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn quantile(&self, q: f64, axis: isize) -> Result<Tensor> {
        let name = "quantile";
        self.check_float(name)?;
        let at = self.shape.axis(name, axis)?;
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::argument(format!("{name}: q must be in [0, 1], got {q}")));
        }
        if self.shape[at] == 0 {
            let message =
                format!("{name}: axis {axis} must not be empty, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        with_op_name(name, || {
            let last = self.shape[at] - 1;
            let place = q * last as f64;
            let low = place.floor();
            let (sorted, _) = self.sort(axis, false)?;
            let below = sorted.select(axis, low as isize)?;
            let above = sorted.select(axis, (low as usize + 1).min(last) as isize)?;
            let nan = self.is_nan().any(axis)?;
            nan.where_cond(f64::NAN, below.lerp(above, place - low)?)
        })
    }

    /// Returns the median along an axis, or NaN if an element is NaN. For an even number of elements it is the mean of
    /// the two in the middle, as in NumPy. PyTorch returns the lower one.
    ///
    /// # Errors
    /// The errors of [`Tensor::quantile`].
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn median(&self, axis: isize) -> Result<Tensor> {
        with_op_name("median", || self.quantile(0.5, axis))
    }

    /// Counts how often each number from 0 up to, but not including, `length` occurs, as `i32`. Other numbers are not
    /// counted. It takes elements times `length` steps.
    ///
    /// # Errors
    /// `DType` unless the tensor is `i32` or `u32`; `Limit` if elements times `length` exceed 2^31.
    #[cfg_attr(feature = "js", js(dtype = I32))]
    pub fn bincount(&self, length: usize) -> Result<Tensor> {
        let name = "bincount";
        if !self.dtype.is_int() {
            return Err(Error::wrong_dtype(name, INDICES, self.dtype));
        }
        with_op_name(name, || self.cast(DType::I32)?.count_values(length))
    }

    /// Returns a histogram: the number of elements in each of `bins` equal parts of the range from `min` to `max`, as
    /// `i32`.
    ///
    /// Elements outside the range are not counted, and `max` belongs to the last part. It takes elements times `bins`
    /// steps.
    ///
    /// # Errors
    /// `DType` unless the tensor is a float; `InvalidArgument` unless `min < max`, both are finite, and `bins` is at least 1;
    /// `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[0.0f32, 0.4, 0.5, 1.0, 2.0], &[5])?;
    /// assert_eq!(x.histc(2, 0.0, 1.0)?.read::<i32>().await?, [2, 2]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "histogram")]
    #[cfg_attr(feature = "js", js(dtype = I32))]
    pub fn histc(&self, bins: usize, min: f64, max: f64) -> Result<Tensor> {
        let name = "histc";
        self.check_float(name)?;
        if !(min.is_finite() && max.is_finite() && min < max) || bins == 0 {
            let message = format!("{name}: bins must be at least 1 and min less than max, got {bins} bins from {min} to {max}");
            return Err(Error::argument(message));
        }
        with_op_name(name, || {
            let x = self.cast(DType::F32)?;
            let place = x.sub(min)?.div(max - min)?.mul(bins)?.floor();
            let inside = x.ge(min)?.logical_and(x.le(max)?)?;
            let place = place.minimum(bins as f64 - 1.0)?.cast(DType::I32)?;
            inside.where_cond(place, -1)?.count_values(bins)
        })
    }

    /// Counts the elements that equal each number from 0 on.
    fn count_values(&self, length: usize) -> Result<Tensor> {
        let all = self.ravel().unsqueeze(0)?;
        if all.numel().saturating_mul(length) > MAX_ELEMENTS {
            let message = format!(
                "bincount: length times elements must be at most 2^31, got {length} and {}",
                self.numel()
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        all.eq(self.device.iota(&[length, 1], 0)?)?.cast(DType::I32)?.sum(1)
    }
}
