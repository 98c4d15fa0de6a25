//! What JavaScript passes and gets besides numbers and texts. The crate that has all of JavaScript's types would leave
//! traces of many of them in the core.

use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// A function.
    #[wasm_bindgen(typescript_type = "Function")]
    pub type Function;
    /// Calls it with whether something failed, and the result or what is to be thrown.
    #[wasm_bindgen(method, js_name = call)]
    pub fn settle(this: &Function, on: &JsValue, failed: bool, value: &JsValue);
    /// Calls it with handles, for which it returns others.
    #[wasm_bindgen(method, catch, js_name = call)]
    pub fn build(this: &Function, on: &JsValue, handles: Vec<f64>) -> Result<Vec<u32>, JsValue>;

    /// Milliseconds since some moment.
    #[wasm_bindgen(js_namespace = performance)]
    pub fn now() -> f64;

    /// Bytes on JavaScript's side.
    #[wasm_bindgen(js_name = Uint8Array, typescript_type = "Uint8Array")]
    pub type Bytes;
    /// A copy of bytes.
    #[wasm_bindgen(constructor, js_class = "Uint8Array")]
    pub fn new(bytes: &[u8]) -> Bytes;
    #[wasm_bindgen(method, getter, js_class = "Uint8Array")]
    pub fn length(this: &Bytes) -> u32;
    /// A copy of all of them, for which there must be room.
    #[wasm_bindgen(method, js_class = "Uint8Array", js_name = subarray)]
    pub fn all(this: &Bytes) -> Vec<u8>;
}
