//! When a training ends before its last epoch.

use super::record::Epoch;
use crate::error::{Error, Result};
use crate::optim::PlateauMode;

/// A training ends when a number has not become better for some epochs, and the model gets the weights that were best.
/// (`EarlyStopping` of Keras, with `restore_best_weights`.)
///
/// ```
/// use warpweft::train::EarlyStopping;
/// let stopping = EarlyStopping { patience: 3, ..EarlyStopping::default() };
/// assert_eq!(stopping.monitor, "validation_loss");
/// ```
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStopping {
    /// The name of the number: `validation_loss`, which is the default, `loss`, or a metric's.
    pub monitor: String,
    /// How many epochs in a row may be no better. The default is 5.
    pub patience: u64,
    /// By how much an epoch has to be better to count. The default is 0.
    pub min_delta: f64,
    /// Whether smaller numbers are better, which is the default, or greater ones.
    pub mode: PlateauMode,
    /// Whether the model has the weights of its best epoch when the training ends, in whichever way. The default is that it
    /// has; the optimizer keeps what it remembers.
    pub restore_best: bool,
}

impl EarlyStopping {
    /// Refuses a number that no epoch will have: without validation there is only `loss`.
    ///
    /// # Errors
    /// `Data`.
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
        Err(Error::data(format!(
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

/// How far it is from stopping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    /// The best number so far.
    pub best: Option<f64>,
    /// How many epochs in a row were no better since then, or since the patience was renewed.
    pub worse: u64,
}

impl Patience {
    /// Takes an epoch in, and says whether it is the best so far. NaN never is.
    pub fn take(&mut self, rule: &EarlyStopping, epoch: &Epoch) -> Result<bool> {
        let name = &rule.monitor;
        let no = || {
            Error::data(format!(
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
            false => Patience { worse: self.worse + 1, ..*self },
        };
        Ok(better)
    }

    /// Begins to count anew; what was best stays so.
    pub fn renew(&mut self) {
        self.worse = 0;
    }

    /// Whether it has run out.
    pub fn is_out(&self, rule: &EarlyStopping) -> bool {
        self.worse > 0 && self.worse >= rule.patience
    }
}
