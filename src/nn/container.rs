//! Layers that contain other layers.

use super::{Layer, Members, Module};
use crate::error::Result;
use crate::tensor::Tensor;

/// A sequence of layers, applied in order. The names of the layers are their indices. Functions are layers, too.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::Tensor};
/// # use warpweft::nn::{Generator, Layer, Linear, Module, Sequential};
/// # let device = Device::with(Preference::Cpu).await?;
/// let generator = Generator::new(&device, 0);
/// let model = Sequential::new()
///     .push(Linear::new(&generator, 2, 16)?)
///     .push(|x: &Tensor| Ok(x.relu()))
///     .push(Linear::new(&generator, 16, 1)?);
/// assert_eq!(model.forward(&device.ones(&[8, 2])?)?.shape(), [8, 1]);
/// assert_eq!(model.named_parameters()[2].0, "2.weight");
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer>>,
}

impl Sequential {
    /// Creates an empty sequence, which returns its input.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// Appends a layer.
    pub fn push(mut self, layer: impl Layer + 'static) -> Sequential {
        self.layers.push(Box::new(layer));
        self
    }
}

impl Module for Sequential {
    fn members(&self, members: &mut Members) {
        for (i, layer) in self.layers.iter().enumerate() {
            members.child_dyn(&i.to_string(), &**layer);
        }
    }
}

impl Layer for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layers.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

/// A residual connection, which adds the layer's input to its result (He et al. 2015).
pub struct Residual<L> {
    layer: L,
}

impl<L: Layer> Residual<L> {
    /// Wraps `layer`. The result is `x + layer(x)`.
    pub fn new(layer: L) -> Residual<L> {
        Residual { layer }
    }
}

impl<L: Layer> Module for Residual<L> {
    fn members(&self, members: &mut Members) {
        members.child("layer", &self.layer);
    }
}

impl<L: Layer> Layer for Residual<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.add(&self.layer.forward(x)?)
    }
}

/// Gradient checkpointing ([`Tensor::checkpoint`]). The layer's intermediate values are freed after the forward pass, and
/// computed again for gradients. Wrap parts of several layers, for example of a deep [`Sequential`].
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::Tensor};
/// # use warpweft::nn::{Checkpoint, Generator, Layer, Linear, Module, Sequential};
/// # let device = Device::with(Preference::Cpu).await?;
/// let generator = Generator::new(&device, 0);
/// let part = || Ok::<_, warpweft::error::Error>(Sequential::new()
///     .push(Linear::new(&generator, 8, 8)?)
///     .push(|x: &Tensor| Ok(x.tanh()))
///     .push(Linear::new(&generator, 8, 8)?));
/// let model = Sequential::new().push(Checkpoint::new(part()?)).push(Checkpoint::new(part()?));
/// assert_eq!(model.named_parameters()[0].0, "0.0.weight"); // The same names as without.
/// let loss = model.forward(&device.ones(&[4, 8])?)?.square().mean(())?;
/// let parameters = model.parameters();
/// loss.backward(&parameters.iter().collect::<Vec<_>>())?;
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub struct Checkpoint<L> {
    layer: L,
}

impl<L: Layer> Checkpoint<L> {
    /// Wraps `layer` in a checkpoint.
    pub fn new(layer: L) -> Checkpoint<L> {
        Checkpoint { layer }
    }
}

impl<L: Layer> Module for Checkpoint<L> {
    fn members(&self, members: &mut Members) {
        // The wrapper adds no name, so weights saved without it load.
        self.layer.members(members);
    }
}

impl<L: Layer> Layer for Checkpoint<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.checkpoint(|x| self.layer.forward(x))
    }
}
