//! Barriers and communication between the lanes of a warp.

use super::common::{expect_operands, last_type, plain, unsupported, Decoded, Result};
use crate::error::Error;
use crate::program::{Atomic, BarrierReduction, Op, Shuffle, Vote};
use crate::resolve::Resolver;
use crate::syntax::{Operand, Raw};
use crate::types::Type;

const WORD: Type = Type::B(32);

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let name = raw.parts[0].as_str();
    if matches!(name, "shfl" | "vote" | "match" | "redux" | "elect") && !raw.has("sync") {
        return Err(unsupported(raw, "the form without `.sync`"));
    }
    match name {
        "shfl" => shuffle(resolver, raw),
        "vote" => vote(resolver, raw),
        "match" => {
            expect_operands(raw, 3)?;
            let ty = last_type(raw)?;
            let is_all = raw.has("all");
            let destinations = one_or_two(resolver, raw, is_all)?;
            let sources = vec![resolver.source(raw, 1, ty)?, resolver.source(raw, 2, WORD)?];
            Ok(Decoded { op: Op::Match { is_all }, destinations, sources })
        }
        "redux" => {
            let ty = last_type(raw)?;
            let operations = [
                ("add", Atomic::Add),
                ("min", Atomic::Min),
                ("max", Atomic::Max),
                ("and", Atomic::And),
                ("or", Atomic::Or),
                ("xor", Atomic::Xor),
            ];
            let Some((_, operation)) =
                operations.iter().find(|(name, _)| raw.has(name)).filter(|_| ty.is_integer())
            else {
                return Err(unsupported(raw, "this reduction"));
            };
            let op = Op::Reduce { operation: *operation, is_signed: ty.is_signed() };
            super::common::typed(resolver, raw, op, ty, &[ty, WORD])
        }
        "elect" => {
            expect_operands(raw, 2)?;
            let destinations = one_or_two(resolver, raw, true)?;
            Ok(Decoded {
                op: Op::ElectOne,
                destinations,
                sources: vec![resolver.source(raw, 1, WORD)?],
            })
        }
        "activemask" => {
            expect_operands(raw, 1)?;
            let destination = resolver.destination(raw, &raw.operands[0], WORD, false)?;
            Ok(Decoded { op: Op::ActiveMask, destinations: vec![destination], sources: Vec::new() })
        }
        _ => barrier(resolver, raw),
    }
}

/// A destination `d`, or `d|p` with a predicate.
fn one_or_two(resolver: &mut Resolver, raw: &Raw, accepts_pair: bool) -> Result<Vec<u32>> {
    match &raw.operands[0] {
        Operand::Pair(d, p) if accepts_pair => Ok(vec![
            resolver.destination(raw, d, WORD, false)?,
            resolver.destination(raw, p, Type::Pred, false)?,
        ]),
        d => Ok(vec![resolver.destination(raw, d, WORD, false)?]),
    }
}

/// A predicate source, and whether it is negated.
fn predicate(resolver: &mut Resolver, raw: &Raw, index: usize) -> Result<(u32, bool)> {
    match raw.operands.get(index) {
        Some(Operand::Not(inner)) => Ok((resolver.value(raw, inner, Type::Pred, false)?, true)),
        _ => Ok((resolver.source(raw, index, Type::Pred)?, false)),
    }
}

fn shuffle(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    expect_operands(raw, 5)?;
    let modes = [
        ("up", Shuffle::Up),
        ("down", Shuffle::Down),
        ("bfly", Shuffle::Butterfly),
        ("idx", Shuffle::Index),
    ];
    let Some((_, mode)) = modes.iter().find(|(name, _)| raw.has(name)) else {
        return Err(unsupported(raw, "this mode of `shfl`"));
    };
    let destinations = one_or_two(resolver, raw, true)?;
    let mut sources = Vec::new();
    for index in 1..5 {
        sources.push(resolver.source(raw, index, WORD)?);
    }
    Ok(Decoded { op: Op::Shuffle(*mode), destinations, sources })
}

fn vote(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    expect_operands(raw, 3)?;
    let modes =
        [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
    let Some((_, vote)) = modes.iter().find(|(name, _)| raw.has(name)) else {
        return Err(unsupported(raw, "this mode of `vote`"));
    };
    let ty = if *vote == Vote::Ballot { WORD } else { Type::Pred };
    let destinations = vec![resolver.destination(raw, &raw.operands[0], ty, false)?];
    let (register, negated) = predicate(resolver, raw, 1)?;
    let sources = vec![register, resolver.source(raw, 2, WORD)?];
    Ok(Decoded { op: Op::Vote { vote: *vote, negated }, destinations, sources })
}

fn barrier(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    if raw.has("cluster") {
        return Err(unsupported(raw, "a barrier of a cluster"));
    }
    if raw.has("warp") {
        expect_operands(raw, 1)?;
        let mut decoded = plain(Op::WarpBarrier);
        decoded.sources.push(resolver.source(raw, 0, WORD)?);
        return Ok(decoded);
    }
    let is_aligned = raw.parts[0] == "bar" || raw.has("aligned");
    let mut decoded = plain(Op::Nothing);
    let mut at = 0;
    let mut reduction = None;
    if raw.has("red") {
        let kinds = [
            ("popc", BarrierReduction::Count),
            ("and", BarrierReduction::And),
            ("or", BarrierReduction::Or),
        ];
        let Some((_, kind)) = kinds.iter().find(|(name, _)| raw.has(name)) else {
            return Err(unsupported(raw, "this reduction of a barrier"));
        };
        let ty = if *kind == BarrierReduction::Count { WORD } else { Type::Pred };
        let Some(operand) = raw.operands.first() else {
            return Err(unsupported(raw, "a barrier without operands"));
        };
        decoded.destinations.push(resolver.destination(raw, operand, ty, false)?);
        reduction = Some(*kind);
        at = 1;
    } else if !raw.has("sync") && !raw.has("arrive") {
        return Err(unsupported(raw, "this form of a barrier"));
    }
    let end = raw.operands.len() - usize::from(reduction.is_some()).min(raw.operands.len());
    let has_count = match end - at.min(end) {
        1 => false,
        2 => true,
        _ => {
            return Err(Error::parse(
                raw.line,
                "barrier: a number and optionally a thread count must follow",
            ))
        }
    };
    decoded.sources.push(resolver.source(raw, at, WORD)?);
    if has_count {
        decoded.sources.push(resolver.source(raw, at + 1, WORD)?);
    }
    let mut negated = false;
    if reduction.is_some() {
        let (register, is_negated) = predicate(resolver, raw, end)?;
        decoded.sources.push(register);
        negated = is_negated;
    }
    let arrives_only = raw.has("arrive");
    decoded.op = Op::Barrier { arrives_only, is_aligned, has_count, reduction, negated };
    Ok(decoded)
}
