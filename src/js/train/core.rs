//! What the class of trainers stands for.

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

/// Whatever module JavaScript's side found.
pub struct Model {
    pub module: Box<dyn Module>,
    /// What is kept by what it holds would never go.
    pub shared: Weak<Shared>,
}

impl Module for Model {
    fn members(&self, members: &mut Members) {
        self.module.members(members);
    }

    fn kind(&self) -> &'static str {
        self.module.kind()
    }

    /// JavaScript's side does it, for classes of users' may do it in their own way.
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

/// Rust's trainer; the optimiser is JavaScript's, too.
pub type Inner = train::Trainer<Model, Rc<RefCell<Optimizer>>>;

/// A trainer.
#[derive(Clone)]
pub struct Trainer {
    pub device: Device,
    pub shared: Rc<Shared>,
}

/// What a trainer's calls have in common.
pub struct Shared {
    /// It is taken out while it works.
    idle: RefCell<Option<Inner>>,
    /// What was known of it when it last was there.
    pub known: RefCell<Known>,
    /// Batches that JavaScript's side has brought for the epoch.
    pub queue: Queue,
    /// Batches of the validation, and of what is evaluated.
    pub validation: Gathered,
    pub evaluated: Gathered,
    pub confusion: Option<Counted>,
    /// What computes a loss, while a call needs it. Kept any longer, what it holds could keep the trainer alive.
    pub forward: RefCell<JsValue>,
    /// What the user's function, or the model's change to training or back, threw.
    pub thrown: Cell<Option<JsValue>>,
}

/// What can be asked of a trainer that works.
#[derive(Default)]
pub struct Known {
    pub steps: u64,
    pub epochs: u64,
    pub epoch: u64,
    /// Batches of the epoch that were taken.
    pub position: u64,
    pub is_over: bool,
    /// Whether a step was taken that nobody has heard of yet.
    pub is_telling: bool,
    /// Epochs, the objects that were made of them, and the list that JavaScript has of these.
    pub history: Vec<train::Epoch>,
    pub told: Array,
    pub listed: JsValue,
}

impl Known {
    /// The next history is another one.
    pub fn forget(&mut self) {
        (self.history, self.told, self.listed) = (Vec::new(), Array::new(), JsValue::UNDEFINED);
    }
}

impl Shared {
    /// What calls of a trainer need that is being made.
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
    /// `Data` if something else has it.
    pub fn take(&self, op: &str) -> Result<Inner> {
        let busy = || {
            let why =
                "the trainer must be idle, got a call while it is at work; await the earlier call";
            Error::data(format!("{op}: {why}"))
        };
        self.idle.borrow_mut().take().ok_or_else(busy)
    }

    /// Other batches will be brought from where the training is.
    pub fn reopen(&self) {
        self.queue.clear();
        self.idle.borrow_mut().iter_mut().for_each(Inner::reopen);
    }

    /// Puts it back.
    pub fn put(&self, trainer: Inner) {
        let mut known = self.known.borrow_mut();
        known.steps = trainer.steps();
        (known.epochs, known.epoch) = (trainer.planned_epochs(), trainer.epoch());
        (known.position, known.is_over) = (trainer.position(), trainer.is_over());
        known.is_telling = trainer.is_telling();
        // A history only grows, but for a checkpoint's.
        let seen = known.history.len();
        known.history.extend_from_slice(&trainer.history()[seen..]);
        drop(known);
        drop(self.idle.borrow_mut().replace(trainer));
    }
}

/// Batches that were brought and not taken yet. JavaScript's side brings those of the epoch, from where the training is; it
/// has passed over those that were taken before.
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

    /// What is to be passed over has not been brought.
    fn nth(&mut self, _: usize) -> Option<Result<Batch>> {
        None
    }
}

/// Batches that are all there.
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

/// The name of the counts among metrics.
pub const COUNTED: &str = "confusion_matrix";

/// A confusion matrix that is counted with the metrics; as a number it is the share of its diagonal.
#[derive(Clone)]
pub struct Counted(Rc<RefCell<ConfusionMatrix>>);

impl Counted {
    pub fn new(classes: usize) -> Counted {
        Counted(Rc::new(RefCell::new(ConfusionMatrix::new(classes))))
    }

    /// The counts.
    ///
    /// # Errors
    /// `Data` if there were no batches.
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
