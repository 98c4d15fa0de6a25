//! The JavaScript face: classes made of the core's own methods by `#[js]` (`src/js/macro`), and what converts arguments and
//! results. What is here by hand is what JavaScript has in another form.

mod arguments;
mod at;
mod calls;
mod convert;
mod custom;
mod device;
mod files;
mod host;
mod inspect;
#[cfg(feature = "wgpu-interop")]
mod interop;
#[cfg(feature = "js-models")]
mod language;
#[cfg(feature = "js-nn")]
mod nn;
mod objects;
mod options;
mod profile;
mod programs;
mod reading;
mod returns;
mod states;
mod tensor;
#[cfg(feature = "js-nn")]
mod train;
mod variable;

// What the code that `#[js]` writes names.
pub use crate::error::Result as CoreResult;
pub use arguments::spatial;
pub use at::At;
pub use calls::{call0, call1, call2, call3, call4};
pub use convert::{word, FromJs};
#[cfg(feature = "js-nn")]
pub use nn::{JsGenerator, JsLayer, JsOptimizer, JsSchedule, JsTrainer, JsWeightAverage};
pub use objects::{JsBatch, JsDevice, JsElementFunction, JsPlan, JsProfile, JsProgram, JsShader};
pub use objects::{JsTensor, JsVariable, Shell};
pub use options::{random_seed, FromOptions, Known, Options, Rest};
pub use returns::{given, named, promise, IntoJs, Returned, Value};
pub use wasm_bindgen::prelude::*;

use crate::error::Error;
use host::{host, Host};

/// What is thrown.
pub struct Thrown(JsValue);

impl From<Error> for Thrown {
    #[inline(never)]
    fn from(error: Error) -> Thrown {
        Thrown(host(|host| host.error(error.kind().name(), error.message())))
    }
}

impl From<JsValue> for Thrown {
    fn from(value: JsValue) -> Thrown {
        Thrown(value)
    }
}

impl From<Thrown> for JsValue {
    fn from(thrown: Thrown) -> JsValue {
        thrown.0
    }
}

/// What a method gives or throws.
pub type Answer<T> = std::result::Result<T, Thrown>;

/// A panic says its text and place on the console, and to JavaScript's side for the errors that follow.
#[wasm_bindgen(start, skip_typescript)]
fn hear_panics() {
    std::panic::set_hook(Box::new(|panic| {
        console_error_panic_hook::hook(panic);
        host::panicked(&panic.to_string());
    }));
}

/// Gives the core JavaScript's side of it. Nothing else is called before.
#[wasm_bindgen(skip_typescript, skip_jsdoc)]
pub fn start(host: Host) {
    host::set(host);
}

/// What the types that are written by hand are for TypeScript.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");
