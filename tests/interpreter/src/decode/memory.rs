//! Loads, stores, atomics and asynchronous copies.

use super::common::{last_type, plain, unsupported, Decoded, Result};
use super::data::space;
use crate::error::Error;
use crate::program::{Access, Atomic, Op};
use crate::resolve::Resolver;
use crate::syntax::{Operand, Raw};
use crate::types::{Space, Type};

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    match raw.parts[0].as_str() {
        "ld" | "ldu" => load(resolver, raw),
        "st" => store(resolver, raw),
        _ => atomic(resolver, raw),
    }
}

/// The address of an operand in brackets: the register or constant, the constant offset, and the space.
pub fn address(
    resolver: &mut Resolver,
    raw: &Raw,
    index: usize,
    space: Space,
) -> Result<(u32, i64, Space)> {
    let Some(Operand::Address(base, offset)) = raw.operands.get(index) else {
        return Err(Error::parse(
            raw.line,
            format!("operand {index}: must be an address in brackets"),
        ));
    };
    let named = resolver.space_of(base);
    let is_param = |space| matches!(space, Space::Param | Space::CallParam);
    let actual = match named {
        Some(named) if named == space || is_param(named) && space == Space::Param => named,
        Some(named) if space == Space::Generic && named == Space::Global => named,
        Some(named) => {
            let message =
                format!("address: the variable is in .{}, not in .{}", named.name(), space.name());
            return Err(Error::parse(raw.line, message));
        }
        None if space == Space::Param && !resolver.is_entry() => Space::CallParam,
        None => space,
    };
    let is_wide = matches!(actual, Space::Global | Space::Generic);
    let ty = if is_wide { Type::B(64) } else { Type::B(32) };
    Ok((resolver.value(raw, base, ty, !is_wide)?, *offset, actual))
}

fn access(raw: &Raw, ty: Type) -> Result<Access> {
    if ty == Type::Pred {
        return Err(unsupported(raw, "a memory access of this type"));
    }
    let count = raw.parts[1..]
        .iter()
        .find_map(|part| match part.as_str() {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        })
        .unwrap_or(1);
    let bytes = ty.bytes();
    if bytes * count > 32 || bytes > 8 {
        return Err(unsupported(raw, "a memory access of this size"));
    }
    let is_strong = ["volatile", "relaxed", "acquire", "release", "mmio", "acq_rel"]
        .iter()
        .any(|part| raw.has(part));
    let space = space(raw).unwrap_or(Space::Generic);
    Ok(Access {
        space,
        offset: 0,
        bytes,
        count,
        is_signed: ty.is_signed(),
        is_strong,
        is_constant: raw.has("nc"),
    })
}

/// The elements of a vector operand.
fn elements(raw: &Raw, index: usize, count: usize) -> Result<Vec<Operand>> {
    let all = match raw.operands.get(index) {
        Some(Operand::Vector(all)) => all.clone(),
        Some(one) => vec![one.clone()],
        None => return Err(Error::parse(raw.line, format!("operand {index}: is missing"))),
    };
    if all.len() == count {
        Ok(all)
    } else {
        Err(Error::parse(
            raw.line,
            format!("operand {index}: must have {count} elements, got {}", all.len()),
        ))
    }
}

fn load(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let ty = last_type(raw)?;
    let mut access = access(raw, ty)?;
    let (base, offset, space) = address(resolver, raw, 1, access.space)?;
    (access.offset, access.space) = (offset, space);
    let mut destinations = Vec::new();
    for operand in elements(raw, 0, access.count)? {
        destinations.push(resolver.destination(raw, &operand, ty, true)?);
    }
    Ok(Decoded { op: Op::Load(access), destinations, sources: vec![base] })
}

fn store(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let ty = last_type(raw)?;
    let mut access = access(raw, ty)?;
    let (base, offset, space) = address(resolver, raw, 0, access.space)?;
    (access.offset, access.space) = (offset, space);
    if matches!(space, Space::Const | Space::Param) {
        return Err(Error::parse(raw.line, format!("st: .{} must not be written", space.name())));
    }
    let mut sources = vec![base];
    for operand in elements(raw, 1, access.count)? {
        sources.push(resolver.value(raw, &operand, ty, true)?);
    }
    Ok(Decoded { op: Op::Store(access), destinations: Vec::new(), sources })
}

fn atomic(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let returns = raw.parts[0] == "atom";
    let ty = last_type(raw)?;
    let operation = raw.parts[1..].iter().find_map(|part| match part.as_str() {
        "add" => Some(Atomic::Add),
        "min" => Some(Atomic::Min),
        "max" => Some(Atomic::Max),
        "and" => Some(Atomic::And),
        "or" => Some(Atomic::Or),
        "xor" => Some(Atomic::Xor),
        "exch" => Some(Atomic::Exchange),
        "cas" => Some(Atomic::CompareAndSwap),
        "inc" => Some(Atomic::Increment),
        "dec" => Some(Atomic::Decrement),
        _ => None,
    });
    let Some(operation) = operation else { return Err(unsupported(raw, "this atomic operation")) };
    let mut access = access(raw, ty)?;
    if access.count != 1 || raw.has("async") {
        return Err(unsupported(raw, "this form of an atomic operation"));
    }
    if ty.is_float() && operation != Atomic::Add {
        return Err(unsupported(raw, "this atomic operation on floats"));
    }
    access.is_strong = true;
    let first = usize::from(returns);
    let (base, offset, space) = address(resolver, raw, first, access.space)?;
    (access.offset, access.space) = (offset, space);
    if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
        return Err(unsupported(raw, "an atomic operation in this space"));
    }
    let destinations = if returns {
        vec![resolver.destination(raw, &raw.operands[0], ty, true)?]
    } else {
        Vec::new()
    };
    let mut sources = vec![base, resolver.source(raw, first + 1, ty)?];
    if operation == Atomic::CompareAndSwap {
        sources.push(resolver.source(raw, first + 2, ty)?);
    }
    Ok(Decoded { op: Op::Atomic { operation, ty, access }, destinations, sources })
}

/// Decodes `cp.async` and its waits.
pub fn copy(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let parts: Vec<&str> = raw.parts.iter().map(String::as_str).collect();
    match parts[1..] {
        ["async", "commit_group"] => Ok(plain(Op::CommitGroup)),
        ["async", "wait_all"] => Ok(plain(Op::WaitGroup(None))),
        ["async", "wait_group"] => {
            let count = super::common::immediate(raw, 0)?;
            Ok(plain(Op::WaitGroup(Some(count.min(u64::from(u32::MAX)) as u32))))
        }
        ["async", "ca" | "cg", "shared" | "shared::cta", "global", ..] => {
            let size = super::common::immediate(raw, 2)?;
            if !(size == 16 || parts[2] == "ca" && (size == 4 || size == 8)) {
                return Err(Error::parse(
                    raw.line,
                    format!("cp.async: the size must be 4, 8 or 16 (.cg: 16), got {size}"),
                ));
            }
            let (to, destination, _) = address(resolver, raw, 0, Space::Shared)?;
            let (from, source, _) = address(resolver, raw, 1, Space::Global)?;
            let hints = usize::from(raw.has("L2::cache_hint"));
            let mut sources = vec![to, from];
            let has_source_size = raw.operands.len() > 3 + hints;
            if has_source_size {
                sources.push(resolver.source(raw, 3, Type::U(32))?);
            }
            let op = Op::CopyAsync { size: size as usize, destination, source, has_source_size };
            Ok(Decoded { op, destinations: Vec::new(), sources })
        }
        _ => Err(unsupported(raw, "this form of `cp`")),
    }
}
