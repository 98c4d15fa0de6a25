//! Training loops. A [`Trainer`] takes a model, an optimizer and data through epochs. It supports validation, metrics,
//! schedules, early stopping, and checkpoints that resume with the same bits. A custom loop can use the parts directly, or
//! call [`Trainer::step`].
//!
//! ```
//! # pollster::block_on(async {
//! # use warpweft::device::{Device, Preference};
//! use warpweft::nn::{CrossEntropyOptions, Generator, Layer, Linear, Module, Sequential};
//! use warpweft::optim::{Adam, Optimizer};
//! use warpweft::tensor::Tensor;
//! use warpweft::train::{metrics::Accuracy, DataLoader, Dataset, Trainer};
//!
//! # let device = Device::with(Preference::Cpu).await?;
//! // Is the first number of two the larger one?
//! let x = device.uniform(&[500, 2], -1.0, 1.0, 1)?;
//! let y = x.argmax(1)?;
//! let (data, validation) = Dataset::new(&x, &y)?.split(0.2, 2)?;
//!
//! let generator = Generator::new(&device, 3);
//! let model = Sequential::new()
//!     .push(Linear::new(&generator, 2, 16)?)
//!     .push(|x: &Tensor| Ok(x.relu()))
//!     .push(Linear::new(&generator, 16, 2)?);
//! let optimizer = Optimizer::new(Adam::new(0.01), &model.parameters())?;
//! let loader = DataLoader::new(&data, 32)?.shuffle(4);
//! let mut trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
//!     let scores = model.forward(x)?;
//!     Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
//! })?
//! .validate_on(DataLoader::new(&validation, 100)?)
//! .metric(Accuracy::new())
//! .epochs(10);
//!
//! trainer.fit().await?;
//! let last = trainer.history().last().expect("ten epochs");
//! assert!(last.get("accuracy") > Some(0.9), "{last:?}");
//! # Ok::<(), warpweft::error::Error>(()) }).unwrap();
//! ```

#[cfg(feature = "io")]
mod checkpoint;
mod data;
mod evaluate;
mod fit;
mod in_flight;
mod loss_mean;
pub mod metrics;
mod optimizer_handle;
mod parallel;
mod record;
mod rollback;
mod share;
mod stopping;
mod values;

pub use data::{Batch, BatchIter, Batches, DataLoader, Dataset};
pub use optimizer_handle::OptimizerHandle;
#[cfg(feature = "distributed")]
pub use parallel::DataParallelOptions;
pub use record::{Epoch, ForwardOutput, Scores, Step};
pub use stopping::EarlyStopping;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::{Generator, Member, Module};
use crate::optim::{Optimizer, ReduceLrOnPlateau, Schedule};
use crate::tensor::Tensor;
use evaluate::Forward;
use in_flight::InFlight;
use loss_mean::LossMean;
use metrics::Metric;
use parallel::Parallel;
use share::Share;
use std::collections::BTreeMap;
use std::iter::Peekable;
use stopping::Patience;
use web_time::Instant;

/// Trains a model (`fit` of Keras, `Trainer` of PyTorch Lightning). Configure it with the methods that return the trainer.
/// Then call [`Trainer::fit`] for the whole training, [`Trainer::next_step`] for one step, or [`Trainer::step`] for a step on
/// a custom batch.
///
/// Steps are recorded a few ahead of the device. Awaiting a step waits if too many are in flight. Losses are added up on the
/// device. They are read at the end of an epoch, or as often as [`Trainer::report_every`] sets.
///
/// Every future may be dropped at any time. The next call continues from there, and no step is lost or taken twice. With
/// several ranks ([`Trainer::ranks`]), the other ranks have answered a call that is dropped, so it ends the training.
///
/// A trainer owns its optimizer, or shares it with the program as an `Rc<RefCell<Optimizer>>` ([`OptimizerHandle`]).
pub struct Trainer<M, O = Optimizer> {
    /// The model.
    pub model: M,
    /// The optimizer, or a shared handle to it.
    pub optimizer: O,
    forward: Forward<M>,
    device: Device,
    data: Box<dyn Batches>,
    validation: Option<Box<dyn Batches>>,
    metrics: Vec<Box<dyn Metric>>,
    epochs: u64,
    report_every: u64,
    detect_anomaly: bool,
    schedule: Option<(Box<dyn Schedule>, Per)>,
    /// The schedule in its initial and in its current state.
    plateau: Option<[ReduceLrOnPlateau; 2]>,
    stopping: Option<EarlyStopping>,
    patience: Patience,
    best: Option<BTreeMap<String, Tensor>>,
    generators: Vec<Generator>,
    /// Counters. `steps` counts all steps, `epoch` the epochs that have ended, and `batch` the steps of the current epoch.
    steps: u64,
    epoch: u64,
    batch: u64,
    /// The number of batches of the trainer's data that were taken in the current epoch, by all ranks.
    position: u64,
    loss_mean: LossMean,
    history: Vec<Epoch>,
    /// The remaining batches of the epoch.
    left: Option<Peekable<Share>>,
    /// A step that was taken and has not been returned yet.
    last: Option<Step>,
    in_flight: InFlight,
    begun: Option<Instant>,
    /// Whether the model has its best weights again.
    restored: bool,
    /// The other ranks, if there are any.
    parallel: Option<Parallel>,
}

/// The unit that a schedule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Step,
    Epoch,
}

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// Creates a trainer for this model, whose parameters are in the optimizer. `forward` returns the loss of a batch, a
    /// single number. It may also return the model's prediction, which metrics need.
    ///
    /// # Errors
    /// `InvalidArgument` if the model has no parameters, or if the optimizer has none of the model's parameters.
    pub fn new<R: Into<ForwardOutput>>(
        model: M,
        optimizer: O,
        data: impl Batches + 'static,
        forward: impl Fn(&M, &Tensor, &Tensor) -> Result<R> + 'static,
    ) -> Result<Trainer<M, O>> {
        let parameters = model.parameters();
        let first = parameters
            .first()
            .ok_or_else(|| Error::argument("train: the model must have parameters, got none"))?;
        let device = first.value().device().clone();
        optimizer.with(|optimizer| match optimizer.has_any(&parameters) {
            true => Ok(()),
            false => Err(Error::argument(
                "train: the optimizer must have parameters of the model, got one with those of another model",
            )),
        })?;
        let mut generators: Vec<Generator> = Vec::new();
        model.visit(&mut |_, member| {
            if let Member::Generator(generator) = member {
                if !generators.iter().any(|known| known.is_same(generator)) {
                    generators.push(generator.clone());
                }
            }
        });
        model.train();
        Ok(Trainer {
            model,
            optimizer,
            forward: Box::new(move |model, x, y| forward(model, x, y).map(Into::into)),
            loss_mean: LossMean::new(&device)?,
            device,
            data: Box::new(data),
            validation: None,
            metrics: Vec::new(),
            epochs: 1,
            report_every: 0,
            detect_anomaly: false,
            schedule: None,
            plateau: None,
            stopping: None,
            patience: Patience::default(),
            best: None,
            generators,
            steps: 0,
            epoch: 0,
            batch: 0,
            position: 0,
            history: Vec::new(),
            left: None,
            last: None,
            in_flight: InFlight::default(),
            begun: None,
            restored: false,
            parallel: None,
        })
    }

    /// Sets the total number of epochs, including those of a loaded checkpoint. The default is 1. Set it again to train
    /// further. If early stopping has ended the training, its patience starts again.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Trainer<M, O> {
        self.epochs = epochs;
        self.patience.renew();
        self
    }

    /// Computes the loss and the metrics of these batches after each epoch. The model is in evaluation mode for it.
    #[must_use]
    pub fn validate_on(mut self, data: impl Batches + 'static) -> Trainer<M, O> {
        self.validation = Some(Box::new(data));
        self
    }

    /// Adds a metric of the validation. `forward` must then return predictions.
    #[must_use]
    pub fn metric(mut self, metric: impl Metric + 'static) -> Trainer<M, O> {
        self.metrics.push(Box::new(metric));
        self
    }

    /// Sets the learning rate for each step. The rate applies to the optimizer's first group. The rates of the other groups
    /// keep their ratios to it.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'static) -> Trainer<M, O> {
        self.schedule = Some((Box::new(schedule), Per::Step));
        self
    }

    /// Sets the learning rate for each epoch. Other groups are treated as in [`Trainer::schedule`].
    #[must_use]
    pub fn schedule_by_epoch(mut self, schedule: impl Schedule + 'static) -> Trainer<M, O> {
        self.schedule = Some((Box::new(schedule), Per::Epoch));
        self
    }

    /// Reduces the learning rate when the validation loss stops improving. Without validation, the training loss is used.
    #[must_use]
    pub fn reduce_on_plateau(mut self, plateau: ReduceLrOnPlateau) -> Trainer<M, O> {
        self.plateau = Some([plateau.clone(), plateau]);
        self
    }

    /// Allows the training to end before its last epoch.
    #[must_use]
    pub fn early_stopping(mut self, stopping: EarlyStopping) -> Trainer<M, O> {
        self.stopping = Some(stopping);
        self
    }

    /// Reads the mean loss of the epoch so far after every `steps` steps, and stores it in [`Step::mean_loss`]. Each read
    /// waits for the device. The default is 0, which reads it only at the end of an epoch.
    #[must_use]
    pub fn report_every(mut self, steps: u64) -> Trainer<M, O> {
        self.report_every = steps;
        self
    }

    /// Checks before each step whether its loss and gradients are finite. If not, the step returns an error with the first
    /// operation whose result is not finite ([`Tensor::find_non_finite`]), and the model is unchanged. A step takes several
    /// times as long, so use it for debugging only. (`detect_anomaly` of PyTorch Lightning.)
    #[must_use]
    pub fn detect_anomaly(mut self, whether: bool) -> Trainer<M, O> {
        self.detect_anomaly = whether;
        self
    }

    /// Adds a generator that `forward` draws from, so that checkpoints store its position. The generators of the model's
    /// dropout layers are already included.
    #[must_use]
    pub fn generator(mut self, generator: &Generator) -> Trainer<M, O> {
        if !self.generators.iter().any(|known| known.is_same(generator)) {
            generator.set_rank(self.rank() as u32);
            self.generators.push(generator.clone());
        }
        self
    }

    /// Returns the result of each epoch.
    pub fn history(&self) -> &[Epoch] {
        &self.history
    }

    /// Returns the total number of epochs, which [`Trainer::epochs`] sets.
    pub fn planned_epochs(&self) -> u64 {
        self.epochs
    }

    /// Returns the number of epochs that have ended, which is the index of the current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of steps in the current epoch, including steps on custom batches.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Returns the number of batches of the trainer's data that were taken in the current epoch, by all ranks. Steps on other
    /// batches ([`Trainer::step`]) do not count.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the total number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}
