//! Files of weights and arrays: conversion between the bytes of JavaScript and tensors.

use super::objects::keep_all;
use super::reading::{copied, room};
use super::states::{pairs, state};
use super::{given, named, promise, Answer, At, FromJs, JsDevice, JsTensor, Shell};
use crate::error::Result;
use crate::io;
use crate::sorted;
use crate::tensor::Tensor;
use js_sys::{Array, Promise, Uint8Array};
use std::collections::BTreeMap;
use std::future::Future;
use wasm_bindgen::prelude::*;

/// Returns a promise of a file's bytes. Errors name `op`.
fn written(op: &'static str, file: impl Future<Output = Result<Vec<u8>>> + 'static) -> Promise {
    promise(async move {
        let bytes = file.await.map_err(|error| error.within(op))?;
        let all = room(bytes.len() as u64)?;
        all.copy_from(&bytes);
        Ok(JsValue::from(all))
    })
}

/// Returns names and tensors as parallel lists for JavaScript.
fn listed(tensors: BTreeMap<String, Tensor>) -> Answer<JsValue> {
    let (names, values): (Vec<_>, Vec<_>) = tensors.into_iter().unzip();
    Ok(pairs(&names, Array::from_iter(keep_all(&values)?)))
}

/// Returns the type, the shape and the byte range of a tensor that was not loaded.
fn skipped_object(skipped: &io::Skipped) -> JsValue {
    let number = |n: u64| JsValue::from_f64(n as f64);
    let shape: Array = skipped.shape.iter().map(|&extent| number(extent)).collect();
    let (start, end) = (number(skipped.bytes.start), number(skipped.bytes.end));
    let dtype = JsValue::from_str(&skipped.dtype);
    named(&["dtype", "shape", "start", "end"], [dtype, shape.into(), start, end])
}

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Reads the tensors and metadata of a safetensors file.
    #[wasm_bindgen(js_name = fromSafetensors, skip_typescript, skip_jsdoc)]
    pub fn read_safetensors(&self, bytes: &Uint8Array) -> Answer<JsValue> {
        let op = "loadSafetensors";
        let file = io::load_safetensors(&self.core(op)?, &copied(op, bytes)?);
        let file = file.map_err(|error| error.within(op))?;
        let (names, notes): (Vec<_>, Vec<_>) = file.metadata.into_iter().unzip();
        let notes = pairs(&names, notes.iter().map(|note| JsValue::from_str(note)).collect());
        let (names, skipped): (Vec<_>, Vec<_>) = file.skipped.into_iter().unzip();
        let skipped = pairs(&names, skipped.iter().map(skipped_object).collect());
        Ok(named(&["tensors", "metadata", "skipped"], [listed(file.tensors)?, notes, skipped]))
    }

    /// Writes a safetensors file with these tensors and metadata.
    #[wasm_bindgen(js_name = toSafetensors, skip_typescript, skip_jsdoc)]
    pub fn write_safetensors(
        &self,
        names: Vec<String>,
        values: Vec<JsValue>,
        notes: Vec<String>,
        texts: Vec<JsValue>,
    ) -> Answer<Promise> {
        let op = "saveSafetensors";
        self.core(op)?;
        let tensors = state(op, names, &values)?;
        let text = |note: &JsValue| String::from_js(note, At { op, argument: "metadata" });
        let texts: Vec<String> = texts.iter().map(text).collect::<Result<_>>()?;
        let metadata = sorted::map(notes.into_iter().zip(texts));
        Ok(written(op, async move { io::save_safetensors(&tensors, &metadata).await }))
    }

    /// Reads the array of a `.npy` file.
    #[wasm_bindgen(js_name = fromNpy, skip_typescript, skip_jsdoc)]
    pub fn read_npy(&self, bytes: &Uint8Array) -> Answer<JsTensor> {
        let op = "loadNpy";
        given(io::load_npy(&self.core(op)?, &copied(op, bytes)?), op)
    }

    /// Reads the arrays of an `.npz` file.
    #[wasm_bindgen(js_name = fromNpz, skip_typescript, skip_jsdoc)]
    pub fn read_npz(&self, bytes: &Uint8Array) -> Answer<JsValue> {
        let op = "loadNpz";
        let arrays = io::load_npz(&self.core(op)?, &copied(op, bytes)?);
        listed(arrays.map_err(|error| error.within(op))?)
    }

    /// Writes an `.npz` file with these arrays.
    #[wasm_bindgen(js_name = toNpz, skip_typescript, skip_jsdoc)]
    pub fn write_npz(
        &self,
        names: Vec<String>,
        values: Vec<JsValue>,
        compressed: bool,
    ) -> Answer<Promise> {
        let op = "saveNpz";
        self.core(op)?;
        let tensors = state(op, names, &values)?;
        Ok(written(op, async move { io::save_npz(&tensors, compressed).await }))
    }
}

#[wasm_bindgen(js_class = "Tensor")]
impl JsTensor {
    /// Writes a `.npy` file of the tensor, for NumPy.
    ///
    /// @throws Errors of {@link Tensor.read}.
    #[wasm_bindgen(js_name = saveNpy, unchecked_return_type = "Promise<Bytes>")]
    pub fn save_npy(&self) -> Answer<Promise> {
        let op = "saveNpy";
        let tensor = self.core(op)?;
        Ok(written(op, async move { io::save_npy(&tensor).await }))
    }
}
