//! Fourier transforms. Complex numbers are pairs of real and imaginary part along a last axis of extent 2.
//!
//! Problem: a transform as a product with a matrix costs n^2 steps.
//!
//! Idea: for n = a b, transform a numbers at distance b at a time, and multiply the results with twiddle factors. Then
//! transform b numbers at a time (Cooley and Tukey 1965). This repeats until lengths are short, and short lengths are
//! matrix products. The cost is n times the sum of the factors.
//!
//! Lengths with a large prime factor become a convolution, whose length can be chosen freely (Bluestein 1970).
//!
//! Example: 4,096 = 64 * 64 numbers take two matrix products with a matrix of 64 complex rows.

mod tables;

use crate::error::{Error, ErrorKind, Result};
use crate::shape::MAX_RANK;
use crate::tensor::{with_op_name, Tensor};

/// Up to this length, a transform is one matrix product.
const MAX_DIRECT: usize = 64;

/// Up to this length, a transform of prime length is one matrix product. The alternative, a convolution, is more
/// expensive than for other lengths.
const MAX_DIRECT_PRIME: usize = 128;

/// The longest transform.
const MAX_LENGTH: usize = 1 << 22;

/// The normalization of Fourier transforms, with the names of NumPy and PyTorch.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FftNorm {
    /// The inverse transform is divided by the length.
    #[default]
    Backward,
    /// Both transforms are divided by the square root of the length.
    Ortho,
    /// The forward transform is divided by the length.
    Forward,
}

impl FftNorm {
    /// Returns the factor for a transform of this length, unless it is 1.
    fn scale(self, count: usize, inverse: bool) -> Option<f64> {
        let count = count as f64;
        match (self, inverse) {
            (FftNorm::Ortho, _) => Some(count.sqrt().recip()),
            (FftNorm::Backward, true) | (FftNorm::Forward, false) => Some(count.recip()),
            _ => None,
        }
    }
}

/// Options of [`Tensor::fft`] and the other transforms along one axis.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::{FftNorm, FftOptions}};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 0.0, -1.0, 0.0], &[4])?;
/// let options = FftOptions { n: Some(2), norm: FftNorm::Forward, ..Default::default() };
/// assert_eq!(x.rfft(options)?.read::<f32>().await?, [0.5, 0.0, 0.5, 0.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FftOptions {
    /// The number of elements to transform, or for `irfft` the number of results. An axis is cropped or padded with zeros to
    /// fit. The default is the length of the axis, or for `irfft` twice the length minus 2.
    pub n: Option<usize>,
    /// The axis, which is counted without the axis of the pairs. The default is -1.
    pub axis: isize,
    /// The normalization. The default is [`FftNorm::Backward`].
    pub norm: FftNorm,
}

impl Default for FftOptions {
    fn default() -> FftOptions {
        FftOptions { n: None, axis: -1, norm: FftNorm::Backward }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Computes the discrete Fourier transform along an axis, `X[k] = sum(x[j] e^(-2 pi i j k / n))`.
    ///
    /// Complex numbers are pairs along a last axis of extent 2, like those of `view_as_real` in PyTorch. The axis of
    /// [`FftOptions`] counts the axes before that.
    ///
    /// Up to 64 numbers take one kernel, a matrix product. Longer axes take a few kernels for each factor of the length
    /// up to 64. A prime factor above 128 costs three transforms of a power of two that exceeds twice the factor.
    ///
    /// Each call uploads about as many twiddle factors as the axis is long, so compile a loop as a program. Sums are
    /// computed in `f32`. The error is about 1e-7 times the square root of the sum of squares.
    ///
    /// # Errors
    /// `Shape` unless the last axis has extent 2 and the other exists and is not empty; `DType` unless the tensor is a
    /// float; `Limit` for more than 2^22 numbers.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::FftOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// // 1 + 2i and 3.
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 0.0], &[2, 2])?;
    /// let y = x.fft(FftOptions::default())?;
    /// assert_eq!(y.read::<f32>().await?, [4.0, 2.0, -2.0, 2.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn fft(&self, options: FftOptions) -> Result<Tensor> {
        self.complex_transform("fft", options, false)
    }

    /// Computes the inverse of [`Tensor::fft`].
    ///
    /// # Errors
    /// The errors of [`Tensor::fft`].
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn ifft(&self, options: FftOptions) -> Result<Tensor> {
        self.complex_transform("ifft", options, true)
    }

    /// Computes the transform of real numbers. Returns the first `n / 2 + 1` results, because the others are their mirror
    /// image. The result has one more axis, of extent 2.
    ///
    /// # Errors
    /// The errors of [`Tensor::fft`]; `Shape` for a tensor of rank 8.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::FftOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 0.0, -1.0, 0.0], &[4])?;
    /// let y = x.rfft(FftOptions::default())?;
    /// assert_eq!(y.read::<f32>().await?, [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn rfft(&self, options: FftOptions) -> Result<Tensor> {
        let name = "rfft";
        let FftOptions { n, axis, norm } = options;
        if self.rank() == MAX_RANK {
            let message =
                format!("{name}: the input must have rank 7 or less, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        self.check_float(name)?;
        let at = self.shape.axis(name, axis)?;
        let count = self.transform_length(name, at, n)?;
        with_op_name(name, || {
            let mut dims = self.shape.to_vec();
            (dims[at], dims[self.rank() - 1]) = (dims[self.rank() - 1], count / 2 + 1);
            dims.push(2);
            let last = self
                .fit_length(at, count)?
                .transpose(at as isize, -1)?
                .cast(self.dtype.compute())?;
            let lines = last.reshape(&[last.numel() / count, count])?;
            let scaled = lines.real_transform(count)?.scale_by(norm.scale(count, false))?;
            let moved = scaled.reshape(&dims)?.transpose(at as isize, -2)?;
            moved.cast(self.dtype)
        })
    }

    /// Computes the inverse of [`Tensor::rfft`]: `n` real numbers from the first `n / 2 + 1` results. Without `n`, the
    /// number is even.
    ///
    /// The imaginary part of the first result is ignored. For an even number, that of the middle one is ignored as well.
    ///
    /// # Errors
    /// The errors of [`Tensor::fft`].
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn irfft(&self, options: FftOptions) -> Result<Tensor> {
        let name = "irfft";
        let FftOptions { n, axis, norm } = options;
        let at = self.complex_axis(name, axis)?;
        let count = match n {
            Some(n) => n,
            None => self.shape[at].saturating_sub(1).saturating_mul(2),
        };
        let count = self.transform_length(name, at, Some(count))?;
        with_op_name(name, || {
            let kept = count / 2 + 1;
            let last = self
                .fit_length(at, kept)?
                .transpose(at as isize, -2)?
                .cast(self.dtype.compute())?;
            let mut dims = last.shape[..last.rank() - 1].to_vec();
            dims[last.rank() - 2] = count;
            let lines = last.reshape(&[last.numel() / (2 * kept), kept, 2])?;
            let real = lines.real_inverse(count)?.scale_by(norm.scale(count, true))?;
            real.reshape(&dims)?.transpose(at as isize, -1)?.cast(self.dtype)
        })
    }

    /// Computes [`Tensor::fft`] along the last two axes before the axis of the pairs.
    ///
    /// # Errors
    /// The errors of [`Tensor::fft`].
    #[cfg_attr(feature = "js", js(options(norm = FftNorm::Backward)))]
    pub fn fft2(&self, norm: FftNorm) -> Result<Tensor> {
        let along = |axis| FftOptions { axis, norm, ..Default::default() };
        with_op_name("fft2", || self.fft(along(-1))?.fft(along(-2)))
    }

    /// Computes the inverse of [`Tensor::fft2`].
    ///
    /// # Errors
    /// The errors of [`Tensor::fft`].
    #[cfg_attr(feature = "js", js(options(norm = FftNorm::Backward)))]
    pub fn ifft2(&self, norm: FftNorm) -> Result<Tensor> {
        let along = |axis| FftOptions { axis, norm, ..Default::default() };
        with_op_name("ifft2", || self.ifft(along(-1))?.ifft(along(-2)))
    }

    /// Multiplies complex numbers, which are pairs along the last axis, as in [`Tensor::fft`]. The axes before broadcast.
    ///
    /// # Errors
    /// `Shape` unless the last axes have extent 2 and the others broadcast; `DType` if the types differ or are `bool`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// assert_eq!(x.complex_mul(&x)?.read::<f32>().await?, [-3.0, 4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn complex_mul(&self, other: &Tensor) -> Result<Tensor> {
        let name = "complex_mul";
        if self.shape.last() != Some(&2) || other.shape.last() != Some(&2) {
            let must = "the last axis must have extent 2 (complex numbers as pairs)";
            return Err(Error::shapes(name, must, &self.shape, &other.shape));
        }
        with_op_name(name, || {
            let sign = self.device.tensor(&[-1.0f32, 1.0], &[2])?.cast(self.dtype)?;
            let (re, im) = (other.slice_static(-1, ..1, 1)?, other.slice_static(-1, 1.., 1)?);
            self.mul(re)?.add(self.flip(&[-1])?.mul(im.mul(sign)?)?)
        })
    }

    /// Returns the axis, which must be before the axis of the pairs.
    fn complex_axis(&self, name: &str, axis: isize) -> Result<usize> {
        self.check_float(name)?;
        match self.shape.split_last() {
            Some((2, before)) => crate::shape::Shape::new(name, before)?.axis(name, axis),
            _ => {
                let must = "the last axis must have extent 2 (complex numbers as pairs)";
                Err(Error::wrong_shape(name, must, &self.shape))
            }
        }
    }

    /// Returns the number of elements to transform.
    fn transform_length(&self, name: &str, axis: usize, n: Option<usize>) -> Result<usize> {
        let count = n.unwrap_or(self.shape[axis]);
        if count == 0 || self.shape[axis] == 0 {
            let message = format!(
                "{name}: n and axis {axis} must not be 0, got n {count} for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        if count > MAX_LENGTH {
            let message = format!("{name}: n must be at most {MAX_LENGTH}, got {count}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(count)
    }

    /// Crops an axis, or pads it with zeros, to a length.
    fn fit_length(&self, axis: usize, count: usize) -> Result<Tensor> {
        let extent = self.shape[axis];
        if count <= extent {
            return if count == extent {
                Ok(self.clone())
            } else {
                self.slice_static(axis as isize, ..count as isize, 1)
            };
        }
        let mut amounts = vec![(0, 0); self.rank()];
        amounts[axis].1 = count - extent;
        self.pad_static(&amounts, 0.0)
    }

    fn scale_by(self, scale: Option<f64>) -> Result<Tensor> {
        match scale {
            Some(scale) => self.mul(scale),
            None => Ok(self),
        }
    }

    fn complex_transform(&self, name: &str, options: FftOptions, inverse: bool) -> Result<Tensor> {
        let FftOptions { n, axis, norm } = options;
        let at = self.complex_axis(name, axis)?;
        let count = self.transform_length(name, at, n)?;
        with_op_name(name, || {
            let last = self
                .fit_length(at, count)?
                .transpose(at as isize, -2)?
                .cast(self.dtype.compute())?;
            let lines = last.reshape(&[last.numel() / (2 * count), count, 2])?;
            let sign = if inverse { 1.0 } else { -1.0 };
            let done = lines.transform(sign)?.scale_by(norm.scale(count, inverse))?;
            done.reshape(&last.shape)?.transpose(at as isize, -2)?.cast(self.dtype)
        })
    }

    /// Transforms rows of complex numbers, `[rows, count, 2]`, without normalization.
    fn transform(&self, sign: f64) -> Result<Tensor> {
        let (lines, count) = (self.shape[0], self.shape[1]);
        match Split::of(count) {
            Split::Direct => {
                let matrix = tables::complex_matrix(count, sign);
                let matrix = self.device.tensor(&matrix, &[2 * count, 2 * count])?;
                self.reshape(&[lines, 2 * count])?.matmul(&matrix)?.reshape(&self.shape)
            }
            Split::Factors(rows, columns) => {
                let grid = self.reshape(&[lines, rows, columns, 2])?.permute(&[0, 2, 1, 3])?;
                let first = grid.reshape(&[lines * columns, rows, 2])?.transform(sign)?;
                first.second_step(lines, rows, columns, sign)
            }
            Split::Chirp => self.transform_by_convolution(sign),
        }
    }

    /// Combines transforms of `rows` numbers, `[lines * columns, rows, 2]`, to transforms of `rows * columns` numbers.
    fn second_step(&self, lines: usize, rows: usize, columns: usize, sign: f64) -> Result<Tensor> {
        let grid = self.reshape(&[lines, columns, rows, 2])?.permute(&[0, 2, 1, 3])?;
        let factors = tables::twiddles(rows, columns, sign);
        let turned = grid.complex_mul(&self.device.tensor(&factors, &[rows, columns, 2])?)?;
        let second = turned.reshape(&[lines * rows, columns, 2])?.transform(sign)?;
        let second = second.reshape(&[lines, rows, columns, 2])?.permute(&[0, 2, 1, 3])?;
        second.reshape(&[lines, rows * columns, 2])
    }

    /// Transforms by a convolution with a chirp (Bluestein).
    fn transform_by_convolution(&self, sign: f64) -> Result<Tensor> {
        let count = self.shape[1];
        let wide = (2 * count - 1).next_power_of_two();
        let (factors, filter) = tables::chirp(count, wide, sign);
        let factors = self.device.tensor(&factors, &[count, 2])?;
        let filter = self.device.tensor(&filter, &[wide, 2])?.div(wide as f64)?;
        let turned = self.complex_mul(&factors)?.fit_length(1, wide)?.transform(-1.0)?;
        let back = turned.complex_mul(&filter)?.transform(1.0)?;
        back.fit_length(1, count)?.complex_mul(&factors)
    }

    /// Returns the first half of the transforms of real numbers: `[lines, count] -> [lines, count / 2 + 1, 2]`.
    fn real_transform(&self, count: usize) -> Result<Tensor> {
        let (lines, kept) = (self.shape[0], count / 2 + 1);
        match Split::of(count) {
            Split::Direct => {
                let matrix = tables::real_matrix(count, kept);
                let matrix = self.device.tensor(&matrix, &[count, 2 * kept])?;
                self.matmul(&matrix)?.reshape(&[lines, kept, 2])
            }
            Split::Factors(rows, columns) if Split::of(rows) == Split::Direct => {
                let grid = self.reshape(&[lines, rows, columns])?.permute(&[0, 2, 1])?;
                let matrix = tables::real_matrix(rows, rows);
                let matrix = self.device.tensor(&matrix, &[rows, 2 * rows])?;
                let first = grid.reshape(&[lines * columns, rows])?.matmul(&matrix)?;
                first.second_step(lines, rows, columns, -1.0)?.fit_length(1, kept)
            }
            _ => {
                let complex = self.unsqueeze(2)?.pad_static(&[(0, 0), (0, 0), (0, 1)], 0.0)?;
                complex.transform(-1.0)?.fit_length(1, kept)
            }
        }
    }

    /// Returns real numbers from the first half of their transforms: `[lines, count / 2 + 1, 2] -> [lines, count]`.
    fn real_inverse(&self, count: usize) -> Result<Tensor> {
        let (lines, kept) = (self.shape[0], self.shape[1]);
        if Split::of(count) == Split::Direct {
            let matrix = tables::real_inverse_matrix(count, kept);
            let matrix = self.device.tensor(&matrix, &[2 * kept, count])?;
            return self.reshape(&[lines, 2 * kept])?.matmul(&matrix);
        }
        // The second half is the mirror image of the first.
        let mirror = self.slice_static(1, 1..(count.div_ceil(2)) as isize, 1)?.flip(&[1])?;
        let sign = self.device.tensor(&[1.0f32, -1.0], &[2])?;
        let whole = Tensor::concat(&[self.clone(), mirror.mul(sign)?], 1)?;
        whole.transform(1.0)?.slice_static(2, ..1, 1)?.squeeze(2)
    }
}

/// The algorithm for a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Direct,
    Factors(usize, usize),
    Chirp,
}

impl Split {
    fn of(count: usize) -> Split {
        if count <= MAX_DIRECT {
            return Split::Direct;
        }
        // Uses the smallest number of steps, with factors that are as equal as possible.
        let steps = (count as f64).ln() / (MAX_DIRECT as f64).ln();
        let even = (count as f64).powf(1.0 / steps.ceil());
        let off = |factor: usize| (factor as f64 / even).ln().abs();
        let direct = (2..=MAX_DIRECT).filter(|factor| count.is_multiple_of(*factor));
        let best = direct.min_by(|&a, &b| off(a).total_cmp(&off(b)));
        let prime =
            || (MAX_DIRECT + 1..).take_while(|n| n * n <= count).find(|n| count.is_multiple_of(*n));
        match best.or_else(prime) {
            Some(factor) => Split::Factors(factor, count / factor),
            None if count <= MAX_DIRECT_PRIME => Split::Direct,
            None => Split::Chirp,
        }
    }
}
