//! Decoders: from an instruction as written to an operation on lanes, by family.

mod common;
mod compare;
mod convert;
mod data;
mod floating;
mod integer;
mod matrix;
mod memory;
mod warp;

use crate::program::Op;
use crate::resolve::Resolver;
use crate::syntax::Raw;
use common::{plain, unsupported, Decoded, Result};

/// Decodes an instruction other than branches and calls.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    match raw.parts[0].as_str() {
        "add" | "sub" | "mul" | "mad" | "div" | "abs" | "neg" | "min" | "max"
            if floating::is_float(raw) =>
        {
            floating::decode(resolver, raw)
        }
        "fma" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
        | "testp" => floating::decode(resolver, raw),
        "addc" | "subc" | "madc" | "add" | "sub" | "mul" | "mul24" | "mad" | "mad24" | "div"
        | "rem" | "abs" | "neg" | "min" | "max" | "and" | "or" | "xor" | "not" | "cnot" | "shl"
        | "shr" | "shf" | "bfe" | "bfi" | "brev" | "popc" | "clz" | "bfind" | "prmt" | "lop3"
        | "dp4a" | "dp2a" | "sad" | "szext" | "bmsk" => integer::decode(resolver, raw),
        "setp" | "set" | "selp" | "slct" => compare::decode(resolver, raw),
        "cvt" => convert::decode(resolver, raw),
        "mov" | "cvta" | "isspacep" => data::decode(resolver, raw),
        "ld" | "ldu" | "st" | "atom" | "red" => memory::decode(resolver, raw),
        "cp" => memory::copy(resolver, raw),
        "mma" | "ldmatrix" | "stmatrix" => matrix::decode(resolver, raw),
        "shfl" | "vote" | "match" | "redux" | "activemask" | "bar" | "barrier" | "elect" => {
            warp::decode(resolver, raw)
        }
        "ret" => Ok(plain(Op::Return)),
        "exit" => Ok(plain(Op::Exit)),
        "trap" | "brkpt" => Ok(plain(Op::Trap)),
        "membar" | "fence" | "prefetch" | "prefetchu" | "discard" | "applypriority"
        | "nanosleep" | "pmevent" | "griddepcontrol" | "setmaxnreg" => Ok(plain(Op::Nothing)),
        name => Err(unsupported(raw, &format!("the instruction `{name}`"))),
    }
}
