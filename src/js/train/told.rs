//! What a training tells, as JavaScript's objects.

use super::core::{Known, COUNTED};
use crate::error::Result;
use crate::js::objects::keep;
use crate::js::{named, Value};
use crate::train::{Epoch, Scores, Step};
use js_sys::Object;
use wasm_bindgen::prelude::*;

/// `f1_macro` as `f1Macro`: what JavaScript calls a number of an epoch.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut joined = words.next().unwrap_or_default().to_string();
    for word in words {
        let mut letters = word.chars();
        joined.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        joined.extend(letters);
    }
    joined
}

/// What a model scored: the loss, and metrics by their names.
pub fn scores(scores: &Scores) -> JsValue {
    let told = scores.metrics.iter().filter(|(name, _)| name != COUNTED);
    let (names, values): (Vec<_>, Vec<_>) =
        told.map(|(name, value)| (camel(name), value.value())).unzip();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let metrics = match names.is_empty() {
        true => Object::new().into(),
        false => named(&names, values),
    };
    named(&["loss", "metrics"], [scores.loss.value(), metrics])
}

/// What came of an epoch.
pub fn epoch(epoch: &Epoch) -> JsValue {
    let validation = epoch.validation.as_ref().map_or(JsValue::UNDEFINED, scores);
    let values = [
        epoch.epoch.value(),
        epoch.steps.value(),
        epoch.loss.value(),
        validation,
        epoch.lr.value(),
        epoch.seconds.value(),
    ];
    named(&["epoch", "steps", "loss", "validation", "lr", "seconds"], values)
}

/// What came of each epoch, as a list: the same one until there are more.
pub fn history(known: &mut Known) -> JsValue {
    let told = known.told.length() as usize;
    if told < known.history.len() || known.listed.is_undefined() {
        for one in &known.history[told..] {
            known.told.push(&epoch(one));
        }
        let list = known.told.slice(0, known.told.length());
        known.listed = Object::freeze(&list).into();
    }
    known.listed.clone()
}

/// A step that was taken.
pub fn step(step: Step) -> Result<JsValue> {
    let values = [
        step.step.value(),
        step.epoch.value(),
        step.batch.value(),
        step.lr.value(),
        keep(step.loss)?.into(),
        step.mean_loss.value(),
        step.ended.as_ref().map_or(JsValue::UNDEFINED, epoch),
    ];
    Ok(named(&["step", "epoch", "batch", "lr", "loss", "meanLoss", "ended"], values))
}
