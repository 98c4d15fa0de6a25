//! Low-rank adapters of language models, for JavaScript.

use super::core::{Model, Object};
use super::options;
use super::{parsed, JsLanguageModel};
use crate::error::Result;
use crate::js::convert::object;
use crate::js::objects::{shells, unusable, Object as Any, Slot};
use crate::js::reading::copied;
use crate::js::returns::{to_promise, Made};
use crate::js::variable::object_of;
use crate::js::{named, Answer, At, FromJs, IntoJs, JsTensor, Shell, Value};
use crate::model::{Example, LoraAdapter};
use crate::nn::Module;
use crate::text::Message;
use js_sys::{ArrayBuffer, Promise, Uint8Array};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

shells! {
    /// Trainable low-rank matrices next to the packed weights of a language model (LoRA, Hu et al. 2021).
    /// {@link LanguageModel.createAdapter} and {@link LanguageModel.loadAdapter} make them.
    ///
    /// @example
    /// ```ts
    /// const adapter = model.createAdapter({ rank: 8, alpha: 16 });
    /// const optimizer = Optimizer.adam(adapter.parameters(), { lr: 1e-3 });
    /// for (let step = 0; step < 20; step++) {
    ///   const loss = adapter.loss(["Warp and weft make a fabric."]);
    ///   optimizer.minimize(loss);
    ///   console.log(await loss.item());
    /// }
    /// const tuned = model.withAdapter(adapter);
    /// ```
    "LoraAdapter" JsLoraAdapter => LoraAdapter, Any::Language(Object::Adapter(adapter)) => adapter;
}

impl FromJs for LoraAdapter {
    fn from_js(value: &JsValue, at: At) -> Result<LoraAdapter> {
        match object(value, at, "a LoraAdapter")? {
            Some(Any::Language(Object::Adapter(adapter))) => Ok(adapter),
            _ => Err(at.refuse(value, "a LoraAdapter")),
        }
    }
}

fn shell(adapter: LoraAdapter) -> JsLoraAdapter {
    JsLoraAdapter(Slot::new(Any::Language(Object::Adapter(adapter))))
}

#[wasm_bindgen(js_class = "LanguageModel")]
impl JsLanguageModel {
    /// Makes a new adapter. Until it is trained, the model answers as without it.
    #[wasm_bindgen(js_name = createAdapter)]
    pub fn create_adapter(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "AdapterOptions")] options: &JsValue,
    ) -> Answer<JsLoraAdapter> {
        const OP: &str = "createAdapter";
        let (model, options) = (self.core(OP)?, options::adapter(options, OP)?);
        let made = LoraAdapter::new(&model.model, &options);
        Ok(shell(made.map_err(|error| error.within(OP))?))
    }

    /// Makes an adapter from the two files of Hugging Face's `peft`: the text of `adapter_config.json`, and the bytes of
    /// `adapter_model.safetensors`.
    #[wasm_bindgen(js_name = loadAdapter)]
    pub fn load_adapter(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] config: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Uint8Array | ArrayBuffer")] weights: &JsValue,
    ) -> Answer<JsLoraAdapter> {
        const OP: &str = "loadAdapter";
        let model = self.core(OP)?;
        let config = String::from_js(config, At { op: OP, argument: "config" })?;
        let bytes = match weights.dyn_ref::<Uint8Array>() {
            Some(bytes) => bytes.clone(),
            None if weights.has_type::<ArrayBuffer>() => Uint8Array::new(weights),
            None => {
                let at = At { op: OP, argument: "weights" };
                return Err(at.refuse(weights, "a Uint8Array or an ArrayBuffer").into());
            }
        };
        let loaded = LoraAdapter::load(&model.model, config.as_bytes(), &copied(OP, &bytes)?);
        Ok(shell(loaded.map_err(|error| error.within(OP))?))
    }

    /// Returns the model with an adapter, which replaces an earlier adapter. Both models share the weights. Later training of
    /// the adapter also changes the returned model, except for tokens that are already in its context.
    #[wasm_bindgen(js_name = withAdapter)]
    pub fn with_adapter(
        &self,
        #[wasm_bindgen(unchecked_param_type = "LoraAdapter")] adapter: &JsValue,
    ) -> Answer<JsLanguageModel> {
        const OP: &str = "withAdapter";
        let model = self.core(OP)?;
        let adapter = LoraAdapter::from_js(adapter, At { op: OP, argument: "adapter" })?;
        let tuned = model.model.with_adapter(&adapter).and_then(Model::new);
        let tuned = Rc::new(tuned.map_err(|error| error.within(OP))?);
        Ok(JsLanguageModel(Object::Model(tuned).into_slot()))
    }
}

#[wasm_bindgen(js_class = "LoraAdapter")]
impl JsLoraAdapter {
    /// The device of the adapter.
    #[wasm_bindgen(getter, unchecked_return_type = "Device")]
    pub fn device(&self) -> Answer<JsValue> {
        Ok(self.core("device")?.device().into_js()?)
    }

    /// The rank: rows of the first matrix of each pair, and columns of the second.
    #[wasm_bindgen(getter)]
    pub fn rank(&self) -> Answer<f64> {
        Ok(self.core("rank")?.rank() as f64)
    }

    /// The factor of each pair's product: `alpha / rank`, or `alpha / sqrt(rank)` if it is rank-stabilized.
    #[wasm_bindgen(getter)]
    pub fn scale(&self) -> Answer<f64> {
        Ok(self.core("scale")?.scale())
    }

    /// Returns the matrices, for an optimizer.
    #[wasm_bindgen(unchecked_return_type = "Variable[]")]
    pub fn parameters(&self) -> Answer<Vec<JsValue>> {
        let parameters = self.core("parameters")?.parameters();
        Ok(parameters.iter().map(object_of).collect::<Result<_>>()?)
    }

    /// Returns the tokens of a text, or of messages as JSON. The first number is the number of tokens that are not learned.
    #[wasm_bindgen(skip_typescript, skip_jsdoc, js_name = exampleOf)]
    pub fn example_of(&self, text: &str, is_chat: bool) -> Answer<Vec<u32>> {
        const OP: &str = "loss";
        let adapter = self.core(OP)?;
        let example = match is_chat {
            true => adapter.model().chat_example(&parsed::<Vec<Message>>(text, OP, "messages")?),
            false => adapter
                .model()
                .tokenizer()
                .encode_with_ends(text, false)
                .map(|ids| Example::text(&ids)),
        };
        let Example { tokens, prompt } = example.map_err(|error| error.within(OP))?;
        Ok([&[prompt as u32][..], &tokens].concat())
    }

    /// Returns the loss of examples. `tokens` has the tokens of all examples, one example after the other. `lengths` and
    /// `prompts` have the number of tokens of each example, and how many of them are not learned.
    #[wasm_bindgen(skip_typescript, skip_jsdoc, js_name = lossOf)]
    pub fn loss_of(&self, tokens: &[u32], lengths: &[u32], prompts: &[u32]) -> Answer<JsTensor> {
        const OP: &str = "loss";
        let adapter = self.core(OP)?;
        let mut rest = tokens;
        let mut examples = Vec::with_capacity(lengths.len());
        for (&length, &prompt) in lengths.iter().zip(prompts) {
            let (own, others) = rest.split_at(rest.len().min(length as usize));
            examples.push(Example { tokens: own.to_vec(), prompt: prompt as usize });
            rest = others;
        }
        let loss = adapter.loss(&examples).map_err(|error| error.within(OP))?;
        Ok(loss.into_js()?)
    }

    /// Saves the adapter as the two files of Hugging Face's `peft`.
    #[wasm_bindgen(unchecked_return_type = "Promise<AdapterFiles>")]
    pub fn save(&self) -> Answer<Promise> {
        let adapter = self.core("save")?;
        Ok(to_promise(Box::pin(async move {
            let files = adapter.save().await?;
            let made = move || {
                let weights = JsValue::from(Uint8Array::from(&files.weights[..]));
                Ok(named(&["config", "weights"], [files.config.value(), weights]))
            };
            Ok(Box::new(made) as Made)
        })))
    }
}
