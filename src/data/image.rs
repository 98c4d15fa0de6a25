//! Pictures of `image`: eight bits a channel.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use image::{ImageBuffer, Pixel};
use std::future::Future;
use std::ops::Deref;

impl Device {
    /// A picture as an `f32` tensor `[height, width, channels]` of values from 0 to 1: a byte divided by 255. It is uploaded
    /// as bytes. Channels come as in the pixel, so that of `Rgba` is the last one opaque at 1. For convolutions,
    /// `permute([2, 0, 1])` puts them first. Feature `image`.
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
    /// As [`Device::tensor`].
    pub fn tensor_from_image<P, C>(&self, image: &ImageBuffer<P, C>) -> Result<Tensor>
    where
        P: Pixel<Subpixel = u8>,
        C: Deref<Target = [u8]>,
    {
        let shape = [image.height() as usize, image.width() as usize, P::CHANNEL_COUNT.into()];
        let count: usize = shape.iter().product();
        // A buffer may be longer than its picture.
        let bytes = &image.as_raw()[..count];
        self.tensor(bytes, &shape)?.cast(DType::F32)?.div(255)
    }
}

impl Tensor {
    /// The picture that floats `[height, width, channels]` are, 0 black and 1 white: times 255, rounded, and what lies beyond
    /// that at its end; a NaN is 0. Feature `image`.
    ///
    /// # Errors
    /// `Shape` if it is no picture of such pixels; `DType` if it is not of floats; as [`Tensor::read`].
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

    /// Width, height, and a byte for each channel of each pixel.
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
