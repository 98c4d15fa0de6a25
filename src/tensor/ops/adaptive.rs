//! Pooling to given sizes: an axis in so many parts, which overlap where they do not divide it.

use super::scan::identity;
use crate::dtype::{DType, NUMBERS};
use crate::error::{Error, ErrorKind, Result};
use crate::op::Reduction;
use crate::tensor::{kept, within, Tensor};

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The mean of each of `sizes` parts of the last axes, which overlap where they do not divide: the i-th of n is from
    /// `floor(i * extent / n)` to `ceil((i + 1) * extent / n)`.
    ///
    /// # Errors
    /// `Shape` if a size is 0, there are more sizes than axes, or an axis is empty; `DType` unless it is of floats.
    pub fn adaptive_avg_pool(&self, sizes: &[usize]) -> Result<Tensor> {
        let name = "adaptive_avg_pool";
        self.need_float(name)?;
        self.widely(|x| {
            x.by_parts(name, sizes, |pooled, axis, size| match pooled.shape[axis] % size {
                0 => pooled.even_parts(axis, size)?.mean(-1),
                _ => pooled.averages(axis, size),
            })
        })
    }

    /// The largest element of each of `sizes` parts of the last axes, as [`Tensor::adaptive_avg_pool`]; NaN if there is
    /// one.
    ///
    /// # Errors
    /// The same; `DType` for `bool`.
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
        self.by_parts(name, sizes, |pooled, axis, size| match pooled.shape[axis] % size {
            0 => pooled.even_parts(axis, size)?.max(-1),
            _ => pooled.largest(axis, size),
        })
    }

    /// Where the largest element of each part stands, counted row-major over these axes, as `i32`; of several the first.
    /// Goes with [`Tensor::adaptive_max_pool`]. (PyTorch's `return_indices`.)
    ///
    /// # Errors
    /// As [`Tensor::adaptive_max_pool`]; `Limit` where there are more than 2^31 places.
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
        let first = self.first_of_parts(name, sizes)?;
        let plane = &self.shape[first..];
        let count = plane.iter().fold(1usize, |count, &extent| count.saturating_mul(extent));
        if count > i32::MAX as usize {
            let message = format!("{name}: there must be at most 2^31 positions, got {count}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        within(name, || {
            let places = self.device.iota(&[count], 0)?.reshape(plane)?.expand(&self.shape)?;
            let (mut values, mut places) = (self.clone(), places);
            for (i, &size) in sizes.iter().enumerate() {
                (values, places) = values.largest_at(&places, first + i, size)?;
            }
            Ok(places)
        })
    }

    /// Axis by axis.
    fn by_parts(
        &self,
        name: &str,
        sizes: &[usize],
        pool: impl Fn(&Tensor, usize, usize) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let first = self.first_of_parts(name, sizes)?;
        let mut pooled = self.clone();
        for (i, &size) in sizes.iter().enumerate() {
            pooled = within(name, || pool(&pooled, first + i, size))?;
        }
        Ok(pooled)
    }

    /// The first axis that is divided into parts, of which there are so many.
    fn first_of_parts(&self, name: &str, sizes: &[usize]) -> Result<usize> {
        let first = self.rank().checked_sub(sizes.len());
        let fits = first.filter(|&first| !sizes.contains(&0) && !self.shape[first..].contains(&0));
        let Some(first) = fits else {
            let must =
                "there must be at most one size for each axis, and sizes and axes of at least 1";
            return Err(Error::shapes(name, must, &self.shape, sizes));
        };
        for (&extent, &size) in self.shape[first..].iter().zip(sizes) {
            if extent.checked_mul(size).is_none_or(|product| product > i32::MAX as usize / 2) {
                let message = format!("{name}: the output size must be from 1 to the axis, got {size} for an axis of {extent}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
        }
        Ok(first)
    }

    /// Parts that do not overlap, their elements along a new last axis.
    fn even_parts(&self, axis: usize, size: usize) -> Result<Tensor> {
        let part = self.shape[axis] / size;
        self.unfold(axis as isize, part, part, 1)
    }

    /// A product with the matrix of what each part has of each element.
    fn averages(&self, axis: usize, size: usize) -> Result<Tensor> {
        let shape = &[self.shape[axis], size];
        let (element, part) = (self.device.iota(shape, 0)?, self.device.iota(shape, 1)?);
        let (start, end) = self.bounds(axis, size, &part)?;
        let inside = element.ge(&start)?.logical_and(&element.lt(&end)?)?.cast(self.dtype)?;
        let weights = inside.div(&end.sub(&start)?.cast(self.dtype)?)?;
        let axis = axis as isize;
        self.transpose(axis, -1)?.matmul(&weights)?.transpose(axis, -1)
    }

    /// The largest of each part.
    fn largest(&self, axis: usize, size: usize) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        dims[axis] = size;
        self.gathered_parts(axis, size, identity(Reduction::Max, self.dtype))?
            .max(2)?
            .reshape(&dims)
    }

    /// The largest of each part, and which of the places it has.
    fn largest_at(&self, places: &Tensor, axis: usize, size: usize) -> Result<(Tensor, Tensor)> {
        let mut dims = self.shape.to_vec();
        dims[axis] = size;
        let values = self.gathered_parts(axis, size, identity(Reduction::Max, self.dtype))?;
        let beyond = f64::from(i32::MAX);
        let places = places.gathered_parts(axis, size, beyond)?;
        let largest = values.max(kept(2))?;
        let mut found = values.eq(&largest)?;
        if self.dtype.is_float() {
            found = found.logical_or(&values.is_nan().logical_and(&largest.is_nan())?)?;
        }
        let first = found.where_cond(&places, beyond)?.min(2)?.reshape(&dims)?;
        Ok((largest.reshape(&dims)?, first))
    }

    /// The elements of each part, `[before, parts, longest, after]`; `none` is where a part has no more.
    fn gathered_parts(&self, axis: usize, size: usize, none: f64) -> Result<Tensor> {
        let extent = self.shape[axis];
        let longest = (extent.div_ceil(size) + 1).min(extent);
        let part = self.device.iota(&[size, 1], 0)?;
        let (start, end) = self.bounds(axis, size, &part)?;
        let place = start.add(self.device.iota(&[longest], 0)?)?;
        let inside = place.lt(end)?;
        let before: usize = self.shape[..axis].iter().product();
        let after: usize = self.shape[axis + 1..].iter().product();
        let lines = self.reshape(&[before, extent, after])?;
        let picked = lines.looked_up(1, &inside.where_cond(place, -1)?)?;
        let none = self.device.constant(&[], none, self.dtype)?;
        inside.unsqueeze(2)?.where_cond(picked, none)
    }

    /// Where parts begin and end.
    fn bounds(&self, axis: usize, size: usize, part: &Tensor) -> Result<(Tensor, Tensor)> {
        let (long, count) = (self.shape[axis] as i32, size as i32);
        let start = part.mul(long)?.floor_divide(count)?;
        let end = part.add(1)?.mul(long)?.add(count - 1)?.floor_divide(count)?;
        Ok((start, end))
    }
}
