//! Resampling: `resize` and `resample` give axes other extents by interpolation.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{with_op_name, Tensor};

/// Which elements a resized axis is made of.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The element at `floor(i * extent / size)`, as PyTorch's `nearest`.
    Nearest,
    /// The element under the new one's center, `floor((i + 1/2) * extent / size)`.
    NearestExact,
    /// Between the two elements whose centers lie around the new one's; the outermost elements reach to the edges.
    Linear,
    /// The same, but the first and last elements stay where they are (`align_corners`).
    LinearCorners,
    /// Four elements weighed by [`Filter::Cubic`] with -0.75 around the new one's center, as PyTorch's `bicubic`. Beyond
    /// the edges the outermost elements go on.
    Cubic,
    /// The same, but the first and last elements stay where they are.
    CubicCorners,
    /// As `Linear`, but where the axis becomes shorter the filter is as much wider, so that every element counts
    /// (`antialias`). What is beyond the edges counts for nothing.
    LinearAntialias,
    /// The same with [`Filter::Cubic`] of -0.5, as PyTorch's.
    CubicAntialias,
}

/// What is made of the elements around a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// The one before it.
    Floor,
    /// The one after it.
    Ceil,
    /// The nearest one; of two the one before.
    HalfDown,
    /// The nearest one; of two the one after.
    HalfUp,
    /// The two around it, each by how near it is.
    Linear,
    /// The four around it, by the cubic convolution of Keys (1981), whose slope at distance 1 is this number: -0.75 and
    /// -0.5 are in use.
    Cubic(f64),
}

/// How [`Tensor::resample`] looks at an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The place of the first element of the result, counted in elements.
    pub first: f64,
    /// How far it is from there to the next one's. Less than 0 goes backwards.
    pub step: f64,
    pub filter: Filter,
    /// Whether `Linear` and `Cubic` are as much wider as a step is more than 1.
    pub antialias: bool,
    /// Whether what is beyond the edges counts for nothing; else the outermost elements go on.
    pub inside: bool,
}

impl Sampling {
    /// As [`Resize::Linear`] and [`Resize::Cubic`] see an axis of `extent` elements that becomes one of `size`: centers
    /// on centers.
    pub fn centred(extent: usize, size: usize, filter: Filter) -> Sampling {
        let step = extent as f64 / size as f64;
        Sampling { first: step / 2.0 - 0.5, step, filter, antialias: false, inside: false }
    }

    /// The first element on the first, and the last on the last.
    pub fn corners(extent: usize, size: usize, filter: Filter) -> Sampling {
        let step = (extent as f64 - 1.0) / (size as f64 - 1.0).max(1.0);
        Sampling { first: 0.0, step, filter, antialias: false, inside: false }
    }

    /// As many elements as count at most, and for each of `size` places which those are and how much of each there is.
    /// Those that do not count are the -1st.
    fn taps(&self, extent: usize, size: usize) -> (usize, Vec<i32>, Vec<f32>) {
        let width = if self.antialias { self.step.abs().max(1.0) } else { 1.0 };
        let (reach, sharpness) = match self.filter {
            Filter::Linear => (width, None),
            Filter::Cubic(sharpness) => (2.0 * width, Some(sharpness)),
            _ => (0.0, None),
        };
        let count = (2.0 * reach) as usize + 1;
        let (mut places, mut weights) = (vec![-1; count * size], vec![0.0; count * size]);
        let last = extent as f64 - 1.0;
        for i in 0..size {
            let place = self.first + i as f64 * self.step;
            let start = match self.filter {
                Filter::Floor => place.floor(),
                Filter::Ceil => place.ceil(),
                Filter::HalfDown => (place - 0.5).ceil(),
                Filter::HalfUp => (place + 0.5).floor(),
                _ => (place - reach).ceil(),
            };
            let weight = |tap: usize| {
                let at = start + tap as f64;
                if self.inside && !(0.0..=last).contains(&at) {
                    return 0.0;
                }
                if reach == 0.0 {
                    return 1.0;
                }
                kernel(((at - place) / width).abs(), sharpness)
            };
            let mut sum = 0.0;
            for tap in 0..count {
                sum += weight(tap);
            }
            for tap in 0..count {
                let share = weight(tap);
                if share != 0.0 && sum != 0.0 {
                    places[tap * size + i] = (start + tap as f64).clamp(0.0, last) as i32;
                    weights[tap * size + i] = (share / sum) as f32;
                }
            }
        }
        (count, places, weights)
    }
}

/// The weight at a distance: linear, or cubic (Keys 1981).
fn kernel(x: f64, sharpness: Option<f64>) -> f64 {
    match sharpness {
        None => (1.0 - x).max(0.0),
        Some(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        Some(a) if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        Some(_) => 0.0,
    }
}

/// Up to this many elements, a result is a formula of them. More are summed over a new axis.
const MAX_INLINE_TAPS: usize = 5;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The last axes with the extents `sizes`, each element made of those of `self` at the same place: of a picture
    /// `[batch, channels, height, width]`, `resize(&[2 * height, 2 * width], Resize::Linear)` is twice as large
    /// (bilinear).
    ///
    /// # Errors
    /// `Shape` if a size is 0, there are more sizes than axes, or an axis is empty; `DType` unless it is of floats;
    /// `Limit` where `2 * extent * size` is above 2^31.
    #[cfg_attr(feature = "js", js(default(mode = Resize::Linear)))]
    pub fn resize(&self, sizes: &[usize], mode: Resize) -> Result<Tensor> {
        let name = "resize";
        self.check_float(name)?;
        let first = self.rank().checked_sub(sizes.len());
        let fits = first.filter(|&first| !sizes.contains(&0) && !self.shape[first..].contains(&0));
        let Some(first) = fits else {
            let must =
                "there must be at most one size for each axis, and sizes and axes of at least 1";
            return Err(Error::shapes(name, must, &self.shape, sizes));
        };
        let mut resized = self.clone();
        for (i, &size) in sizes.iter().enumerate() {
            let extent = self.shape[first + i];
            let doubled = extent.checked_mul(2).and_then(|extent| extent.checked_mul(size));
            if doubled.is_none_or(|doubled| doubled > i32::MAX as usize) {
                let message = format!("{name}: 2 * extent * size must be at most 2^31, got extent {extent} and size {size}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
            if extent == size {
                continue;
            }
            let axis = first + i;
            let cubic = Filter::Cubic(-0.75);
            let wide = |filter| Sampling {
                antialias: true,
                inside: true,
                ..Sampling::centred(extent, size, filter)
            };
            let sampling = match mode {
                Resize::Cubic => Sampling::centred(extent, size, cubic),
                Resize::CubicCorners => Sampling::corners(extent, size, cubic),
                Resize::LinearAntialias => wide(Filter::Linear),
                Resize::CubicAntialias => wide(Filter::Cubic(-0.5)),
                _ => {
                    resized = with_op_name(name, || resized.interpolate_axis(axis, size, mode))?;
                    continue;
                }
            };
            resized = with_op_name(name, || resized.resample(axis as isize, size, sampling))?;
        }
        Ok(resized)
    }

    /// An axis with `size` elements, the i-th made of those around the place `first + i * step` of this one's.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty, or the size is 0; `DType` unless it is of floats; `Data` where the
    /// numbers are not finite; `Limit` where a place is beyond 2^30, or more than 2^26 elements count in all.
    #[cfg_attr(feature = "js", js(skip))]
    pub fn resample(&self, axis: isize, size: usize, by: Sampling) -> Result<Tensor> {
        let name = "resample";
        let at = self.shape.axis(name, axis)?;
        self.check_float(name)?;
        let extent = self.shape[at];
        if extent == 0 || size == 0 {
            let must = "the axis and the size must be at least 1";
            return Err(Error::shapes(name, must, &self.shape, &[size]));
        }
        let sharpness = if let Filter::Cubic(sharpness) = by.filter { sharpness } else { 0.0 };
        if !(by.first.is_finite() && by.step.is_finite() && sharpness.is_finite()) {
            return Err(Error::data(format!(
                "{name}: first, step and sharpness must be finite, got {}, {} and {sharpness}",
                by.first, by.step
            )));
        }
        let reach = size as f64 * by.step.abs();
        let many = 5.0 * size as f64 + if by.antialias { 4.0 * reach } else { 0.0 };
        if by.first.abs() + reach > f64::from(1 << 30) || many > f64::from(1 << 26) {
            let message = format!("{name}: positions must be below 2^30, and elements below 2^26, got {size} of {extent}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        with_op_name(name, || self.resample_axis(at, size, by))
    }

    fn resample_axis(&self, axis: usize, size: usize, by: Sampling) -> Result<Tensor> {
        let (count, places, weights) = by.taps(self.shape[axis], size);
        let places = self.device.tensor(&places, &[count, size])?;
        let weights = self.device.tensor(&weights, &[count, size])?;
        let before: usize = self.shape[..axis].iter().product();
        let after: usize = self.shape[axis + 1..].iter().product();
        let lines = self.reshape(&[before, self.shape[axis], after])?.cast(self.dtype.compute())?;
        let sum = if count == 1 {
            lines.index_select_raw(1, &places.reshape(&[size])?)?
        } else if count <= MAX_INLINE_TAPS {
            let mut sum: Option<Tensor> = None;
            for tap in 0..count as isize {
                let place = places.select(0, tap)?;
                let weight = weights.select(0, tap)?.unsqueeze(1)?;
                let share = lines.index_select_raw(1, &place)?.mul(&weight)?;
                sum = Some(match sum {
                    Some(sum) => sum.add(&share)?,
                    None => share,
                });
            }
            sum.unwrap_or(lines)
        } else {
            let weights = weights.reshape(&[count, size, 1])?;
            lines.index_select_raw(1, &places)?.mul(&weights)?.sum(1)?
        };
        let mut dims = self.shape.to_vec();
        dims[axis] = size;
        sum.reshape(&dims)?.cast(self.dtype)
    }

    fn interpolate_axis(&self, axis: usize, size: usize, mode: Resize) -> Result<Tensor> {
        let (long, short) = (self.shape[axis] as i32, size as i32);
        let position = self.device.iota(&[size], 0)?;
        // The place as a fraction of integers, which are exact.
        let (above, below) = match mode {
            Resize::Nearest => (position.mul(long)?, short),
            Resize::NearestExact => (position.mul(2)?.add(1)?.mul(long)?, 2 * short),
            Resize::Linear => {
                let above = position.mul(2)?.add(1)?.mul(long)?.sub(short)?;
                (above.maximum(0)?, 2 * short)
            }
            _ => (position.mul(long - 1)?, (short - 1).max(1)),
        };
        let low = above.floor_divide(below)?;
        let before = self.index_select_raw(axis, &low)?;
        if matches!(mode, Resize::Nearest | Resize::NearestExact) {
            return Ok(before);
        }
        let mut dims = vec![1; self.rank() - axis];
        dims[0] = size;
        let rest = above.sub(&low.mul(below)?)?.cast(DType::F32)?.div(f64::from(below))?;
        let rest = rest.cast(self.dtype)?.reshape(&dims)?;
        let after = self.index_select_raw(axis, &low.add(1)?.minimum(long - 1)?)?;
        before.lerp(&after, &rest)
    }
}
