//! Scattering what is combined by any reduction, or averaged.

use super::scan::identity;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Reduction;
use crate::tensor::{within, Tensor};

/// How [`Tensor::scatter_reduce`] combines what comes to one place: a [`Reduction`], or the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterReduction {
    op: Reduction,
    mean: bool,
    include_self: bool,
}

impl ScatterReduction {
    /// The arithmetic mean of what comes to a place and, by default, of what is there.
    pub fn mean() -> ScatterReduction {
        ScatterReduction { op: Reduction::Sum, mean: true, include_self: true }
    }

    /// Whether what is there is combined, too. The default is that it is; else it stays only where nothing comes.
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

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// As [`Tensor::scatter`], but what comes to one place is combined with what is there: added, multiplied, the
    /// largest, the smallest or the mean; of `bool` by or and and.
    ///
    /// # Errors
    /// The same; `DType` if the type has no such reduction, or for a mean of integers.
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
            return self.scattered(name, axis, index, source, Some(op));
        }
        if mean {
            self.need_float(name)?;
        }
        let rest = match include_self {
            true => self.clone(),
            false => within(name, || {
                self.device.constant(&self.shape, identity(op, self.dtype), self.dtype)
            })?,
        };
        let combined = rest.scattered(name, axis, index, source, Some(op))?;
        within(name, || {
            // How many come to each place.
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
