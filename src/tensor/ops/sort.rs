//! Sorting along an axis, and searching in sorted elements.
//!
//! Where the device sorts ([`Limits::sorts`](crate::kernel::Limits::sorts)), a sort is one kernel. Elsewhere runs of 1, 2, 4,
//! and so on sorted elements are merged. Each element of the result finds by bisection how many elements of the left run come
//! before it (the "merge path" of Green, McColl and Bader 2012). All passes use the same kernels with other numbers. The first
//! few of many elements are selected instead of sorted (`topk.rs`).

use super::topk::are_few;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Op, Pointwise};
use crate::tensor::{with_op_name, Tensor};

/// The steps of a bisection in one kernel.
const STEPS_PER_KERNEL: usize = 3;

/// The most elements along a sorted axis. Merging doubles positions, which must still fit in an `i32`.
const MAX_SORTED: usize = 1 << 29;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The elements along `axis` in order, and the positions they were at, as `i32`. Equal ones stay in the order they
    /// were in (it is stable), and NaN comes last, whether ascending or `descending`. The positions take one kernel on the
    /// CPU, and about `log(n)^2 / 5` kernels on a GPU for n elements along the axis. Read both in one
    /// [`Device::batch`](crate::device::Device::batch), or all is computed twice.
    ///
    /// The gradient adds up by a product with ones, as [`Tensor::gather`]'s.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist; `Limit` for an axis of more than 2^29.
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

    /// The positions, as `i32`, of the elements along `axis` in order, as [`Tensor::sort`].
    ///
    /// # Errors
    /// The same.
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

    /// The positions of the first `most` elements of each row, in order: `[rows, n] -> [rows, min(most, n)]`. Rows must
    /// not be empty.
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
            // Of runs that are long enough only the first half is kept when they are merged.
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

    /// Where each of `values` would be put among sorted numbers, the last axis of this, so that they stay sorted: as `i32`,
    /// how many are less, or, with `right`, not greater; all, for NaN. This is one line for all values, or has their shape but
    /// for the last axis. Takes a step for each power of two up to the number of numbers.
    ///
    /// # Errors
    /// `Shape` if they do not fit; `DType` if the types differ or are `bool`; `Limit`.
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
            // Binary search: how many come before is made of powers of two, the largest first.
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

    /// Into which of the intervals between sorted `boundaries`, a vector, each element falls: as `i32`, how many boundaries are
    /// less, or, with `right`, not greater; all, for NaN: [`Tensor::searchsorted`] of one line, called the other way round.
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

/// Pairs of sorted runs that are to be merged, as numbers for each element of the result.
struct Runs<'a> {
    keys: &'a Tensor,
    descending: bool,
    run: usize,
    /// The element's own position in the merged run.
    position: Tensor,
    /// Where the left run begins, where the right one does, and where that ends.
    start: Tensor,
    middle: Tensor,
    end: Tensor,
}

impl Runs<'_> {
    /// Runs of `run` elements, and how many of the merged ones are asked for; `halved` if they are of first halves.
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

    /// Whether the key at `left`, of a left run, comes before the one at `right`, of a right one. What numbers are
    /// compared with NaN is up to the machine, and is not asked.
    fn is_in_order(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let (a, b) = (self.keys.gather_rows(left)?, self.keys.gather_rows(right)?);
        let fine = if self.descending { a.ge(&b)? } else { a.le(&b)? };
        if !self.keys.dtype.is_float() {
            return Ok(fine);
        }
        b.is_nan().logical_or(&a.is_nan().logical_not().logical_and(&fine)?)
    }

    /// Where each element of the result comes from. The first elements of the merged run, up to its own, are those of
    /// the left run up to `split` and some of the right one: it is the last place at which the left run's element comes
    /// before the right run's that it would take the place of.
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
            // What comes last shares a kernel with two steps.
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
