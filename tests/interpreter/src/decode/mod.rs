//! Decoders: from an instruction as written to an operation on lanes, by family.

mod compare;
mod convert;
mod data;
mod floating;
mod integer;
mod matrix;
mod memory;
mod warp;

use crate::error::Error;
use crate::lower::Lowering;
use crate::program::{Op, WARP};
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

/// Decodes an instruction other than branches and calls.
pub fn decode(lowering: &mut Lowering, raw: &Raw) -> Result<Decoded> {
    match raw.parts[0].as_str() {
        "add" | "sub" | "mul" | "mad" | "div" | "abs" | "neg" | "min" | "max"
            if floating::is_float(raw) =>
        {
            floating::decode(lowering, raw)
        }
        "fma" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
        | "testp" => floating::decode(lowering, raw),
        "addc" | "subc" | "madc" | "add" | "sub" | "mul" | "mul24" | "mad" | "mad24" | "div"
        | "rem" | "abs" | "neg" | "min" | "max" | "and" | "or" | "xor" | "not" | "cnot" | "shl"
        | "shr" | "shf" | "bfe" | "bfi" | "brev" | "popc" | "clz" | "bfind" | "prmt" | "lop3"
        | "dp4a" | "dp2a" | "sad" | "szext" | "bmsk" => integer::decode(lowering, raw),
        "setp" | "set" | "selp" | "slct" => compare::decode(lowering, raw),
        "cvt" => convert::decode(lowering, raw),
        "mov" | "cvta" | "isspacep" => data::decode(lowering, raw),
        "ld" | "ldu" | "st" | "atom" | "red" => memory::decode(lowering, raw),
        "cp" => memory::copy(lowering, raw),
        "mma" | "ldmatrix" | "stmatrix" => matrix::decode(lowering, raw),
        "shfl" | "vote" | "match" | "redux" | "activemask" | "bar" | "barrier" | "elect" => {
            warp::decode(lowering, raw)
        }
        "ret" => Ok(plain(Op::Return)),
        "exit" => Ok(plain(Op::Exit)),
        "trap" | "brkpt" => Ok(plain(Op::Trap)),
        "membar" | "fence" | "prefetch" | "prefetchu" | "discard" | "applypriority"
        | "nanosleep" | "pmevent" | "griddepcontrol" | "setmaxnreg" => Ok(plain(Op::Nothing)),
        name => Err(unsupported(raw, &format!("the instruction `{name}`"))),
    }
}

fn plain(op: Op) -> Decoded {
    Decoded { op, destinations: Vec::new(), sources: Vec::new() }
}

fn unsupported(raw: &Raw, what: &str) -> Error {
    Error::parse(raw.line, format!("{what} is not supported"))
}

/// Rejects suffixes that are neither types nor in `known`, because ignoring one would change the meaning.
fn check_suffixes(raw: &Raw, known: &[&str]) -> Result<()> {
    let is_known = |part: &&String| Type::parse(part).is_some() || known.contains(&part.as_str());
    match raw.parts[1..].iter().find(|part| !is_known(part)) {
        Some(part) => Err(unsupported(raw, &format!("the suffix `.{part}`"))),
        None => Ok(()),
    }
}

/// The last type suffix, which is the type of most instructions.
fn last_type(raw: &Raw) -> Result<Type> {
    raw.types()
        .last()
        .copied()
        .ok_or_else(|| Error::parse(raw.line, "opcode: a type suffix is missing"))
}

/// Checks the number of operands.
fn expect_operands(raw: &Raw, count: usize) -> Result<()> {
    let got = raw.operands.len();
    if got == count {
        Ok(())
    } else {
        Err(Error::parse(raw.line, format!("must have {count} operands, got {got}")))
    }
}

/// Decodes a destination and sources that all have one type.
fn uniform(lowering: &mut Lowering, raw: &Raw, op: Op, ty: Type, count: usize) -> Result<Decoded> {
    typed(lowering, raw, op, ty, &vec![ty; count])
}

/// Decodes a destination and sources with their types.
fn typed(
    lowering: &mut Lowering,
    raw: &Raw,
    op: Op,
    result: Type,
    sources: &[Type],
) -> Result<Decoded> {
    expect_operands(raw, sources.len() + 1)?;
    let destination = lowering.destination(raw, &raw.operands[0], result, false)?;
    let mut all = Vec::new();
    for (index, ty) in sources.iter().enumerate() {
        all.push(lowering.source(raw, index + 1, *ty)?);
    }
    Ok(Decoded { op, destinations: vec![destination], sources: all })
}

fn map1(f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane]);
        }
    }))
}

fn map2(f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane], s[1][lane]);
        }
    }))
}

fn map3(f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane], s[1][lane], s[2][lane]);
        }
    }))
}

fn map4(f: impl Fn(u64, u64, u64, u64) -> u64 + Send + Sync + 'static) -> Op {
    Op::Compute(Box::new(move |s, d| {
        for lane in 0..WARP {
            d[lane] = f(s[0][lane], s[1][lane], s[2][lane], s[3][lane]);
        }
    }))
}

/// The constant integer at an operand position.
fn immediate(raw: &Raw, index: usize) -> Result<u64> {
    match raw.operands.get(index) {
        Some(Operand::Integer(value)) => Ok(*value),
        other => Err(Error::parse(
            raw.line,
            format!("operand {index}: must be an integer constant, got {other:?}"),
        )),
    }
}
