//! Moves, packing, and conversions of addresses.

use super::common::{expect_operands, last_type, map1, map4, unsupported, Decoded, Result};
use crate::error::Error;
use crate::program::Op;
use crate::resolve::Resolver;
use crate::syntax::{Operand, Raw};
use crate::types::{Space, Type};

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    expect_operands(raw, 2)?;
    match raw.parts[0].as_str() {
        "mov" => mov(resolver, raw),
        "cvta" => {
            let space = space(raw).ok_or_else(|| unsupported(raw, "`cvta` without a space"))?;
            let is_call = space == Space::Param && !resolver.is_entry();
            let window = if is_call { Space::CallParam } else { space }.window();
            let ty = Type::U(64);
            let op = if raw.has("to") {
                map1(move |a| a.wrapping_sub(window))
            } else {
                map1(move |a| a.wrapping_add(window))
            };
            super::common::uniform(resolver, raw, op, ty, 1)
        }
        _ => {
            let space = space(raw).ok_or_else(|| unsupported(raw, "`isspacep` without a space"))?;
            let op = map1(move |a| u64::from(Space::of_generic(a).0 == space));
            super::common::typed(resolver, raw, op, Type::Pred, &[Type::U(64)])
        }
    }
}

/// The state space suffix.
pub fn space(raw: &Raw) -> Option<Space> {
    raw.parts[1..].iter().find_map(|part| match part.as_str() {
        "global" => Some(Space::Global),
        "shared" | "shared::cta" => Some(Space::Shared),
        "local" => Some(Space::Local),
        "const" => Some(Space::Const),
        "param" | "param::entry" | "param::func" => Some(Space::Param),
        _ => None,
    })
}

fn mov(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let ty = last_type(raw)?;
    let part = |count: usize| match ty.bits() as usize / count.max(1) {
        bits @ (8 | 16 | 32)
            if count.is_power_of_two() && count <= 4 && bits * count == ty.bits() as usize =>
        {
            Ok(Type::B(bits as u8))
        }
        _ => Err(Error::parse(raw.line, format!("mov: {count} elements do not fit the type"))),
    };
    match (&raw.operands[0], &raw.operands[1]) {
        (Operand::Vector(parts), source) => {
            let element = part(parts.len())?;
            let sources = vec![resolver.value(raw, source, ty, false)?];
            let mut destinations = Vec::new();
            for part in parts {
                destinations.push(resolver.destination(raw, part, element, false)?);
            }
            Ok(Decoded { op: Op::Unpack(element.bits()), destinations, sources })
        }
        (destination, Operand::Vector(parts)) => {
            let element = part(parts.len())?;
            let bits = element.bits();
            let mut sources = Vec::new();
            for part in parts {
                sources.push(resolver.value(raw, part, element, false)?);
            }
            while sources.len() < 4 {
                sources.push(resolver.constant(0));
            }
            let op = map4(move |a, b, c, d| {
                let shift = |v: u64, i: u32| v.checked_shl(i * bits).unwrap_or(0);
                a | shift(b, 1) | shift(c, 2) | shift(d, 3)
            });
            Ok(Decoded {
                op,
                destinations: vec![resolver.destination(raw, destination, ty, false)?],
                sources,
            })
        }
        (destination, source) => {
            let sources = vec![resolver.value(raw, source, ty, false)?];
            Ok(Decoded {
                op: Op::Move,
                destinations: vec![resolver.destination(raw, destination, ty, false)?],
                sources,
            })
        }
    }
}
