//! The results of training: forward outputs, steps, epochs and scores.

use crate::tensor::Tensor;

/// The result of a forward function: a loss, and a prediction for metrics.
#[derive(Clone, Debug)]
pub struct ForwardOutput {
    /// The loss to minimize, a single number.
    pub loss: Tensor,
    /// The prediction that metrics compare with the targets, if there are metrics.
    pub prediction: Option<Tensor>,
}

impl From<Tensor> for ForwardOutput {
    /// Creates an output with a loss alone.
    fn from(loss: Tensor) -> ForwardOutput {
        ForwardOutput { loss, prediction: None }
    }
}

impl From<(Tensor, Tensor)> for ForwardOutput {
    /// Creates an output with a loss and the model's prediction.
    fn from((loss, prediction): (Tensor, Tensor)) -> ForwardOutput {
        ForwardOutput { loss, prediction: Some(prediction) }
    }
}

/// A step that was taken.
#[derive(Clone, Debug)]
pub struct Step {
    /// The index of the step among all steps, from 0.
    pub step: u64,
    /// The index of the step's epoch, from 0.
    pub epoch: u64,
    /// The index of the step's batch in the epoch, from 0.
    pub batch: u64,
    /// The learning rate of the step.
    pub lr: f64,
    /// The loss, which is already submitted. Reading it waits for the step.
    pub loss: Tensor,
    /// The mean loss of the epoch so far, at the steps that [`Trainer::report_every`](super::Trainer::report_every) selects.
    pub mean_loss: Option<f64>,
    /// The result of the epoch, if this was its last step.
    pub ended: Option<Epoch>,
}

/// The result of one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// The index of the epoch, from 0.
    pub epoch: u64,
    /// The total number of steps taken by the end of the epoch.
    pub steps: u64,
    /// The mean loss over all examples of the epoch, each computed with the parameters of its step.
    pub loss: f64,
    /// The scores of the validation after the epoch, if there is validation data.
    pub validation: Option<Scores>,
    /// The learning rate of the epoch's last step.
    pub lr: f64,
    /// The duration of the epoch with its validation, in seconds.
    pub seconds: f64,
}

impl Epoch {
    /// Returns a number of the epoch by its name: `loss`, `validation_loss`, or a metric of the validation.
    pub fn get(&self, name: &str) -> Option<f64> {
        match (name, &self.validation) {
            ("loss", _) => Some(self.loss),
            ("validation_loss", Some(scores)) => Some(scores.loss),
            (name, Some(scores)) => scores.metric(name),
            _ => None,
        }
    }
}

/// The loss and the metrics of a model on validation data.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// The mean loss over all examples.
    pub loss: f64,
    /// The metrics with their names, in the order in which they were added.
    pub metrics: Vec<(String, f64)>,
}

impl Scores {
    /// Returns the value of a metric by its name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}
