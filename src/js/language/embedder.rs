//! Text embeddings for JavaScript.

use super::core::Object;
use super::options;
use super::source::{reading, reading_again, JsSource, Reader};
use crate::device::Device;
use crate::error::Result;
use crate::js::objects::{shells, unusable, Object as Any, Slot};
use crate::js::returns::{promise, Made};
use crate::js::{Answer, IntoJs, JsDevice, JsTensor, Shell};
use crate::model::{EmbedOptions, Embedder};
use js_sys::{Function, Promise};
use wasm_bindgen::prelude::*;

shells! {
    /// An encoder that computes embedding vectors of texts. Texts with similar meaning have vectors that are close to each
    /// other. Families are BERT (MiniLM, E5, BGE, Arctic) and XLM-RoBERTa, saved by sentence-transformers.
    ///
    /// @example
    /// ```ts
    /// const embedder = await Embedder.load("/models/all-MiniLM-L6-v2/");
    /// const vectors = embedder.embed(["A cat sits.", "A kitten rests.", "Stocks fell."]);
    /// console.log(await vectors.matmul(vectors.transpose(0, 1)).read()); // how similar each is to each
    /// ```
    "Embedder" JsEmbedder => Embedder, Any::Language(Object::Embedder(embedder)) => embedder;
}

/// Loads a model from files with these names.
async fn load(device: &Device, names: &[String], files: Vec<JsSource>) -> Result<Embedder> {
    Embedder::load_from(device, names.iter().cloned().zip(files).collect()).await
}

#[wasm_bindgen(js_class = "Embedder")]
impl JsEmbedder {
    /// Returns the names of the files that a model may have.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn files() -> Vec<String> {
        Embedder::FILES.map(String::from).to_vec()
    }

    /// Loads a model. `reader` reads the files with these names. If the files can be read again, `reopen` returns a promise of
    /// another reader.
    #[wasm_bindgen(skip_typescript, skip_jsdoc, js_name = open)]
    pub fn open(
        device: &JsDevice,
        reader: Reader,
        names: Vec<String>,
        reopen: Option<Function>,
    ) -> Answer<Promise> {
        const OP: &str = "load";
        let (device, parts) = (device.core(OP)?, names.len() as u32);
        Ok(reading(OP, reader, parts, async move |files| {
            let embedder = load(&device, &names, files).await?;
            if let Some(reopen) = reopen {
                embedder.set_reload(move |device| {
                    let (reopen, names) = (reopen.clone(), names.clone());
                    Box::pin(async move {
                        let load = async |files| load(&device, &names, files).await;
                        reading_again(&reopen, parts, load).await
                    })
                });
            }
            let made =
                move || Ok(JsEmbedder(Slot::new(Any::Language(Object::Embedder(embedder)))).into());
            Ok(Box::new(made) as Made)
        }))
    }

    /// The device of the encoder.
    #[wasm_bindgen(getter, unchecked_return_type = "Device")]
    pub fn device(&self) -> Answer<JsValue> {
        Ok((&self.core("device")?.device()).into_js()?)
    }

    /// The number of elements in a vector.
    #[wasm_bindgen(getter)]
    pub fn dimensions(&self) -> Answer<f64> {
        Ok(self.core("dimensions")?.dimensions() as f64)
    }

    /// The most tokens of a text. The rest of a longer text is ignored.
    #[wasm_bindgen(getter, js_name = maxTokens)]
    pub fn max_tokens(&self) -> Answer<f64> {
        Ok(self.core("maxTokens")?.max_tokens() as f64)
    }

    /// Ensures that the weights are in memory, on a device that works. Evicted weights are loaded again. If the device was
    /// lost, they are loaded on a new one. Vectors on a lost device stay lost.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn ready(&self) -> Answer<Promise> {
        let embedder = self.core("ready")?;
        Ok(promise(async move {
            embedder.ready().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Computes the vectors of at most 65,536 texts, as a tensor `[texts, dimensions]`. The vector of a text does not depend on
    /// the other texts.
    pub fn embed(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string | readonly string[]")] texts: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "EmbedOptions")] options: &JsValue,
    ) -> Answer<JsTensor> {
        const OP: &str = "embed";
        let embedder = self.core(OP)?;
        let texts = options::texts(texts, OP, "texts")?;
        let (prompt, prompt_name) = options::embed(options, OP)?;
        let options =
            EmbedOptions { prompt: prompt.as_deref(), prompt_name: prompt_name.as_deref() };
        Ok(embedder.embed(&texts, &options)?.into_js()?)
    }
}
