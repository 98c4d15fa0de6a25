//! What `adapters.js` and `bridge.js` offer. It never throws; what fails is told, and promises that fail are rejected
//! with words.

use wasm_bindgen::prelude::*;

#[wasm_bindgen(module = "/src/backend/webgpu/adapters.js")]
extern "C" {
    /// Resolves to an [`Adapter`], or to undefined where there is none.
    pub fn request(low_power: bool) -> JsValue;

    /// Calls `tell` with 0 and what `promise` resolves to, or with 1 and what it is rejected with.
    pub fn answer(promise: &JsValue, tell: &JsValue);

    #[derive(Clone, Debug)]
    pub type Adapter;
    /// Lines: what it is called, and its vendor.
    #[wasm_bindgen(method)]
    pub fn words(this: &Adapter) -> String;
    /// 1 for one computed by a CPU and 1 for f16, or 0; and then the limits as they stand in `adapters.js`.
    #[wasm_bindgen(method)]
    pub fn figures(this: &Adapter) -> Vec<f64>;
    /// Resolves to a device.
    #[wasm_bindgen(method)]
    pub fn open(this: &Adapter) -> JsValue;
}

#[wasm_bindgen(module = "/src/backend/webgpu/bridge.js")]
extern "C" {
    /// An open device that tells how its calls went.
    pub type Gpu;
    #[wasm_bindgen(constructor)]
    pub fn new(device: &JsValue, tell: &JsValue) -> Gpu;
    #[wasm_bindgen(method)]
    pub fn create(this: &Gpu, call: f64, number: f64, bytes: f64, uniform: bool);
    #[wasm_bindgen(method)]
    pub fn discard(this: &Gpu, number: f64);
    #[wasm_bindgen(method)]
    pub fn compile(
        this: &Gpu,
        call: f64,
        text: &str,
        inputs: u32,
        outputs: u32,
        label: &str,
    ) -> u32;
    #[wasm_bindgen(method)]
    pub fn record(this: &Gpu, words: &[u32]) -> u32;
    #[wasm_bindgen(method)]
    pub fn forget(this: &Gpu, batch: u32);
    #[wasm_bindgen(method)]
    pub fn submit(
        this: &Gpu,
        call: f64,
        batch: u32,
        uniform: f64,
        params: &[u8],
        slots: &[f64],
        held: bool,
    );
    #[wasm_bindgen(method)]
    pub fn write(this: &Gpu, call: f64, number: f64, offset: f64, data: &[u8]);
    #[wasm_bindgen(method)]
    pub fn read(this: &Gpu, call: f64, number: f64, offset: f64, bytes: f64) -> Reading;
    #[wasm_bindgen(method)]
    pub fn done(this: &Gpu) -> JsValue;
    #[wasm_bindgen(method, getter, js_name = bindGroups)]
    pub fn bind_groups(this: &Gpu) -> u32;
    #[wasm_bindgen(method)]
    pub fn destroy(this: &Gpu);
    #[wasm_bindgen(method)]
    pub fn close(this: &Gpu);

    /// Bytes that are read.
    pub type Reading;
    #[wasm_bindgen(method, getter)]
    pub fn mapped(this: &Reading) -> JsValue;
    /// A copy of them, for which there must be room, if they could be read.
    #[wasm_bindgen(method)]
    pub fn copy(this: &Reading) -> Option<Vec<u8>>;
    #[wasm_bindgen(method)]
    pub fn end(this: &Reading);
}
