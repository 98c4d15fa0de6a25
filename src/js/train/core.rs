//! The Rust value behind the trainer's class.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::js::host::host;
use crate::nn::{Members, Module};
use crate::optim::Optimizer;
use crate::tensor::Tensor;
use crate::train::metrics::{ConfusionMatrix, Metric};
use crate::train::{self, Batch, BatchIter, Batches};
use js_sys::Array;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use wasm_bindgen::JsValue;

/// The model that the JavaScript side found.
pub struct Model {
    pub module: Box<dyn Module>,
    /// A weak reference, because the trainer in `Shared` owns this model, and a cycle would never be freed.
    pub shared: Weak<Shared>,
}

impl Module for Model {
    fn members(&self, members: &mut Members) {
        self.module.members(members);
    }

    fn kind(&self) -> &'static str {
        self.module.kind()
    }

    /// Calls the JavaScript side, because users' classes may override `train` and `eval`.
    fn set_training(&self, training: bool) {
        let Some(shared) = self.shared.upgrade() else { return };
        let forward = shared.forward.borrow().clone();
        if forward.is_undefined() {
            return self.module.set_training(training);
        }
        if let Err(thrown) = host(|host| host.mode(&forward, training)) {
            shared.thrown.set(Some(thrown));
        }
    }
}

/// The Rust trainer. It shares the optimizer with JavaScript.
pub type Inner = train::Trainer<Model, Rc<RefCell<Optimizer>>>;

/// A trainer.
#[derive(Clone)]
pub struct Trainer {
    pub device: Device,
    pub shared: Rc<Shared>,
}

/// The state that all calls of a trainer share.
pub struct Shared {
    /// The Rust trainer. A call takes it out while it works.
    idle: RefCell<Option<Inner>>,
    /// The trainer's progress when it was last put back.
    pub known: RefCell<Known>,
    /// Batches of the epoch that the JavaScript side has provided.
    pub queue: Queue,
    /// Batches of the validation, and of an evaluation.
    pub validation: Gathered,
    pub evaluated: Gathered,
    pub confusion: Option<Counted>,
    /// The function that computes a loss, only during a call. A permanent reference could keep the trainer alive through the
    /// function's closure.
    pub forward: RefCell<JsValue>,
    /// The value thrown by the user's function, or by the model's switch between training and evaluation.
    pub thrown: Cell<Option<JsValue>>,
}

/// The progress of a trainer, which can be read while it works.
#[derive(Default)]
pub struct Known {
    pub steps: u64,
    pub epochs: u64,
    pub epoch: u64,
    /// The number of batches of the epoch that were taken.
    pub position: u64,
    pub is_over: bool,
    /// Whether a step was taken that was not reported yet.
    pub has_unreported_step: bool,
    /// Results of epochs, the objects made of them, and the frozen list that JavaScript received.
    pub history: Vec<train::Epoch>,
    pub epoch_objects: Array,
    pub listed: JsValue,
}

impl Known {
    /// Clears the history, because a checkpoint has another one.
    pub fn clear_history(&mut self) {
        (self.history, self.epoch_objects, self.listed) =
            (Vec::new(), Array::new(), JsValue::UNDEFINED);
    }
}

impl Shared {
    /// Makes the shared state of a trainer that is being built.
    pub fn new(confusion: Option<Counted>) -> Shared {
        Shared {
            idle: RefCell::default(),
            known: RefCell::default(),
            queue: Queue::default(),
            validation: Gathered::default(),
            evaluated: Gathered::default(),
            confusion,
            forward: RefCell::new(JsValue::UNDEFINED),
            thrown: Cell::default(),
        }
    }

    /// Takes the trainer out.
    ///
    /// # Errors
    /// `InvalidState` if another call has taken it.
    pub fn take(&self, op: &str) -> Result<Inner> {
        let busy = || {
            let why =
                "the trainer must be idle, got a call while it is at work; await the earlier call";
            Error::state(format!("{op}: {why}"))
        };
        self.idle.borrow_mut().take().ok_or_else(busy)
    }

    /// Drops provided batches, because the JavaScript side will provide others from the current position.
    pub fn reopen(&self) {
        self.queue.clear();
        self.idle.borrow_mut().iter_mut().for_each(Inner::reopen);
    }

    /// Puts the trainer back, and updates `known`.
    pub fn put(&self, trainer: Inner) {
        let mut known = self.known.borrow_mut();
        known.steps = trainer.steps();
        (known.epochs, known.epoch) = (trainer.planned_epochs(), trainer.epoch());
        (known.position, known.is_over) = (trainer.position(), trainer.is_over());
        known.has_unreported_step = trainer.has_unreported_step();
        // A history only grows, except when a checkpoint is loaded.
        let seen = known.history.len();
        known.history.extend_from_slice(&trainer.history()[seen..]);
        drop(known);
        drop(self.idle.borrow_mut().replace(trainer));
    }
}

/// Batches that were provided and not taken yet. The JavaScript side provides batches of the epoch from the current position
/// on, without the batches that were already taken.
#[derive(Clone, Default)]
pub struct Queue(Rc<RefCell<VecDeque<Batch>>>);

impl Queue {
    pub fn push(&self, batch: Batch) {
        self.0.borrow_mut().push_back(batch);
    }

    pub fn clear(&self) {
        let gone = std::mem::take(&mut *self.0.borrow_mut());
        drop(gone);
    }

    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Batches for Queue {
    fn epoch(&self, _: u64) -> Result<BatchIter> {
        Ok(Box::new(Brought(self.clone())))
    }
}

struct Brought(Queue);

impl Iterator for Brought {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        self.0 .0.borrow_mut().pop_front().map(Ok)
    }

    /// Skips nothing, because skipped batches were never provided.
    fn nth(&mut self, _: usize) -> Option<Result<Batch>> {
        None
    }
}

/// A complete list of batches.
#[derive(Clone, Default)]
pub struct Gathered(Rc<RefCell<Vec<Batch>>>);

impl Gathered {
    pub fn push(&self, batch: Batch) {
        self.0.borrow_mut().push(batch);
    }

    pub fn clear(&self) {
        drop(self.0.take());
    }
}

impl Batches for Gathered {
    fn epoch(&self, _: u64) -> Result<BatchIter> {
        let batches = self.0.borrow().clone();
        Ok(Box::new(batches.into_iter().map(Ok)))
    }
}

/// The name of the confusion matrix among metrics.
pub const COUNTED: &str = "confusion_matrix";

/// A confusion matrix as a metric. Its value as a number is the fraction on the diagonal.
#[derive(Clone)]
pub struct Counted(Rc<RefCell<ConfusionMatrix>>);

impl Counted {
    pub fn new(classes: usize) -> Counted {
        Counted(Rc::new(RefCell::new(ConfusionMatrix::new(classes))))
    }

    /// Returns the counts.
    ///
    /// # Errors
    /// `InvalidState` if there were no batches.
    pub fn matrix(&self) -> Result<Tensor> {
        self.0.borrow().matrix()
    }
}

impl Metric for Counted {
    fn name(&self) -> String {
        COUNTED.into()
    }

    fn reset(&mut self) {
        self.0.borrow_mut().reset();
    }

    fn update(&mut self, prediction: &Tensor, target: &Tensor) -> Result<()> {
        self.0.borrow_mut().update(prediction, target)
    }

    fn value(&self) -> Result<Tensor> {
        let counts = self.matrix()?.cast(crate::dtype::DType::F32)?;
        let all = counts.sum(())?.maximum(1.0)?;
        counts.diag(0)?.sum(())?.div(&all)
    }
}
