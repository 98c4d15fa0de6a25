//! How good predictions are: names and formulas of scikit-learn (`sklearn.metrics`). What is counted stays on the device, and
//! is added up over batches; reading waits.

mod classes;
mod regression;

pub use classes::{Accuracy, Average, ConfusionMatrix, Precision, Recall, TopKAccuracy, F1};
pub use regression::{MeanAbsoluteError, MeanSquaredError, R2};

use crate::error::Result;
use crate::tensor::Tensor;

/// A number that says how good predictions are, added up over batches.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, train::metrics::{Accuracy, Metric}};
/// # let device = Device::with(Preference::Cpu).await?;
/// let mut accuracy = Accuracy::new();
/// let scores = device.tensor(&[0.1f32, 0.9, 0.8, 0.2], &[2, 2])?;
/// accuracy.update(&scores, &device.tensor(&[1i32, 1], &[2])?)?;
/// assert_eq!(accuracy.value()?.item::<f32>().await?, 0.5);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub trait Metric {
    /// What it is called in histories.
    fn name(&self) -> String;

    /// Forgets all batches.
    fn reset(&mut self);

    /// Takes a batch in: what a model gave, and what it should have given.
    ///
    /// # Errors
    /// `Shape` or `DType` if they are not what it compares: then nothing was taken in.
    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()>;

    /// The value over all batches so far, a single `f32` that is recorded and not computed yet.
    ///
    /// # Errors
    /// `Data` if there were none.
    fn value(&self) -> Result<Tensor>;
}

/// A metric of a kind that is known when the program runs.
impl Metric for Box<dyn Metric> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn reset(&mut self) {
        (**self).reset();
    }

    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
        (**self).update(prediction, target)
    }

    fn value(&self) -> Result<Tensor> {
        (**self).value()
    }
}
