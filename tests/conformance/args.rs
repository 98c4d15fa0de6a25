//! The arguments of an operator in a conformance case.

use super::report::Outcome;
use super::vectors::{Kind, Operator};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use warpweft::dtype::DType;
use warpweft::error::Error;
use warpweft::tensor::Tensor;

/// A tensor, and the type that the vectors give it.
#[derive(Clone)]
pub struct Operand {
    pub tensor: Tensor,
    pub kind: Kind,
    /// The values of a small input, because ONNX passes shapes and axes as tensors.
    pub known: Option<Rc<Vec<f64>>>,
}

/// The tensors of a case by name.
pub type Environment = HashMap<String, Operand>;

/// The reason why a case has no result.
#[derive(Debug)]
pub enum Stop {
    /// The library does not have this operation yet.
    Missing(String),
    /// The library does not support this feature, mostly a type.
    Foreign(String),
    /// An unexpected error.
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Wrong(error.to_string())
    }
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Outcome {
        match stop {
            Stop::Missing(what) => Outcome::Missing(what),
            Stop::Foreign(why) => Outcome::NotApplicable(why),
            Stop::Wrong(what) => Outcome::Failed(what),
        }
    }
}

/// A call's arguments and options, and the tensors that they name. Records which arguments were read, so that none is ignored.
pub struct Args<'a> {
    operator: &'a Operator,
    environment: &'a Environment,
    asked: RefCell<HashSet<String>>,
}

impl<'a> Args<'a> {
    pub fn new(operator: &'a Operator, environment: &'a Environment) -> Args<'a> {
        Args { operator, environment, asked: RefCell::default() }
    }

    fn wrong<T>(&self, key: &str) -> Result<T, Stop> {
        let value = self.operator.arguments.get(key);
        Err(Stop::Wrong(format!("{}: {key} is {value:?}", self.operator.name)))
    }

    /// Returns an argument as it is written. `null` counts as missing.
    pub fn raw(&self, key: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key.into());
        self.operator.arguments.get(key).filter(|value| !value.is_null())
    }

    fn operand(&self, key: &str, name: &Value) -> Result<Operand, Stop> {
        let found = name.as_str().and_then(|name| self.environment.get(name));
        found.cloned().map_or_else(|| self.wrong(key), Ok)
    }

    /// Returns an optional tensor.
    pub fn maybe(&self, key: &str) -> Result<Option<Operand>, Stop> {
        self.raw(key).map(|name| self.operand(key, name)).transpose()
    }

    /// Returns an optional tensor without its type.
    pub fn maybe_tensor(&self, key: &str) -> Result<Option<Tensor>, Stop> {
        Ok(self.maybe(key)?.map(|operand| operand.tensor))
    }

    /// Returns a tensor.
    pub fn get(&self, key: &str) -> Result<Operand, Stop> {
        self.maybe(key)?.map_or_else(|| self.wrong(key), Ok)
    }

    /// Returns a tensor without its type.
    pub fn tensor(&self, key: &str) -> Result<Tensor, Stop> {
        Ok(self.get(key)?.tensor)
    }

    /// Returns a list of tensors. An empty name is a missing one.
    pub fn operands(&self, key: &str) -> Result<Vec<Option<Operand>>, Stop> {
        let Some(names) = self.raw(key).and_then(Value::as_array) else { return self.wrong(key) };
        let one = |name: &Value| match name.as_str() {
            Some("") => Ok(None),
            _ => self.operand(key, name).map(Some),
        };
        names.iter().map(one).collect()
    }

    /// Returns an optional number.
    pub fn maybe_number(&self, key: &str) -> Result<Option<f64>, Stop> {
        match self.raw(key) {
            None => Ok(None),
            Some(value) => value.as_f64().map_or_else(|| self.wrong(key), |n| Ok(Some(n))),
        }
    }

    /// Returns a number, or `usual` if it is missing.
    pub fn number(&self, key: &str, usual: f64) -> Result<f64, Stop> {
        Ok(self.maybe_number(key)?.unwrap_or(usual))
    }

    /// Returns a whole number, or `usual` if it is missing.
    pub fn integer(&self, key: &str, usual: i64) -> Result<i64, Stop> {
        match self.raw(key) {
            None => Ok(usual),
            Some(value) => value.as_i64().map_or_else(|| self.wrong(key), Ok),
        }
    }

    /// Returns an optional list of whole numbers.
    pub fn maybe_list(&self, key: &str) -> Result<Option<Vec<isize>>, Stop> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        let whole = |value: &Value| value.as_i64().map(|n| n as isize);
        let list = value.as_array().and_then(|list| list.iter().map(whole).collect());
        list.map_or_else(|| self.wrong(key), |list| Ok(Some(list)))
    }

    /// Returns an optional list of nonnegative whole numbers.
    pub fn maybe_sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Stop> {
        let Some(list) = self.maybe_list(key)? else { return Ok(None) };
        let sizes: Result<Vec<usize>, _> = list.into_iter().map(usize::try_from).collect();
        sizes.map_or_else(|_| self.wrong(key), |sizes| Ok(Some(sizes)))
    }

    /// Returns a list of nonnegative whole numbers.
    pub fn sizes(&self, key: &str) -> Result<Vec<usize>, Stop> {
        self.maybe_sizes(key)?.map_or_else(|| self.wrong(key), Ok)
    }

    /// Returns `N` sizes, all `usual` if they are missing.
    pub fn array<const N: usize>(&self, key: &str, usual: usize) -> Result<[usize; N], Stop> {
        match self.maybe_sizes(key)? {
            None => Ok([usual; N]),
            Some(sizes) => sizes.try_into().or_else(|_| self.wrong(key)),
        }
    }

    /// Returns a word, or `usual` if it is missing.
    pub fn word(&self, key: &str, usual: &'static str) -> Result<&'a str, Stop> {
        match self.raw(key) {
            None => Ok(usual),
            Some(value) => value.as_str().map_or_else(|| self.wrong(key), Ok),
        }
    }

    /// Returns an optional list of words.
    pub fn words(&self, key: &str) -> Result<Option<Vec<&'a str>>, Stop> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        let words = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        words.map_or_else(|| self.wrong(key), |words| Ok(Some(words)))
    }

    /// Returns a boolean, or `usual` if it is missing.
    pub fn flag(&self, key: &str, usual: bool) -> Result<bool, Stop> {
        match self.raw(key) {
            None => Ok(usual),
            Some(value) => value.as_bool().map_or_else(|| self.wrong(key), Ok),
        }
    }

    /// Returns the number of names of results.
    pub fn outputs(&self) -> usize {
        self.operator.outputs.len()
    }

    /// Whether the n-th result is requested.
    pub fn names_output(&self, n: usize) -> bool {
        self.operator.outputs.get(n).is_some_and(|name| !name.is_empty())
    }

    /// Returns an error if an argument was not read.
    pub fn ignored(&self) -> Result<(), Stop> {
        let asked = self.asked.borrow();
        match self.operator.arguments.keys().find(|key| !asked.contains(*key)) {
            None => Ok(()),
            Some(key) => self.wrong(&format!("argument {key} is not understood; it")),
        }
    }
}

impl Operand {
    pub fn new(tensor: Tensor, kind: Kind) -> Operand {
        Operand { tensor, kind, known: None }
    }

    /// Returns the values of an input that must be known when the program is recorded.
    pub fn values(&self) -> Result<&[f64], Stop> {
        let known = self.known.as_ref().map(|known| &known[..]);
        known.ok_or_else(|| Stop::Foreign("a shape or an axis that is computed".into()))
    }

    /// Converts to a condition: values that are not 0 are true.
    pub fn condition(&self) -> Result<Tensor, Stop> {
        match self.tensor.dtype() {
            DType::Bool => Ok(self.tensor.clone()),
            _ => Ok(self.tensor.ne(0.0)?),
        }
    }

    /// Converts to numbers, because WebNN computes with the `bool` results of comparisons.
    pub fn numbers(&self) -> Result<Tensor, Stop> {
        match self.tensor.dtype() {
            DType::Bool => Ok(self.tensor.cast(DType::I32)?),
            _ => Ok(self.tensor.clone()),
        }
    }
}
