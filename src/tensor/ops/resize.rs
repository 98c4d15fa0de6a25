//! Resampling: `resize` and `resample` interpolate axes to other extents.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{with_op_name, Tensor};

/// The interpolation of a resized axis.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resize {
    /// The element at `floor(i * extent / size)`, like `nearest` in PyTorch.
    Nearest,
    /// The element at the center of the new element, `floor((i + 1/2) * extent / size)`.
    NearestExact,
    /// Linear interpolation between the two elements whose centers surround the new center. Edge values are repeated.
    Linear,
    /// Linear interpolation in which the first and last elements keep their positions (`align_corners`).
    LinearCorners,
    /// Four elements around the new center, weighted by [`Filter::Cubic`] with -0.75, like `bicubic` in PyTorch. Edge
    /// values are repeated.
    Cubic,
    /// Cubic interpolation in which the first and last elements keep their positions.
    CubicCorners,
    /// Linear interpolation whose filter is widened when the axis becomes shorter, so that every element counts
    /// (`antialias`). Samples outside the input are ignored.
    LinearAntialias,
    /// Antialiased cubic interpolation with [`Filter::Cubic`] of -0.5, as in PyTorch.
    CubicAntialias,
}

/// The interpolation filter: the elements around a position and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Filter {
    /// The element before the position.
    Floor,
    /// The element after the position.
    Ceil,
    /// The nearest element; of two, the earlier one.
    HalfDown,
    /// The nearest element; of two, the later one.
    HalfUp,
    /// The two surrounding elements, weighted by proximity.
    Linear,
    /// The four surrounding elements, weighted by the cubic convolution of Keys (1981). The number is the slope at
    /// distance 1, usually -0.75 or -0.5.
    Cubic(f64),
}

/// The positions and the filter by which [`Tensor::resample`] reads an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The position of the first element of the result, in elements of the input.
    pub first: f64,
    /// The distance from each position to the next. A negative step moves backwards.
    pub step: f64,
    /// The filter that computes an element from its neighbors.
    pub filter: Filter,
    /// Whether to widen `Linear` and `Cubic` filters for steps longer than 1, in proportion to the step (antialiasing).
    pub antialias: bool,
    /// If true, samples outside the input are ignored; otherwise edge values are repeated.
    pub inside: bool,
}

impl Sampling {
    /// Creates the sampling of [`Resize::Linear`] and [`Resize::Cubic`], from `extent` to `size` elements: the centers of
    /// both axes coincide.
    pub fn centered(extent: usize, size: usize, filter: Filter) -> Sampling {
        let step = extent as f64 / size as f64;
        Sampling { first: step / 2.0 - 0.5, step, filter, antialias: false, inside: false }
    }

    /// Creates a sampling in which the first and last elements keep their positions.
    pub fn corners(extent: usize, size: usize, filter: Filter) -> Sampling {
        let step = (extent as f64 - 1.0) / (size as f64 - 1.0).max(1.0);
        Sampling { first: 0.0, step, filter, antialias: false, inside: false }
    }

    /// Returns the number of taps (input elements for each position), and the elements and weights of all taps at `size`
    /// positions. Unused taps have the element -1.
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

/// Returns the weight at a distance, linear or cubic (Keys 1981).
fn kernel(x: f64, sharpness: Option<f64>) -> f64 {
    match sharpness {
        None => (1.0 - x).max(0.0),
        Some(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        Some(a) if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        Some(_) => 0.0,
    }
}

/// Up to this many taps are added one by one in one formula. More taps are summed over a new axis.
const MAX_INLINE_TAPS: usize = 5;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Resizes the last axes to `sizes` by interpolation. For an image `[batch, channels, height, width]`,
    /// `resize(&[2 * height, 2 * width], Resize::Linear)` doubles its size (bilinear).
    ///
    /// # Errors
    /// `Shape` if a size is 0, there are more sizes than axes, or an axis is empty; `DType` unless the tensor is a float;
    /// `Limit` if `2 * extent * size` exceeds 2^31.
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
                ..Sampling::centered(extent, size, filter)
            };
            let sampling = match mode {
                Resize::Cubic => Sampling::centered(extent, size, cubic),
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

    /// Resamples an axis to `size` elements. Element i is interpolated at the position `first + i * step` of the input.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty, or the size is 0; `DType` unless the tensor is a float;
    /// `InvalidArgument` unless all numbers are finite; `Limit` if a position exceeds 2^30, or for more than 2^26 taps in
    /// total.
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
            return Err(Error::argument(format!(
                "{name}: first, step and the cubic slope (`sharpness`) must be finite, got {}, {} and {sharpness}",
                by.first, by.step
            )));
        }
        let reach = size as f64 * by.step.abs();
        let many = 5.0 * size as f64 + if by.antialias { 4.0 * reach } else { 0.0 };
        if by.first.abs() + reach > f64::from(1 << 30) || many > f64::from(1 << 26) {
            let (first, step) = (by.first, by.step);
            let message = format!(
                "{name}: positions must be at most 2^30, and taps at most 2^26, got size {size} from {first} in steps of {step}"
            );
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
        // The position is a fraction of integers, which are exact.
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
