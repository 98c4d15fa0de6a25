//! Conversions between types.

use super::common::{expect_operands, map2, unsupported, Decoded, Result};
use super::floating::{format, rounding};
use crate::float::{round_pair, saturate, Format, Rounding};
use crate::resolve::Resolver;
use crate::syntax::Raw;
use crate::types::{sign_extend, Type};

/// Rounding to an integral value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integral {
    None,
    Nearest,
    Zero,
    Down,
    Up,
}

impl Integral {
    fn of(raw: &Raw) -> Self {
        let modes =
            [("rni", Self::Nearest), ("rzi", Self::Zero), ("rmi", Self::Down), ("rpi", Self::Up)];
        modes.iter().find(|(name, _)| raw.has(name)).map_or(Self::None, |(_, mode)| *mode)
    }

    fn round(self, value: f64) -> f64 {
        match self {
            Self::None => value,
            Self::Nearest => value.round_ties_even(),
            Self::Zero => value.trunc(),
            Self::Down => value.floor(),
            Self::Up => value.ceil(),
        }
    }
}

/// The suffixes and types of a conversion.
#[derive(Clone, Copy)]
struct Conversion {
    to: Type,
    from: Type,
    mode: Rounding,
    integral: Integral,
    ftz: bool,
    sat: bool,
    relu: bool,
}

const SUFFIXES: &[&str] =
    &["rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu", "satfinite"];

/// Decodes `cvt`.
pub fn decode(resolver: &mut Resolver, raw: &Raw) -> Result<Decoded> {
    let [to, from] = raw.types()[..] else {
        return Err(unsupported(raw, "a conversion without two types"));
    };
    if let Some(part) =
        raw.parts[1..].iter().find(|p| Type::parse(p).is_none() && !SUFFIXES.contains(&p.as_str()))
    {
        return Err(unsupported(raw, &format!("the suffix `.{part}`")));
    }
    let conversion = Conversion {
        to: to.element(),
        from,
        mode: rounding(raw),
        integral: Integral::of(raw),
        ftz: raw.has("ftz"),
        sat: raw.has("sat"),
        relu: raw.has("relu"),
    };
    if to.is_packed() {
        if from != Type::F32 {
            return Err(unsupported(raw, "a packed conversion of this type"));
        }
        expect_operands(raw, 3)?;
        let destination = resolver.destination(raw, &raw.operands[0], to, false)?;
        let sources = vec![resolver.source(raw, 1, from)?, resolver.source(raw, 2, from)?];
        let op = map2(move |high, low| conversion.run(high) << 16 | conversion.run(low));
        return Ok(Decoded { op, destinations: vec![destination], sources });
    }
    if from.is_packed() || to == Type::Pred || from == Type::Pred {
        return Err(unsupported(raw, "a conversion of these types"));
    }
    expect_operands(raw, 2)?;
    let destination = resolver.destination(raw, &raw.operands[0], to, true)?;
    let source = resolver.value(raw, &raw.operands[1], from, true)?;
    let width = resolver.width(destination);
    let (bits, is_signed, ones) = (to.bits(), to.is_signed(), crate::types::mask(width));
    let op = super::common::map1(move |value| {
        let result = conversion.run(value & from.mask());
        // A wider register holds the sign-extended or zero-extended result.
        if is_signed {
            sign_extend(result, bits) as u64 & ones
        } else {
            result
        }
    });
    Ok(Decoded { op, destinations: vec![destination], sources: vec![source] })
}

impl Conversion {
    fn run(self, bits: u64) -> u64 {
        match (format(self.to), format(self.from)) {
            (None, None) => self.integer_to_integer(bits),
            (Some(to), None) => self.integer_to_float(bits, to),
            (None, Some(from)) => self.float_to_integer(bits, from),
            (Some(to), Some(from)) => self.float_to_float(bits, to, from),
        }
    }

    fn integer(self, bits: u64) -> i128 {
        if self.from.is_signed() {
            i128::from(sign_extend(bits, self.from.bits()))
        } else {
            i128::from(bits)
        }
    }

    fn range(self) -> (i128, i128) {
        let bits = self.to.bits();
        if self.to.is_signed() {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1 << bits) - 1)
        }
    }

    fn integer_to_integer(self, bits: u64) -> u64 {
        let value = self.integer(bits);
        let (low, high) = self.range();
        (if self.sat { value.clamp(low, high) } else { value }) as u64 & self.to.mask()
    }

    fn integer_to_float(self, bits: u64, to: Format) -> u64 {
        let value = self.integer(bits);
        let sum = value as f64;
        let error = (value - sum as i128) as f64;
        let result = round_pair(to, self.mode, sum, error);
        if self.sat {
            saturate(to, result)
        } else {
            result
        }
    }

    fn float_to_integer(self, bits: u64, from: Format) -> u64 {
        let bits = if self.ftz && from == Format::F32 { from.flush(bits) } else { bits };
        let value = from.decode(bits);
        let (low, high) = self.range();
        if value.is_nan() {
            let is_zero = from != Format::F64 && self.to.bits() < 64;
            return if is_zero { 0 } else { 1 << (self.to.bits() - 1) };
        }
        let rounded = match self.integral {
            Integral::None => value.trunc(),
            mode => mode.round(value),
        };
        (rounded as i128).clamp(low, high) as u64 & self.to.mask()
    }

    fn float_to_float(self, bits: u64, to: Format, from: Format) -> u64 {
        let bits = if self.ftz && from == Format::F32 { from.flush(bits) } else { bits };
        let value = self.integral.round(from.decode(bits));
        let mut result = if to == from && self.integral == Integral::None && !value.is_nan() {
            bits
        } else if value.is_nan() {
            to.nan()
        } else {
            to.encode(value, self.mode)
        };
        if self.ftz && to == Format::F32 {
            result = to.flush(result);
        }
        if self.sat {
            result = saturate(to, result);
        }
        if self.relu && result & to.sign_bit() != 0 && !value.is_nan() {
            result = 0;
        }
        result
    }
}
