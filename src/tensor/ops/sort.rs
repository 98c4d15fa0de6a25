//! Sorting along an axis, and choosing elements by their own indices.
//!
//! Where the device sorts ([`Limits::sorts`](crate::kernel::Limits::sorts)), this is one kernel. Elsewhere the first few
//! elements of many are selected (`few.rs`), and all others sorted by merges:
//! runs of 1, 2, 4, ... sorted elements are merged: each element of the result looks by bisection for how many elements
//! of the left run come before it (the "merge path" of Green, McColl and Bader 2012). All kernels of a pass are those of
//! the pass before, with other numbers.

use super::few::are_few;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Op, Span};
use crate::tensor::{within, Tensor};

/// Steps of a bisection that one kernel does.
const STEPS: usize = 3;

/// Positions are doubled on the way.
const MOST: usize = 1 << 29;

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
        let indices = within("sort", || self.argsort(axis, descending))?;
        Ok((within("sort", || self.picked(axis, &indices))?, indices))
    }

    /// The positions, as `i32`, of the elements along `axis` in order, as [`Tensor::sort`].
    ///
    /// # Errors
    /// The same.
    #[cfg_attr(feature = "js", js(default(axis = -1), options(descending = false), dtype = I32))]
    pub fn argsort(&self, axis: isize, descending: bool) -> Result<Tensor> {
        if let Some(line) = self.as_line(axis)? {
            return line.argsort(0, descending)?.squeeze(0);
        }
        let at = self.shape.axis("argsort", axis)?;
        self.need_sortable("argsort", at)?;
        if self.numel() == 0 {
            return self.device.iota(&self.shape, axis);
        }
        within("argsort", || {
            let order = self.detach().lines(at)?.order(descending, usize::MAX)?;
            order.unlines(&self.shape, at)
        })
    }

    pub(super) fn need_sortable(&self, name: &str, axis: usize) -> Result<()> {
        let extent = self.shape[axis];
        if extent > MOST {
            let message =
                format!("{name}: the axis must have at most {MOST} elements, got {extent}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// The `k` largest elements along `axis`, the largest first, or the smallest, the smallest first; and their
    /// positions, as `i32`. Of equal ones those that stand first are taken, and NaN only where nothing else is left.
    ///
    /// Where k is small, elements are selected and not sorted. The positions take one kernel on the CPU. On a GPU they take
    /// about 3 to 30 kernels where rows are few and k is at most 256 and an eighth of the axis, else about
    /// `log(n) log(k) / 3`. Read both in one batch, as with [`Tensor::sort`].
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has fewer elements; as [`Tensor::sort`].
    #[doc(alias = "top_k")]
    #[cfg_attr(feature = "js", js(options(axis = -1, largest = true), returns(values, indices), returns = "Ordered<D>"))]
    pub fn topk(&self, k: usize, axis: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        if let Some(line) = self.as_line(axis)?.filter(|_| k == 1) {
            let (values, indices) = line.topk(1, 0, largest)?;
            return Ok((values.squeeze(0)?, indices.squeeze(0)?));
        }
        let at = self.shape.axis("topk", axis)?;
        if k > self.shape[at] {
            let message = format!(
                "topk: k must be at most the extent of axis {axis}, got {k} for shape {}",
                self.shape
            );
            return Err(Error::shape(message));
        }
        self.need_sortable("topk", at)?;
        let mut dims = self.shape.to_vec();
        dims[at] = k;
        let indices = within("topk", || match dims.contains(&0) {
            true => self.device.iota(&dims, axis),
            false => {
                let order = self.detach().lines(at)?.order(largest, k)?;
                order.cut(1, ..k as isize, 1)?.unlines(&self.shape, at)
            }
        })?;
        Ok((within("topk", || self.picked(axis, &indices))?, indices))
    }

    /// The elements along `axis` at the positions in `index` (`i32` or `u32`), which has the shape of the result:
    /// `result[.., i, ..] = this[.., index[.., i, ..], ..]`. Along other axes the index may be shorter than this. Negative
    /// positions count from the end; those outside give 0. (`GatherElements` of ONNX.)
    ///
    /// The gradient adds up by a product with ones, which takes as many steps as there are indices times elements along
    /// the axis.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, or the index has another rank or is longer elsewhere; `DType` if the index is
    /// not of integers.
    #[doc(alias = "take_along_axis", alias = "take_along")]
    pub fn gather(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let name = "gather";
        if let (Some(line), 0) = (self.as_line(axis)?, index.rank()) {
            return within(name, || line.gather(0, &index.reshape(&[1])?)?.reshape(()));
        }
        let at = self.shape.axis(name, axis)?;
        within(name, || {
            let part = self.part_beside(name, at, index)?;
            part.picked(axis, &index.wrap_indices(name, self.shape[at])?)
        })
    }

    pub(super) fn picked(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let at = match self.as_line(axis)? {
            Some(line) => return line.picked(0, &index.reshape(&[1])?)?.reshape(()),
            None => self.shape.axis("gather", axis)?,
        };
        self.lines(at)?.take_rows(&index.lines(at)?)?.unlines(&self.shape, at)
    }

    /// This as far as the index reaches along other axes than `axis`.
    pub(super) fn part_beside(&self, name: &str, axis: usize, index: &Tensor) -> Result<Tensor> {
        let shorter =
            |(at, (&there, &here)): (usize, (&usize, &usize))| at == axis || there <= here;
        let extents = index.shape.iter().zip(self.shape.iter());
        if index.rank() != self.rank() || !extents.enumerate().all(shorter) {
            let must =
                format!("the index must be no longer than the input except along axis {axis}");
            return Err(Error::shapes(name, &must, &self.shape, &index.shape));
        }
        let mut part = self.clone();
        for (at, &extent) in index.shape.iter().enumerate() {
            if at != axis && extent != part.shape[at] {
                part = part.spans(at, Span::at(0, extent, 1))?;
            }
        }
        Ok(part)
    }

    /// Refuses shapes that differ elsewhere than along an axis.
    pub(super) fn need_beside(&self, name: &str, axis: usize, index: &Tensor) -> Result<()> {
        let same =
            index.rank() == self.rank() && index.shape.with(axis, 0) == self.shape.with(axis, 0);
        if !same {
            let must = format!("the shapes must be equal except along axis {axis}");
            return Err(Error::shapes(name, &must, &self.shape, &index.shape));
        }
        Ok(())
    }

    /// Of each row those elements that its row of `index` names: `[rows, n, ...], [rows, m] -> [rows, m, ...]`.
    pub(super) fn take_rows(&self, index: &Tensor) -> Result<Tensor> {
        self.apply(Op::Gather { axis: 1, paired: true }, &[index])
    }

    /// The positions of each row's first `most` elements in order, or of all: `[rows, n]`, which is not empty.
    pub(super) fn order(&self, descending: bool, most: usize) -> Result<Tensor> {
        if self.device.limits().sorts {
            let most = most.min(self.shape[1]);
            return self.apply(Op::Order { descending, most }, &[]);
        }
        if are_few(self.shape[0], self.shape[1], most) {
            return self.first_few(descending, most);
        }
        let mut keys = match self.dtype {
            DType::Bool => self.cast(DType::U32)?,
            _ => self.clone(),
        };
        let (mut run, mut count) = (1, self.shape[1]);
        let mut order = self.device.iota(&self.shape, 1)?;
        if count > 1 {
            (keys, order) = (keys.stored()?, order.stored()?);
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
                keys = keys.take_rows(&from)?.stored()?;
            }
            order = order.take_rows(&from)?.stored()?;
        }
        Ok(order)
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
    fn in_order(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let (a, b) = (self.keys.take_rows(left)?, self.keys.take_rows(right)?);
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
            let fine = self.in_order(&further.sub(1)?, &sum.sub(&further)?)?;
            split = fine.logical_and(&further.le(&most)?)?.where_cond(&further, &split)?;
            step /= 2;
            // What comes last shares a kernel with two steps.
            let left = (usize::BITS - step.leading_zeros()) as usize;
            if left >= STEPS - 1 && left % STEPS == STEPS - 1 {
                split = split.stored()?;
            }
        }
        let right = sum.sub(&split)?;
        let first = self.in_order(&split, &right)?.logical_or(&right.ge(end)?)?;
        split.lt(middle)?.logical_and(&first)?.where_cond(&split, &right)?.stored()
    }
}
