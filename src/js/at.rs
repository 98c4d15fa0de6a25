//! The location of an argument, for error messages.

use super::host::host;
use crate::error::{Error, ErrorKind};
use wasm_bindgen::prelude::*;

/// The operation and the argument that a value is passed to.
#[derive(Clone, Copy)]
pub struct At {
    pub op: &'static str,
    pub argument: &'static str,
}

impl At {
    /// Returns the error for a value of the wrong kind: `add: y must be a number, got "1"`.
    #[inline(never)]
    pub fn refuse(self, value: &JsValue, wanted: &str) -> Error {
        let At { op, argument } = self;
        let found = host(|host| host.describe(value));
        Error::argument(format!("{op}: {argument} must be {wanted}, got {found}"))
    }

    /// Returns the error for a value that is not the required list, or that is too long a list.
    #[inline(never)]
    pub fn refuse_list(self, value: &JsValue, wanted: &str) -> Error {
        let At { op, argument } = self;
        match host(|host| host.too_long(value)) {
            Some(why) => Error::new(ErrorKind::Limit, format!("{op}: {argument} {why}")),
            None => self.refuse(value, wanted),
        }
    }
}
