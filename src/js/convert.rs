//! Conversion of JavaScript values to arguments. Values are checked, and errors name the operation and the argument.

use super::at::At;
use super::host::{host, FOREIGN, NUMBER};
use super::objects::{at, gone, Object};
use super::options::Rest;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{ElementFunction, Operand, Tensor, Variable};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Conversion from a JavaScript value.
pub trait FromJs: Sized {
    /// Converts the argument alone.
    ///
    /// # Errors
    /// `InvalidArgument` for a value of the wrong kind, `Shape` for invalid sizes and axes.
    fn from_js(value: &JsValue, at: At) -> Result<Self>;

    /// Converts the argument together with fields of the options.
    ///
    /// # Errors
    /// Errors of `from_js`.
    fn from_call(value: &JsValue, _: Rest<'_>, at: At) -> Result<Self> {
        Self::from_js(value, at)
    }
}

impl<T: FromJs> FromJs for Option<T> {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Option<T>> {
        if value.is_undefined() || value.is_null() {
            return Ok(None);
        }
        T::from_js(value, at).map(Some)
    }
}

/// Returns the position of a word in a list.
///
/// # Errors
/// `InvalidArgument` if the word is not in the list.
pub fn word(value: &JsValue, words: &[&str], at: At) -> Result<usize> {
    let text = value.as_string();
    let found = text.and_then(|text| words.iter().position(|word| *word == text));
    found.ok_or_else(|| at.refuse(value, &format!("one of {}", words.join(", "))))
}

impl FromJs for DType {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<DType> {
        Ok(DType::ALL[word(value, &DType::ALL.map(DType::name), at)?])
    }
}

impl FromJs for f64 {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<f64> {
        let number = host(|host| host.number(value));
        if number.is_nan() && value.as_f64().is_none() {
            return Err(at.refuse(value, "a number"));
        }
        Ok(number)
    }
}

impl FromJs for bool {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<bool> {
        value.as_bool().ok_or_else(|| at.refuse(value, "true or false"))
    }
}

impl FromJs for String {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<String> {
        value.as_string().ok_or_else(|| at.refuse(value, "a string"))
    }
}

/// Checks that a number is an integer from `low` to `high`. Above `high`, the error is `Limit` and not `Shape`, because
/// WebAssembly's sizes have only 32 bits.
fn whole(number: f64, (low, high): (f64, f64), at: At) -> Result<f64> {
    let At { op, argument } = at;
    if number.fract() != 0.0 || number.is_infinite() || number < low {
        let wanted = if low == 0.0 { "an integer of at least 0" } else { "an integer" };
        return Err(Error::shape(format!("{op}: {argument} must be {wanted}, got {number}")));
    }
    if number > high {
        let message = format!("{op}: {argument} must be at most {high}, got {number}");
        return Err(Error::new(crate::error::ErrorKind::Limit, message));
    }
    Ok(number)
}

/// Implements conversion for integers, within their bounds. Booleans are refused, because `sum(true)` is most likely a mistake.
macro_rules! integers {
    ($($ty:ty, $alone:literal;)*) => { $(
        impl FromJs for $ty {
            #[inline(never)]
            fn from_js(value: &JsValue, at: At) -> Result<$ty> {
                let number = value.as_f64().ok_or_else(|| at.refuse(value, "a number"))?;
                Ok(whole(number, (<$ty>::MIN as f64, <$ty>::MAX as f64), at)? as $ty)
            }
        }
        impl FromJs for Vec<$ty> {
            #[inline(never)]
            fn from_js(value: &JsValue, at: At) -> Result<Vec<$ty>> {
                if $alone && value.as_f64().is_some() {
                    return Ok(vec![<$ty>::from_js(value, at)?]);
                }
                let numbers = host(|host| host.numbers(value));
                let numbers = numbers.ok_or_else(|| at.refuse_list(value, "a list of numbers"))?;
                let one = |&n: &f64| Ok(whole(n, (<$ty>::MIN as f64, <$ty>::MAX as f64), at)? as $ty);
                numbers.iter().map(one).collect()
            }
        }
    )* };
}
integers! {
    usize, false;
    u64, false;
    // Axes, where a single number is a list of one.
    isize, true;
    u32, false;
    i32, false;
}

impl FromJs for Vec<f64> {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Vec<f64>> {
        let numbers = host(|host| host.numbers(value));
        numbers.ok_or_else(|| at.refuse_list(value, "a list of numbers"))
    }
}

impl<const N: usize> FromJs for [usize; N] {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<[usize; N]> {
        if value.as_f64().is_some() {
            return Ok([usize::from_js(value, at)?; N]);
        }
        let list = Vec::<usize>::from_js(value, at)?;
        let count = list.len();
        list.try_into().map_err(|_| {
            let At { op, argument } = at;
            Error::argument(format!(
                "{op}: {argument} must have {N} numbers, one for each axis, got {count}"
            ))
        })
    }
}

/// Implements conversion for pairs of numbers before and after, one pair for each axis.
macro_rules! pairs {
    ($($ty:ty)*) => { $(
        impl FromJs for ($ty, $ty) {
            #[inline(never)]
            fn from_js(value: &JsValue, at: At) -> Result<($ty, $ty)> {
                match Vec::<$ty>::from_js(value, at)?[..] {
                    [before, after] => Ok((before, after)),
                    _ => Err(at.refuse(value, "a pair of numbers")),
                }
            }
        }
        impl FromJs for Vec<($ty, $ty)> {
            #[inline(never)]
            fn from_js(value: &JsValue, at: At) -> Result<Vec<($ty, $ty)>> {
                let items = host(|host| host.items(value));
                let items = items.ok_or_else(|| at.refuse_list(value, "a list of [before, after]"))?;
                items.iter().map(|item| <($ty, $ty)>::from_js(item, at)).collect()
            }
        }
    )* };
}
pairs!(usize isize f64);

/// Returns the object that a value represents, or nothing for a number.
pub fn object(value: &JsValue, at: At, wanted: &str) -> Result<Option<Object>> {
    match host(|host| host.handle(value)) {
        NUMBER => Ok(None),
        FOREIGN => {
            let At { op, argument } = at;
            let must =
                "must be on the device of the others, got one of another core; move it with to()";
            Err(Error::argument(format!("{op}: {argument} {must}")))
        }
        handle if handle < 0 => Err(at.refuse(value, wanted)),
        handle => self::at(handle as u32).map(Some).ok_or_else(|| gone(at.op)),
    }
}

impl FromJs for Tensor {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Tensor> {
        match object(value, at, "a tensor")? {
            Some(Object::Tensor(tensor)) => Ok(tensor),
            _ => Err(at.refuse(value, "a tensor")),
        }
    }
}

impl FromJs for crate::device::Device {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Self> {
        match object(value, at, "a device")? {
            Some(Object::Device(device)) => Ok(device),
            _ => Err(at.refuse(value, "a device")),
        }
    }
}

impl FromJs for Variable {
    fn from_js(value: &JsValue, at: At) -> Result<Variable> {
        Ok(Rc::<super::objects::Held>::from_js(value, at)?.variable.clone())
    }
}

impl FromJs for std::rc::Rc<super::objects::Held> {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Self> {
        match object(value, at, "a variable")? {
            Some(Object::Variable(held)) => Ok(held),
            _ => Err(at.refuse(value, "a variable")),
        }
    }
}

/// Implements conversion for lists of objects.
macro_rules! lists {
    ($($ty:ty, $wanted:literal;)*) => { $(
        impl FromJs for Vec<$ty> {
            #[inline(never)]
            fn from_js(value: &JsValue, at: At) -> Result<Vec<$ty>> {
                let items = host(|host| host.items(value));
                let items = items.ok_or_else(|| at.refuse_list(value, $wanted))?;
                items.iter().map(|item| <$ty>::from_js(item, at)).collect()
            }
        }
    )* };
}
lists! {
    Tensor, "a list of tensors";
    std::rc::Rc<super::objects::Held>, "a list of variables";
    Variable, "a list of variables";
}

impl FromJs for Rc<ElementFunction> {
    fn from_js(value: &JsValue, at: At) -> Result<Rc<ElementFunction>> {
        match object(value, at, "an element function")? {
            Some(Object::ElementFunction(_, function)) => Ok(function),
            _ => Err(at.refuse(value, "an element function")),
        }
    }
}

impl FromJs for Operand {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Operand> {
        match object(value, at, "a tensor or a number")? {
            Some(Object::Tensor(tensor)) => Ok(Operand::Tensor(tensor)),
            Some(_) => Err(at.refuse(value, "a tensor or a number")),
            None => Ok(Operand::Number(host(|host| host.number(value)))),
        }
    }
}
