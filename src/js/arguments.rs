//! Conversions of axes, shapes and similar arguments.

use super::at::At;
use super::convert::FromJs;
use super::host::host;
use super::options::{Options, Rest};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{
    Amounts, Axes, Extents, Filter, Integers, Padding, Reduction, Scan, ScatterReduction, Sections,
    Tensor, TensorSpec,
};
use wasm_bindgen::prelude::*;

impl FromJs for Axes {
    /// Undefined means all axes.
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Axes> {
        match value.is_undefined() {
            true => Ok(Axes::default()),
            false => Ok(Vec::<isize>::from_js(value, at)?.into()),
        }
    }

    fn from_call(value: &JsValue, options: Rest<'_>, at: At) -> Result<Axes> {
        Ok(Axes::from_js(value, at)?.keepdim(options.flag(0, "keepdim", false)?))
    }
}

impl FromJs for Integers {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Integers> {
        Ok(Vec::<isize>::from_js(value, at)?.into())
    }
}

impl FromJs for Extents {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Extents> {
        Ok(Extents::from(&Vec::<isize>::from_js(value, at)?[..]))
    }
}

impl FromJs for Sections {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Sections> {
        match value.as_f64() {
            Some(_) => Ok(usize::from_js(value, at)?.into()),
            None => Ok(Vec::<usize>::from_js(value, at)?.into()),
        }
    }
}

impl FromJs for Scan {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Scan> {
        Ok(isize::from_js(value, at)?.into())
    }

    fn from_call(value: &JsValue, options: Rest<'_>, at: At) -> Result<Scan> {
        let scan = Scan::from_js(value, at)?.exclusive(options.flag(0, "exclusive", false)?);
        Ok(scan.reverse(options.flag(1, "reverse", false)?))
    }
}

/// Converts a shape. A single number is the shape of a vector.
fn shape(value: &JsValue, at: At) -> Result<Vec<usize>> {
    match value.as_f64() {
        Some(_) => Ok(vec![usize::from_js(value, at)?]),
        None => Vec::from_js(value, at),
    }
}

impl FromJs for TensorSpec {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<TensorSpec> {
        Ok(TensorSpec::new(&shape(value, at)?, DType::F32))
    }

    fn from_call(value: &JsValue, options: Rest<'_>, at: At) -> Result<TensorSpec> {
        let dtype = Option::<DType>::from_js(&options.get(0), At { argument: "dtype", ..at })?;
        Ok(TensorSpec::new(&shape(value, at)?, dtype.unwrap_or(DType::F32)))
    }
}

impl<const N: usize> FromJs for Padding<N> {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Padding<N>> {
        if let Some(word) = value.as_string() {
            return match word.as_str() {
                "valid" => Ok(Padding::Valid),
                "same" => Ok(Padding::Same),
                _ => Err(at.refuse(value, "\"valid\", \"same\" or numbers")),
            };
        }
        if value.as_f64().is_some() {
            return Ok(Padding::Explicit([usize::from_js(value, at)?; N].map(|side| (side, side))));
        }
        // One number for both sides of each axis, or one pair for each axis.
        match <[usize; N]>::from_js(value, at) {
            Ok(sides) => return Ok(Padding::Explicit(sides.map(|side| (side, side)))),
            Err(error) => {
                let numbers = host(|host| host.numbers(value));
                if numbers.is_some_and(|numbers| !numbers.is_empty()) {
                    return Err(error);
                }
            }
        }
        let pairs = Vec::<(usize, usize)>::from_js(value, at)?;
        let count = pairs.len();
        pairs.try_into().map(Padding::Explicit).map_err(|_| {
            let At { op, argument } = at;
            Error::argument(format!(
                "{op}: {argument} must have one pair for each of {N} axes, got {count}"
            ))
        })
    }
}

/// Converts a filter's name. The slope of the cubic filter is a separate option.
impl FromJs for Filter {
    #[inline(never)]
    fn from_js(value: &JsValue, at: At) -> Result<Filter> {
        const ALL: [Filter; 6] = [
            Filter::Floor,
            Filter::Ceil,
            Filter::HalfDown,
            Filter::HalfUp,
            Filter::Linear,
            Filter::Cubic(-0.75),
        ];
        let words = ["floor", "ceil", "half-down", "half-up", "linear", "cubic"];
        Ok(ALL[super::word(value, &words, at)?])
    }
}

/// Returns the number of axes that a window moves over. That is the length of `kernelSize`, or all axes after batch and
/// channels.
///
/// # Errors
/// `Shape` unless the number is one to three.
pub fn spatial(tensor: &Tensor, options: &Options) -> Result<usize> {
    let size = options.get(0);
    let count = match size.as_f64() {
        Some(_) => tensor.rank().saturating_sub(2),
        None => match Vec::<f64>::from_js(&size, At { op: options.op(), argument: "kernelSize" }) {
            Ok(list) => list.len(),
            Err(error) => return Err(error),
        },
    };
    if (1..=3).contains(&count) {
        return Ok(count);
    }
    let (op, shape) = (options.op(), tensor.shape());
    Err(Error::shape(format!(
        "{op}: a window must have 1 to 3 axes, got {count} of shape {shape:?}"
    )))
}

impl FromJs for Amounts {
    fn from_js(value: &JsValue, at: At) -> Result<Amounts> {
        Ok(Amounts::from(&Vec::<(isize, isize)>::from_js(value, at)?[..]))
    }
}

impl FromJs for ScatterReduction {
    fn from_js(value: &JsValue, at: At) -> Result<ScatterReduction> {
        match value.as_string().as_deref() {
            Some("mean") => Ok(ScatterReduction::mean()),
            _ => Ok(Reduction::from_js(value, at)?.into()),
        }
    }

    fn from_call(value: &JsValue, options: Rest<'_>, at: At) -> Result<ScatterReduction> {
        let include = options.flag(0, "includeSelf", true)?;
        Ok(ScatterReduction::from_js(value, at)?.include_self(include))
    }
}
