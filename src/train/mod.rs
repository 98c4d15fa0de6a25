//! Training loops: a [`Trainer`] takes a model, an optimizer and data through epochs, with validation, metrics, schedules,
//! early stopping, and checkpoints that go on to the same bits. A loop of one's own can do all of it instead, or leave a part
//! to the trainer ([`Trainer::step`]).
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
//!     Ok((scores.cross_entropy(y, None, CrossEntropyOptions::default())?, scores))
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
mod record;
mod rollback;
mod stopping;

pub use data::{Batch, BatchIter, Batches, DataLoader, Dataset};
pub use optimizer_handle::OptimizerHandle;
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
use std::collections::BTreeMap;
use std::iter::Peekable;
use stopping::Patience;
use web_time::Instant;

/// Trains a model. (`fit` of Keras, `Trainer` of PyTorch Lightning.) The methods that return it again say how; then
/// [`Trainer::fit`] does all of it, [`Trainer::next_step`] one step, and [`Trainer::step`] a step on a batch of one's own.
///
/// Steps are recorded ahead of the device by a few, and awaiting is what holds them back. Losses are added up on the device,
/// and read at an epoch's end, or as often as [`Trainer::report_every`] says.
///
/// Whatever is awaited may be dropped at any time: the next call goes on from there, and no step is lost or taken twice.
///
/// A trainer owns its optimizer, or shares it with the program as an `Rc<RefCell<Optimizer>>` ([`OptimizerHandle`]).
pub struct Trainer<M, O = Optimizer> {
    /// What is trained.
    pub model: M,
    /// How.
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
    /// As it was given, and as it is now.
    plateau: Option<[ReduceLrOnPlateau; 2]>,
    stopping: Option<EarlyStopping>,
    patience: Patience,
    best: Option<BTreeMap<String, Tensor>>,
    generators: Vec<Generator>,
    /// Steps that were taken in all, epochs that were ended, and steps of the epoch since.
    steps: u64,
    epoch: u64,
    batch: u64,
    /// Batches of the data that were taken since the epoch began.
    position: u64,
    loss_mean: LossMean,
    history: Vec<Epoch>,
    /// What is left of the epoch.
    left: Option<Peekable<BatchIter>>,
    /// The last step of an epoch that is not ended yet.
    last: Option<Step>,
    in_flight: InFlight,
    begun: Option<Instant>,
    /// Whether the model has its best weights again.
    restored: bool,
}

/// What a schedule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Step,
    Epoch,
}

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// A trainer of this model, whose parameters the optimizer has. `forward` gives the loss of a batch, a single number; or
    /// the loss and what the model predicted, which metrics need.
    ///
    /// # Errors
    /// `Data` if the model has no parameters, or the optimizer none of the model's.
    pub fn new<R: Into<ForwardOutput>>(
        model: M,
        optimizer: O,
        data: impl Batches + 'static,
        forward: impl Fn(&M, &Tensor, &Tensor) -> Result<R> + 'static,
    ) -> Result<Trainer<M, O>> {
        let parameters = model.parameters();
        let first = parameters
            .first()
            .ok_or_else(|| Error::data("train: the model must have parameters, got none"))?;
        let device = first.value().device().clone();
        optimizer.with(|optimizer| match optimizer.has_any(&parameters) {
            true => Ok(()),
            false => Err(Error::data(
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
        })
    }

    /// How many epochs there are in all, those of a checkpoint included. The default is 1. It can be set again, to go on: a
    /// training that early stopping has ended has its whole patience again then.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Trainer<M, O> {
        self.epochs = epochs;
        self.patience.renew();
        self
    }

    /// After each epoch the loss and the metrics of these batches are computed, by the model in evaluation.
    #[must_use]
    pub fn validate_on(mut self, data: impl Batches + 'static) -> Trainer<M, O> {
        self.validation = Some(Box::new(data));
        self
    }

    /// Another metric, of the validation. `forward` must return predictions then.
    #[must_use]
    pub fn metric(mut self, metric: impl Metric + 'static) -> Trainer<M, O> {
        self.metrics.push(Box::new(metric));
        self
    }

    /// The learning rate of each step: that of the optimizer's first group; the others keep their ratios to it.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'static) -> Trainer<M, O> {
        self.schedule = Some((Box::new(schedule), Per::Step));
        self
    }

    /// The learning rate of each epoch.
    #[must_use]
    pub fn schedule_by_epoch(mut self, schedule: impl Schedule + 'static) -> Trainer<M, O> {
        self.schedule = Some((Box::new(schedule), Per::Epoch));
        self
    }

    /// A learning rate that falls where the validation's loss stays, or without validation the loss.
    #[must_use]
    pub fn reduce_on_plateau(mut self, plateau: ReduceLrOnPlateau) -> Trainer<M, O> {
        self.plateau = Some([plateau.clone(), plateau]);
        self
    }

    /// It may end before its last epoch.
    #[must_use]
    pub fn early_stopping(mut self, stopping: EarlyStopping) -> Trainer<M, O> {
        self.stopping = Some(stopping);
        self
    }

    /// At every so many steps the mean loss of the epoch so far is read, which waits for the device: [`Step::mean_loss`]. The
    /// default is 0: at the end of epochs alone.
    #[must_use]
    pub fn report_every(mut self, steps: u64) -> Trainer<M, O> {
        self.report_every = steps;
        self
    }

    /// Looks, before each step is taken, whether its loss and gradients are finite. If not, the step is an error that names the
    /// first operation whose result is not ([`Tensor::find_non_finite`]); the model is then as it was before. It takes
    /// several times as long, and is for looking for what is wrong. (`detect_anomaly` of PyTorch Lightning.)
    #[must_use]
    pub fn detect_anomaly(mut self, whether: bool) -> Trainer<M, O> {
        self.detect_anomaly = whether;
        self
    }

    /// Another generator whose draws checkpoints note: one that `forward` draws from. Those of the model's dropout are known.
    #[must_use]
    pub fn generator(mut self, generator: &Generator) -> Trainer<M, O> {
        if !self.generators.iter().any(|known| known.is_same(generator)) {
            self.generators.push(generator.clone());
        }
        self
    }

    /// What came of each epoch.
    pub fn history(&self) -> &[Epoch] {
        &self.history
    }

    /// How many epochs there are in all: [`Trainer::epochs`] says it.
    pub fn planned_epochs(&self) -> u64 {
        self.epochs
    }

    /// How many epochs were ended: the number of the one that is under way.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many steps of the epoch that is under way were taken, those on batches of one's own included.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// How many batches of the trainer's data were taken in the epoch that is under way. Steps on other batches
    /// ([`Trainer::step`]) do not count here.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}
