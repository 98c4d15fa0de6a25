//! Names and what has them: states and files, as JavaScript's side takes and gives them.

use super::{named, At, FromJs};
use crate::error::Result;
use crate::tensor::Tensor;
use js_sys::Array;
use std::collections::BTreeMap;
use wasm_bindgen::prelude::*;

/// Lists of names and of what has them, as an object of two.
pub fn pairs(names: &[String], values: Array) -> JsValue {
    let list = Array::from_iter(names.iter().map(|name| JsValue::from_str(name)));
    named(&["names", "values"], [list.into(), values.into()])
}

/// What a state of JavaScript's says.
pub fn state(
    op: &'static str,
    names: Vec<String>,
    values: &[JsValue],
) -> Result<BTreeMap<String, Tensor>> {
    let one = |value: &JsValue| Tensor::from_js(value, At { op, what: "a value" });
    names.into_iter().zip(values).map(|(name, value)| Ok((name, one(value)?))).collect()
}
