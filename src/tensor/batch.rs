//! Batches: several results in one submission.

use super::Tensor;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::kernel;
use std::sync::Arc;

/// Tensors to compute together. Record operations as usual, add the results, and run the batch as one submission.
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
    /// Creates an empty batch.
    pub fn batch(&self) -> Batch {
        Batch { device: self.clone(), results: Vec::new() }
    }
}

impl Batch {
    /// Adds a result.
    ///
    /// # Errors
    /// `InvalidArgument` if the tensor is on another device; the error that the tensor carries.
    pub fn add(&mut self, tensor: &Tensor) -> Result<&mut Batch> {
        if !self.device.is_same(&tensor.device) {
            return Err(Error::wrong_device("batch", "the tensor"));
        }
        tensor.node()?;
        self.results.push(tensor.clone());
        Ok(self)
    }

    /// Returns the plan of the batch: operations, kernels, buffers and bytes, with a `Display` form.
    ///
    /// # Errors
    /// `Limit` if the batch cannot be planned.
    pub fn plan(&self) -> Result<Arc<kernel::Plan>> {
        let pending = self.pending()?;
        self.device.plan_of(&pending)
    }

    /// Submits the batch. The results can be read afterwards, in any order.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn run(&self) -> Result<()> {
        self.device.run(&self.pending()?)
    }

    /// The results that are not computed yet, without duplicates.
    fn pending(&self) -> Result<Vec<NodeId>> {
        let mut nodes = Vec::with_capacity(self.results.len());
        for result in &self.results {
            nodes.push(result.node()?);
        }
        Ok(self.device.pending(&nodes))
    }
}
