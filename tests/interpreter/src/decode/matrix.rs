//! Matrix products, and loads of matrix fragments.

use super::common::{expect_operands, unsupported, Decoded, Result};
use crate::decode::memory::address;
use crate::error::Error;
use crate::float::Format;
use crate::program::{Element, Op, Product};
use crate::resolve::Resolver;
use crate::syntax::{Operand, Raw};
use crate::types::{Space, Type};

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    match raw.parts[0].as_str() {
        "mma" => product(resolver, raw),
        _ => matrices(resolver, raw),
    }
}

fn element(name: &str) -> Option<Element> {
    Some(match name {
        "f16" => Element::Float(Format::F16),
        "bf16" => Element::Float(Format::Bf16),
        "tf32" => Element::Float(Format::Tf32),
        "f32" => Element::Float(Format::F32),
        "f64" => Element::Float(Format::F64),
        "s4" => Element::Signed(4),
        "u4" => Element::Unsigned(4),
        "s8" => Element::Signed(8),
        "u8" => Element::Unsigned(8),
        "s32" => Element::Signed(32),
        _ => return None,
    })
}

/// The numbers in a shape such as `m16n8k16`.
fn shape(name: &str) -> Option<[usize; 3]> {
    let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// Whether the fragments of a shape are laid out as `exec::matrix` explains.
fn is_supported(shape: [usize; 3], a: Element, c: Element) -> bool {
    let [m, n, k] = shape;
    match (a, c) {
        (Element::Float(Format::F64), Element::Float(Format::F64)) => (m, n, k) == (8, 8, 4),
        (Element::Float(Format::F64), _) => false,
        (Element::Float(Format::F16), Element::Float(Format::F16 | Format::F32)) => {
            (m, n) == (16, 8) && matches!(k, 8 | 16)
        }
        (Element::Float(Format::Bf16), Element::Float(Format::F32)) => {
            (m, n) == (16, 8) && matches!(k, 8 | 16)
        }
        (Element::Float(Format::Tf32), Element::Float(Format::F32)) => {
            (m, n) == (16, 8) && matches!(k, 4 | 8)
        }
        (Element::Signed(bits) | Element::Unsigned(bits), Element::Signed(32)) if bits < 32 => {
            let words = k * bits as usize / 32;
            (m, n) == (16, 8) && matches!(words, 4 | 8) || (m, n) == (8, 8) && words == 4
        }
        _ => false,
    }
}

fn product(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    expect_operands(raw, 4)?;
    let Some([m, n, k]) = raw.parts.iter().find_map(|part| shape(part)) else {
        return Err(unsupported(raw, "a product without a shape"));
    };
    let elements: Vec<Element> = raw.parts[1..].iter().filter_map(|part| element(part)).collect();
    let [d, a, b, c] = elements[..] else {
        return Err(unsupported(raw, "a product without four element types"));
    };
    let known = ["sync", "aligned", "row", "col", "satfinite"];
    let unknown = raw.parts[1..]
        .iter()
        .find(|p| element(p).is_none() && shape(p).is_none() && !known.contains(&p.as_str()));
    let joins = !raw.has("row") || !raw.has("col") || !raw.has("sync");
    if unknown.is_some()
        || joins
        || a.bits() != b.bits()
        || !is_supported([m, n, k], a, c)
        || !is_supported([m, n, k], b, d)
    {
        return Err(unsupported(raw, "this shape, layout or combination of element types"));
    }
    let register = |bits: u32| if bits == 64 { 64 } else { 32 };
    let count =
        |elements: usize, bits: u32| elements * bits as usize / (32 * register(bits) as usize);
    let registers = [count(m * k, a.bits()), count(k * n, b.bits()), count(m * n, c.bits())];
    let result_registers = count(m * n, d.bits());
    let mut destinations = Vec::new();
    for operand in fragment(raw, 0, result_registers)? {
        destinations.push(resolver.destination(
            raw,
            &operand,
            Type::B(register(d.bits())),
            false,
        )?);
    }
    let mut sources = Vec::new();
    for (index, element) in [a, b, c].into_iter().enumerate() {
        for operand in fragment(raw, index + 1, registers[index])? {
            // `value` accepts float literals for bits of the same width.
            sources.push(resolver.value(
                raw,
                &operand,
                Type::B(register(element.bits())),
                false,
            )?);
        }
    }
    let saturates = raw.has("satfinite");
    let op = Op::Product(Box::new(Product { m, n, k, a, b, c, d, saturates, registers }));
    Ok(Decoded { op, destinations, sources })
}

/// The registers of a fragment.
fn fragment(raw: &Raw, index: usize, count: usize) -> Result<Vec<Operand>> {
    let all = match &raw.operands[index] {
        Operand::Vector(all) => all.clone(),
        one => vec![one.clone()],
    };
    if all.len() == count {
        Ok(all)
    } else {
        Err(Error::parse(
            raw.line,
            format!("operand {index}: must have {count} registers, got {}", all.len()),
        ))
    }
}

/// `ldmatrix` and `stmatrix` of 8 by 8 matrices with 16-bit elements.
fn matrices(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    expect_operands(raw, 2)?;
    let count = [("x1", 1), ("x2", 2), ("x4", 4)]
        .iter()
        .find(|(name, _)| raw.has(name))
        .map(|(_, count)| *count);
    let (Some(count), true, true) = (count, raw.has("m8n8"), raw.has("b16")) else {
        return Err(unsupported(raw, "this form of matrix load or store"));
    };
    let is_transposed = raw.has("trans");
    let loads = raw.parts[0] == "ldmatrix";
    let (at, registers_at) = if loads { (1, 0) } else { (0, 1) };
    let space = super::data::space(raw).unwrap_or(Space::Generic);
    let (base, offset, space) = address(resolver, raw, at, space)?;
    let mut sources = vec![base];
    let mut destinations = Vec::new();
    for operand in fragment(raw, registers_at, count)? {
        if loads {
            destinations.push(resolver.destination(raw, &operand, Type::B(32), false)?);
        } else {
            sources.push(resolver.value(raw, &operand, Type::B(32), false)?);
        }
    }
    let op = if loads {
        Op::LoadMatrix { count, is_transposed, offset, space }
    } else {
        Op::StoreMatrix { count, is_transposed, offset, space }
    };
    Ok(Decoded { op, destinations, sources })
}
