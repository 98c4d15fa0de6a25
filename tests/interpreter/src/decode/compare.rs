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

/// The predicate operand of a combination, and whether it is negated.
fn combined_operand(resolver: &mut Resolver, raw: &Raw, index: usize) -> Result<(u32, bool)> {
    match raw.operands.get(index) {
        Some(Operand::Not(inner)) => Ok((resolver.value(raw, inner, Type::Pred, false)?, true)),
        Some(operand) => Ok((resolver.value(raw, operand, Type::Pred, false)?, false)),
        None => Err(Error::parse(raw.line, format!("operand {index}: is missing"))),
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
    let combine = combination(raw);
    expect_operands(raw, if combine.is_some() { 4 } else { 3 })?;
    let destinations = destinations(resolver, raw, Type::Pred)?;
    let mut sources = vec![resolver.source(raw, 1, ty)?, resolver.source(raw, 2, ty)?];
    let mut negated = false;
    if combine.is_some() {
        let (register, is_negated) = combined_operand(resolver, raw, 3)?;
        sources.push(register);
        negated = is_negated;
    } else {
        sources.push(resolver.constant(0));
    }
    let combine = combine.unwrap_or(|a, _| a);
    let join = move |result: bool, c: u64| u64::from(combine(result, (c & 1 == 1) != negated));
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
    let combine = combination(raw);
    expect_operands(raw, if combine.is_some() { 4 } else { 3 })?;
    let destination = resolver.destination(raw, &raw.operands[0], result, false)?;
    let mut sources = vec![resolver.source(raw, 1, ty)?, resolver.source(raw, 2, ty)?];
    let mut negated = false;
    if combine.is_some() {
        let (register, is_negated) = combined_operand(resolver, raw, 3)?;
        sources.push(register);
        negated = is_negated;
    } else {
        sources.push(resolver.constant(0));
    }
    let combine = combine.unwrap_or(|a, _| a);
    let yes = match format(result) {
        Some(format) => format.encode(1.0, crate::float::Rounding::Nearest),
        None if ty.is_packed() => 0xffff,
        None => result.mask(),
    };
    let packs = ty.is_packed();
    let op = map3(move |a, b, c| {
        let element = |v: [u64; 3]| {
            if combine(compare.run(v[0], v[1]), (c & 1 == 1) != negated) {
                yes
            } else {
                0
            }
        };
        packed(packs, element, [a, b, 0])
    });
    Ok(Decoded { op, destinations: vec![destination], sources })
}
