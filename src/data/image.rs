//! Conversion from and to images of the `image` crate, with eight bits for each channel.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use image::{ImageBuffer, Pixel};
use std::future::Future;
use std::ops::Deref;

impl Device {
    /// Creates an `f32` tensor `[height, width, channels]` from an image. Bytes are divided by 255, so values are in `[0, 1]`.
    /// The upload is in bytes. Channels have the order of the pixel, so the last channel of `Rgba` is opaque at 1. For
    /// convolutions, `permute([2, 0, 1])` moves the channels to the front. Feature `image`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// use image::{Rgb, RgbImage};
    ///
    /// let device = Device::with(Preference::Cpu).await?;
    /// let picture = RgbImage::from_fn(4, 2, |x, _| Rgb([255, 0, 60 * x as u8]));
    /// let tensor = device.tensor_from_image(&picture)?;
    /// assert_eq!(tensor.shape(), [2, 4, 3]);
    /// let inverted = tensor.neg().add(1)?.to_image::<Rgb<u8>>().await?;
    /// assert_eq!(inverted.get_pixel(1, 0), &Rgb([0, 255, 195]));
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of [`Device::tensor`].
    pub fn tensor_from_image<P, C>(&self, image: &ImageBuffer<P, C>) -> Result<Tensor>
    where
        P: Pixel<Subpixel = u8>,
        C: Deref<Target = [u8]>,
    {
        let shape = [image.height() as usize, image.width() as usize, P::CHANNEL_COUNT.into()];
        let count: usize = shape.iter().product();
        // The buffer may be longer than the image.
        let bytes = &image.as_raw()[..count];
        self.tensor(bytes, &shape)?.cast(DType::F32)?.div(255)
    }
}

impl Tensor {
    /// Converts floats `[height, width, channels]` to an image. 0 is black and 1 is white: values are multiplied by 255,
    /// rounded, and clamped. NaN becomes 0. Feature `image`.
    ///
    /// # Errors
    /// `Shape` if the tensor is not an image of such pixels, `DType` if it is not of floats. Also as [`Tensor::read`].
    pub fn to_image<P>(
        &self,
    ) -> impl Future<Output = Result<ImageBuffer<P, Vec<u8>>>> + 'static + use<P>
    where
        P: Pixel<Subpixel = u8> + 'static,
    {
        let begun = self.bytes_of_channels(P::CHANNEL_COUNT.into());
        async move {
            let (width, height, bytes) = begun?;
            ImageBuffer::from_raw(width, height, bytes.await?).ok_or_else(|| {
                Error::shape(
                    "to_image: there must be a byte for each channel of each pixel, got fewer",
                )
            })
        }
    }

    /// Returns width, height, and the read of one byte for each channel of each pixel.
    fn bytes_of_channels(
        &self,
        channels: usize,
    ) -> Result<(u32, u32, impl Future<Output = Result<Vec<u8>>> + 'static + use<>)> {
        let refuse = || {
            let message = format!(
                "to_image: the tensor must be a picture of {channels} channels, got shape {:?}",
                self.shape()
            );
            Error::shape(message)
        };
        let &[height, width, depth] = self.shape() else { return Err(refuse()) };
        let extent = |extent: usize| u32::try_from(extent).map_err(|_| refuse());
        if depth != channels {
            return Err(refuse());
        }
        if !self.dtype().is_float() {
            return Err(Error::dtype(format!(
                "to_image: the tensor must be f32 or u8, got {}",
                self.dtype()
            )));
        }
        let bytes = self.mul(255)?.round().cast(DType::U8)?;
        Ok((extent(width)?, extent(height)?, bytes.read()))
    }
}
