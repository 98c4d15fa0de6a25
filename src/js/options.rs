//! Objects of options, whose names are checked.

use super::at::At;
use super::host::host;
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

/// Names of options: lists with spaces between.
pub type Known = &'static [&'static str];

/// Known names as JavaScript's side knows them. It is told once.
#[inline(never)]
fn told(known: Known) -> &'static JsValue {
    type Told = FxHashMap<(*const &'static str, usize), &'static JsValue>;
    thread_local!(static TOLD: RefCell<Told> = RefCell::default());
    TOLD.with_borrow_mut(|told| {
        let names = || &*Box::leak(Box::new(JsValue::from_str(known.join(" ").trim())));
        *told.entry((known.as_ptr(), known.len())).or_insert_with(names)
    })
}

/// The object of options of one call.
pub struct Options {
    op: &'static str,
    values: Vec<JsValue>,
}

impl Options {
    /// Of a method that has none.
    pub fn none(op: &'static str) -> Options {
        Options { op, values: Vec::new() }
    }

    /// Looks at what was passed: nothing at all is the empty object.
    ///
    /// # Errors
    /// `Data` where it is no object, or has a field that is not known.
    #[inline(never)]
    pub fn open(given: &JsValue, known: Known, op: &'static str) -> Result<Options> {
        if given.is_undefined() {
            return Ok(Options::none(op));
        }
        let known = told(known);
        match host(|host| host.fields(given, known)) {
            Some(values) => Ok(Options { op, values }),
            None => {
                let must = host(|host| host.odd_fields(given, known));
                Err(Error::data(format!("{op}: {must}")))
            }
        }
    }

    /// The operation that they are for.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The n-th field; undefined where it is left out.
    #[inline(never)]
    pub fn get(&self, n: usize) -> JsValue {
        self.values.get(n).cloned().unwrap_or(JsValue::UNDEFINED)
    }

    /// The fields from the n-th on.
    pub fn after(&self, n: usize) -> Rest<'_> {
        Rest { options: self, first: n }
    }
}

/// Fields of options that belong together.
#[derive(Clone, Copy)]
pub struct Rest<'a> {
    options: &'a Options,
    first: usize,
}

impl Rest<'_> {
    /// The n-th of them.
    pub fn get(&self, n: usize) -> JsValue {
        self.options.get(self.first + n)
    }

    /// The operation that they are for.
    pub fn op(&self) -> &'static str {
        self.options.op
    }

    /// A true or false among them, with what it is where it is left out.
    pub fn flag(&self, n: usize, what: &'static str, usual: bool) -> Result<bool> {
        let value = self.get(n);
        if value.is_undefined() {
            return Ok(usual);
        }
        let at = At { op: self.op(), what };
        value.as_bool().ok_or_else(|| at.refuse(&value, "true or false"))
    }
}

/// A struct of options: fields that are left out are what its default has.
pub trait FromOptions: Sized {
    /// The names of its fields, with spaces between.
    const KNOWN: &'static str;
    /// Made of the fields.
    ///
    /// # Errors
    /// What the fields are refused with.
    fn from_options(fields: Rest<'_>) -> Result<Self>;
}

/// A seed that nobody chose.
pub fn random_seed() -> u32 {
    (js_sys::Math::random() * 4_294_967_296.0) as u32
}
