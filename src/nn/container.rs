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
