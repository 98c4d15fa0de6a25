//! A text that goes on, for JavaScript: Rust's own, whose context is its model's.

use super::Model;
use crate::error::{Error, Result};
use crate::js::{named, Value};
use crate::model::{Continuation, Finish, GenerateOptions, Generated};
use js_sys::Array;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// How errors name it.
const OP: &str = "generate";

/// A text that goes on.
pub struct Generation {
    pub model: Rc<Model>,
    /// Its number among those that were begun.
    number: u32,
    /// None while a token is under way.
    text: RefCell<Option<Continuation>>,
    finish: Cell<Option<Finish>>,
}

impl Generation {
    /// What follows these tokens.
    pub fn begin(
        model: &Rc<Model>,
        tokens: &[u32],
        options: GenerateOptions,
    ) -> Result<Generation> {
        let text = model.with(OP, |context| Continuation::new(context, tokens, options))?;
        let number = model.begun.get().wrapping_add(1);
        model.begun.set(number);
        let (text, finish) = (RefCell::new(Some(text)), Cell::new(None));
        Ok(Generation { model: model.clone(), number, text, finish })
    }

    /// [`Generation::next`](crate::model::Generation::next).
    pub async fn next(&self) -> Result<Option<Generated>> {
        if self.number != self.model.begun.get() {
            let must = "the text must be the last one that the model began, got an earlier one";
            return Err(Error::data(format!("{OP}: {must}")));
        }
        let mut context = self.model.take(OP)?;
        let Some(mut text) = self.text.take() else {
            self.model.context.replace(Some(context));
            return Err(Error::data(format!("{OP}: one token must be asked for at a time")));
        };
        let token = text.next(&mut context).await;
        self.finish.set(text.finish());
        self.text.replace(Some(text));
        self.model.context.replace(Some(context));
        token
    }

    /// Why it ended.
    pub fn finish(&self) -> Option<&'static str> {
        self.finish.get().map(|finish| match finish {
            Finish::End => "end",
            Finish::Stop => "stop",
            Finish::MaxTokens => "maxTokens",
            Finish::ContextFull => "contextFull",
        })
    }
}

/// A token as an object.
pub fn told(token: Generated) -> JsValue {
    let likeliest = token.likeliest.iter().map(|&(id, logprob)| {
        let pair = [f64::from(id), f64::from(logprob)];
        JsValue::from(pair.iter().map(|&number| JsValue::from(number)).collect::<Array>())
    });
    let likeliest: Array = likeliest.collect();
    let values = [
        token.id.value(),
        token.text.value(),
        f64::from(token.logprob).value(),
        JsValue::from(likeliest),
    ];
    named(&["id", "text", "logprob", "likeliest"], values)
}
