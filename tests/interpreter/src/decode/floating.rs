//! Floating-point arithmetic and approximate functions.

use super::common::{
    check_suffixes, last_type, map1, map2, map3, typed, uniform, unsupported, Decoded, Result,
};
use crate::float::{arithmetic, extremum, saturate, Bound, Format, Operation, Rounding};
use crate::program::{Approximation, Op};
use crate::resolve::Resolver;
use crate::syntax::Raw;
use crate::types::Type;

/// Whether the last type suffix is a float.
pub fn is_float(raw: &Raw) -> bool {
    raw.types().last().is_some_and(|ty| ty.is_float())
}

/// The format of a type, or of the elements of a packed type.
pub fn format(ty: Type) -> Option<Format> {
    Some(match ty.element() {
        Type::F16 => Format::F16,
        Type::Bf16 => Format::Bf16,
        Type::Tf32 => Format::Tf32,
        Type::F32 => Format::F32,
        Type::F64 => Format::F64,
        _ => return None,
    })
}

/// The rounding mode of an instruction. Without a suffix it is to nearest.
pub fn rounding(raw: &Raw) -> Rounding {
    raw.parts[1..]
        .iter()
        .find_map(|part| match part.as_str() {
            "rn" => Some(Rounding::Nearest),
            "rna" => Some(Rounding::NearestAway),
            "rz" => Some(Rounding::Zero),
            "rm" => Some(Rounding::Down),
            "rp" => Some(Rounding::Up),
            _ => None,
        })
        .unwrap_or(Rounding::Nearest)
}

/// Applies a function of elements to one or two elements in a register.
pub fn packed(is_packed: bool, f: impl Fn([u64; 3]) -> u64, v: [u64; 3]) -> u64 {
    if !is_packed {
        return f(v);
    }
    let low = f(v.map(|value| value & 0xffff));
    low | f(v.map(|value| value >> 16 & 0xffff)) << 16
}

const SUFFIXES: &[&str] = &[
    "rn",
    "rz",
    "rm",
    "rp",
    "ftz",
    "sat",
    "relu",
    "approx",
    "full",
    "NaN",
    "finite",
    "infinite",
    "number",
    "notanumber",
    "normal",
    "subnormal",
];

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let ty = last_type(raw)?;
    check_suffixes(raw, SUFFIXES)?;
    let Some(format) = format(ty) else { return Err(unsupported(raw, "this type")) };
    let approximate = raw.has("approx") || raw.has("full");
    match raw.parts[0].as_str() {
        "div" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh"
            if approximate =>
        {
            approximation(resolver, raw, ty, format)
        }
        "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
            Err(unsupported(raw, "this function without `.approx`"))
        }
        "div" | "rcp" | "sqrt" if rounding_suffix_is_missing(raw) => {
            Err(unsupported(raw, "this function without a rounding mode"))
        }
        "abs" | "neg" | "copysign" => sign(resolver, raw, ty, format),
        "min" | "max" => {
            let (is_max, keeps, ftz) = (raw.parts[0] == "max", raw.has("NaN"), raw.has("ftz"));
            let input = move |v| if ftz { format.flush(v) } else { v };
            let f = move |v: [u64; 3]| extremum(format, is_max, keeps, input(v[0]), input(v[1]));
            let packs = ty.is_packed();
            if raw.operands.len() == 4 {
                let f3 = move |v: [u64; 3]| f([f(v), v[2], 0]);
                return uniform(
                    resolver,
                    raw,
                    map3(move |a, b, c| packed(packs, f3, [a, b, c])),
                    ty,
                    3,
                );
            }
            uniform(resolver, raw, map2(move |a, b| packed(packs, f, [a, b, 0])), ty, 2)
        }
        "testp" => {
            let test = test(raw, format)?;
            typed(resolver, raw, map1(move |a| u64::from(test(a))), Type::Pred, &[ty])
        }
        name => {
            let (operation, count) = match name {
                "add" => (Operation::Add, 2),
                "sub" => (Operation::Subtract, 2),
                "mul" => (Operation::Multiply, 2),
                "fma" | "mad" => (Operation::Fma, 3),
                "div" => (Operation::Divide, 2),
                "rcp" => (Operation::Reciprocal, 1),
                _ => (Operation::SquareRoot, 1),
            };
            uniform(resolver, raw, exact(raw, operation, ty, format), ty, count)
        }
    }
}

fn rounding_suffix_is_missing(raw: &Raw) -> bool {
    !["rn", "rz", "rm", "rp"].iter().any(|mode| raw.has(mode))
}

/// An operation with exact rounding and the suffixes `.ftz`, `.sat` and `.relu`.
fn exact(raw: &Raw, operation: Operation, ty: Type, format: Format) -> Op {
    let mode = rounding(raw);
    let (ftz, sat, relu) = (raw.has("ftz"), raw.has("sat"), raw.has("relu"));
    if mode == Rounding::Nearest && !ftz && !sat && !relu {
        match format {
            Format::F32 if ty == Type::F32 => return single(operation),
            Format::F64 => return double(operation),
            _ => {}
        }
    }
    let element = move |bits: [u64; 3]| {
        let bits = if ftz { bits.map(|v| format.flush(v)) } else { bits };
        let mut result = arithmetic(operation, format, mode, bits);
        if ftz {
            result = format.flush(result);
        }
        if sat {
            result = saturate(format, result);
        }
        if relu && result & format.sign_bit() != 0 && !format.decode(result).is_nan() {
            result = 0;
        }
        result
    };
    let packs = ty.is_packed();
    map3(move |a, b, c| packed(packs, element, [a, b, c]))
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// The bits of an `f32`, with the NaN of the hardware.
fn bits(value: f32) -> u64 {
    if value.is_nan() {
        Format::F32.nan()
    } else {
        u64::from(value.to_bits())
    }
}

fn single(operation: Operation) -> Op {
    match operation {
        Operation::Add => map2(|a, b| bits(f(a) + f(b))),
        Operation::Subtract => map2(|a, b| bits(f(a) - f(b))),
        Operation::Multiply => map2(|a, b| bits(f(a) * f(b))),
        Operation::Fma => map3(|a, b, c| bits(f(a).mul_add(f(b), f(c)))),
        Operation::Divide => map2(|a, b| bits(f(a) / f(b))),
        Operation::Reciprocal => map1(|a| bits(1.0 / f(a))),
        Operation::SquareRoot => map1(|a| bits(f(a).sqrt())),
    }
}

fn double(operation: Operation) -> Op {
    let f = f64::from_bits;
    match operation {
        Operation::Add => map2(move |a, b| (f(a) + f(b)).to_bits()),
        Operation::Subtract => map2(move |a, b| (f(a) - f(b)).to_bits()),
        Operation::Multiply => map2(move |a, b| (f(a) * f(b)).to_bits()),
        Operation::Fma => map3(move |a, b, c| f(a).mul_add(f(b), f(c)).to_bits()),
        Operation::Divide => map2(move |a, b| (f(a) / f(b)).to_bits()),
        Operation::Reciprocal => map1(move |a| (1.0 / f(a)).to_bits()),
        Operation::SquareRoot => map1(move |a| f(a).sqrt().to_bits()),
    }
}

fn sign(resolver: &mut Resolver, raw: &Raw, ty: Type, format: Format) -> Result<Decoded> {
    let (ftz, packs, sign) = (raw.has("ftz"), ty.is_packed(), format.sign_bit());
    let input = move |v| if ftz { format.flush(v) } else { v };
    match raw.parts[0].as_str() {
        "abs" => uniform(
            resolver,
            raw,
            map1(move |a| packed(packs, |v| input(v[0]) & !sign, [a, 0, 0])),
            ty,
            1,
        ),
        "neg" => uniform(
            resolver,
            raw,
            map1(move |a| packed(packs, |v| input(v[0]) ^ sign, [a, 0, 0])),
            ty,
            1,
        ),
        // `copysign d, a, b` takes the sign of a and the magnitude of b.
        _ => uniform(resolver, raw, map2(move |a, b| a & sign | b & !sign), ty, 2),
    }
}

fn test(raw: &Raw, format: Format) -> Result<impl Fn(u64) -> bool + Send + Sync + 'static> {
    let name = raw.parts.get(1).cloned().unwrap_or_default();
    if !["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
        .contains(&name.as_str())
    {
        return Err(unsupported(raw, "this test"));
    }
    Ok(move |bits| {
        let value = format.decode(bits);
        match name.as_str() {
            "finite" => value.is_finite(),
            "infinite" => value.is_infinite(),
            "number" => !value.is_nan(),
            "notanumber" => value.is_nan(),
            "normal" => value.is_finite() && value != 0.0 && !format.is_subnormal(bits),
            _ => format.is_subnormal(bits),
        }
    })
}

/// Functions of approximate instructions, with the error that the PTX specification states.
fn approximation(resolver: &mut Resolver, raw: &Raw, ty: Type, format: Format) -> Result<Decoded> {
    let narrow = format.bits() == 16;
    let single: (Approximation, Bound) = match raw.parts[0].as_str() {
        "div" if raw.has("full") => (|a, b| a / b, Bound::Ulp(2)),
        // The hardware multiplies by the reciprocal, which is flushed to zero for large divisors.
        "div" => (
            |a, b| {
                if b.abs() > 2f64.powi(126) && b.is_finite() {
                    a * 0.0 * b.signum()
                } else {
                    a / b
                }
            },
            Bound::Ulp(2),
        ),
        "rcp" if format == Format::F64 => return coarse(resolver, raw, |a| 1.0 / a),
        "rsqrt" if format == Format::F64 => return coarse(resolver, raw, |a| 1.0 / a.sqrt()),
        "rcp" => (|a, _| 1.0 / a, Bound::Ulp(1)),
        "sqrt" => (|a, _| a.sqrt(), Bound::Relative(2f64.powi(-23))),
        "rsqrt" => (|a, _| 1.0 / a.sqrt(), Bound::Relative(1.072 * 2f64.powi(-23))),
        "ex2" if narrow => {
            let error = if format == Format::F16 { 1.072 * 2f64.powi(-10) } else { 2f64.powi(-7) };
            (|a, _| a.exp2(), Bound::Relative(error))
        }
        "ex2" => (|a, _| a.exp2(), Bound::Ulp(2)),
        "lg2" => (|a, _| a.log2(), Bound::Logarithm(2f64.powi(-22))),
        "sin" => (|a, _| a.sin(), Bound::Absolute(2f64.powf(-20.5))),
        "cos" => (|a, _| a.cos(), Bound::Absolute(2f64.powf(-20.5))),
        "tanh" if narrow => {
            let error = if format == Format::F16 { 2f64.powf(-10.987) } else { 2f64.powi(-8) };
            (|a, _| a.tanh(), Bound::Absolute(error))
        }
        _ => (|a, _| a.tanh(), Bound::Relative(2f64.powi(-11))),
    };
    let (function, bound) = single;
    let count = if raw.parts[0] == "div" { 2 } else { 1 };
    let op =
        Op::Approximate { function, bound, format, is_packed: ty.is_packed(), ftz: raw.has("ftz") };
    uniform(resolver, raw, op, ty, count)
}

/// Double-precision functions that use and return only the upper 32 bits.
fn coarse(resolver: &mut Resolver, raw: &Raw, function: fn(f64) -> f64) -> Result<Decoded> {
    let upper = |bits: u64| Format::F64.flush(bits & 0xffff_ffff_0000_0000);
    let op = map1(move |a| {
        let result = function(f64::from_bits(upper(a)));
        if result.is_nan() {
            Format::F64.nan()
        } else {
            upper(result.to_bits())
        }
    });
    uniform(resolver, raw, op, Type::F64, 1)
}
