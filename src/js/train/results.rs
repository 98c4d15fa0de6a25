//! Results of a training as JavaScript objects.

use super::core::{Known, COUNTED};
use crate::error::Result;
use crate::js::objects::keep;
use crate::js::options::camel;
use crate::js::{named, Value};
use crate::train::{Epoch, Scores, Step};
use js_sys::Object;
use wasm_bindgen::prelude::*;

/// Makes an object of a model's scores: the loss, and metrics by their names.
pub fn scores(scores: &Scores) -> JsValue {
    let reported = scores.metrics.iter().filter(|(name, _)| name != COUNTED);
    let (names, values): (Vec<_>, Vec<_>) =
        reported.map(|(name, value)| (camel(name), value.value())).unzip();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let metrics = match names.is_empty() {
        true => Object::new().into(),
        false => named(&names, values),
    };
    named(&["loss", "metrics"], [scores.loss.value(), metrics])
}

/// Makes an object of the result of an epoch.
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

/// Returns the results of all epochs, as the same frozen list until another epoch ends.
pub fn history(known: &mut Known) -> JsValue {
    let converted = known.epoch_objects.length() as usize;
    if converted < known.history.len() || known.listed.is_undefined() {
        for one in &known.history[converted..] {
            known.epoch_objects.push(&epoch(one));
        }
        let list = known.epoch_objects.slice(0, known.epoch_objects.length());
        known.listed = Object::freeze(&list).into();
    }
    known.listed.clone()
}

/// Makes an object of a step.
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
