//! Files that JavaScript reads.

use crate::error::{Error, Result};
use crate::io::Source;
use crate::js::returns::{settle, Made};
use crate::js::Thrown;
use js_sys::{Promise, Uint8Array};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// JavaScript's side: `Reader` of `www/src/model-files.ts`.
    pub type Reader;

    /// A promise of the bytes of a part.
    #[wasm_bindgen(method)]
    fn length(this: &Reader, part: u32) -> Promise;

    /// A promise of some of the bytes.
    #[wasm_bindgen(method)]
    fn read(this: &Reader, part: u32, start: f64, end: f64) -> Promise;
}

/// One of the files of a reader.
pub struct JsSource {
    reader: Rc<Reader>,
    part: u32,
    /// The first error that the reader threw, whichever file it was for.
    thrown: Rc<Cell<Option<JsValue>>>,
}

/// A promise of what `work` makes of a reader's files, of which there are `parts`. Where the reader throws, the promise is
/// rejected with what it threw, such as an abort's reason.
pub fn reading(
    op: &'static str,
    reader: Reader,
    parts: u32,
    work: impl AsyncFnOnce(Vec<JsSource>) -> Result<Made> + 'static,
) -> Promise {
    let (reader, thrown) = (Rc::new(reader), Rc::<Cell<_>>::default());
    let file = |part| JsSource { reader: reader.clone(), part, thrown: thrown.clone() };
    let files = (0..parts).map(file).collect();
    settle(Box::pin(async move {
        let made = work(files).await;
        match thrown.take() {
            Some(thrown) => Err(Thrown::from(thrown)),
            None => Ok(made.map_err(|error| error.within(op))?),
        }
    }))
}

impl JsSource {
    async fn answer(&self, promise: Promise) -> Result<JsValue> {
        JsFuture::from(promise).await.map_err(|thrown| {
            self.thrown.set(Some(thrown));
            Error::data("the file must be readable, got an error")
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
        let (have, want) = (u64::from(bytes.length()), end - start);
        if have != want {
            let message = format!("the file must have the bytes {start} to {end}, got {have}");
            return Err(Error::data(message));
        }
        Ok(bytes.to_vec())
    }
}
