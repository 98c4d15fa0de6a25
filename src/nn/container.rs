//! Layers made of layers.

use super::{Layer, Members, Module};
use crate::error::Result;
use crate::tensor::Tensor;

/// Layers one after the other; their names are numbers. Functions are layers, too.
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
    /// Without layers: what passes it is as it was.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// The same with another layer at the end.
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

/// A layer whose input is added to its result (He and others 2015).
pub struct Residual<L> {
    layer: L,
}

impl<L: Layer> Residual<L> {
    /// `x + layer(x)`.
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

/// A layer that is computed again for gradients, so that what it computes on the way is not kept until then:
/// [`Tensor::checkpoint`]. It is meant for parts of some layers, as of a deep [`Sequential`].
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
    /// The same layer, computed again for gradients.
    pub fn new(layer: L) -> Checkpoint<L> {
        Checkpoint { layer }
    }
}

impl<L: Layer> Module for Checkpoint<L> {
    fn members(&self, members: &mut Members) {
        // It adds no name: what was saved without it loads.
        self.layer.members(members);
    }
}

impl<L: Layer> Layer for Checkpoint<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.checkpoint(|x| self.layer.forward(x))
    }
}
