//! The random generator of models.

use super::Object;
use crate::device::Device;
use crate::js::objects::Object as Any;
use crate::js::{Answer, At, FromJs, JsGenerator, Shell};
use crate::nn::Generator;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Generator")]
impl JsGenerator {
    /// Makes a generator for models on `device`.
    ///
    /// @throws `InvalidArgument` if it is not a device; `Shape` if the seed is not an integer.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "Device")] device: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] seed: &JsValue,
    ) -> Answer<JsGenerator> {
        let op = "generator";
        let device = Device::from_js(device, At { op, argument: "device" })?;
        let seed = u32::from_js(seed, At { op, argument: "seed" })?;
        Ok(JsGenerator(Object::Generator(Generator::new(&device, seed)).into_slot()))
    }

    /// The number of seeds drawn so far. Together with the seed, this is the generator's whole state. Set it to a saved number
    /// to continue a training.
    #[wasm_bindgen(getter)]
    pub fn drawn(&self) -> Answer<u32> {
        Ok(self.core("drawn")?.drawn())
    }

    /// Continues after this many drawn seeds.
    #[wasm_bindgen(setter)]
    pub fn set_drawn(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] drawn: &JsValue,
    ) -> Answer<()> {
        let op = "drawn";
        self.core(op)?.set_drawn(u32::from_js(drawn, At { op, argument: "drawn" })?);
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
