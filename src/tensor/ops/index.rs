//! Choosing elements by indices or masks: `gather`, `index_select`, `take`, `gather_nd`, `one_hot`, `masked_fill` and
//! `masked_select`.

use crate::dtype::{DType, INDICES};
use crate::error::{Error, Result};
use crate::op::{Op, Span};
use crate::shape::Shape;
use crate::tensor::{with_op_name, Operand, Tensor};
use std::future::Future;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Picks elements along `axis` by the positions in `index` (`i32` or `u32`), which has the shape of the result:
    /// `result[.., i, ..] = this[.., index[.., i, ..], ..]`. (`gather` in PyTorch, `GatherElements` in ONNX.)
    ///
    /// Along other axes the index may be shorter than this tensor. Negative positions count from the end, and positions
    /// outside give 0. The gradient is a product with a one-hot matrix, with as many steps as indices times the extent of
    /// the axis.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, or if the index has another rank or is longer along another axis; `DType`
    /// unless the index is `i32` or `u32`.
    #[doc(alias = "take_along_axis", alias = "take_along")]
    pub fn gather(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let name = "gather";
        if let (Some(line), 0) = (self.scalar_as_vector(axis)?, index.rank()) {
            return with_op_name(name, || line.gather(0, &index.reshape(&[1])?)?.reshape(()));
        }
        let at = self.shape.axis(name, axis)?;
        with_op_name(name, || {
            let part = self.crop_to_index(name, at, index)?;
            part.gather_raw(axis, &index.wrap_indices(name, self.shape[at])?)
        })
    }

    pub(super) fn gather_raw(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let at = match self.scalar_as_vector(axis)? {
            Some(line) => return line.gather_raw(0, &index.reshape(&[1])?)?.reshape(()),
            None => self.shape.axis("gather", axis)?,
        };
        self.axis_to_rows(at)?.gather_rows(&index.axis_to_rows(at)?)?.rows_to_axis(&self.shape, at)
    }

    /// Crops this tensor to the extents of `index` along all axes except `axis`.
    pub(super) fn crop_to_index(&self, name: &str, axis: usize, index: &Tensor) -> Result<Tensor> {
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
                part = part.span_static(at, Span::at(0, extent, 1))?;
            }
        }
        Ok(part)
    }

    /// Rejects shapes that differ along an axis other than `axis`.
    pub(super) fn check_same_except(&self, name: &str, axis: usize, index: &Tensor) -> Result<()> {
        let same =
            index.rank() == self.rank() && index.shape.with(axis, 0) == self.shape.with(axis, 0);
        if !same {
            let must = format!("the shapes must be equal except along axis {axis}");
            return Err(Error::shapes(name, &must, &self.shape, &index.shape));
        }
        Ok(())
    }

    /// Picks from each row the elements that its row of `index` lists: `[rows, n, ...], [rows, m] -> [rows, m, ...]`.
    pub(super) fn gather_rows(&self, index: &Tensor) -> Result<Tensor> {
        self.apply(Op::Gather { axis: 1, paired: true }, &[index])
    }

    /// Picks elements along `axis` by the positions in `index` (`i32` or `u32`). The axes of the index replace that axis.
    ///
    /// Negative positions count from the end, and positions outside give 0. As in PyTorch, a single number has one
    /// position, and the result is a number again.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist, the rank would exceed 8, or a number is indexed by several positions; `DType`
    /// unless the index is `i32` or `u32`.
    pub fn index_select(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        self.index_select_named("index_select", axis, index)
    }

    fn index_select_named(&self, name: &str, axis: isize, index: &Tensor) -> Result<Tensor> {
        if let Some(line) = self.scalar_as_vector(axis)? {
            if index.rank() > 1 || index.numel() != 1 {
                let must = "the index into one number must be one position";
                return Err(Error::shapes(name, must, &self.shape, &index.shape));
            }
            return line.index_select_named(name, 0, index)?.reshape(());
        }
        let axis = self.shape.axis(name, axis)?;
        with_op_name(name, || {
            self.index_select_raw(axis, &index.wrap_indices(name, self.shape[axis])?)
        })
    }

    /// Picks elements like [`Tensor::index_select`], but negative positions are outside.
    pub(super) fn index_select_raw(&self, axis: usize, index: &Tensor) -> Result<Tensor> {
        self.apply(Op::Gather { axis, paired: false }, &[index])
    }

    /// Converts positions that count from the end of an axis of `extent` elements into positions from its start. Queues a
    /// bounds check for `name` if the device checks indices.
    pub(super) fn wrap_indices(&self, name: &str, extent: usize) -> Result<Tensor> {
        if self.dtype.is_int() && self.numel() > 0 && self.device.checks_indices() {
            for end in [self.min(())?, self.max(())?] {
                self.device.check_index(name, end.node()?, extent);
            }
        }
        match self.dtype {
            DType::I32 => self.lt(0)?.where_cond(&self.add(extent)?, self),
            // Types other than integers are rejected by the operation that uses the positions.
            _ => Ok(self.clone()),
        }
    }

    /// Picks elements by their row-major positions in `index` (`i32` or `u32`). The result has the shape of the index.
    /// Negative positions count from the end, and positions outside give 0.
    ///
    /// # Errors
    /// `DType` unless the index is `i32` or `u32`.
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        self.ravel().index_select_named("take", 0, index)
    }

    /// Picks elements by coordinates along the first axes, which the last axis of `index` holds:
    /// `[.., q], [a, b, ...] -> [.., the axes after the q-th]`. (`GatherND` in ONNX.) Negative coordinates count from the
    /// end, and coordinates outside give 0.
    ///
    /// # Errors
    /// `Shape` unless the last axis of the index has between 1 and `rank` elements; `DType` unless the index is `i32` or
    /// `u32`.
    pub fn gather_nd(&self, index: &Tensor) -> Result<Tensor> {
        let places = self.flat_positions("gather_nd", index)?;
        with_op_name("gather_nd", || {
            let (before, after) = self.shape.split_at(self.coordinate_count(index));
            let columns: usize = after.iter().product();
            let rows = self.reshape(&[before.iter().product(), columns])?;
            let dims = [&places.shape, after].concat();
            rows.index_select_raw(0, &places)?.reshape(&dims)
        })
    }

    /// Returns the number of axes that the index has coordinates for.
    pub(super) fn coordinate_count(&self, index: &Tensor) -> usize {
        index.shape.last().copied().unwrap_or(0)
    }

    /// Converts coordinates along the first axes to row-major positions, or -1 if a coordinate is outside.
    pub(super) fn flat_positions(&self, name: &str, index: &Tensor) -> Result<Tensor> {
        let axes = self.coordinate_count(index);
        if axes == 0 || axes > self.rank() {
            let must =
                "the last axis of the index must have one coordinate for each of the first axes";
            return Err(Error::shapes(name, must, &self.shape, &index.shape));
        }
        if !index.dtype.is_int() {
            let message =
                format!("{name}: indices must be {INDICES}, got {}; cast them", index.dtype);
            return Err(Error::dtype(message));
        }
        with_op_name(name, || {
            let index = index.cast(DType::I32)?;
            let mut found: Option<(Tensor, Tensor)> = None;
            for (axis, &extent) in self.shape[..axes].iter().enumerate() {
                let at = index.select(-1, axis as isize)?.wrap_indices(name, extent)?;
                let inside = at.ge(0)?.logical_and(&at.lt(extent as f64)?)?;
                found = Some(match found {
                    None => (at, inside),
                    Some((place, all)) => {
                        (place.mul(extent as f64)?.add(&at)?, all.logical_and(&inside)?)
                    }
                });
            }
            match found {
                Some((place, inside)) => inside.where_cond(&place, -1),
                None => Ok(index),
            }
        })
    }

    /// Encodes `i32` or `u32` elements along a new last axis of extent `classes`: 1.0 at the element's value, otherwise
    /// 0.0. The result is `f32`.
    ///
    /// # Errors
    /// `DType` for other types; `Limit`.
    #[cfg_attr(feature = "js", js(dtype = F32))]
    pub fn one_hot(&self, classes: usize) -> Result<Tensor> {
        if !self.dtype.is_int() {
            return Err(Error::wrong_dtype("one_hot", INDICES, self.dtype));
        }
        with_op_name("one_hot", || {
            let index = self.cast(DType::I32)?.unsqueeze(-1)?;
            index.eq(&self.device.iota(&[classes], 0)?)?.cast(DType::F32)
        })
    }

    /// Replaces elements by `value`, a number or a tensor, where the `bool` tensor `mask` is true. This tensor and the
    /// mask broadcast, and the value broadcasts to the shape of both.
    ///
    /// # Errors
    /// `Shape` if the mask or the value does not broadcast; `DType` if the mask is not `bool` or the value has another
    /// type.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Operand>) -> Result<Tensor> {
        let value = value.into();
        let result = Shape::broadcast("masked_fill", &self.shape, &mask.shape)?;
        if let Operand::Tensor(tensor) = &value {
            if Shape::broadcast("masked_fill", &result, &tensor.shape)? != result {
                let must = "the value must broadcast to the input and the mask";
                return Err(Error::shapes("masked_fill", must, &result, &tensor.shape));
            }
        }
        with_op_name("masked_fill", || mask.where_cond(value, self))
    }

    /// Returns the elements where the `bool` tensor `mask` is true, row-major along one axis. The mask broadcasts to this
    /// tensor. The future waits until the mask is read, because the number of elements depends on it.
    ///
    /// # Errors
    /// `Shape` if the mask does not broadcast to this tensor; `DType` if it is not `bool`; the errors of
    /// [`Tensor::read`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, -1.0, 2.0], &[3])?;
    /// let above = x.masked_select(&x.gt(0.0)?).await?;
    /// assert_eq!(above.read::<f32>().await?, [3.0, 2.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn masked_select(
        &self,
        mask: &Tensor,
    ) -> impl Future<Output = Result<Tensor>> + 'static + use<> {
        let name = "masked_select";
        let ready = with_op_name(name, || {
            if mask.dtype != DType::Bool {
                return Err(Error::dtype(format!(
                    "{name}: the mask must be bool, got {}; cast it",
                    mask.dtype
                )));
            }
            Ok(mask.expand(&self.shape)?.read::<bool>())
        });
        let all = self.clone();
        async move {
            let mask = ready?.await?;
            let chosen = mask.iter().enumerate().filter(|&(_, &chosen)| chosen);
            let chosen: Vec<i32> = chosen.map(|(at, _)| at as i32).collect();
            let index = all.device.tensor(&chosen, &[chosen.len()])?;
            with_op_name(name, || all.ravel().index_select_raw(0, &index))
        }
    }
}
