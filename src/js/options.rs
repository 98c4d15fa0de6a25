//! Options objects, with checked names.

use super::at::At;
use super::host::host;
use crate::error::{Error, Result};
use crate::tensor::{stand_for, SeedSource};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::sync::Arc;
use wasm_bindgen::prelude::*;

/// Names of options: lists of names separated by spaces.
pub type Known = &'static [&'static str];

thread_local!(
    /// The names of the options of all calls so far that passed options.
    static NAMES: RefCell<FxHashSet<&'static str>> = RefCell::default()
);

/// Returns the known names as a JavaScript string, which is made once and then cached.
#[inline(never)]
fn known_names(known: Known) -> &'static JsValue {
    type Cache = FxHashMap<(*const &'static str, usize), &'static JsValue>;
    thread_local!(static CACHE: RefCell<Cache> = RefCell::default());
    CACHE.with_borrow_mut(|cache| {
        let names = || {
            let all = known.iter().flat_map(|names| names.split_whitespace());
            NAMES.with_borrow_mut(|names| names.extend(all));
            &*Box::leak(Box::new(JsValue::from_str(known.join(" ").trim())))
        };
        *cache.entry((known.as_ptr(), known.len())).or_insert_with(names)
    })
}

/// Returns an error's message with the names of options as in JavaScript: `weightDecay` for `weight_decay`. The core names
/// options as in Rust. The text from ", got" on may be the caller's, so it is not changed.
pub fn in_javascript(message: &str) -> String {
    let (rule, got) = message.split_at(message.find(", got").unwrap_or(message.len()));
    let mut text = String::with_capacity(message.len());
    // A dot is part of a word, so that the path of a parameter is not changed.
    let is_end = |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '.');
    for part in rule.split_inclusive(is_end) {
        let word = part.trim_end_matches(is_end);
        let name = if word.contains('_') { camel(word) } else { String::new() };
        match NAMES.with_borrow(|names| names.contains(&*name)) {
            true => text.extend([&name, &part[word.len()..]]),
            false => text.push_str(part),
        }
    }
    text + got
}

/// Converts a name to camel case: `f1_macro` becomes `f1Macro`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut joined = words.next().unwrap_or_default().to_string();
    for word in words {
        let mut letters = word.chars();
        joined.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        joined.extend(letters);
    }
    joined
}

/// The options object of one call.
pub struct Options {
    op: &'static str,
    values: Vec<JsValue>,
}

impl Options {
    /// Makes the options of a method that has none.
    pub fn none(op: &'static str) -> Options {
        Options { op, values: Vec::new() }
    }

    /// Reads the options object of a call. Undefined is an empty object.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not an object, or has an unknown field.
    #[inline(never)]
    pub fn open(given: &JsValue, known: Known, op: &'static str) -> Result<Options> {
        if given.is_undefined() {
            return Ok(Options::none(op));
        }
        let known = known_names(known);
        match host(|host| host.fields(given, known)) {
            Some(values) => Ok(Options { op, values }),
            None => {
                let must = host(|host| host.odd_fields(given, known));
                Err(Error::argument(format!("{op}: {must}")))
            }
        }
    }

    /// The operation that the options are for.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Returns the n-th field, or undefined if it was omitted.
    #[inline(never)]
    pub fn get(&self, n: usize) -> JsValue {
        self.values.get(n).cloned().unwrap_or(JsValue::UNDEFINED)
    }

    /// Returns the fields from the n-th on.
    pub fn after(&self, n: usize) -> Rest<'_> {
        Rest { options: self, first: n }
    }
}

/// Consecutive fields of an options object that belong together.
#[derive(Clone, Copy)]
pub struct Rest<'a> {
    options: &'a Options,
    first: usize,
}

impl Rest<'_> {
    /// Returns the n-th of these fields.
    pub fn get(&self, n: usize) -> JsValue {
        self.options.get(self.first + n)
    }

    /// The operation that the options are for.
    pub fn op(&self) -> &'static str {
        self.options.op
    }

    /// Returns the n-th field as a boolean, or `usual` if it was omitted.
    pub fn flag(&self, n: usize, argument: &'static str, usual: bool) -> Result<bool> {
        let value = self.get(n);
        if value.is_undefined() {
            return Ok(usual);
        }
        let at = At { op: self.op(), argument };
        value.as_bool().ok_or_else(|| at.refuse(&value, "true or false"))
    }
}

/// A struct made from options. Omitted fields have the struct's defaults.
pub trait FromOptions: Sized {
    /// The names of the fields, separated by spaces.
    const KNOWN: &'static str;
    /// Makes the struct from the fields.
    ///
    /// # Errors
    /// Errors of the fields' conversions.
    fn from_options(fields: Rest<'_>) -> Result<Self>;
}

/// Options that borrow tensors.
pub trait BorrowedOptions {
    /// A struct with the same fields, which owns the tensors. Its method `borrowed` returns the options.
    type Owned: FromOptions;
}

/// Returns a random seed. In the function of a program, the result stands for a seed that each run draws.
pub fn random_seed() -> u32 {
    stand_for(|| Arc::new(Random)).unwrap_or_else(|| Random.draw())
}

/// Seeds from `Math.random`.
struct Random;

impl SeedSource for Random {
    fn draw(&self) -> u32 {
        (js_sys::Math::random() * 4_294_967_296.0) as u32
    }

    /// Random seeds have no order.
    fn give_back(&self) {}
}
