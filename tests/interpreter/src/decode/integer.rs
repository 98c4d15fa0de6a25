//! Integer arithmetic, logic and bit operations.

use super::common::{
    check_suffixes, expect_operands, immediate, last_type, map1, map2, map3, map4, typed, uniform,
    unsupported, Decoded, Result,
};
use crate::program::{Op, WARP};
use crate::resolve::Resolver;
use crate::syntax::Raw;
use crate::types::{mask, sign_extend, Type};

const SUFFIXES: &[&str] = &[
    "lo", "hi", "wide", "cc", "sat", "l", "r", "clamp", "wrap", "shiftamt", "f4e", "b4e", "rc8",
    "ecl", "ecr", "rc16",
];

/// Decodes an instruction of this family.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let ty = last_type(raw)?;
    if !ty.is_integer() && ty != Type::Pred {
        return Err(unsupported(raw, &format!("the type of `{}`", raw.parts.join("."))));
    }
    let (bits, ones) = (ty.bits(), ty.mask());
    let name = raw.parts[0].as_str();
    check_suffixes(raw, SUFFIXES)?;
    if raw.has("sat") && !matches!(name, "add" | "sub") {
        return Err(unsupported(raw, "`.sat` of this instruction"));
    }
    if raw.has("cc") || matches!(name, "addc" | "subc" | "madc") {
        return with_carry(resolver, raw, ty);
    }
    match name {
        "add" | "sub" if raw.has("sat") => {
            let op = if name == "add" { i64::saturating_add } else { i64::saturating_sub };
            let clamp =
                move |v: i64| v.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) as u64 & ones;
            uniform(
                resolver,
                raw,
                map2(move |a, b| clamp(op(sign_extend(a, bits), sign_extend(b, bits)))),
                ty,
                2,
            )
        }
        "add" => uniform(resolver, raw, map2(move |a, b| a.wrapping_add(b) & ones), ty, 2),
        "sub" => uniform(resolver, raw, map2(move |a, b| a.wrapping_sub(b) & ones), ty, 2),
        "mul" | "mad" | "mul24" | "mad24" => multiply(resolver, raw, ty),
        "div" | "rem" => uniform(resolver, raw, divide(ty, name == "div"), ty, 2),
        "abs" => {
            uniform(resolver, raw, map1(move |a| sign_extend(a, bits).unsigned_abs() & ones), ty, 1)
        }
        "neg" => uniform(resolver, raw, map1(move |a| a.wrapping_neg() & ones), ty, 1),
        "min" | "max" => {
            let (is_max, is_signed) = (name == "max", ty.is_signed());
            let less = move |a, b| {
                if is_signed {
                    sign_extend(a, bits) < sign_extend(b, bits)
                } else {
                    a < b
                }
            };
            uniform(
                resolver,
                raw,
                map2(move |a, b| if less(a, b) == is_max { b } else { a }),
                ty,
                2,
            )
        }
        "and" => uniform(resolver, raw, map2(|a, b| a & b), ty, 2),
        "or" => uniform(resolver, raw, map2(|a, b| a | b), ty, 2),
        "xor" => uniform(resolver, raw, map2(|a, b| a ^ b), ty, 2),
        "not" => uniform(resolver, raw, map1(move |a| !a & ones), ty, 1),
        "cnot" => uniform(resolver, raw, map1(|a| u64::from(a == 0)), ty, 1),
        "shl" | "shr" => {
            let op = shift(name == "shl", ty);
            typed(resolver, raw, op, ty, &[ty, Type::U(32)])
        }
        "shf" => funnel(resolver, raw),
        _ => bit_operation(resolver, raw, ty),
    }
}

fn bit_operation(resolver: &mut Resolver, raw: &Raw, ty: Type) -> Result<Decoded> {
    let (bits, ones) = (ty.bits(), ty.mask());
    let word = Type::B(32);
    match raw.parts[0].as_str() {
        "bfe" => {
            let is_signed = ty.is_signed();
            let op = map3(move |a, start, len| extract(a, start, len, bits, is_signed));
            typed(resolver, raw, op, ty, &[ty, Type::U(32), Type::U(32)])
        }
        "bfi" => {
            let op = map4(move |a, b, start, len| {
                let (start, len) = ((start & 255) as u32, (len & 255) as u32);
                let field = if start >= bits { 0 } else { mask(len) << start & ones };
                b & !field | if start >= 64 { 0 } else { a << start } & field
            });
            typed(resolver, raw, op, ty, &[ty, ty, Type::U(32), Type::U(32)])
        }
        "brev" => uniform(resolver, raw, map1(move |a| a.reverse_bits() >> (64 - bits)), ty, 1),
        "popc" => typed(resolver, raw, map1(|a| u64::from(a.count_ones())), word, &[ty]),
        "clz" => typed(
            resolver,
            raw,
            map1(move |a| u64::from(a.leading_zeros() - (64 - bits))),
            word,
            &[ty],
        ),
        "bfind" => {
            let (is_signed, as_shift) = (ty.is_signed(), raw.has("shiftamt"));
            let op = map1(move |a| {
                let a = if is_signed && a >> (bits - 1) & 1 == 1 { !a & ones } else { a };
                if a == 0 {
                    return 0xffff_ffff;
                }
                let at = 63 - a.leading_zeros();
                u64::from(if as_shift { bits - 1 - at } else { at })
            });
            typed(resolver, raw, op, word, &[ty])
        }
        "prmt" => {
            let mode = raw
                .parts
                .iter()
                .find(|p| ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"].contains(&p.as_str()));
            let mode = mode.cloned().unwrap_or_default();
            uniform(resolver, raw, map3(move |a, b, c| permute(&mode, a, b, c)), word, 3)
        }
        "lop3" if !raw.has("and") && !raw.has("or") => {
            expect_operands(raw, 5)?;
            let table = immediate(raw, 4)?;
            let op = map3(move |a, b, c| lookup(a, b, c, table) & 0xffff_ffff);
            let trimmed = Raw { operands: raw.operands[..4].to_vec(), ..raw.clone() };
            uniform(resolver, &trimmed, op, word, 3)
        }
        "dp4a" | "dp2a" => dot(resolver, raw),
        "sad" => {
            let is_signed = ty.is_signed();
            let op = map3(move |a, b, c| {
                let difference = if is_signed {
                    sign_extend(a, bits).abs_diff(sign_extend(b, bits))
                } else {
                    a.abs_diff(b)
                };
                difference.wrapping_add(c) & ones
            });
            uniform(resolver, raw, op, ty, 3)
        }
        "szext" => {
            let (is_signed, wraps) = (ty.is_signed(), raw.has("wrap"));
            let op = map2(move |a, b| {
                let width = if wraps { b as u32 & 31 } else { b.min(32) as u32 };
                let kept = a & mask(width);
                if is_signed && width > 0 {
                    sign_extend(kept, width) as u64 & ones
                } else {
                    kept
                }
            });
            uniform(resolver, raw, op, ty, 2)
        }
        "bmsk" => {
            let wraps = raw.has("wrap");
            let limit = move |v: u64| if wraps { v as u32 & 31 } else { v.min(32) as u32 };
            uniform(
                resolver,
                raw,
                map2(move |a, b| mask(limit(b)) << limit(a) & 0xffff_ffff),
                ty,
                2,
            )
        }
        name => Err(unsupported(raw, &format!("`{name}` with these suffixes"))),
    }
}

/// The product of two values as a 128-bit number.
fn product(a: u64, b: u64, bits: u32, is_signed: bool) -> i128 {
    if is_signed {
        i128::from(sign_extend(a, bits)) * i128::from(sign_extend(b, bits))
    } else {
        (u128::from(a) * u128::from(b)) as i128
    }
}

fn multiply(resolver: &mut Resolver, raw: &Raw, ty: Type) -> Result<Decoded> {
    let (bits, ones, is_signed) = (ty.bits(), ty.mask(), ty.is_signed());
    let adds = raw.parts[0].starts_with("mad");
    if raw.parts[0].ends_with("24") {
        let shift = if raw.has("hi") { 16 } else { 0 };
        let op = move |a, b| (product(a & 0xff_ffff, b & 0xff_ffff, 24, is_signed) >> shift) as u64;
        let op = map3(move |a, b, c| op(a, b).wrapping_add(c) & ones);
        return multiply_operands(resolver, raw, op, ty, ty, adds);
    }
    if raw.has("wide") {
        let wide = match ty {
            Type::S(bits) if bits <= 32 => Type::S(bits * 2),
            Type::U(bits) if bits <= 32 => Type::U(bits * 2),
            _ => return Err(unsupported(raw, "`.wide` with this type")),
        };
        let ones = wide.mask();
        let op = map3(move |a, b, c| {
            let product = if is_signed {
                sign_extend(a, bits).wrapping_mul(sign_extend(b, bits)) as u64
            } else {
                a.wrapping_mul(b)
            };
            product.wrapping_add(c) & ones
        });
        return multiply_operands(resolver, raw, op, wide, ty, adds);
    }
    let op = if raw.has("hi") {
        map3(move |a, b, c| {
            ((product(a, b, bits, is_signed) >> bits) as u64).wrapping_add(c) & ones
        })
    } else if raw.has("lo") {
        map3(move |a, b, c| a.wrapping_mul(b).wrapping_add(c) & ones)
    } else {
        return Err(unsupported(raw, "an integer product without `.lo`, `.hi` or `.wide`"));
    };
    multiply_operands(resolver, raw, op, ty, ty, adds)
}

/// The operands of a product. A product without an addend adds zero.
fn multiply_operands(
    resolver: &mut Resolver,
    raw: &Raw,
    op: Op,
    result: Type,
    ty: Type,
    adds: bool,
) -> Result<Decoded> {
    if adds {
        return typed(resolver, raw, op, result, &[ty, ty, result]);
    }
    let mut decoded = typed(resolver, raw, op, result, &[ty, ty])?;
    decoded.sources.push(resolver.constant(0));
    Ok(decoded)
}

/// Division by zero returns ones in all bits, and the remainder is then the dividend. PTX leaves both open.
fn divide(ty: Type, is_quotient: bool) -> Op {
    let (bits, ones, is_signed) = (ty.bits(), ty.mask(), ty.is_signed());
    map2(move |a, b| {
        if b == 0 {
            return if is_quotient { ones } else { a };
        }
        let value = if is_signed {
            let (a, b) = (sign_extend(a, bits), sign_extend(b, bits));
            if is_quotient {
                a.wrapping_div(b) as u64
            } else {
                a.wrapping_rem(b) as u64
            }
        } else if is_quotient {
            a / b
        } else {
            a % b
        };
        value & ones
    })
}

/// Amounts of the width or more shift all bits out.
fn shift(is_left: bool, ty: Type) -> Op {
    let (bits, ones, is_signed) = (ty.bits(), ty.mask(), ty.is_signed());
    if is_left {
        return map2(move |a, b| if b >= u64::from(bits) { 0 } else { a << b & ones });
    }
    map2(move |a, b| {
        let amount = b.min(u64::from(bits)) as u32;
        if is_signed {
            (sign_extend(a, bits) >> amount.min(63)) as u64 & ones
        } else if amount >= bits {
            0
        } else {
            a >> amount
        }
    })
}

fn funnel(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let (is_left, wraps) = (raw.has("l"), raw.has("wrap"));
    if !is_left && !raw.has("r") {
        return Err(unsupported(raw, "`shf` without `.l` or `.r`"));
    }
    let op = map3(move |low, high, amount| {
        let amount = if wraps { amount & 31 } else { amount.min(32) };
        let both = high << 32 | low;
        if is_left {
            both << amount >> 32
        } else {
            both >> amount & 0xffff_ffff
        }
    });
    typed(resolver, raw, op, Type::B(32), &[Type::B(32), Type::B(32), Type::U(32)])
}

/// `bfe`: the sign of a signed field is its highest bit inside the operand.
fn extract(a: u64, start: u64, len: u64, bits: u32, is_signed: bool) -> u64 {
    let (start, len) = ((start & 255) as u32, (len & 255) as u32);
    let sign_at = (start + len.saturating_sub(1)).min(bits - 1);
    let negative = is_signed && len > 0 && a >> sign_at & 1 == 1;
    let taken = len.min(bits.saturating_sub(start));
    let field = if start >= bits { 0 } else { a >> start & mask(taken) };
    // Bits beyond the operand are copies of the sign.
    if negative {
        (field | !mask(taken)) & mask(bits)
    } else {
        field
    }
}

fn permute(mode: &str, a: u64, b: u64, c: u64) -> u64 {
    let bytes = b << 32 | a;
    let byte = |index: u64| bytes >> (8 * (index & 7)) & 255;
    let n = c & 3;
    let pick = |i: u64| match mode {
        "f4e" => byte(n + i),
        "b4e" => byte(n.wrapping_sub(i)),
        "rc8" => byte(n),
        "ecl" => byte(i.max(n)),
        "ecr" => byte(i.min(n)),
        "rc16" => byte((n & 1) * 2 + (i & 1)),
        _ => {
            let selector = c >> (4 * i) & 15;
            let value = byte(selector);
            if selector & 8 == 0 {
                value
            } else if value & 128 != 0 {
                255
            } else {
                0
            }
        }
    };
    (0..4).fold(0, |all, i| all | pick(i) << (8 * i))
}

fn lookup(a: u64, b: u64, c: u64, table: u64) -> u64 {
    (0..8).filter(|entry| table >> entry & 1 == 1).fold(0, |all, entry: u64| {
        let pick = |value: u64, bit: u64| if entry >> bit & 1 == 1 { value } else { !value };
        all | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

fn dot(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let [a_type, b_type] = raw.types()[..] else {
        return Err(unsupported(raw, "a dot product without two types"));
    };
    let (a_signed, b_signed) = (a_type.is_signed(), b_type.is_signed());
    let part = |value: u64, index: u32, bits: u32, is_signed: bool| {
        let field = value >> (index * bits) & mask(bits);
        if is_signed {
            sign_extend(field, bits)
        } else {
            field as i64
        }
    };
    let word = Type::B(32);
    if raw.parts[0] == "dp4a" {
        let op = map3(move |a, b, c| {
            let sum = (0..4)
                .fold(c as i64, |sum, i| sum + part(a, i, 8, a_signed) * part(b, i, 8, b_signed));
            sum as u64 & 0xffff_ffff
        });
        return uniform(resolver, raw, op, word, 3);
    }
    let first = if raw.has("hi") { 2 } else { 0 };
    let op = map3(move |a, b, c| {
        let sum = (0..2).fold(c as i64, |sum, i| {
            sum + part(a, i, 16, a_signed) * part(b, i + first, 8, b_signed)
        });
        sum as u64 & 0xffff_ffff
    });
    uniform(resolver, raw, op, word, 3)
}

/// Instructions that read or write the carry flag.
fn with_carry(resolver: &mut Resolver, raw: &Raw, ty: Type) -> Result<Decoded> {
    let (bits, ones) = (ty.bits(), ty.mask());
    let name = raw.parts[0].clone();
    let (reads, writes) = (name.ends_with('c'), raw.has("cc"));
    let (is_signed, high) = (ty.is_signed(), raw.has("hi"));
    let subtracts = name.starts_with("sub");
    let is_product = name.starts_with("mad");
    let f = move |s: [u64; 4]| -> (u64, u64) {
        let [a, b, c, carry] = s;
        let carry = if reads { u128::from(carry) } else { 0 };
        if subtracts {
            let taken = u128::from(b) + carry;
            return (
                (u128::from(a).wrapping_sub(taken) as u64) & ones,
                u64::from(u128::from(a) < taken),
            );
        }
        let (left, right) = if is_product {
            let all = product(a, b, bits, is_signed);
            ((if high { all >> bits } else { all }) as u64 & ones, c)
        } else {
            (a, b)
        };
        let sum = u128::from(left) + u128::from(right) + carry;
        (sum as u64 & ones, (sum >> bits) as u64 & 1)
    };
    let count = if is_product { 3 } else { 2 };
    let mut decoded = uniform(resolver, raw, Op::Nothing, ty, count)?;
    while decoded.sources.len() < 3 {
        decoded.sources.push(resolver.constant(0));
    }
    decoded.sources.push(if reads { resolver.carry } else { resolver.constant(0) });
    if !writes {
        decoded.op = map4(move |a, b, c, d| f([a, b, c, d]).0);
        return Ok(decoded);
    }
    decoded.destinations.push(resolver.carry);
    decoded.op = Op::ComputeTwo(Box::new(move |s, d, carry| {
        for lane in 0..WARP {
            (d[lane], carry[lane]) = f([s[0][lane], s[1][lane], s[2][lane], s[3][lane]]);
        }
    }));
    Ok(decoded)
}
