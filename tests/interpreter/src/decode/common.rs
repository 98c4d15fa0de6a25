//! Building blocks of the decoders: operands with their types, and functions of lanes.

use crate::error::Error;
use crate::program::{Op, WARP};
use crate::resolve::Resolver;
use crate::syntax::{Operand, Raw};
use crate::types::Type;

/// A decoded operation with its operands.
pub struct Decoded {
    pub op: Op,
    pub destinations: Vec<u32>,
    pub sources: Vec<u32>,
}

/// The result of a decoder.
pub type Result<T> = std::result::Result<T, Error>;

pub fn plain(op: Op) -> Decoded {
    Decoded { op, destinations: Vec::new(), sources: Vec::new() }
}

pub fn unsupported(raw: &Raw, what: &str) -> Error {
    Error::parse(raw.line, format!("{what} is not supported"))
}

/// Rejects suffixes that are neither types nor in `known`, because ignoring one would change the meaning.
pub fn check_suffixes(raw: &Raw, known: &[&str]) -> Result<()> {
    let is_known = |part: &&String| Type::parse(part).is_some() || known.contains(&part.as_str());
    match raw.parts[1..].iter().find(|part| !is_known(part)) {
        Some(part) => Err(unsupported(raw, &format!("the suffix `.{part}`"))),
        None => Ok(()),
    }
}

/// The last type suffix, which is the type of most instructions.
pub fn last_type(raw: &Raw) -> Result<Type> {
    raw.types()
        .last()
        .copied()
        .ok_or_else(|| Error::parse(raw.line, "opcode: a type suffix is missing"))
}

/// Checks the number of operands.
pub fn expect_operands(raw: &Raw, count: usize) -> Result<()> {
    let got = raw.operands.len();
    if got == count {
        Ok(())
    } else {
        Err(Error::parse(raw.line, format!("must have {count} operands, got {got}")))
    }
}

/// Decodes a destination and sources that all have one type.
pub fn uniform(
    resolver: &mut Resolver,
    raw: &Raw,
    op: Op,
    ty: Type,
    count: usize,
) -> Result<Decoded> {
    typed(resolver, raw, op, ty, &vec![ty; count])
}

/// Decodes a destination and sources with their types.
pub fn typed(
    resolver: &mut Resolver,
    raw: &Raw,
    op: Op,
    result: Type,
    sources: &[Type],
) -> Result<Decoded> {
    expect_operands(raw, sources.len() + 1)?;
    let destination = resolver.destination(raw, &raw.operands[0], result, false)?;
    let mut all = Vec::new();
    for (index, ty) in sources.iter().enumerate() {
        all.push(resolver.source(raw, index + 1, *ty)?);
    }
    Ok(Decoded { op, destinations: vec![destination], sources: all })
}

pub fn map1(f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane]);
        }
    }))
}

pub fn map2(f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane], s[1][lane]);
        }
    }))
}

pub fn map3(f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane], s[1][lane], s[2][lane]);
        }
    }))
}

pub fn map4(f: impl Fn(u64, u64, u64, u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane], s[1][lane], s[2][lane], s[3][lane]);
        }
    }))
}

/// The constant integer at an operand position.
pub fn immediate(raw: &Raw, index: usize) -> Result<u64> {
    match raw.operands.get(index) {
        Some(Operand::Integer(value)) => Ok(*value),
        other => Err(Error::parse(
            raw.line,
            format!("operand {index}: must be an integer constant, got {other:?}"),
        )),
    }
}
