//! Early stopping: ends a training before its last epoch.

use super::record::Epoch;
use crate::error::{Error, Result};
use crate::optim::PlateauMode;

/// Ends the training when a number has not improved for some epochs, and restores the best weights (`EarlyStopping` of Keras,
/// with `restore_best_weights`).
///
/// ```
/// use warpweft::train::EarlyStopping;
/// let stopping = EarlyStopping { patience: 3, ..EarlyStopping::default() };
/// assert_eq!(stopping.monitor, "validation_loss");
/// ```
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStopping {
    /// The name of the monitored number: `validation_loss`, `loss`, or a metric. The default is `validation_loss`.
    pub monitor: String,
    /// The number of epochs in a row without improvement after which the training ends. The default is 5.
    pub patience: u64,
    /// The minimum improvement that counts. The default is 0.
    pub min_delta: f64,
    /// Whether smaller or larger numbers are better. The default is smaller.
    pub mode: PlateauMode,
    /// Whether the model gets the weights of its best epoch when the training ends, early or not. The optimizer's state is
    /// not restored. The default is `true`.
    pub restore_best: bool,
}

impl EarlyStopping {
    /// Rejects a monitored number that epochs do not have. Without validation, only `loss` exists.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn check(&self, validates: bool, metrics: &[String]) -> Result<()> {
        let name = &self.monitor;
        let of_validation = name == "validation_loss" || metrics.contains(name);
        if name == "loss" || (validates && of_validation) {
            return Ok(());
        }
        let remedy = match of_validation || !validates {
            true => " without validation; call `validate_on`, or monitor `loss`",
            false => "",
        };
        Err(Error::argument(format!(
            "early stopping: monitor must be a number of each epoch, got `{name}`{remedy}"
        )))
    }
}

impl Default for EarlyStopping {
    fn default() -> EarlyStopping {
        EarlyStopping {
            monitor: "validation_loss".into(),
            patience: 5,
            min_delta: 0.0,
            mode: PlateauMode::Min,
            restore_best: true,
        }
    }
}

/// The state of early stopping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    /// The best number so far.
    pub best: Option<f64>,
    /// The number of epochs in a row without improvement, since the best one or since [`Patience::renew`].
    pub worse: u64,
}

impl Patience {
    /// Updates the state with an epoch. Returns whether it is the best so far, which NaN never is.
    pub fn take(&mut self, rule: &EarlyStopping, epoch: &Epoch) -> Result<bool> {
        let name = &rule.monitor;
        let no = || {
            Error::argument(format!(
                "early stopping: monitor must be a number of each epoch, got `{name}`"
            ))
        };
        let value = epoch.get(name).ok_or_else(no)?;
        let better = match (self.best, rule.mode) {
            (None, _) => !value.is_nan(),
            (Some(best), PlateauMode::Min) => value < best - rule.min_delta,
            (Some(best), PlateauMode::Max) => value > best + rule.min_delta,
        };
        *self = match better {
            true => Patience { best: Some(value), worse: 0 },
            false => Patience { worse: self.worse.saturating_add(1), ..*self },
        };
        Ok(better)
    }

    /// Restarts the count of epochs without improvement, and keeps the best number.
    pub fn renew(&mut self) {
        self.worse = 0;
    }

    /// Whether the patience is exhausted.
    pub fn is_out(&self, rule: &EarlyStopping) -> bool {
        self.worse > 0 && self.worse >= rule.patience
    }
}
