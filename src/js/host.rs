//! The host: functions of `www/src/host.ts` that the core calls, passed to [`start`](super::start). All values that a user
//! passed are inspected there. A getter of these values may throw, and an exception must not unwind through WebAssembly.

use std::cell::OnceCell;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The host object of this core.
    pub type Host;

    /// Returns the handle of the object that a value is. 0 means that it was disposed of; a negative number such as [`NUMBER`]
    /// means that it is not an object.
    #[wasm_bindgen(method)]
    pub fn handle(this: &Host, value: &JsValue) -> i32;

    /// Converts a number or a boolean to a number, and any other value to NaN.
    #[wasm_bindgen(method)]
    pub fn number(this: &Host, value: &JsValue) -> f64;

    /// Returns a list of numbers, or nothing if the value is not a list of numbers or is too long.
    #[wasm_bindgen(method)]
    pub fn numbers(this: &Host, value: &JsValue) -> Option<Vec<f64>>;

    /// Returns the error text for a list that is too long, or nothing for all other values.
    #[wasm_bindgen(method, js_name = tooLong)]
    pub fn too_long(this: &Host, value: &JsValue) -> Option<String>;

    /// Returns the items of a list, or nothing if the value is not a list or is too long. Each item takes an entry in a
    /// WebAssembly table.
    #[wasm_bindgen(method)]
    pub fn items(this: &Host, value: &JsValue) -> Option<Vec<JsValue>>;

    /// Returns the fields of an options object in the order of the known names, or nothing if it has an unknown field.
    #[wasm_bindgen(method)]
    pub fn fields(this: &Host, value: &JsValue, known: &JsValue) -> Option<Vec<JsValue>>;

    /// Returns the reason why `fields` returned nothing.
    #[wasm_bindgen(method, js_name = oddFields)]
    pub fn odd_fields(this: &Host, value: &JsValue, known: &JsValue) -> String;

    /// Returns the size in bytes and the usages of a `GPUBuffer`, or nothing for other values.
    #[cfg(feature = "wgpu-interop")]
    #[wasm_bindgen(method)]
    pub fn buffer(this: &Host, value: &JsValue) -> Option<Vec<f64>>;

    /// Returns the names and values of an object, one after the other, or nothing if it cannot be read or has too many.
    #[wasm_bindgen(method)]
    pub fn entries(this: &Host, value: &JsValue) -> Option<Vec<JsValue>>;

    /// Returns the length of an array in bytes. It may exceed the `u32` that `Uint8Array::length` returns.
    #[wasm_bindgen(method, js_name = byteLength)]
    pub fn byte_length(this: &Host, bytes: &js_sys::Uint8Array) -> f64;

    /// Copies an array of bytes into memory of the same length.
    #[wasm_bindgen(method)]
    pub fn copy(this: &Host, bytes: &js_sys::Uint8Array, memory: &mut [u8]);

    /// Describes a value in a few words.
    #[wasm_bindgen(method)]
    pub fn describe(this: &Host, value: &JsValue) -> String;

    /// Makes an error object to throw.
    #[wasm_bindgen(method)]
    pub fn error(this: &Host, code: &str, message: &str) -> JsValue;

    /// Makes an object with these fields.
    #[wasm_bindgen(method)]
    pub fn object(this: &Host, names: &str, values: Vec<JsValue>) -> JsValue;

    /// Allocates an array of bytes in JavaScript, or returns nothing if there is not enough memory.
    #[wasm_bindgen(method)]
    pub fn room(this: &Host, bytes: f64) -> Option<js_sys::Uint8Array>;

    /// Notifies the garbage collector that objects hold this many more bytes than their own size.
    #[wasm_bindgen(method)]
    pub fn grown(this: &Host, bytes: f64);

    /// Returns a promise of the page's next turn, if the page has waited too long for one.
    #[wasm_bindgen(method)]
    pub fn turn(this: &Host) -> Option<js_sys::Promise>;

    /// Returns the object that was made for the value at an address, if it was not collected.
    #[wasm_bindgen(method)]
    pub fn known(this: &Host, address: usize) -> JsValue;

    /// Stores the object that was made for the value at an address.
    #[wasm_bindgen(method)]
    pub fn remember(this: &Host, address: usize, object: &JsValue);

    /// Passes ownership of a tensor to a variable, so that scopes no longer dispose of it. False if another variable owns it.
    #[wasm_bindgen(method)]
    pub fn own(this: &Host, tensor: &JsValue) -> bool;

    /// Opens a scope, which collects the tensors made from now on.
    #[wasm_bindgen(method, js_name = openScope)]
    pub fn open_scope(this: &Host);

    /// Closes the scope and disposes of its tensors.
    #[wasm_bindgen(method, js_name = closeScope)]
    pub fn close_scope(this: &Host);

    /// Disposes of an object.
    #[wasm_bindgen(method)]
    pub fn dispose(this: &Host, object: &JsValue);

    /// Wraps a promise so that it is also rejected when the core is lost.
    #[wasm_bindgen(method)]
    pub fn waiting(this: &Host, promise: &js_sys::Promise) -> js_sys::Promise;

    /// Stores the message of a panic, for the errors of later calls.
    #[wasm_bindgen(method)]
    pub fn panicked(this: &Host, message: &str);

    /// Prints a text of several lines.
    #[wasm_bindgen(method)]
    pub fn print(this: &Host, text: &str);

    /// Returns the place in the page's own code that the current call comes from.
    #[wasm_bindgen(method)]
    pub fn place(this: &Host) -> String;

    /// Calls a function with tensors. Returns its results, or the value to throw.
    #[wasm_bindgen(method, catch)]
    pub fn build(
        this: &Host,
        build: &JsValue,
        inputs: Vec<JsValue>,
    ) -> Result<Vec<JsValue>, JsValue>;

    /// Switches the model of a trainer's function to training or evaluation. Returns the value to throw if that fails.
    #[cfg(feature = "js-nn")]
    #[wasm_bindgen(method, catch)]
    pub fn mode(this: &Host, forward: &JsValue, training: bool) -> Result<(), JsValue>;
}

/// The result of [`Host::handle`] for a number or a boolean.
pub const NUMBER: i32 = -1;
/// The result of [`Host::handle`] for an object of another core.
pub const FOREIGN: i32 = -3;

thread_local!(static HOST: OnceCell<Host> = const { OnceCell::new() });

/// Sets the host. Later calls have no effect.
pub fn set(host: Host) {
    HOST.with(|cell| cell.set(host).ok());
}

/// Calls the host. JavaScript makes the first object, so the host is always set before.
pub fn host<T>(ask: impl FnOnce(&Host) -> T) -> T {
    HOST.with(|host| ask(host.get().expect("start() was called first")))
}

/// Passes the message of a panic to the host, if it is set already.
pub fn panicked(message: &str) {
    HOST.with(|host| host.get().map(|host| host.panicked(message)));
}
