//! Work that ends later: futures, and the functions of JavaScript that get their results.

use super::values::Function;
use super::Thrown;
use crate::error::Result;
use std::future::Future;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Does `work` until it is done, then calls `settle`: with false and the result, or with true and what is to be thrown.
pub fn start(settle: Function, work: impl Future<Output = Result<JsValue>> + 'static) {
    spawn_local(async move {
        let (failed, value) = match work.await {
            Ok(value) => (false, value),
            Err(error) => (true, Thrown::from(error).into()),
        };
        settle.settle(&JsValue::UNDEFINED, failed, &value);
    });
}
