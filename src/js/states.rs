//! State dictionaries and files as parallel lists of names and values, the form that JavaScript passes.

use super::{named, At, FromJs};
use crate::error::Result;
use crate::tensor::Tensor;
use js_sys::Array;
use std::collections::BTreeMap;
use wasm_bindgen::prelude::*;

/// Makes an object with a list of names and a list of their values.
pub fn pairs(names: &[String], values: Array) -> JsValue {
    let list = Array::from_iter(names.iter().map(|name| JsValue::from_str(name)));
    named(&["names", "values"], [list.into(), values.into()])
}

/// Makes a state dictionary from names and tensors.
pub fn state(
    op: &'static str,
    names: Vec<String>,
    values: &[JsValue],
) -> Result<BTreeMap<String, Tensor>> {
    let one = |value: &JsValue| Tensor::from_js(value, At { op, argument: "a value" });
    names.into_iter().zip(values).map(|(name, value)| Ok((name, one(value)?))).collect()
}
