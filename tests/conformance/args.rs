//! What an operator was called with.

use super::report::Outcome;
use super::vectors::{Kind, Operator};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use warpweft::dtype::DType;
use warpweft::error::Error;
use warpweft::tensor::Tensor;

/// A tensor, and the type the vectors give it.
#[derive(Clone)]
pub struct Operand {
    pub tensor: Tensor,
    pub kind: Kind,
    /// The values of a small input: ONNX passes shapes and axes as tensors.
    pub known: Option<Rc<Vec<f64>>>,
}

/// The tensors of a case by their names.
pub type Environment = HashMap<String, Operand>;

/// Why a case gives no result.
#[derive(Debug)]
pub enum Stop {
    /// The library has no such operation yet.
    Missing(String),
    /// The library has not such things: a type, mostly.
    Foreign(String),
    /// It should have worked.
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

/// A call's arguments and options, and the tensors they name. Counts what was asked for, so that none is ignored.
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

    /// An argument as it is written; `null` is none.
    pub fn raw(&self, key: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key.into());
        self.operator.arguments.get(key).filter(|value| !value.is_null())
    }

    fn operand(&self, key: &str, name: &Value) -> Result<Operand, Stop> {
        let found = name.as_str().and_then(|name| self.environment.get(name));
        found.cloned().map_or_else(|| self.wrong(key), Ok)
    }

    /// A tensor that may be left out.
    pub fn maybe(&self, key: &str) -> Result<Option<Operand>, Stop> {
        self.raw(key).map(|name| self.operand(key, name)).transpose()
    }

    /// A tensor that may be left out, without its type.
    pub fn maybe_tensor(&self, key: &str) -> Result<Option<Tensor>, Stop> {
        Ok(self.maybe(key)?.map(|operand| operand.tensor))
    }

    /// A tensor.
    pub fn get(&self, key: &str) -> Result<Operand, Stop> {
        self.maybe(key)?.map_or_else(|| self.wrong(key), Ok)
    }

    /// A tensor without its type.
    pub fn tensor(&self, key: &str) -> Result<Tensor, Stop> {
        Ok(self.get(key)?.tensor)
    }

    /// A list of tensors; an empty name is none.
    pub fn operands(&self, key: &str) -> Result<Vec<Option<Operand>>, Stop> {
        let Some(names) = self.raw(key).and_then(Value::as_array) else { return self.wrong(key) };
        let one = |name: &Value| match name.as_str() {
            Some("") => Ok(None),
            _ => self.operand(key, name).map(Some),
        };
        names.iter().map(one).collect()
    }

    /// A number that may be left out.
    pub fn maybe_number(&self, key: &str) -> Result<Option<f64>, Stop> {
        match self.raw(key) {
            None => Ok(None),
            Some(value) => value.as_f64().map_or_else(|| self.wrong(key), |n| Ok(Some(n))),
        }
    }

    /// A number, `usual` where it is left out.
    pub fn number(&self, key: &str, usual: f64) -> Result<f64, Stop> {
        Ok(self.maybe_number(key)?.unwrap_or(usual))
    }

    /// A whole number, `usual` where it is left out.
    pub fn integer(&self, key: &str, usual: i64) -> Result<i64, Stop> {
        match self.raw(key) {
            None => Ok(usual),
            Some(value) => value.as_i64().map_or_else(|| self.wrong(key), Ok),
        }
    }

    /// Whole numbers that may be left out.
    pub fn maybe_list(&self, key: &str) -> Result<Option<Vec<isize>>, Stop> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        let whole = |value: &Value| value.as_i64().map(|n| n as isize);
        let list = value.as_array().and_then(|list| list.iter().map(whole).collect());
        list.map_or_else(|| self.wrong(key), |list| Ok(Some(list)))
    }

    /// Whole numbers from 0 on that may be left out.
    pub fn maybe_sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Stop> {
        let Some(list) = self.maybe_list(key)? else { return Ok(None) };
        let sizes: Result<Vec<usize>, _> = list.into_iter().map(usize::try_from).collect();
        sizes.map_or_else(|_| self.wrong(key), |sizes| Ok(Some(sizes)))
    }

    /// Whole numbers from 0 on.
    pub fn sizes(&self, key: &str) -> Result<Vec<usize>, Stop> {
        self.maybe_sizes(key)?.map_or_else(|| self.wrong(key), Ok)
    }

    /// As many sizes as asked for, all `usual` where they are left out.
    pub fn array<const N: usize>(&self, key: &str, usual: usize) -> Result<[usize; N], Stop> {
        match self.maybe_sizes(key)? {
            None => Ok([usual; N]),
            Some(sizes) => sizes.try_into().or_else(|_| self.wrong(key)),
        }
    }

    /// A word, `usual` where it is left out.
    pub fn word(&self, key: &str, usual: &'static str) -> Result<&'a str, Stop> {
        match self.raw(key) {
            None => Ok(usual),
            Some(value) => value.as_str().map_or_else(|| self.wrong(key), Ok),
        }
    }

    /// Words that may be left out.
    pub fn words(&self, key: &str) -> Result<Option<Vec<&'a str>>, Stop> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        let words = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        words.map_or_else(|| self.wrong(key), |words| Ok(Some(words)))
    }

    /// A truth, `usual` where it is left out.
    pub fn flag(&self, key: &str, usual: bool) -> Result<bool, Stop> {
        match self.raw(key) {
            None => Ok(usual),
            Some(value) => value.as_bool().map_or_else(|| self.wrong(key), Ok),
        }
    }

    /// How many results there are names for.
    pub fn outputs(&self) -> usize {
        self.operator.outputs.len()
    }

    /// Whether the n-th result is asked for.
    pub fn names_output(&self, n: usize) -> bool {
        self.operator.outputs.get(n).is_some_and(|name| !name.is_empty())
    }

    /// The arguments that nobody asked for.
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

    /// The values of an input, which are part of the program here.
    pub fn values(&self) -> Result<&[f64], Stop> {
        let known = self.known.as_ref().map(|known| &known[..]);
        known.ok_or_else(|| Stop::Foreign("a shape or an axis that is computed".into()))
    }

    /// As a condition: what is not 0 is true.
    pub fn condition(&self) -> Result<Tensor, Stop> {
        match self.tensor.dtype() {
            DType::Bool => Ok(self.tensor.clone()),
            _ => Ok(self.tensor.ne(0.0)?),
        }
    }

    /// As numbers: comparisons give `bool`, which WebNN counts with.
    pub fn numbers(&self) -> Result<Tensor, Stop> {
        match self.tensor.dtype() {
            DType::Bool => Ok(self.tensor.cast(DType::I32)?),
            _ => Ok(self.tensor.clone()),
        }
    }
}
