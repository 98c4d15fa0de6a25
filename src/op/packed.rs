//! Packed formats: matrices whose rows have numbers of few bits, and the formulas that decode them.
//!
//! The formulas and the names of formats are from `ggml-quants.c` (llama.cpp). The layout is specific to this crate. All
//! formats share it, so one routine reads all of them.
//!
//! A row is a whole number of `u32` words. It has these planes in order, each of whole words:
//!
//! 1. the lower bits of all quants,
//! 2. the upper bits of all quants, if the width is not a power of two,
//! 3. the lower bits of the groups' scales,
//! 4. the upper bits of the groups' scales,
//! 5. the lower bits of the groups' minima,
//! 6. the upper bits of the groups' minima,
//! 7. the `f16` scales of super-blocks (256 elements),
//! 8. the `f16` minima of super-blocks.
//!
//! Entries of a plane are packed without gaps, from the lowest bits of the first word upward. Only quants of 4 bits differ.
//! In a group of 32 neighbors, byte j has element j in its lower half and element j + 16 in its upper half. So sixteen
//! neighbors are in sixteen bytes.

use crate::error::{Error, Result};
use half::f16;
use std::fmt;
use std::str::FromStr;

/// The format of a packed matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // Their names in files.
#[non_exhaustive]
pub enum PackedFormat {
    F32,
    F16,
    BF16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
}

/// The treatment of the other operand in products with a packed matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PackedArithmetic {
    /// The other operand stays in 32-bit floats.
    #[default]
    Exact,
    /// The other operand is rounded to 8-bit integers, if that is faster. 32 neighbors share a scale, which is their largest
    /// absolute value divided by 127. So each number changes by at most 1/254 of that largest value. Only the CPU rounds, for
    /// products of up to 8 rows and formats with scales. All other products are exact.
    ///
    /// For a text of 120 tokens, read one by one, log-probabilities of the next token changed by at most 0.34 in SmolLM2 135M
    /// (Q4_1) and 0.23 in Gemma 3 270M (Q4_K_M). The perplexity changed by 0.1 and 0.4 percent.
    Int8,
}

impl PackedArithmetic {
    /// The most rows of the other operand that are rounded. With more rows, rounding is not faster.
    pub const ROWS: usize = 8;

    /// Whether the other operand, with `rows` rows, is rounded in a product with a matrix of this format.
    pub fn rounds(self, format: PackedFormat, rows: usize) -> bool {
        let scales = format.layout().scale != Shared::Nothing;
        self == PackedArithmetic::Int8 && scales && rows <= PackedArithmetic::ROWS
    }
}

impl FromStr for PackedArithmetic {
    type Err = Error;

    /// Parses `exact` or `int8`.
    ///
    /// # Errors
    /// `InvalidArgument` for other words.
    fn from_str(word: &str) -> Result<PackedArithmetic> {
        match word {
            "exact" => Ok(PackedArithmetic::Exact),
            "int8" => Ok(PackedArithmetic::Int8),
            _ => Err(Error::argument(format!(
                "arithmetic: it must be `exact` or `int8`, got {word:?}"
            ))),
        }
    }
}

/// The number that a quant represents, before its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quants {
    /// The bits of a 32-bit float, without a scale. `Half` is an `f16` and `Brain` a `bf16`.
    Single,
    Half,
    Brain,
    /// An 8-bit integer, in two's complement.
    Signed,
    /// An unsigned integer minus this number.
    From(u8),
    /// An index in this table.
    Table(&'static [i8; 16]),
}

/// The representation of a number that the elements of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    Nothing,
    /// An `f16` number.
    Half,
    /// Half of a power of two, stored as its exponent (OCP Microscaling, E8M0).
    Power,
    /// An 8-bit integer in two's complement, times the super-block's number.
    Signed,
    /// An unsigned integer minus this number, times the super-block's number.
    From(u8),
}

/// The properties of a format.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub name: &'static str,
    pub quants: Quants,
    /// The bits of a quant in its lower plane and in its upper plane.
    pub bits: [u32; 2],
    /// The elements of a group.
    pub group: usize,
    pub scale: Shared,
    pub scale_bits: [u32; 2],
    pub minimum: Shared,
    pub minimum_bits: [u32; 2],
}

/// The elements of a super-block.
pub const SUPER: usize = 256;

/// The 16 values of `IQ4_NL` and `IQ4_XS`.
pub const UNEVEN: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the 16 values of a 4-bit number with 2 bits of exponent (OCP Microscaling, E2M1).
pub const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The offset of each plane in a row, in words, and the words of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    pub quants: [usize; 2],
    pub scales: [usize; 2],
    pub minima: [usize; 2],
    pub super_scales: usize,
    pub super_minima: usize,
    pub words: usize,
}

impl PackedFormat {
    /// All formats.
    pub const ALL: [PackedFormat; 16] = [
        PackedFormat::F32,
        PackedFormat::F16,
        PackedFormat::BF16,
        PackedFormat::Q8_0,
        PackedFormat::Q4_0,
        PackedFormat::Q4_1,
        PackedFormat::Q5_0,
        PackedFormat::Q5_1,
        PackedFormat::Q2_K,
        PackedFormat::Q3_K,
        PackedFormat::Q4_K,
        PackedFormat::Q5_K,
        PackedFormat::Q6_K,
        PackedFormat::IQ4_NL,
        PackedFormat::IQ4_XS,
        PackedFormat::MXFP4,
    ];

    /// Returns the properties of the format.
    pub fn layout(self) -> Layout {
        use PackedFormat::*;
        use Shared::{From, Half, Nothing, Power, Signed};
        let plain = |name, quants, bits| Layout {
            name,
            quants,
            bits: [bits, 0],
            group: 32,
            scale: Nothing,
            scale_bits: [0, 0],
            minimum: Nothing,
            minimum_bits: [0, 0],
        };
        // A scale of 16 bits for each 32 elements, and optionally a minimum.
        let simple = |name, quants, bits, minimum| Layout {
            bits,
            scale: Half,
            scale_bits: [16, 0],
            minimum,
            minimum_bits: [if minimum == Nothing { 0 } else { 16 }, 0],
            ..plain(name, quants, 0)
        };
        let in_supers = |name, quants, bits, group, scale, scale_bits| Layout {
            bits,
            group,
            scale,
            scale_bits,
            ..plain(name, quants, 0)
        };
        let with_minima =
            |layout: Layout| Layout { minimum: From(0), minimum_bits: layout.scale_bits, ..layout };
        let (zero, table) = (Quants::From(0), Quants::Table(&UNEVEN));
        match self {
            F32 => plain("F32", Quants::Single, 32),
            F16 => plain("F16", Quants::Half, 16),
            BF16 => plain("BF16", Quants::Brain, 16),
            Q8_0 => simple("Q8_0", Quants::Signed, [8, 0], Nothing),
            Q4_0 => simple("Q4_0", Quants::From(8), [4, 0], Nothing),
            Q4_1 => simple("Q4_1", zero, [4, 0], Half),
            Q5_0 => simple("Q5_0", Quants::From(16), [4, 1], Nothing),
            Q5_1 => simple("Q5_1", zero, [4, 1], Half),
            Q2_K => with_minima(in_supers("Q2_K", zero, [2, 0], 16, From(0), [4, 0])),
            Q3_K => in_supers("Q3_K", Quants::From(4), [2, 1], 16, From(32), [4, 2]),
            Q4_K => with_minima(in_supers("Q4_K", zero, [4, 0], 32, From(0), [4, 2])),
            Q5_K => with_minima(in_supers("Q5_K", zero, [4, 1], 32, From(0), [4, 2])),
            Q6_K => in_supers("Q6_K", Quants::From(32), [4, 2], 16, Signed, [8, 0]),
            IQ4_NL => simple("IQ4_NL", table, [4, 0], Nothing),
            IQ4_XS => in_supers("IQ4_XS", table, [4, 0], 32, From(32), [4, 2]),
            MXFP4 => Layout {
                scale: Power,
                scale_bits: [8, 0],
                ..plain("MXFP4", Quants::Table(&E2M1), 4)
            },
        }
    }

    /// Returns the name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// Returns the number that the columns of a matrix must be a multiple of.
    pub fn block_len(self) -> usize {
        let layout = self.layout();
        match (layout.in_supers(), layout.scale) {
            (true, _) => SUPER,
            (false, Shared::Nothing) => 1,
            _ => layout.group,
        }
    }

    /// Returns the offsets of the planes in a row of `columns` elements.
    pub fn planes(self, columns: usize) -> Planes {
        let layout = self.layout();
        let (groups, supers) = (columns / layout.group, columns / SUPER);
        let mut end = 0;
        let mut plane = |count: usize, bits: u32| {
            let start = end;
            // 32 entries are `bits` words. So counted, no number of columns overflows.
            let bits = bits as usize;
            end += count / 32 * bits + (count % 32 * bits).div_ceil(32);
            start
        };
        let mut two = |count: usize, bits: [u32; 2]| bits.map(|bits| plane(count, bits));
        let quants = two(columns, layout.bits);
        let scales = two(groups, layout.scale_bits);
        let minima = two(groups, layout.minimum_bits);
        let above = |shared: Shared| if shared.in_supers() { 16 } else { 0 };
        let super_scales = plane(supers, above(layout.scale));
        let super_minima = plane(supers, above(layout.minimum));
        Planes { quants, scales, minima, super_scales, super_minima, words: end }
    }

    /// Returns the words of a row of `columns` elements.
    pub fn row_words(self, columns: usize) -> usize {
        self.planes(columns).words
    }

    /// Decodes the number in a column of a row. This function defines the format.
    pub fn number(self, row: &[u32], columns: usize, column: usize) -> f32 {
        let (layout, planes) = (self.layout(), self.planes(columns));
        let place = match layout.bits[0] {
            // Byte j of 32 neighbors has elements j and j + 16.
            4 => column / 32 * 32 + column % 16 * 2 + column % 32 / 16,
            _ => column,
        };
        let low = field(row, planes.quants[0], layout.bits[0], place);
        let q =
            low | field(row, planes.quants[1], layout.bits[1], column) << layout.bits[0].min(31);
        let value = match layout.quants {
            Quants::Single => return f32::from_bits(low),
            Quants::Half => return f16::from_bits(low as u16).to_f32(),
            Quants::Brain => return f32::from_bits(low << 16),
            Quants::Signed => f32::from(low as u8 as i8),
            Quants::From(zero) => q as f32 - f32::from(zero),
            Quants::Table(table) => f32::from(table[q as usize % 16]),
        };
        let half = |start: usize, at| f16::from_bits(field(row, start, 16, at) as u16).to_f32();
        let (group, block) = (column / layout.group, column / SUPER);
        let shared = |shared: Shared, starts: [usize; 2], bits: [u32; 2], above: usize| {
            let low = field(row, starts[0], bits[0], group);
            let s = low | field(row, starts[1], bits[1], group) << bits[0].min(31);
            match shared {
                Shared::Nothing => 0.0,
                Shared::Half => half(starts[0], group),
                Shared::Power => half_of_power(s as u8),
                Shared::Signed => half(above, block) * f32::from(s as u8 as i8),
                Shared::From(zero) => half(above, block) * (s as f32 - f32::from(zero)),
            }
        };
        let scale = shared(layout.scale, planes.scales, layout.scale_bits, planes.super_scales);
        let bits = layout.minimum_bits;
        let minimum = shared(layout.minimum, planes.minima, bits, planes.super_minima);
        match layout.minimum.in_supers() {
            true => scale * value - minimum,
            false => scale * value + minimum,
        }
    }
}

impl fmt::Display for PackedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Shared {
    /// Whether super-blocks have a number, too.
    pub fn in_supers(self) -> bool {
        matches!(self, Shared::Signed | Shared::From(_))
    }
}

impl Layout {
    /// Whether the format has super-blocks.
    pub fn in_supers(&self) -> bool {
        self.scale.in_supers()
    }
}

/// Returns the `at`-th entry of a plane with entries of `bits` bits, or 0 if `bits` is 0.
pub fn field(row: &[u32], start: usize, bits: u32, at: usize) -> u32 {
    match bits {
        0 => 0,
        32 => row[start + at],
        _ => {
            // In 64 bits, because a plane may have 2^32 bits or more.
            let first = at as u64 * u64::from(bits);
            row[start + (first / 32) as usize] >> (first % 32) & ((1 << bits) - 1)
        }
    }
}

/// Returns half of the power of two with an 8-bit exponent (OCP Microscaling, E8M0).
pub fn half_of_power(exponent: u8) -> f32 {
    match exponent {
        0 | 1 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits((u32::from(exponent) - 1) << 23),
    }
}
