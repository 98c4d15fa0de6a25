//! Metrics of predictions, with the names and formulas of `sklearn.metrics`. Counts are accumulated over batches on the
//! device. Only reading a value waits.

mod classes;
mod regression;

pub use classes::{Accuracy, Average, ConfusionMatrix, Precision, Recall, TopKAccuracy, F1};
pub use regression::{MeanAbsoluteError, MeanSquaredError, R2};

use crate::error::Result;
use crate::tensor::Tensor;

/// A measure of the quality of predictions, accumulated over batches.
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
    /// Returns the metric's name in histories.
    fn name(&self) -> String;

    /// Clears all batches.
    fn reset(&mut self);

    /// Adds a batch: the prediction of a model, and the target.
    ///
    /// # Errors
    /// `Shape` or `DType` if the metric cannot compare the two. After an error, nothing was added.
    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()>;

    /// Returns the value over all batches so far, a single `f32`. The value is recorded, and computed when it is read.
    ///
    /// # Errors
    /// `InvalidState` if there were no batches.
    fn value(&self) -> Result<Tensor>;
}

/// A metric whose type is chosen at run time.
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
