//! The results of training: forward outputs, steps, epochs and scores.

use crate::tensor::Tensor;

/// The result of a forward function: a loss, and a prediction for metrics.
#[derive(Clone, Debug)]
pub struct ForwardOutput {
    /// A single number that is to become small.
    pub loss: Tensor,
    /// What metrics compare with the targets, if there are any.
    pub prediction: Option<Tensor>,
}

impl From<Tensor> for ForwardOutput {
    /// A loss alone.
    fn from(loss: Tensor) -> ForwardOutput {
        ForwardOutput { loss, prediction: None }
    }
}

impl From<(Tensor, Tensor)> for ForwardOutput {
    /// A loss, and what the model predicted.
    fn from((loss, prediction): (Tensor, Tensor)) -> ForwardOutput {
        ForwardOutput { loss, prediction: Some(prediction) }
    }
}

/// A step that was taken.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number among all steps; the first is 0.
    pub step: u64,
    /// The epoch that it belongs to; the first is 0.
    pub epoch: u64,
    /// Its number in the epoch; the first is 0.
    pub batch: u64,
    /// The learning rate that it was taken with.
    pub lr: f64,
    /// Its loss, which is submitted; reading it waits for the step.
    pub loss: Tensor,
    /// The mean loss of the epoch so far, at each step that [`Trainer::report_every`](super::Trainer::report_every) says.
    pub mean_loss: Option<f64>,
    /// What came of the epoch, after its last step.
    pub ended: Option<Epoch>,
}

/// What came of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// Its number; the first is 0.
    pub epoch: u64,
    /// How many steps were taken by its end, those of earlier epochs included.
    pub steps: u64,
    /// The mean loss over all its examples, each with the parameters of its step.
    pub loss: f64,
    /// What validation gave after it, if there is data for it.
    pub validation: Option<Scores>,
    /// The learning rate of its last step.
    pub lr: f64,
    /// How long it took, with validation.
    pub seconds: f64,
}

impl Epoch {
    /// A number of it by its name: `loss` and `validation_loss`, or a metric of the validation.
    pub fn get(&self, name: &str) -> Option<f64> {
        match (name, &self.validation) {
            ("loss", _) => Some(self.loss),
            ("validation_loss", Some(scores)) => Some(scores.loss),
            (name, Some(scores)) => scores.metric(name),
            _ => None,
        }
    }
}

/// How well a model does on data that it is not trained on.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// The mean loss over all examples.
    pub loss: f64,
    /// The metrics by their names, in their order.
    pub metrics: Vec<(String, f64)>,
}

impl Scores {
    /// A metric's value by its name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}
