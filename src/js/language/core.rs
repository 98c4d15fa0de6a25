//! The Rust values behind the classes of language models.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::model::{
    Context, Continuation, Embedder, Finish, GenerateOptions, Generated, LanguageModel, LoraAdapter,
};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The operation in error messages.
const OP: &str = "generate";

/// The value behind an object of one of these classes.
#[derive(Clone)]
pub enum Object {
    Model(Rc<Model>),
    Generation(Rc<Generation>),
    Embedder(Embedder),
    Adapter(LoraAdapter),
}

impl Object {
    /// Returns the device of the object.
    pub fn device(&self) -> Device {
        match self {
            Object::Model(model) => model.model.device(),
            Object::Generation(generation) => generation.device(),
            Object::Embedder(embedder) => embedder.device().clone(),
            Object::Adapter(adapter) => adapter.device().clone(),
        }
    }
}

/// A model and its context.
pub struct Model {
    pub model: LanguageModel,
    /// None while a token is computed.
    pub context: RefCell<Option<Context>>,
    /// The number of generations that were begun. Only the last one can continue.
    begun: Cell<u32>,
}

impl Model {
    /// Makes a model with an empty context.
    ///
    /// # Errors
    /// `Memory`.
    pub fn new(model: LanguageModel) -> Result<Model> {
        let context = RefCell::new(Some(model.context()?));
        Ok(Model { model, context, begun: Cell::new(0) })
    }

    /// Runs synchronous `work` with the context.
    fn with<T>(&self, op: &str, work: impl FnOnce(&mut Context) -> Result<T>) -> Result<T> {
        let mut context = self.take(op)?;
        let done = work(&mut context);
        self.context.replace(Some(context));
        done
    }

    /// Takes the context. The caller must put it back.
    fn take(&self, op: &str) -> Result<Context> {
        match self.context.take() {
            Some(context) => Ok(context),
            None => {
                let must = "the model must be idle, got a call while a token is under way";
                Err(Error::state(format!("{op}: {must}; await the earlier call")))
            }
        }
    }
}

/// A generation in progress. It does not keep its model alive.
pub struct Generation {
    model: Weak<Model>,
    /// The model's device when the generation began.
    device: Device,
    /// The number of this generation among those of the model.
    number: u32,
    /// None while a token is computed.
    text: RefCell<Option<Continuation>>,
    finish: Cell<Option<Finish>>,
}

impl Generation {
    /// Begins a generation after these tokens.
    pub fn begin(
        model: &Rc<Model>,
        tokens: &[u32],
        options: GenerateOptions,
    ) -> Result<Generation> {
        let text = model.with(OP, |context| Continuation::new(context, tokens, options))?;
        let number = model.begun.get().wrapping_add(1);
        model.begun.set(number);
        let (text, finish) = (RefCell::new(Some(text)), Cell::new(None));
        let (model, device) = (Rc::downgrade(model), model.model.device());
        Ok(Generation { model, device, number, text, finish })
    }

    /// Returns the model's device, which is a new one after a lost device was replaced.
    fn device(&self) -> Device {
        self.model.upgrade().map_or_else(|| self.device.clone(), |model| model.model.device())
    }

    /// Computes the next token, like [`Generation::next`](crate::model::Generation::next).
    pub async fn next(&self) -> Result<Option<Generated>> {
        if self.finish.get().is_some() {
            return Ok(None);
        }
        let model = self.model.upgrade().ok_or_else(|| {
            Error::state(format!("{OP}: the model must not be disposed, got one that was"))
        })?;
        if self.number != model.begun.get() {
            let must = "the text must be the last one that the model began, got an earlier one";
            return Err(Error::state(format!("{OP}: {must}")));
        }
        let mut context = model.take(OP)?;
        let Some(mut text) = self.text.take() else {
            model.context.replace(Some(context));
            let must =
                "one token must be requested at a time, got a second request; await the first one";
            return Err(Error::state(format!("{OP}: {must}")));
        };
        let token = text.next(&mut context).await;
        self.finish.set(text.finish());
        // A finished generation drops its state, and with it the last logits.
        if text.finish().is_none() {
            self.text.replace(Some(text));
        }
        model.context.replace(Some(context));
        token
    }

    /// Returns the reason why the generation ended.
    pub fn finish(&self) -> Option<&'static str> {
        self.finish.get().map(|finish| match finish {
            Finish::End => "end",
            Finish::Stop => "stop",
            Finish::MaxTokens => "maxTokens",
            Finish::ContextFull => "contextFull",
        })
    }
}
