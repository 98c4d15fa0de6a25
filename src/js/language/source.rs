//! Model files that JavaScript reads.

use crate::error::{Error, Result};
use crate::io::Source;
use crate::js::reading::{byte_length, copied};
use crate::js::returns::{to_promise, Made};
use crate::js::Thrown;
use js_sys::{Function, Promise, Uint8Array};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    #[derive(Clone)]
    /// The JavaScript reader: `Reader` of `www/src/model-files.ts`.
    pub type Reader;

    /// Returns a promise of a file's length in bytes.
    #[wasm_bindgen(method)]
    fn length(this: &Reader, part: u32) -> Promise;

    /// Returns a promise of a range of a file's bytes.
    #[wasm_bindgen(method)]
    fn read(this: &Reader, part: u32, start: f64, end: f64) -> Promise;

    /// Closes all files, and returns a promise of the end.
    #[wasm_bindgen(method)]
    fn close(this: &Reader) -> Promise;
}

/// One of the files of a reader.
pub struct JsSource {
    reader: Rc<Reader>,
    part: u32,
    /// The first error that the reader threw, for any of its files.
    thrown: Rc<Cell<Option<JsValue>>>,
}

/// Returns the `parts` files of a reader, and a cell for the first error that it throws.
fn files(reader: Reader, parts: u32) -> (Vec<JsSource>, Rc<Cell<Option<JsValue>>>) {
    let (reader, thrown) = (Rc::new(reader), Rc::<Cell<_>>::default());
    let file = |part| JsSource { reader: reader.clone(), part, thrown: thrown.clone() };
    ((0..parts).map(file).collect(), thrown)
}

/// Returns a promise of the result of `work` with the `parts` files of a reader. If the reader throws, the promise rejects with
/// the thrown value, such as an abort's reason.
pub fn reading(
    op: &'static str,
    reader: Reader,
    parts: u32,
    work: impl AsyncFnOnce(Vec<JsSource>) -> Result<Made> + 'static,
) -> Promise {
    let (files, thrown) = files(reader, parts);
    to_promise(Box::pin(async move {
        let made = work(files).await;
        match thrown.take() {
            Some(thrown) => Err(Thrown::from(thrown)),
            None => Ok(made.map_err(|error| error.within(op))?),
        }
    }))
}

/// Opens the `parts` files again through JavaScript, and returns the result of `work` with them.
pub async fn reading_again<T>(
    reopen: &Function,
    parts: u32,
    work: impl AsyncFnOnce(Vec<JsSource>) -> Result<T>,
) -> Result<T> {
    // A call that cannot wait polls once. Nothing must be opened then.
    let _ = JsFuture::from(Promise::resolve(&JsValue::UNDEFINED)).await;
    let opened = match reopen.call0(&JsValue::NULL) {
        Ok(opening) => JsFuture::from(Promise::from(opening)).await,
        Err(thrown) => Err(thrown),
    };
    let reader: Reader = opened.map_err(|thrown| unreadable(&thrown))?.unchecked_into();
    let closing = reader.clone();
    let (files, thrown) = files(reader, parts);
    let made = work(files).await;
    // An error of closing is ignored, because the files are not needed any more.
    let _ = JsFuture::from(closing.close()).await;
    match thrown.take() {
        Some(thrown) => Err(unreadable(&thrown)),
        None => made,
    }
}

/// The error for a value that JavaScript threw while it opened or read a file.
fn unreadable(thrown: &JsValue) -> Error {
    let why = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.message()));
    let why = why.unwrap_or_else(|| format!("{thrown:?}"));
    Error::format(format!("load: the files must be readable again, got: {why}"))
}

impl JsSource {
    async fn answer(&self, promise: Promise) -> Result<JsValue> {
        JsFuture::from(promise).await.map_err(|thrown| {
            self.thrown.set(Some(thrown));
            Error::format("the file must be readable, got an error")
        })
    }
}

impl Source for JsSource {
    async fn length(&mut self) -> Result<u64> {
        let length = self.answer(self.reader.length(self.part)).await?;
        Ok(length.as_f64().unwrap_or(0.0) as u64)
    }

    async fn read_range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        let Range { start, end } = range;
        let bytes = self.reader.read(self.part, start as f64, end as f64);
        let bytes = Uint8Array::from(self.answer(bytes).await?);
        let (have, want) = (byte_length(&bytes), end - start);
        if have != want {
            let message = format!("the file must have the bytes {start} to {end}, got {have}");
            return Err(Error::format(message));
        }
        copied("load", &bytes)
    }
}
