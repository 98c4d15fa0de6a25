//! `grid_sample`: interpolates between elements at the positions that a grid lists.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};

/// The interpolation of [`Tensor::grid_sample`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleMode {
    /// The surrounding elements, weighted by proximity along each axis: four of an image, eight of a volume.
    #[default]
    Bilinear,
    /// The nearest element; of two, the one at the even position.
    Nearest,
    /// The sixteen surrounding elements of an image, by the cubic convolution of Keys (1981) with the parameter -0.75.
    Bicubic,
}

/// The values that [`Tensor::grid_sample`] uses outside the input.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplePadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The values at the edges, repeated.
    Border,
    /// The mirror image, repeated.
    Reflection,
}

/// Options of [`Tensor::grid_sample`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridSampleOptions {
    /// The interpolation. The default is [`SampleMode::Bilinear`].
    pub mode: SampleMode,
    /// The values outside of the input. The default is [`SamplePadding::Zeros`].
    pub padding_mode: SamplePadding,
    /// Whether -1 and 1 are the centers of the first and the last element, and not their outer edges. The default is `false`.
    pub align_corners: bool,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Interpolates at the positions of a grid. (`grid_sample` in PyTorch.)
    ///
    /// For images `[batch, channels, height, width]`, the grid is `[batch, h, w, 2]` with pairs (x, y), and the result is
    /// `[batch, channels, h, w]`. For volumes `[batch, channels, depth, height, width]`, the grid is
    /// `[batch, d, h, w, 3]` with (x, y, z), and the result is `[batch, channels, d, h, w]`.
    ///
    /// Positions are from -1 to 1, from one edge of the input to the other. With `align_corners`, they are from the
    /// center of the first element to that of the last.
    ///
    /// The forward pass is one kernel. The gradient by the input is a product with a one-hot matrix, with as many steps
    /// as positions times elements.
    ///
    /// # Errors
    /// `Shape` if the shapes do not fit or are empty, and for volumes with [`SampleMode::Bicubic`]; `DType` unless both
    /// have one float type.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// # use warpweft::tensor::GridSampleOptions;
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    /// let grid = device.tensor(&[0.0f32, 0.0, 1.0, -1.0], &[1, 1, 2, 2])?;
    /// let options = GridSampleOptions { align_corners: true, ..Default::default() };
    /// let y = x.grid_sample(&grid, options)?;
    /// assert_eq!(y.read::<f32>().await?, [2.5, 2.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn grid_sample(&self, grid: &Tensor, options: GridSampleOptions) -> Result<Tensor> {
        let name = "grid_sample";
        let GridSampleOptions { mode, padding_mode, align_corners } = options;
        self.check_float(name)?;
        if grid.dtype != self.dtype {
            let (a, b) = (self.dtype, grid.dtype);
            return Err(Error::mixed_dtypes(name, a, b));
        }
        let axes = self.rank().saturating_sub(2);
        let fits = (2..=3).contains(&axes)
            && grid.rank() == self.rank()
            && grid.shape[0] == self.shape[0]
            && grid.shape[axes + 1] == axes
            && !self.shape[2..].contains(&0);
        if !fits {
            let must =
                "input and grid must be [batch, channels, height, width] and [batch, h, w, 2], or with a depth and 3";
            return Err(Error::shapes(name, must, &self.shape, &grid.shape));
        }
        if mode == SampleMode::Bicubic && axes != 2 {
            let message =
                format!("{name}: the input of bicubic must have rank 4, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        let dims = [&self.shape[..2], &grid.shape[1..axes + 1]].concat();
        if dims.contains(&0) {
            return self.device.zeros((&dims[..], self.dtype));
        }
        with_op_name(name, || {
            let count: usize = grid.shape[1..axes + 1].iter().product();
            let places = grid.cast(DType::F32)?.reshape(&[grid.shape[0], count, axes])?;
            let mut along = Vec::with_capacity(axes);
            for (axis, &extent) in self.shape[2..].iter().enumerate() {
                // x is the coordinate along the last axis.
                let part = (axes - 1 - axis) as isize;
                let place = places.slice_static(2, part..part + 1, 1)?.squeeze(2)?;
                let place = in_elements(&place, extent, align_corners)?;
                let edges =
                    |place: &Tensor| within_edges(place, extent, padding_mode, align_corners);
                along.push(match mode {
                    SampleMode::Bicubic => Places::cubic(&place, extent, &edges)?,
                    _ => Places::around(&edges(&place)?, extent, mode)?,
                });
            }
            let sum = self.sample_at(&along)?;
            sum.permute(&[0, 2, 1])?.reshape(&dims)?.cast(self.dtype)
        })
    }

    /// Returns the weighted sum of the elements around each position: `[batch, positions, channels]`.
    fn sample_at(&self, along: &[Vec<Places>]) -> Result<Tensor> {
        let spatial = &self.shape[2..];
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        order.remove(1);
        order.push(1);
        let lines = [self.shape[0], spatial.iter().product(), self.shape[1]];
        let lines = self.permute(&order)?.reshape(&lines)?.cast(self.dtype.compute())?;
        // All combinations of one neighbor along each axis.
        let choices: usize = along.iter().map(Vec::len).product();
        let mut sum: Option<Tensor> = None;
        for choice in 0..choices {
            let (mut rest, mut found) = (choice, None::<Places>);
            for (places, &extent) in along.iter().zip(spatial) {
                let next = &places[rest % places.len()];
                rest /= places.len();
                found = Some(match found {
                    None => next.clone(),
                    Some(before) => before.then(next, extent)?,
                });
            }
            let Some(Places { at, inside, share }) = found else { continue };
            let picked = lines.gather_rows(&inside.where_cond(&at, -1)?)?;
            let part = match share {
                Some(share) => picked.mul(share.unsqueeze(2)?)?,
                None => picked,
            };
            sum = Some(match sum {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
        sum.ok_or_else(|| Error::shape("grid_sample: there must be an axis, got none"))
    }
}

/// One neighboring element for each position: its index, whether it is inside the input, and its weight.
#[derive(Clone)]
struct Places {
    at: Tensor,
    inside: Tensor,
    share: Option<Tensor>,
}

impl Places {
    fn new(at: &Tensor, extent: usize, share: Option<Tensor>) -> Result<Places> {
        let inside = at.ge(0.0)?.logical_and(&at.le(extent as f64 - 1.0)?)?;
        Ok(Places { at: at.cast(DType::I32)?, inside, share })
    }

    /// Returns the neighbors along one axis: the nearest one, or the two around the position.
    fn around(place: &Tensor, extent: usize, mode: SampleMode) -> Result<Vec<Places>> {
        if mode == SampleMode::Nearest {
            return Ok(vec![Places::new(&place.round(), extent, None)?]);
        }
        let low = place.floor();
        let far = place.sub(&low)?;
        let near = far.neg().add(1.0)?;
        let high = low.add(1.0)?;
        Ok(vec![Places::new(&low, extent, Some(near))?, Places::new(&high, extent, Some(far))?])
    }

    /// Returns the four neighbors along one axis, with the weights of a cubic convolution. Each is moved inside
    /// separately.
    fn cubic(
        place: &Tensor,
        extent: usize,
        edges: &dyn Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Vec<Places>> {
        let low = place.floor();
        let far = place.sub(&low)?;
        let mut places = Vec::with_capacity(4);
        for tap in 0..4 {
            let offset = f64::from(tap) - 1.0;
            let distance = far.sub(offset)?.abs();
            let share = match tap {
                1 | 2 => polynomial(&distance, [CUBIC + 2.0, -CUBIC - 3.0, 0.0, 1.0])?,
                _ => polynomial(&distance, [CUBIC, -5.0 * CUBIC, 8.0 * CUBIC, -4.0 * CUBIC])?,
            };
            let at = edges(&low.add(offset)?)?.round();
            places.push(Places::new(&at, extent, Some(share))?);
        }
        Ok(places)
    }

    /// Extends the indices by a further axis of this extent.
    fn then(&self, next: &Places, extent: usize) -> Result<Places> {
        let share = match (&self.share, &next.share) {
            (Some(a), Some(b)) => Some(a.mul(b)?),
            _ => None,
        };
        Ok(Places {
            at: self.at.mul(extent)?.add(&next.at)?,
            inside: self.inside.logical_and(&next.inside)?,
            share,
        })
    }
}

/// The parameter of the cubic convolution of Keys (1981), with the value that PyTorch uses.
const CUBIC: f64 = -0.75;

/// Evaluates a cubic polynomial. Coefficients start at the highest power.
fn polynomial(x: &Tensor, [a, b, c, d]: [f64; 4]) -> Result<Tensor> {
    x.mul(a)?.add(b)?.mul(x)?.add(c)?.mul(x)?.add(d)
}

/// Converts coordinates from -1 to 1 to positions of elements.
fn in_elements(place: &Tensor, extent: usize, align_corners: bool) -> Result<Tensor> {
    let extent = extent as f64;
    match align_corners {
        true => place.add(1.0)?.mul((extent - 1.0) / 2.0),
        false => place.add(1.0)?.mul(extent / 2.0)?.sub(0.5),
    }
}

/// Moves positions outside the input inside, except for padding with zeros.
fn within_edges(
    place: &Tensor,
    extent: usize,
    padding: SamplePadding,
    align_corners: bool,
) -> Result<Tensor> {
    let last = extent as f64 - 1.0;
    let mirrored = match padding {
        SamplePadding::Zeros => return Ok(place.clone()),
        SamplePadding::Border => place.clone(),
        SamplePadding::Reflection => {
            // Positions are mirrored at the centers of the outermost elements, or at their edges.
            let (edge, length) = if align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
            if length == 0.0 {
                return place.zeros_like().add(0.0);
            }
            let rest = place.sub(edge)?.abs().fmod(2.0 * length)?;
            rest.gt(length)?.where_cond(rest.neg().add(2.0 * length)?, &rest)?.add(edge)?
        }
    };
    mirrored.clamp(0.0, last)
}
