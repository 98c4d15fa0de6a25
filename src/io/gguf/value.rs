//! The values of a GGUF file's metadata.

use super::scan::{wrong, Scan};
use crate::alloc::try_vec;
use crate::error::Result;
use std::fmt;

/// The most levels of nested arrays. Real files have fewer.
const DEEPEST: usize = 4;

/// A value of a GGUF file's metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GgufValue {
    /// An integer of any size and sign.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    String(String),
    /// An array of values of one type.
    Array(GgufArray),
}

/// An array in a GGUF file's metadata. The file's types `i8`, `i16` and `u16` become `i32`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GgufArray {
    /// Unsigned integers of 8 bits, such as those of a precompiled normalizer.
    Bytes(Vec<u8>),
    /// Integers that fit into a signed integer of 32 bits.
    I32(Vec<i32>),
    /// Unsigned integers of 32 bits.
    U32(Vec<u32>),
    /// Signed integers of 64 bits.
    I64(Vec<i64>),
    /// Unsigned integers of 64 bits.
    U64(Vec<u64>),
    /// Floating-point numbers of 32 bits.
    F32(Vec<f32>),
    /// Floating-point numbers of 64 bits.
    F64(Vec<f64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Texts, such as a vocabulary.
    String(Vec<String>),
    /// Arrays.
    Array(Vec<GgufArray>),
}

impl GgufValue {
    /// Returns an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            GgufValue::Integer(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// Returns a number, also if it is stored as an integer.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            GgufValue::Integer(value) => Some(*value as f64),
            GgufValue::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            GgufValue::String(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            GgufValue::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns an array.
    pub fn as_array(&self) -> Option<&GgufArray> {
        match self {
            GgufValue::Array(value) => Some(value),
            _ => None,
        }
    }

    /// Reads a value of the type with the number `kind` in files.
    pub(super) fn read(scan: &mut Scan, what: &str, kind: u32) -> Result<Self> {
        let integer = GgufValue::Integer;
        Ok(match kind {
            0 => integer(u8::from_le_bytes(scan.number(what)?).into()),
            1 => integer(i8::from_le_bytes(scan.number(what)?).into()),
            2 => integer(u16::from_le_bytes(scan.number(what)?).into()),
            3 => integer(i16::from_le_bytes(scan.number(what)?).into()),
            4 => integer(scan.u32(what)?.into()),
            5 => integer(i32::from_le_bytes(scan.number(what)?).into()),
            6 => GgufValue::Float(f32::from_le_bytes(scan.number(what)?).into()),
            7 => GgufValue::Bool(truth(scan.at(), what, scan.number::<1>(what)?[0])?),
            8 => GgufValue::String(scan.string(what)?),
            9 => GgufValue::Array(GgufArray::read(scan, what, 1)?),
            10 => integer(scan.u64(what)?.into()),
            11 => integer(i64::from_le_bytes(scan.number(what)?).into()),
            12 => GgufValue::Float(f64::from_le_bytes(scan.number(what)?)),
            _ => return Err(unknown(scan.at(), what, kind)),
        })
    }
}

impl GgufArray {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            GgufArray::Bytes(all) => all.len(),
            GgufArray::I32(all) => all.len(),
            GgufArray::U32(all) => all.len(),
            GgufArray::I64(all) => all.len(),
            GgufArray::U64(all) => all.len(),
            GgufArray::F32(all) => all.len(),
            GgufArray::F64(all) => all.len(),
            GgufArray::Bool(all) => all.len(),
            GgufArray::String(all) => all.len(),
            GgufArray::Array(all) => all.len(),
        }
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the texts if the array has texts.
    pub fn as_strings(&self) -> Option<&[String]> {
        match self {
            GgufArray::String(all) => Some(all),
            _ => None,
        }
    }

    fn read(scan: &mut Scan, what: &str, depth: usize) -> Result<GgufArray> {
        let kind = scan.u32(what)?;
        let count = scan.u64(what)?;
        if depth > DEEPEST {
            let message = format!("{what} must not have more than {DEEPEST} arrays in each other");
            return Err(wrong(scan.at(), &message));
        }
        Ok(match kind {
            0 => GgufArray::Bytes(scan.bytes(what, count)?),
            1 => GgufArray::I32(numbers(scan, what, count, |x| i8::from_le_bytes(x).into())?),
            2 => GgufArray::I32(numbers(scan, what, count, |x| u16::from_le_bytes(x).into())?),
            3 => GgufArray::I32(numbers(scan, what, count, |x| i16::from_le_bytes(x).into())?),
            4 => GgufArray::U32(numbers(scan, what, count, u32::from_le_bytes)?),
            5 => GgufArray::I32(numbers(scan, what, count, i32::from_le_bytes)?),
            6 => GgufArray::F32(numbers(scan, what, count, f32::from_le_bytes)?),
            7 => {
                let at = scan.at();
                let bytes = scan.bytes(what, count)?;
                let each = bytes.iter().map(|&byte| truth(at, what, byte));
                GgufArray::Bool(each.collect::<Result<_>>()?)
            }
            8 => {
                let mut all = try_vec("gguf", scan.need(what, count, 8)?)?;
                for _ in 0..count {
                    all.push(scan.string(what)?);
                }
                GgufArray::String(all)
            }
            9 => {
                let mut all = try_vec("gguf", scan.need(what, count, 12)?)?;
                for _ in 0..count {
                    all.push(GgufArray::read(scan, what, depth + 1)?);
                }
                GgufArray::Array(all)
            }
            10 => GgufArray::U64(numbers(scan, what, count, u64::from_le_bytes)?),
            11 => GgufArray::I64(numbers(scan, what, count, i64::from_le_bytes)?),
            12 => GgufArray::F64(numbers(scan, what, count, f64::from_le_bytes)?),
            _ => return Err(unknown(scan.at(), what, kind)),
        })
    }
}

/// Reads numbers of `N` bytes.
fn numbers<T, const N: usize>(
    scan: &mut Scan,
    what: &str,
    count: u64,
    number: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let mut all = try_vec("gguf", scan.need(what, count, N as u64)?)?;
    for _ in 0..count {
        all.push(number(scan.number(what)?));
    }
    Ok(all)
}

fn truth(at: u64, what: &str, byte: u8) -> Result<bool> {
    match byte {
        0 | 1 => Ok(byte == 1),
        _ => Err(wrong(at, &format!("{what} must be 0 or 1, as booleans are, got {byte}"))),
    }
}

fn unknown(at: u64, what: &str, kind: u32) -> crate::error::Error {
    wrong(at, &format!("{what} must have a type from 0 to 12, got {kind}"))
}

/// Writes a number or text, and for an array its length and its type.
impl fmt::Display for GgufValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GgufValue::Integer(value) => write!(f, "{value}"),
            // Most floats were stored in 32 bits, so this writes the shortest digits that restore those.
            GgufValue::Float(value) if f64::from(*value as f32) == *value => {
                write!(f, "{}", *value as f32)
            }
            GgufValue::Float(value) => write!(f, "{value}"),
            GgufValue::Bool(value) => write!(f, "{value}"),
            GgufValue::String(value) => write!(f, "{value:?}"),
            GgufValue::Array(all) => {
                let kind = match all {
                    GgufArray::Bytes(_) => "bytes",
                    GgufArray::F32(_) | GgufArray::F64(_) => "numbers",
                    GgufArray::Bool(_) => "booleans",
                    GgufArray::String(_) => "strings",
                    GgufArray::Array(_) => "arrays",
                    _ => "integers",
                };
                write!(f, "{} {kind}", all.len())
            }
        }
    }
}
