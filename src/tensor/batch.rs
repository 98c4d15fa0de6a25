//! Command batches: several results in one submission.

use super::Tensor;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::kernel;
use std::sync::Arc;

/// Tensors that are to be computed together. Record operations as always, add the results, and run: one submission.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
/// let (sum, top) = (x.exp().sum(&[])?, x.max(&[])?);
/// let mut batch = device.batch();
/// batch.add(&sum)?.add(&top)?;
/// println!("{}", batch.plan()?);
/// batch.run()?;
/// assert_eq!(top.item::<f32>().await?, 3.0);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub struct Batch {
    device: Device,
    results: Vec<Tensor>,
}

impl Device {
    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch { device: self.clone(), results: Vec::new() }
    }
}

impl Batch {
    /// Adds a result.
    ///
    /// # Errors
    /// `Data` if it lives on another device; the tensor's own error if it carries one.
    pub fn add(&mut self, tensor: &Tensor) -> Result<&mut Batch> {
        if !self.device.is_same(&tensor.device) {
            return Err(Error::wrong_device("batch", "the tensor"));
        }
        tensor.node()?;
        self.results.push(tensor.clone());
        Ok(self)
    }

    /// What running it now would do: operations, kernels, buffers and bytes, printable.
    ///
    /// # Errors
    /// `Limit` if it cannot be planned.
    pub fn plan(&self) -> Result<Arc<kernel::Plan>> {
        let pending = self.pending()?;
        self.device.plan_of(&pending)
    }

    /// Submits it. The results can be read afterwards, in any order.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn run(&self) -> Result<()> {
        self.device.run(&self.pending()?)
    }

    /// The results that are not computed yet, each once.
    fn pending(&self) -> Result<Vec<NodeId>> {
        let mut nodes = Vec::with_capacity(self.results.len());
        for result in &self.results {
            nodes.push(result.node()?);
        }
        Ok(self.device.pending(&nodes))
    }
}
