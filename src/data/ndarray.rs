//! Conversion from and to arrays of `ndarray`.

use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use ndarray::{ArrayD, ArrayView, Dimension};
use std::future::Future;

impl Device {
    /// Creates a tensor from the values of an array, in any memory layout. Feature `ndarray`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// use ndarray::array;
    ///
    /// let device = Device::with(Preference::Cpu).await?;
    /// let table = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let turned = device.tensor_from_ndarray(table.t())?;
    /// assert_eq!(turned.to_ndarray::<f32>().await?, table.t().to_owned().into_dyn());
    /// assert_eq!(turned.sum(0)?.read::<f32>().await?, [6.0, 15.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of [`Device::tensor`].
    pub fn tensor_from_ndarray<T: Element, D: Dimension>(
        &self,
        array: ArrayView<'_, T, D>,
    ) -> Result<Tensor> {
        let rows = array.as_standard_layout();
        // An array in standard layout is a slice.
        let values = rows.as_slice().ok_or_else(|| {
            Error::argument("tensor: the array must be contiguous, got one that is not")
        })?;
        self.tensor(values, array.shape())
    }
}

impl Tensor {
    /// Reads the values as an array of the tensor's shape. `into_dimensionality` converts it to a fixed rank. Feature
    /// `ndarray`.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    pub fn to_ndarray<T: Element>(
        &self,
    ) -> impl Future<Output = Result<ArrayD<T>>> + 'static + use<T> {
        let (shape, read) = (self.shape().to_vec(), self.read::<T>());
        async move {
            let array = ArrayD::from_shape_vec(shape, read.await?);
            array.map_err(|error| {
                Error::shape(format!(
                    "to_ndarray: the array must have the shape of the tensor, got {error}"
                ))
            })
        }
    }
}
