//! Writing elements to positions given by indices: `scatter`, `scatter_add`, `scatter_reduce`, `scatter_nd`, `index_add`.
//!
//! Problem: several source elements may have the same position, where they replace each other or are combined by a
//! reduction. Atomics would make the order of additions random.
//!
//! Idea: each element of the result finds the source elements for its position. So the same device gives the same bits
//! again.
//!
//! If there is little to compare, each element of the result compares its position with all indices. Otherwise the
//! indices are sorted, stably, so that equal indices stay in order. Elements with equal indices are then combined in a
//! segmented scan of `log(m)` doubling steps (Blelloch 1990). Each element of the result finds its last source by
//! bisection.
//!
//! Example: the indices `[2, 0, 2]` with the sources `[a, b, c]` are sorted to `[0, 2, 2]` and `[b, a, c]`. The segmented
//! scan gives `[b, a, a + c]`, and element 2 of the result finds `a + c`.

use crate::dtype::{DType, INDICES, NUMBERS};
use crate::error::{Error, Result};
use crate::op::{Op, Reduction, Span};
use crate::shape::pick;
use crate::tensor::helpers::{combining_op, identity_element};
use crate::tensor::{with_op_name, Operand, Tensor};

/// The way that [`Tensor::scatter_reduce`] combines elements of one position: a [`Reduction`], or the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterReduction {
    op: Reduction,
    mean: bool,
    include_self: bool,
}

/// Options of [`Tensor::scatter_nd`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScatterNdOptions {
    /// The reduction that combines elements of one position. The default is none: the last element replaces the others.
    pub reduction: Option<Reduction>,
}

impl ScatterReduction {
    /// Creates the arithmetic mean of the source elements and, by default, the previous element.
    pub fn mean() -> ScatterReduction {
        ScatterReduction { op: Reduction::Sum, mean: true, include_self: true }
    }

    /// Sets whether the previous element is combined as well, which is the default. Otherwise it is kept only where no
    /// source element is written.
    #[must_use]
    pub fn include_self(mut self, include_self: bool) -> ScatterReduction {
        self.include_self = include_self;
        self
    }
}

impl From<Reduction> for ScatterReduction {
    fn from(op: Reduction) -> ScatterReduction {
        ScatterReduction { op, mean: false, include_self: true }
    }
}

/// If indices times elements of the result are at most this many, each element compares its position with all indices.
const MAX_COMPARISONS: usize = 1 << 26;

/// The steps of a scan or a bisection in one kernel.
const STEPS_PER_KERNEL: usize = 3;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Replaces elements along `axis` at the positions in `index` (`i32` or `u32`) by those of `source`:
    /// `result[.., index[.., i, ..], ..] = source[.., i, ..]`. (`scatter` in PyTorch, `ScatterElements` in ONNX.)
    ///
    /// The source has the shape of the index, or is cropped to it. Along other axes the index may be shorter than this
    /// tensor. If several elements have the same position, the last one is kept. Negative positions count from the end,
    /// and positions outside are ignored.
    ///
    /// The cost is the number of elements times the number of indices along the axis, in one or two kernels. If that exceeds
    /// 2^26, the indices are sorted instead. The cost of the gradient is always this product.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or the shapes do not fit; `DType` unless the index is `i32` or `u32`, and the
    /// source has the type of this tensor.
    pub fn scatter(&self, axis: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        self.scatter_named("scatter", axis, index, source, None)
    }

    /// Adds all elements of `source` to the elements at the positions in `index`, like [`Tensor::scatter`].
    ///
    /// # Errors
    /// The errors of [`Tensor::scatter`]; `DType` for `bool`.
    pub fn scatter_add(&self, axis: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        self.scatter_named("scatter_add", axis, index, source, Some(Reduction::Sum))
    }

    /// Scatters along an axis, and combines elements by a reduction if there is one. A single number is a vector of one
    /// element.
    pub(super) fn scatter_named(
        &self,
        name: &str,
        axis: isize,
        index: &Tensor,
        source: &Tensor,
        op: Option<Reduction>,
    ) -> Result<Tensor> {
        if let (Some(line), 0, 0) = (self.scalar_as_vector(axis)?, index.rank(), source.rank()) {
            let (index, source) = (index.reshape(&[1])?, source.reshape(&[1])?);
            return line.scatter_named(name, 0, &index, &source, op)?.reshape(());
        }
        let extent = self.shape[self.shape.axis(name, axis)?];
        let index = with_op_name(name, || index.wrap_indices(name, extent))?;
        self.scatter_along(name, axis, &index, source, op)
    }

    /// Scatters like `scatter_named`, with positions that count from the start.
    fn scatter_along(
        &self,
        name: &str,
        axis: isize,
        index: &Tensor,
        source: &Tensor,
        op: Option<Reduction>,
    ) -> Result<Tensor> {
        let at = self.shape.axis(name, axis)?;
        let part = self.crop_to_index(name, at, index)?;
        let longer =
            index.shape.iter().zip(source.shape.iter()).any(|(index, source)| index > source);
        if index.rank() != source.rank() || longer {
            let must = "the index must be no longer than the source";
            return Err(Error::shapes(name, must, &index.shape, &source.shape));
        }
        self.check_source(name, index, source, op)?;
        if index.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name(name, || {
            if index.shape != source.shape {
                let cut = index.shape.iter().map(|&len| Span::whole(len));
                let source = source.apply(Op::Slice(cut.collect()), &[])?;
                return self.scatter_along(name, axis, index, &source, op);
            }
            // Elements beyond the extents of the index keep their values. They are appended axis by axis, the last axis
            // first.
            if part.shape != self.shape {
                let mut whole = part.scatter_along(name, axis, index, source, op)?;
                let mut dims = part.shape.to_vec();
                for other in
                    (0..self.rank()).rev().filter(|&other| part.shape[other] != self.shape[other])
                {
                    dims[other] = self.shape[other];
                    let cut = dims.iter().enumerate().map(|(i, &extent)| match i == other {
                        true => {
                            let start = part.shape[i];
                            Span::at(start, extent - start, 1)
                        }
                        false => Span::whole(extent),
                    });
                    let rest = self.apply(Op::Slice(cut.collect()), &[])?;
                    whole = Tensor::concat(&[whole, rest], other as isize)?;
                }
                return Ok(whole);
            }
            let here = self.axis_to_rows(at)?.unsqueeze(-1)?;
            let brought = here.scatter_into(
                &index.axis_to_rows(at)?,
                &source.axis_to_rows(at)?.unsqueeze(-1)?,
                op,
            )?;
            brought.squeeze(-1)?.rows_to_axis(&self.shape, at)
        })
    }

    /// Adds the slices of `source` along `axis` to those at the positions in `index`, which has one axis. Negative
    /// positions count from the end, and positions outside are ignored.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, if the source has another shape along other axes, or if the index does not have
    /// one position for each slice of the source; `DType` unless the index is `i32` or `u32`, and this tensor and the
    /// source have one numeric type.
    pub fn index_add(&self, axis: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let name = "index_add";
        if let (Some(line), 0, 1) = (self.scalar_as_vector(axis)?, source.rank(), index.numel()) {
            let added = line.index_add(0, &index.ravel(), &source.reshape(&[1])?)?;
            return added.reshape(());
        }
        let at = self.shape.axis(name, axis)?;
        self.check_same_except(name, at, source)?;
        if index.shape[..] != [source.shape[at]] {
            let must = format!(
                "the index must have one position for each along axis {axis} of the source"
            );
            return Err(Error::shapes(name, &must, &source.shape, &index.shape));
        }
        let op = Some(Reduction::Sum);
        self.check_source(name, index, source, op)?;
        if source.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name(name, || {
            let mut order: Vec<usize> = (0..self.rank()).collect();
            order.remove(at);
            order.insert(0, at);
            let columns: usize = order[1..].iter().map(|&axis| self.shape[axis]).product();
            let front = |x: &Tensor| {
                let moved = x.apply(Op::Permute(order.clone()), &[])?;
                moved.reshape(&[1, x.shape[at], columns])
            };
            let index = index.wrap_indices(name, self.shape[at])?.unsqueeze(0)?;
            let brought = front(self)?.scatter_into(&index, &front(source)?, op)?;
            let mut back: Vec<usize> = (1..self.rank()).collect();
            back.insert(at, 0);
            brought.reshape(&pick(&self.shape, &order))?.apply(Op::Permute(back), &[])
        })
    }

    /// Replaces elements at the coordinates that the last axis of `index` holds by those of `source`, or combines both by
    /// the reduction of the options. (`ScatterND` in ONNX.)
    ///
    /// The source has the shape that [`Tensor::gather_nd`] would return. If several elements have the same position, the
    /// last one is kept. Negative coordinates count from the end, and coordinates outside are ignored.
    ///
    /// # Errors
    /// `Shape` if the index or the source does not fit; the `DType` errors of [`Tensor::scatter_reduce`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::{Reduction, ScatterNdOptions}};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.ones(&[3])?;
    /// let index = device.tensor(&[2i32, 2], &[2, 1])?;
    /// let source = device.tensor(&[4.0f32, 5.0], &[2])?;
    /// let last = x.scatter_nd(&index, &source, ScatterNdOptions::default())?;
    /// assert_eq!(last.read::<f32>().await?, [1.0, 1.0, 5.0]);
    /// let options = ScatterNdOptions { reduction: Some(Reduction::Sum) };
    /// let sum = x.scatter_nd(&index, &source, options)?;
    /// assert_eq!(sum.read::<f32>().await?, [1.0, 1.0, 10.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn scatter_nd(
        &self,
        index: &Tensor,
        source: &Tensor,
        options: ScatterNdOptions,
    ) -> Result<Tensor> {
        let name = "scatter_nd";
        let op = options.reduction;
        let places = self.flat_positions(name, index)?;
        let (before, after) = self.shape.split_at(self.coordinate_count(index));
        if [&places.shape, after].concat() != source.shape[..] {
            let must = "the source must have the shape of the elements that the index selects";
            return Err(Error::shapes(name, must, &source.shape, &index.shape));
        }
        self.check_source(name, index, source, op)?;
        if source.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name(name, || {
            let (count, columns) = (places.numel(), after.iter().product());
            let rows = self.reshape(&[1, before.iter().product(), columns])?;
            let source = source.reshape(&[1, count, columns])?;
            rows.scatter_into(&places.reshape(&[1, count])?, &source, op)?.reshape(&self.shape)
        })
    }

    /// Rejects an index, a source or a reduction of the wrong type.
    fn check_source(
        &self,
        name: &str,
        index: &Tensor,
        source: &Tensor,
        op: Option<Reduction>,
    ) -> Result<()> {
        if !index.dtype.is_int() {
            let message =
                format!("{name}: indices must be {INDICES}, got {}; cast them", index.dtype);
            return Err(Error::dtype(message));
        }
        if source.dtype != self.dtype {
            let (here, there) = (self.dtype, source.dtype);
            return Err(Error::mixed_dtypes(name, here, there));
        }
        let (fits, wanted) = match op {
            None => (true, ""),
            Some(Reduction::Any | Reduction::All) => (self.dtype == DType::Bool, "bool"),
            Some(_) => (self.dtype.is_number(), NUMBERS),
        };
        if !fits {
            return Err(Error::wrong_dtype(name, wanted, self.dtype));
        }
        Ok(())
    }

    /// Scatters `source`, `[rows, m, columns]`, into `[rows, n, columns]` at the positions in `index`, `[rows, m]`.
    fn scatter_into(
        &self,
        index: &Tensor,
        source: &Tensor,
        op: Option<Reduction>,
    ) -> Result<Tensor> {
        let index = index.cast(DType::I32)?;
        let (count, columns) = (self.shape[1], self.shape[2]);
        let Some(op) = op else {
            let last = index.last_source_of_each(count)?;
            let brought = source.gather_rows(&last)?;
            return last.ge(0)?.unsqueeze(-1)?.where_cond(&brought, self);
        };
        let wide = self.dtype.compute();
        let source = source.cast(wide)?;
        let none = self.device.constant(&[], identity_element(op, wide), wide)?;
        let steps = index.numel().saturating_mul(count).saturating_mul(columns);
        let brought = if steps <= MAX_COMPARISONS {
            if matches!(op, Reduction::Max | Reduction::Min) && self.dtype.is_float() {
                let best = self.cast(wide)?.best_of_each(&index, &source, op, &none)?;
                return best.cast(self.dtype);
            }
            let found = index.index_matches(count)?.unsqueeze(2)?;
            let source = source.permute(&[0, 2, 1])?.unsqueeze(1)?;
            found.where_cond(&source, &none)?.reduce(op, 3)?
        } else {
            let order = index.sorted_positions(false, usize::MAX)?;
            let sorted = index.gather_rows(&order)?.materialize()?;
            let sums = source.gather_rows(&order)?.segmented_scan(&sorted, op)?;
            let (ends, there) = sorted.last_positions(count)?;
            there.unsqueeze(-1)?.where_cond(&sums.gather_rows(&ends)?, &none)?
        };
        self.cast(wide)?.apply_row(combining_op(op), &[Operand::Tensor(brought)])?.cast(self.dtype)
    }

    /// Returns the largest or smallest one of each element and its source elements, in the shapes of `scatter_into`. The
    /// element is reduced together with the source elements, as the last one, so that equal elements get equal shares of
    /// the gradient.
    fn best_of_each(
        &self,
        index: &Tensor,
        source: &Tensor,
        op: Reduction,
        none: &Tensor,
    ) -> Result<Tensor> {
        let length = index.shape[1];
        let index = index.pad_static(&[(0, 0), (0, 1)], -1.0)?;
        let source = source.pad_static(&[(0, 0), (0, 1), (0, 0)], 0.0)?;
        let found = index.index_matches(self.shape[1])?.unsqueeze(2)?;
        let brought = found.where_cond(source.permute(&[0, 2, 1])?.unsqueeze(1)?, none)?;
        let own = self.device.iota(&[length + 1], 0)?.eq(length)?;
        own.where_cond(self.unsqueeze(3)?, brought)?.reduce(op, 3)
    }

    /// Returns whether each of `count` positions equals each index: `[rows, m] -> [rows, count, m]`.
    fn index_matches(&self, count: usize) -> Result<Tensor> {
        self.unsqueeze(1)?.eq(&self.device.iota(&[count, 1], 0)?)
    }

    /// Returns the last source for each of `count` positions, or -1: `[rows, m] -> [rows, count]`.
    fn last_source_of_each(&self, count: usize) -> Result<Tensor> {
        if self.numel().saturating_mul(count) <= MAX_COMPARISONS {
            let at = self.device.iota(&[self.shape[1]], 0)?;
            let none = self.device.constant(&[], -1.0, DType::I32)?;
            return self.index_matches(count)?.where_cond(&at, &none)?.max(2)?.materialize();
        }
        let order = self.sorted_positions(false, usize::MAX)?;
        let (ends, there) = self.gather_rows(&order)?.materialize()?.last_positions(count)?;
        there.where_cond(&order.gather_rows(&ends)?, -1)?.materialize()
    }

    /// Returns the place of the last sorted index that equals each of `count` positions, and whether there is one.
    fn last_positions(&self, count: usize) -> Result<(Tensor, Tensor)> {
        let (rows, length) = (self.shape[0], self.shape[1]);
        let position = self.device.iota(&[rows, count], 1)?;
        let mut end = self.device.constant(&[rows, count], -1.0, DType::I32)?;
        let mut step = 1 << length.ilog2();
        let mut done = 0;
        while step > 0 {
            let further = end.add(step as f64)?;
            let fine = self.gather_rows(&further)?.le(&position)?;
            let fine = fine.logical_and(&further.lt(length as f64)?)?;
            end = fine.where_cond(&further, &end)?;
            step /= 2;
            done += 1;
            if done % STEPS_PER_KERNEL == 0 || step == 0 {
                end = end.materialize()?;
            }
        }
        let there = self.gather_rows(&end)?.eq(&position)?.logical_and(&end.ge(0)?)?;
        Ok((end, there))
    }

    /// Combines the elements of each row with earlier ones of the same index, in `[rows, m, columns]`.
    fn segmented_scan(&self, sorted: &Tensor, op: Reduction) -> Result<Tensor> {
        let length = self.shape[1];
        let before = |x: &Tensor, step: usize, none: f64| {
            let mut amounts = vec![(0, 0); x.rank()];
            amounts[1].0 = step;
            x.pad_static(&amounts, none)?.slice_static(1, ..length as isize, 1)
        };
        let mut sums = self.materialize()?;
        let (mut step, mut done) = (1, 0);
        while step < length {
            let same = before(sorted, step, -1.0)?.eq(sorted)?.unsqueeze(-1)?;
            let others = before(&sums, step, identity_element(op, self.dtype))?;
            let both = others.apply_row(combining_op(op), &[Operand::from(&sums)])?;
            sums = same.where_cond(&both, &sums)?;
            step *= 2;
            done += 1;
            if done % STEPS_PER_KERNEL == 0 {
                sums = sums.materialize()?;
            }
        }
        sums.materialize()
    }

    /// Combines elements of `source` that have the same position with each other and with the previous element, like
    /// [`Tensor::scatter`]. They are added, multiplied, or reduced to the largest, the smallest or the mean. `bool`
    /// elements are combined by `any` or `all`.
    ///
    /// If several elements are the largest or the smallest, they get equal shares of the gradient, and so does the previous
    /// element. If the indices are sorted, which [`Tensor::scatter`] explains, the previous element gets half instead, and
    /// the other shares depend on the order.
    ///
    /// # Errors
    /// The errors of [`Tensor::scatter`]; `DType` if the type does not have the reduction, or for a mean of integers.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::{Reduction, ScatterReduction}};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let index = device.tensor(&[0i32, 0], &[2])?;
    /// let source = device.tensor(&[3.0f32, 5.0], &[2])?;
    /// let largest = x.scatter_reduce(0, &index, &source, Reduction::Max)?;
    /// assert_eq!(largest.read::<f32>().await?, [5.0, 2.0]);
    /// let mean = ScatterReduction::mean().include_self(false);
    /// assert_eq!(x.scatter_reduce(0, &index, &source, mean)?.read::<f32>().await?, [4.0, 2.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn scatter_reduce(
        &self,
        axis: isize,
        index: &Tensor,
        source: &Tensor,
        op: impl Into<ScatterReduction>,
    ) -> Result<Tensor> {
        let name = "scatter_reduce";
        let ScatterReduction { op, mean, include_self } = op.into();
        if include_self && !mean {
            return self.scatter_named(name, axis, index, source, Some(op));
        }
        if mean {
            self.check_float(name)?;
        }
        let rest = match include_self {
            true => self.clone(),
            false => with_op_name(name, || {
                self.device.constant(&self.shape, identity_element(op, self.dtype), self.dtype)
            })?,
        };
        let combined = rest.scatter_named(name, axis, index, source, Some(op))?;
        with_op_name(name, || {
            // The number of source elements for each position.
            let wide = self.dtype.compute();
            let wide = if wide == DType::Bool { DType::I32 } else { wide };
            let ones = self.device.ones((&index.shape[..], wide))?;
            let none = self.device.zeros((&self.shape[..], wide))?;
            let count = none.scatter_add(axis, index, &ones)?;
            let combined = match (mean, include_self) {
                (false, _) => combined,
                (true, true) => {
                    return combined.cast(wide)?.div(count.add(1.0)?)?.cast(self.dtype);
                }
                (true, false) => combined.cast(wide)?.div(count.maximum(1.0)?)?.cast(self.dtype)?,
            };
            count.gt(0.0)?.where_cond(combined, self)
        })
    }
}
