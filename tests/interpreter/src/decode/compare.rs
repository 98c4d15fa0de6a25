//! Comparison and selection.

use super::common::{
    check_suffixes, expect_operands, last_type, map3, unsupported, Decoded, Result,
};
use super::floating::{format, packed};
use crate::error::Error;
use crate::float::Format;
use crate::program::{Op, WARP};
use crate::resolve::Resolver;
use crate::syntax::{Operand, Raw};
use crate::types::{sign_extend, Type};
use std::cmp::Ordering;

const SUFFIXES: &[&str] = &[
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan", "and", "or", "xor", "ftz",
];

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    check_suffixes(raw, SUFFIXES)?;
    match raw.parts[0].as_str() {
        "setp" => set_predicate(resolver, raw),
        "set" => set(resolver, raw),
        "selp" => {
            expect_operands(raw, 4)?;
            let ty = last_type(raw)?;
            let destination = resolver.destination(raw, &raw.operands[0], ty, false)?;
            let mut sources = vec![resolver.source(raw, 1, ty)?, resolver.source(raw, 2, ty)?];
            sources.push(resolver.source(raw, 3, Type::Pred)?);
            Ok(Decoded { op: Op::Select, destinations: vec![destination], sources })
        }
        _ => {
            // `slct.type.selector d, a, b, c`: a if c >= 0.
            let [ty, selector] = raw.types()[..] else {
                return Err(unsupported(raw, "`slct` without two types"));
            };
            let op = if selector == Type::F32 {
                map3(|a, b, c| if f32::from_bits(c as u32) >= 0.0 { a } else { b })
            } else {
                map3(|a, b, c| if c as u32 as i32 >= 0 { a } else { b })
            };
            super::common::typed(resolver, raw, op, ty, &[ty, ty, selector])
        }
    }
}

/// A comparison of two values of a type.
#[derive(Clone, Copy)]
struct Comparison {
    ty: Type,
    format: Option<Format>,
    /// Results for less, equal, greater and unordered.
    table: [bool; 4],
    ftz: bool,
}

impl Comparison {
    fn run(self, a: u64, b: u64) -> bool {
        let order = match self.format {
            Some(format) => {
                let (a, b) = if self.ftz { (format.flush(a), format.flush(b)) } else { (a, b) };
                format.decode(a).partial_cmp(&format.decode(b))
            }
            None if self.ty.is_signed() => {
                let bits = self.ty.bits();
                Some(sign_extend(a, bits).cmp(&sign_extend(b, bits)))
            }
            None => Some(a.cmp(&b)),
        };
        self.table[match order {
            Some(Ordering::Less) => 0,
            Some(Ordering::Equal) => 1,
            Some(Ordering::Greater) => 2,
            None => 3,
        }]
    }
}

fn comparison(raw: &Raw, ty: Type) -> Result<Comparison> {
    let name = raw.parts.get(1).map_or("", String::as_str);
    let table = match name {
        "eq" => [false, true, false, false],
        "ne" => [true, false, true, false],
        "lt" | "lo" => [true, false, false, false],
        "le" | "ls" => [true, true, false, false],
        "gt" | "hi" => [false, false, true, false],
        "ge" | "hs" => [false, true, true, false],
        "equ" => [false, true, false, true],
        "neu" => [true, false, true, true],
        "ltu" => [true, false, false, true],
        "leu" => [true, true, false, true],
        "gtu" => [false, false, true, true],
        "geu" => [false, true, true, true],
        "num" => [true, true, true, false],
        "nan" => [false, false, false, true],
        _ => return Err(unsupported(raw, &format!("the comparison `{name}`"))),
    };
    Ok(Comparison { ty, format: format(ty), table, ftz: raw.has("ftz") })
}

/// The combination of a comparison with a predicate.
fn combination(raw: &Raw) -> Option<fn(bool, bool) -> bool> {
    raw.parts[2..].iter().find_map(|part| -> Option<fn(bool, bool) -> bool> {
        match part.as_str() {
            "and" => Some(|a, b| a & b),
            "or" => Some(|a, b| a | b),
            "xor" => Some(|a, b| a ^ b),
            _ => None,
        }
    })
}

/// The third operand of a comparison: the predicate that its result is combined with. Without one, it is false, and the
/// combination returns the result.
struct Third {
    source: u32,
    is_negated: bool,
    combine: fn(bool, bool) -> bool,
}

impl Third {
    fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Third> {
        let combine = combination(raw);
        expect_operands(raw, if combine.is_some() { 4 } else { 3 })?;
        let Some(combine) = combine else {
            let source = resolver.constant(0);
            return Ok(Third { source, is_negated: false, combine: |result, _| result });
        };
        let (operand, is_negated) = match &raw.operands[3] {
            Operand::Not(inner) => (&**inner, true),
            operand => (operand, false),
        };
        let source = resolver.value(raw, operand, Type::Pred, false)?;
        Ok(Third { source, is_negated, combine })
    }

    /// Combines the result of a comparison with the value of the operand.
    fn join(&self, result: bool, value: u64) -> bool {
        (self.combine)(result, (value & 1 == 1) != self.is_negated)
    }
}

/// Destinations of a comparison: one, or two as `p|q`.
fn destinations(resolver: &mut Resolver, raw: &Raw, ty: Type) -> Result<Vec<u32>> {
    match &raw.operands[0] {
        Operand::Pair(p, q) => Ok(vec![
            resolver.destination(raw, p, ty, false)?,
            resolver.destination(raw, q, ty, false)?,
        ]),
        p => Ok(vec![resolver.destination(raw, p, ty, false)?]),
    }
}

fn set_predicate(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let ty = last_type(raw)?;
    let compare = comparison(raw, ty)?;
    let third = Third::decode(resolver, raw)?;
    let destinations = destinations(resolver, raw, Type::Pred)?;
    let sources = vec![resolver.source(raw, 1, ty)?, resolver.source(raw, 2, ty)?, third.source];
    let join = move |result: bool, c: u64| u64::from(third.join(result, c));
    let op = match (ty.is_packed(), destinations.len()) {
        (false, 1) => map3(move |a, b, c| join(compare.run(a, b), c)),
        (is_packed, _) => Op::ComputeTwo(Box::new(move |s, p, q| {
            for lane in 0..WARP {
                let (a, b, c) = (s[0][lane], s[1][lane], s[2][lane]);
                if is_packed {
                    p[lane] = join(compare.run(a & 0xffff, b & 0xffff), c);
                    q[lane] = join(compare.run(a >> 16, b >> 16), c);
                } else {
                    let result = compare.run(a, b);
                    p[lane] = join(result, c);
                    q[lane] = join(!result, c);
                }
            }
        })),
    };
    if ty.is_packed() && destinations.len() != 2 {
        return Err(Error::parse(
            raw.line,
            "setp: a packed comparison must have two destinations `p|q`",
        ));
    }
    Ok(Decoded { op, destinations, sources })
}

fn set(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let [result, ty] = raw.types()[..] else {
        return Err(unsupported(raw, "`set` without two types"));
    };
    let compare = comparison(raw, ty)?;
    let third = Third::decode(resolver, raw)?;
    let destination = resolver.destination(raw, &raw.operands[0], result, false)?;
    let sources = vec![resolver.source(raw, 1, ty)?, resolver.source(raw, 2, ty)?, third.source];
    let yes = match format(result) {
        Some(format) => format.encode(1.0, crate::float::Rounding::Nearest),
        None if ty.is_packed() => 0xffff,
        None => result.mask(),
    };
    let packs = ty.is_packed();
    let op = map3(move |a, b, c| {
        let element = |v: [u64; 3]| {
            if third.join(compare.run(v[0], v[1]), c) {
                yes
            } else {
                0
            }
        };
        packed(packs, element, [a, b, 0])
    });
    Ok(Decoded { op, destinations: vec![destination], sources })
}
