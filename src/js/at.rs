//! Whose argument a value is, for errors.

use super::host::host;
use crate::error::{Error, ErrorKind};
use wasm_bindgen::prelude::*;

/// Whose argument a value is.
#[derive(Clone, Copy)]
pub struct At {
    pub op: &'static str,
    pub what: &'static str,
}

impl At {
    /// The error for a value that is not what it should be: `add: y must be a number, got "1"`.
    #[inline(never)]
    pub fn refuse(self, value: &JsValue, wanted: &str) -> Error {
        let At { op, what } = self;
        let found = host(|host| host.describe(value));
        Error::data(format!("{op}: {what} must be {wanted}, got {found}"))
    }

    /// The error for a value that is not the list that it should be, or is too long a one.
    #[inline(never)]
    pub fn refuse_list(self, value: &JsValue, wanted: &str) -> Error {
        let At { op, what } = self;
        match host(|host| host.too_long(value)) {
            Some(why) => Error::new(ErrorKind::Limit, format!("{op}: {what} {why}")),
            None => self.refuse(value, wanted),
        }
    }
}
