//! Resampling: the last axes with other extents.

use super::{within, Tensor};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

/// Which elements a resized axis is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The element at `floor(i * extent / size)`, as PyTorch's `nearest`.
    Nearest,
    /// The element under the new one's centre, `floor((i + 1/2) * extent / size)`.
    NearestExact,
    /// Between the two elements whose centres lie around the new one's; the outermost elements reach to the edges.
    Linear,
    /// The same, but the first and last elements stay where they are (`align_corners`).
    LinearCorners,
}

impl Tensor {
    /// The last axes with the extents `sizes`, each element made of those of `self` at the same place: of a picture
    /// `[batch, channels, height, width]`, `resize(&[2 * height, 2 * width], Resize::Linear)` is twice as large
    /// (bilinear).
    ///
    /// # Errors
    /// `Shape` if a size is 0, there are more sizes than axes, or an axis is empty; `DType` unless it is of floats;
    /// `Limit` where `2 * extent * size` is above 2^31.
    pub fn resize(&self, sizes: &[usize], mode: Resize) -> Result<Tensor> {
        let name = "resize";
        self.need_float(name)?;
        let first = self.rank().checked_sub(sizes.len());
        let fits = first.filter(|&first| !sizes.contains(&0) && !self.shape[first..].contains(&0));
        let Some(first) = fits else {
            let why = "the sizes of the last axes, all of at least 1";
            return Err(Error::shapes(name, &self.shape, sizes, why));
        };
        let mut resized = self.clone();
        for (i, &size) in sizes.iter().enumerate() {
            let extent = self.shape[first + i];
            let doubled = extent.checked_mul(2).and_then(|extent| extent.checked_mul(size));
            if doubled.is_none_or(|doubled| doubled > i32::MAX as usize) {
                let message = format!("{name}: from {extent} to {size} elements is too far");
                return Err(Error::new(ErrorKind::Limit, message));
            }
            if extent != size {
                resized = within(name, || resized.resampled(first + i, size, mode))?;
            }
        }
        Ok(resized)
    }

    fn resampled(&self, axis: usize, size: usize, mode: Resize) -> Result<Tensor> {
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
            Resize::LinearCorners => (position.mul(long - 1)?, (short - 1).max(1)),
        };
        let low = above.div(below)?;
        let axis = axis as isize;
        let before = self.index_select(axis, &low)?;
        if matches!(mode, Resize::Nearest | Resize::NearestExact) {
            return Ok(before);
        }
        let mut dims = vec![1; self.rank() - axis as usize];
        dims[0] = size;
        let rest = above.sub(&low.mul(below)?)?.cast(DType::F32)?.div(f64::from(below))?;
        let rest = rest.cast(self.dtype)?.reshape(&dims)?;
        let after = self.index_select(axis, &low.add(1)?.minimum(long - 1)?)?;
        before.lerp(&after, &rest)
    }
}
