//! Sorting along an axis, and searching in sorted elements.
//!
//! Devices that sort ([`Limits::sorts`](crate::kernel::Limits::sorts)) sort in one kernel. On other devices, sorted runs
//! of 1, 2, 4 and more elements are merged. Each element of the result finds the number of elements of the left run
//! before it by bisection. This is the "merge path" of Green, McColl and Bader (2012). All passes use the same kernels
//! with other numbers. For n elements there are `log(n)` passes of `log(n)` bisection steps.
//!
//! Example: to merge `[1, 4]` and `[2, 3]`, element 2 of the result takes one element of the left run and one of the
//! right before it. The next one is the smaller of 4 and 3.
//!
//! If only the first few of many elements are needed, they are selected instead (`topk.rs`).

use super::topk::are_few;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Op, Pointwise};
use crate::tensor::{with_op_name, Tensor};

/// The number of bisection steps in one kernel.
const STEPS_PER_KERNEL: usize = 3;

/// The most elements along a sorted axis. Merging doubles positions, which must still fit in an `i32`.
const MAX_SORTED: usize = 1 << 29;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Sorts the elements along `axis`. Returns them and their previous positions, as `i32`.
    ///
    /// The sort is stable, and NaN comes last in either direction. The positions take one kernel on the CPU, and about
    /// `log(n)^2 / 5` kernels on a GPU for n elements along the axis. Read both results in one
    /// [`Device::batch`](crate::device::Device::batch), because otherwise everything is computed twice. The gradient is
    /// that of [`Tensor::gather`].
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit` for more than 2^29 elements along the axis.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, 1.0, 2.0], &[3])?;
    /// let (values, indices) = x.sort(0, false)?;
    /// assert_eq!(values.read::<f32>().await?, [1.0, 2.0, 3.0]);
    /// assert_eq!(indices.read::<i32>().await?, [1, 2, 0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(axis = -1), options(descending = false)))]
    #[cfg_attr(feature = "js", js(returns(values, indices), returns = "Ordered<D>"))]
    pub fn sort(&self, axis: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let indices = with_op_name("sort", || self.argsort(axis, descending))?;
        Ok((with_op_name("sort", || self.gather_raw(axis, &indices))?, indices))
    }

    /// Returns the positions of the sorted elements along `axis`, as `i32`, like [`Tensor::sort`].
    ///
    /// # Errors
    /// The errors of [`Tensor::sort`].
    #[cfg_attr(feature = "js", js(default(axis = -1), options(descending = false), dtype = I32))]
    pub fn argsort(&self, axis: isize, descending: bool) -> Result<Tensor> {
        if let Some(line) = self.scalar_as_vector(axis)? {
            return line.argsort(0, descending)?.squeeze(0);
        }
        let at = self.shape.axis("argsort", axis)?;
        self.check_sortable("argsort", at)?;
        if self.numel() == 0 {
            return self.device.iota(&self.shape, axis);
        }
        with_op_name("argsort", || {
            let order = self.detach().axis_to_rows(at)?.sorted_positions(descending, usize::MAX)?;
            order.rows_to_axis(&self.shape, at)
        })
    }

    pub(super) fn check_sortable(&self, name: &str, axis: usize) -> Result<()> {
        let extent = self.shape[axis];
        if extent > MAX_SORTED {
            let message =
                format!("{name}: the axis must have at most {MAX_SORTED} elements, got {extent}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Returns the positions of the first `most` elements of each sorted row: `[rows, n] -> [rows, min(most, n)]`. Rows
    /// must not be empty.
    pub(super) fn sorted_positions(&self, descending: bool, most: usize) -> Result<Tensor> {
        if self.device.limits().sorts {
            let most = most.min(self.shape[1]);
            return self.apply(Op::Order { descending, most }, &[]);
        }
        if are_few(self.shape[0], self.shape[1], most) {
            return self.select_first(descending, most);
        }
        let mut keys = match self.dtype {
            DType::Bool => self.cast(DType::U32)?,
            _ => self.clone(),
        };
        let (mut run, mut count) = (1, self.shape[1]);
        let mut order = self.device.iota(&self.shape, 1)?;
        if count > 1 {
            (keys, order) = (keys.materialize()?, order.materialize()?);
        }
        while run < count {
            // Merged runs need at most `most` elements, so runs that are long enough are merged into their first half.
            let halved = run >= most;
            if halved {
                let last = count.div_ceil(2 * run) - 1;
                count = last * run + run.min(count - 2 * last * run);
            }
            let from = Runs::new(&keys, (run, count, halved), descending)?.sources()?;
            run *= if halved { 1 } else { 2 };
            if run < count {
                keys = keys.gather_rows(&from)?.materialize()?;
            }
            order = order.gather_rows(&from)?.materialize()?;
        }
        Ok(order)
    }

    /// Returns the positions at which `values` can be inserted into this tensor, whose last axis is sorted, as `i32`. The
    /// result has the shape of `values`.
    ///
    /// A position is the number of elements that are less than the value, or with `right` the number that are not greater.
    /// For NaN it is the number of all elements. This tensor is one vector for all values, or has their shape except for the
    /// last axis. The search takes `log(n)` steps for n elements.
    ///
    /// # Errors
    /// `Shape` if the shapes do not fit; `DType` if the types differ or are `bool`; `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let sorted = device.tensor(&[1.0f32, 2.0, 2.0, 4.0], &[4])?;
    /// let values = device.tensor(&[2.0f32, 5.0], &[2])?;
    /// assert_eq!(sorted.searchsorted(&values, false)?.read::<i32>().await?, [1, 4]);
    /// assert_eq!(sorted.searchsorted(&values, true)?.read::<i32>().await?, [3, 4]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(options(right = false), dtype = I32))]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        let name = "searchsorted";
        let line = self.rank() == 1;
        let same = self.rank() == values.rank()
            && self.rank() > 0
            && self.shape[..self.rank() - 1] == values.shape[..self.rank() - 1];
        if !(line || same) {
            let must = "the sorted numbers must be a vector, or have the shape of the values but for the last axis";
            return Err(Error::shapes(name, must, &self.shape, &values.shape));
        }
        with_op_name(name, || {
            Pointwise::lt.row().dtype(&[self.dtype, values.dtype])?;
            let count = self.shape[self.rank() - 1];
            let rows: usize = self.shape[..self.rank() - 1].iter().product();
            let sorted = self.reshape(&[rows, count])?;
            let each = values.numel() / rows.max(1);
            let asked = values.reshape(&[rows, each])?;
            let nan = asked.ne(&asked)?;
            // Binary search: the position is a sum of powers of two, found from the largest power down.
            let mut before = self.device.full(&[rows, each], 0.0, DType::I32)?;
            for power in (0..=count.checked_ilog2().unwrap_or(0)).rev().filter(|_| count > 0) {
                let more = before.add(1i64 << power)?;
                let last = sorted.gather(1, &more.minimum(count)?.sub(1)?)?;
                let goes = if right { last.le(&asked)? } else { last.lt(&asked)? };
                let goes = goes.logical_or(&nan)?.logical_and(more.le(count)?)?;
                before = goes.where_cond(more, before)?;
            }
            before.reshape(&values.shape)
        })
    }

    /// Returns the interval between sorted `boundaries`, a vector, that each element falls into, as `i32`. This is
    /// [`Tensor::searchsorted`] with the operands swapped.
    ///
    /// The interval is the number of boundaries that are less than the element or, with `right`, not greater. For NaN it
    /// is the number of all boundaries.
    ///
    /// # Errors
    /// `Shape` unless `boundaries` has rank 1; `DType` if the types differ or are `bool`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let boundaries = device.tensor(&[0.0f32, 10.0, 20.0], &[3])?;
    /// let x = device.tensor(&[-1.0f32, 10.0, 15.0, 99.0], &[4])?;
    /// assert_eq!(x.bucketize(&boundaries, false)?.read::<i32>().await?, [0, 1, 2, 3]);
    /// assert_eq!(x.bucketize(&boundaries, true)?.read::<i32>().await?, [0, 2, 2, 3]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "digitize")]
    #[cfg_attr(feature = "js", js(options(right = false), dtype = I32))]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        let name = "bucketize";
        if boundaries.rank() != 1 {
            let message =
                format!("{name}: boundaries must be a vector, got shape {}", boundaries.shape);
            return Err(Error::shape(message));
        }
        with_op_name(name, || boundaries.searchsorted(self, right))
    }
}

/// Pairs of sorted runs to merge, as numbers for each element of the result.
struct Runs<'a> {
    keys: &'a Tensor,
    descending: bool,
    run: usize,
    /// The position of the element in the merged run.
    position: Tensor,
    /// The start of the left run, the start of the right run, and the end of the right run.
    start: Tensor,
    middle: Tensor,
    end: Tensor,
}

impl Runs<'_> {
    /// Describes runs of `run` elements, merged into `count` elements per row. `halved` if only first halves are kept.
    fn new(
        keys: &Tensor,
        (run, count, halved): (usize, usize, bool),
        descending: bool,
    ) -> Result<Runs<'_>> {
        let mut position = keys.device.iota(&[keys.shape[0], count], 1)?;
        if halved {
            position = position.add(&position.bitwise_and(-(run as f64))?)?;
        }
        let start = position.bitwise_and(-2.0 * run as f64)?;
        let count = keys.shape[1] as f64;
        let middle = start.add(run as f64)?.minimum(count)?;
        let end = start.add(2.0 * run as f64)?.minimum(count)?;
        Ok(Runs { keys, descending, run, position, start, middle, end })
    }

    /// Returns whether the key at `left`, in a left run, comes before the key at `right`, in a right run. Devices differ
    /// in comparisons of numbers with NaN, so their results are not used.
    fn is_in_order(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let (a, b) = (self.keys.gather_rows(left)?, self.keys.gather_rows(right)?);
        let fine = if self.descending { a.ge(&b)? } else { a.le(&b)? };
        if !self.keys.dtype.is_float() {
            return Ok(fine);
        }
        b.is_nan().logical_or(&a.is_nan().logical_not().logical_and(&fine)?)
    }

    /// Returns the source of each element of the result. Up to an element's position, the merged run has the left run up
    /// to `split` and the rest from the right run. Bisection finds `split`, the last place where the left run's element
    /// comes before the element of the right run that it would replace.
    fn sources(&self) -> Result<Tensor> {
        let Runs { position, start, middle, end, .. } = self;
        let most = position.minimum(middle)?;
        let sum = position.add(middle)?;
        let mut split = position.sub(&end.sub(middle)?)?.maximum(start)?;
        let mut step = self.run;
        while step > 0 {
            let further = split.add(step as f64)?;
            let fine = self.is_in_order(&further.sub(1)?, &sum.sub(&further)?)?;
            split = fine.logical_and(&further.le(&most)?)?.where_cond(&further, &split)?;
            step /= 2;
            // The final comparison shares a kernel with two steps.
            let left = (usize::BITS - step.leading_zeros()) as usize;
            if left >= STEPS_PER_KERNEL - 1 && left % STEPS_PER_KERNEL == STEPS_PER_KERNEL - 1 {
                split = split.materialize()?;
            }
        }
        let right = sum.sub(&split)?;
        let first = self.is_in_order(&split, &right)?.logical_or(&right.ge(end)?)?;
        split.lt(middle)?.logical_and(&first)?.where_cond(&split, &right)?.materialize()
    }
}
