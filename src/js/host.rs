//! What the core asks of JavaScript: `www/src/host.ts`, which is passed to [`start`](super::start). Nothing that a user
//! passed is looked at elsewhere: there a getter of theirs can throw without leaving WebAssembly half-way.

use std::cell::OnceCell;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// JavaScript's side of this core.
    pub type Host;

    /// The number of the object that this is: 0 if it was disposed, or why it is none ([`NUMBER`] and its like).
    #[wasm_bindgen(method)]
    pub fn handle(this: &Host, value: &JsValue) -> i32;

    /// A number or a boolean as a number; NaN for anything else.
    #[wasm_bindgen(method)]
    pub fn number(this: &Host, value: &JsValue) -> f64;

    /// A list of numbers; nothing if it is none, or too long.
    #[wasm_bindgen(method)]
    pub fn numbers(this: &Host, value: &JsValue) -> Option<Vec<f64>>;

    /// What is said of a list that is too long; nothing of all other values.
    #[wasm_bindgen(method, js_name = tooLong)]
    pub fn too_long(this: &Host, value: &JsValue) -> Option<String>;

    /// A list of anything; nothing if it is none, or too long: each item takes a place in a table of WebAssembly's.
    #[wasm_bindgen(method)]
    pub fn items(this: &Host, value: &JsValue) -> Option<Vec<JsValue>>;

    /// The fields of an object of options, in the order in which they are known; nothing if there are others.
    #[wasm_bindgen(method)]
    pub fn fields(this: &Host, value: &JsValue, known: &JsValue) -> Option<Vec<JsValue>>;

    /// Why there are no such fields.
    #[wasm_bindgen(method, js_name = oddFields)]
    pub fn odd_fields(this: &Host, value: &JsValue, known: &JsValue) -> String;

    /// The bytes of a `GPUBuffer`, and what it may be used for; nothing if it is none.
    #[cfg(feature = "wgpu-interop")]
    #[wasm_bindgen(method)]
    pub fn buffer(this: &Host, value: &JsValue) -> Option<Vec<f64>>;

    /// A value in a few words.
    #[wasm_bindgen(method)]
    pub fn describe(this: &Host, value: &JsValue) -> String;

    /// An error, to be thrown.
    #[wasm_bindgen(method)]
    pub fn error(this: &Host, code: &str, message: &str) -> JsValue;

    /// An object with these fields.
    #[wasm_bindgen(method)]
    pub fn object(this: &Host, names: &str, values: Vec<JsValue>) -> JsValue;

    /// Bytes of JavaScript's; nothing where there is no room for so many.
    #[wasm_bindgen(method)]
    pub fn room(this: &Host, bytes: usize) -> Option<js_sys::Uint8Array>;

    /// Tells the garbage collector that objects hold so many more bytes than it knows of.
    #[wasm_bindgen(method)]
    pub fn grown(this: &Host, bytes: f64);

    /// A promise of the next turn of the page, where it has waited for one too long.
    #[wasm_bindgen(method)]
    pub fn turn(this: &Host) -> Option<js_sys::Promise>;

    /// The object that was made for what is at an address, if it is still there.
    #[wasm_bindgen(method)]
    pub fn known(this: &Host, address: usize) -> JsValue;

    /// Remembers the object that was made for what is at an address.
    #[wasm_bindgen(method)]
    pub fn remember(this: &Host, address: usize, object: &JsValue);

    /// Gives a tensor to a variable, which disposes of it: scopes do not any more. False if another variable has it.
    #[wasm_bindgen(method)]
    pub fn own(this: &Host, tensor: &JsValue) -> bool;

    /// From now on tensors are noted that are made.
    #[wasm_bindgen(method, js_name = openScope)]
    pub fn open_scope(this: &Host);

    /// Disposes of those that were made since.
    #[wasm_bindgen(method, js_name = closeScope)]
    pub fn close_scope(this: &Host);

    /// Disposes of an object.
    #[wasm_bindgen(method)]
    pub fn dispose(this: &Host, object: &JsValue);

    /// A promise that is also rejected when the core is lost.
    #[wasm_bindgen(method)]
    pub fn waiting(this: &Host, promise: &js_sys::Promise) -> js_sys::Promise;

    /// Remembers what a panic says: the error for whoever calls next tells it.
    #[wasm_bindgen(method)]
    pub fn panicked(this: &Host, message: &str);

    /// Prints a text of some lines.
    #[wasm_bindgen(method)]
    pub fn print(this: &Host, text: &str);

    /// Where in the page's own code this is called from.
    #[wasm_bindgen(method)]
    pub fn place(this: &Host) -> String;

    /// Calls a function with tensors: its results, or what is to be thrown.
    #[wasm_bindgen(method, catch)]
    pub fn build(
        this: &Host,
        build: &JsValue,
        inputs: Vec<JsValue>,
    ) -> Result<Vec<JsValue>, JsValue>;

    /// Changes the model of a trainer's function to training or evaluation, or gives what is to be thrown.
    #[cfg(feature = "js-nn")]
    #[wasm_bindgen(method, catch)]
    pub fn mode(this: &Host, forward: &JsValue, training: bool) -> Result<(), JsValue>;
}

/// What [`Host::handle`] says of a number or boolean.
pub const NUMBER: i32 = -1;
/// What it says of an object of another core.
pub const FOREIGN: i32 = -3;

thread_local!(static HOST: OnceCell<Host> = const { OnceCell::new() });

/// JavaScript's side from now on.
pub fn set(host: Host) {
    HOST.with(|cell| cell.set(host).ok());
}

/// Asks JavaScript's side. Nothing can be asked before there is one: only it makes the first object.
pub fn host<T>(ask: impl FnOnce(&Host) -> T) -> T {
    HOST.with(|host| ask(host.get().expect("start() was called first")))
}

/// Tells JavaScript's side of a panic; a panic may also come before there is that side.
pub fn panicked(message: &str) {
    HOST.with(|host| host.get().map(|host| host.panicked(message)));
}
