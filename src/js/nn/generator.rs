//! Where the random numbers of a model come from.

use super::Object;
use crate::device::Device;
use crate::js::objects::Object as Any;
use crate::js::{Answer, At, FromJs, JsGenerator, Shell};
use crate::nn::Generator;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Generator")]
impl JsGenerator {
    /// A generator of models on `device`.
    ///
    /// @throws `Data` if it is no device; `Shape` if the seed is no integer.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "Device")] device: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] seed: &JsValue,
    ) -> Answer<JsGenerator> {
        let op = "generator";
        let device = Device::from_js(device, At { op, what: "device" })?;
        let seed = u32::from_js(seed, At { op, what: "seed" })?;
        Ok(JsGenerator(Object::Generator(Generator::new(&device, seed)).placed()))
    }

    /// How many seeds were drawn: with the seed that it was made with all that there is to know of it. A training that goes on
    /// sets it to what was saved.
    #[wasm_bindgen(getter)]
    pub fn drawn(&self) -> Answer<u32> {
        Ok(self.core("drawn")?.drawn())
    }

    /// Goes on after so many seeds.
    #[wasm_bindgen(setter)]
    pub fn set_drawn(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] drawn: &JsValue,
    ) -> Answer<()> {
        let op = "drawn";
        self.core(op)?.set_drawn(u32::from_js(drawn, At { op, what: "drawn" })?);
        Ok(())
    }
}

impl FromJs for Generator {
    fn from_js(value: &JsValue, at: At) -> crate::error::Result<Generator> {
        match crate::js::convert::object(value, at, "a generator")? {
            Some(Any::Nn(Object::Generator(generator))) => Ok(generator),
            _ => Err(at.refuse(value, "a generator")),
        }
    }
}
