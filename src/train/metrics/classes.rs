//! Classification metrics.

use super::Metric;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Returns the error for a metric without batches.
fn no_batches(name: &str) -> Error {
    Error::state(format!("{name}: there must be a batch, got none"))
}

/// Whether the tensor has integers, including bytes.
fn is_whole(x: &Tensor) -> bool {
    !x.dtype().is_float() && x.dtype() != DType::Bool
}

/// Rejects targets that are not integers.
fn need_classes(name: &str, target: &Tensor) -> Result<()> {
    match is_whole(target) {
        true => Ok(()),
        false => {
            let dtype = target.dtype();
            Err(Error::dtype(format!(
                "{name}: targets must be class indices (integers), got {dtype}"
            )))
        }
    }
}

/// Returns the number of classes if the predictions are scores: `[batch, classes, ..]` for targets of `[batch, ..]`.
fn scored(prediction: &Tensor, target: &Tensor) -> Option<usize> {
    let (scores, shape) = (prediction.shape(), target.shape());
    let beside = scores.len() == shape.len() + 1
        && scores[..1] == shape[..shape.len().min(1)]
        && scores[2..] == shape[1..];
    (beside && prediction.dtype().is_float()).then(|| scores[1])
}

/// Returns the classes of predictions and targets as flat `i32` tensors.
fn labels(name: &str, prediction: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    need_classes(name, target)?;
    let line = |x: &Tensor| x.cast(DType::I32)?.reshape(&[-1]);
    if scored(prediction, target).is_some() {
        return Ok((line(&prediction.argmax(1)?)?, line(target)?));
    }
    if prediction.shape() == target.shape() && is_whole(prediction) {
        return Ok((line(prediction)?, line(target)?));
    }
    let must = "predictions must be scores [batch, classes, ..] or classes of the targets' shape";
    Err(Error::shapes(name, must, prediction.shape(), target.shape()))
}

/// The number of correct predictions, and the number of all.
#[derive(Clone, Debug, Default)]
struct Share {
    right: Option<Tensor>,
    all: usize,
}

impl Share {
    fn add(&mut self, right: &Tensor) -> Result<()> {
        let count = right.cast(DType::I32)?.sum(())?;
        self.right = Some(match &self.right {
            Some(before) => before.add(&count)?.detach(),
            None => count.detach(),
        });
        self.all += right.numel();
        Ok(())
    }

    fn value(&self, name: &str) -> Result<Tensor> {
        let right = self.right.as_ref().filter(|_| self.all > 0).ok_or_else(|| no_batches(name))?;
        right.cast(DType::F32)?.div(self.all)
    }
}

/// The share of predictions that equal the target (`accuracy_score`). Predictions are scores `[batch, classes, ..]`, whose
/// largest one is taken, or integer classes.
#[derive(Clone, Debug, Default)]
pub struct Accuracy(Share);

impl Accuracy {
    /// Creates the metric without batches.
    pub fn new() -> Accuracy {
        Accuracy::default()
    }
}

impl Metric for Accuracy {
    fn name(&self) -> String {
        "accuracy".into()
    }

    fn reset(&mut self) {
        self.0 = Share::default();
    }

    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
        let (prediction, target) = labels("accuracy", prediction, target)?;
        self.0.add(&prediction.eq(&target)?)
    }

    fn value(&self) -> Result<Tensor> {
        self.0.value("accuracy")
    }
}

/// The share of targets that are among the `k` classes with the highest scores (`top_k_accuracy_score`). If scores are equal,
/// the later class ranks higher, as in scikit-learn. A target whose score is NaN is not among them.
#[derive(Clone, Debug)]
pub struct TopKAccuracy {
    k: usize,
    share: Share,
}

impl TopKAccuracy {
    /// Creates the metric for the first `k` classes.
    pub fn new(k: usize) -> TopKAccuracy {
        TopKAccuracy { k, share: Share::default() }
    }
}

impl Metric for TopKAccuracy {
    fn name(&self) -> String {
        format!("top_{}_accuracy", self.k)
    }

    fn reset(&mut self) {
        self.share = Share::default();
    }

    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
        let name = "top_k_accuracy";
        need_classes(name, target)?;
        let Some(classes) = scored(prediction, target) else {
            let must = "predictions must be scores [batch, classes, ..]";
            return Err(Error::shapes(name, must, prediction.shape(), target.shape()));
        };
        let target = target.cast(DType::I32)?.unsqueeze(1)?;
        let mut along = vec![1; prediction.rank()];
        along[1] = classes;
        let numbers = prediction.device().iota(&[classes], 0)?.reshape(&along[..])?;
        // A target that is not a class gets a score of NaN, so it is not among the first.
        let own = numbers.eq(&target)?;
        let known = own.any(1)?;
        let score = own.where_cond(prediction, 0.0)?.sum(1)?;
        let score = known.where_cond(score, f64::NAN)?;
        let beside = score.unsqueeze(1)?;
        let later = prediction.eq(&beside)?.logical_and(numbers.gt(&target)?)?;
        let higher = prediction.gt(&beside)?.logical_or(later)?.cast(DType::I32)?.sum(1)?;
        self.share.add(&higher.lt(self.k)?.logical_and(score.is_nan().logical_not())?)
    }

    fn value(&self) -> Result<Tensor> {
        self.share.value("top_k_accuracy")
    }
}

/// The number of predictions of each class (column) for targets of each class (row). (`confusion_matrix` with
/// `labels=range(classes)`.) A pair does not count if its prediction or target is not a class.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, train::metrics::ConfusionMatrix};
/// # let device = Device::with(Preference::Cpu).await?;
/// let mut confusion = ConfusionMatrix::new(2);
/// let target = device.tensor(&[0i32, 1, 1], &[3])?;
/// confusion.update(&device.tensor(&[0i32, 0, 1], &[3])?, &target)?;
/// assert_eq!(confusion.matrix()?.read::<i32>().await?, [1, 0, 1, 1]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    classes: usize,
    counts: Option<Tensor>,
}

impl ConfusionMatrix {
    /// Creates a matrix for this number of classes, without batches.
    pub fn new(classes: usize) -> ConfusionMatrix {
        ConfusionMatrix { classes, counts: None }
    }

    /// Adds a batch. Predictions are as for [`Accuracy`].
    ///
    /// # Errors
    /// Same as [`Metric::update`]. `Shape` if the scores have another number of classes. `Limit` if the matrix is too large.
    pub fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
        let (name, classes) = ("confusion_matrix", self.classes);
        let cells = Shape::new(name, &[classes, classes])?.numel();
        if scored(prediction, target).is_some_and(|count| count != classes) {
            let shape = prediction.shape();
            return Err(Error::shape(format!(
                "{name}: scores must have {classes} classes, got shape {shape:?}"
            )));
        }
        let (prediction, target) = labels(name, prediction, target)?;
        let is_class = prediction.ge(0)?.logical_and(prediction.lt(classes)?)?;
        // Indices out of range are not counted. If the target is not a class, the index is already out of range.
        let place = target.mul(classes)?.add(&prediction)?;
        let counts = is_class.where_cond(&place, -1)?.bincount(cells)?;
        let counts = counts.reshape(&[classes, classes])?;
        self.counts = Some(match &self.counts {
            Some(before) => before.add(&counts)?.detach(),
            None => counts.detach(),
        });
        Ok(())
    }

    /// Returns the counts, `i32` of `[classes, classes]`.
    ///
    /// # Errors
    /// `InvalidState` if there were no batches.
    pub fn matrix(&self) -> Result<Tensor> {
        self.counts.clone().ok_or_else(|| no_batches("confusion_matrix"))
    }

    /// Clears all batches.
    pub fn reset(&mut self) {
        self.counts = None;
    }

    /// Returns true positives, predicted counts and target counts: `f32` of `[classes]`, or of `[1]` over all classes.
    fn totals(&self, average: Average) -> Result<[Tensor; 3]> {
        let matrix = self.matrix()?.cast(DType::F32)?;
        let all = [matrix.diag(0)?, matrix.sum(0)?, matrix.sum(1)?];
        match average {
            Average::Macro => Ok(all),
            Average::Micro => {
                let [right, taken, there] = all.map(|x| x.sum(0)?.reshape(&[1]));
                Ok([right?, taken?, there?])
            }
        }
    }
}

/// The method of averaging the values of the classes (`average` of scikit-learn).
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Average {
    /// The mean over the classes, each with the same weight. A class that does not occur counts as 0.
    #[default]
    Macro,
    /// Computed from the counts of all classes together, so each example has the same weight.
    Micro,
}

impl Average {
    fn name(self) -> &'static str {
        match self {
            Average::Macro => "macro",
            Average::Micro => "micro",
        }
    }
}

/// Returns the mean of `a / b`, where a division by 0 gives 0 (`zero_division=0`).
fn mean_ratio(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    b.gt(0.0)?.where_cond(a.div(b.maximum(1.0)?)?, 0.0)?.mean(())
}

macro_rules! of_confusion {
    ($(#[$doc:meta])* $name:ident, $word:literal, |$right:ident, $taken:ident, $there:ident| $value:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            confusion: ConfusionMatrix,
            average: Average,
        }

        impl $name {
            /// Creates the metric for this number of classes. Predictions are as for [`Accuracy`].
            pub fn new(classes: usize, average: Average) -> $name {
                $name { confusion: ConfusionMatrix::new(classes), average }
            }
        }

        impl Metric for $name {
            fn name(&self) -> String {
                format!(concat!($word, "_{}"), self.average.name())
            }

            fn reset(&mut self) {
                self.confusion.reset();
            }

            fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
                self.confusion.update(prediction, target).map_err(|error| error.within($word))
            }

            fn value(&self) -> Result<Tensor> {
                let [$right, $taken, $there] =
                    self.confusion.totals(self.average).map_err(|error| error.within($word))?;
                $value
            }
        }
    };
}

of_confusion! {
    /// The share of the predictions of a class that are correct (`precision_score` with `zero_division=0` and
    /// `labels=range(classes)`).
    Precision, "precision", |right, taken, _there| mean_ratio(&right, &taken)
}
of_confusion! {
    /// The share of the targets of a class that are predicted correctly (`recall_score` with `zero_division=0` and
    /// `labels=range(classes)`).
    Recall, "recall", |right, _taken, there| mean_ratio(&right, &there)
}
of_confusion! {
    /// The harmonic mean of precision and recall (`f1_score` with `zero_division=0` and `labels=range(classes)`).
    F1, "f1", |right, taken, there| mean_ratio(&right.mul(2.0)?, &taken.add(&there)?)
}
