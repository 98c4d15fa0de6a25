//! The block formats of GGUF files. Elements of a tensor are stored in blocks of 1, 32 or 256, and the elements of a block
//! share scales.
//!
//! The layouts and formulas are from `ggml-common.h` and `ggml-quants.c` of llama.cpp.

use crate::alloc::try_vec;
use crate::error::{Error, ErrorKind, Result};
use crate::op::packed::{half_of_power, E2M1, UNEVEN};
use half::{bf16, f16};
use std::fmt;

/// A format in which a GGUF file stores a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockFormat(u32);

/// A function that decodes a block to numbers.
type Decode = fn(&[u8], &mut [f32]);

/// A format: its number in files, its name, the elements and bytes of a block, and the function that decodes a block.
type Row = (u32, &'static str, usize, usize, Option<Decode>);

const FORMATS: [Row; 32] = [
    (0, "F32", 1, 4, Some(single)),
    (1, "F16", 1, 2, Some(half)),
    (2, "Q4_0", 32, 18, Some(q4_0)),
    (3, "Q4_1", 32, 20, Some(q4_1)),
    (6, "Q5_0", 32, 22, Some(q5_0)),
    (7, "Q5_1", 32, 24, Some(q5_1)),
    (8, "Q8_0", 32, 34, Some(q8_0)),
    (9, "Q8_1", 32, 36, None),
    (10, "Q2_K", 256, 84, Some(q2_k)),
    (11, "Q3_K", 256, 110, Some(q3_k)),
    (12, "Q4_K", 256, 144, Some(q4_k)),
    (13, "Q5_K", 256, 176, Some(q5_k)),
    (14, "Q6_K", 256, 210, Some(q6_k)),
    (15, "Q8_K", 256, 292, None),
    (16, "IQ2_XXS", 256, 66, None),
    (17, "IQ2_XS", 256, 74, None),
    (18, "IQ3_XXS", 256, 98, None),
    (19, "IQ1_S", 256, 50, None),
    (20, "IQ4_NL", 32, 18, Some(iq4_nl)),
    (21, "IQ3_S", 256, 110, None),
    (22, "IQ2_S", 256, 82, None),
    (23, "IQ4_XS", 256, 136, Some(iq4_xs)),
    (24, "I8", 1, 1, None),
    (25, "I16", 1, 2, None),
    (26, "I32", 1, 4, None),
    (27, "I64", 1, 8, None),
    (28, "F64", 1, 8, Some(double)),
    (29, "IQ1_M", 256, 56, None),
    (30, "BF16", 1, 2, Some(brain)),
    (34, "TQ1_0", 256, 54, None),
    (35, "TQ2_0", 256, 66, None),
    (39, "MXFP4", 32, 17, Some(mxfp4)),
];

impl BlockFormat {
    /// Returns the format with this number in files, if it is known.
    pub(super) fn of(number: u32) -> Option<BlockFormat> {
        FORMATS.iter().any(|row| row.0 == number).then_some(BlockFormat(number))
    }

    fn row(self) -> &'static Row {
        FORMATS.iter().find(|row| row.0 == self.0).expect("only known formats are made")
    }

    /// Returns the name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the elements of a block.
    pub fn block_len(self) -> usize {
        self.row().2
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.row().3
    }

    /// Decodes blocks to numbers.
    ///
    /// # Errors
    /// `Format` if the bytes are not whole blocks, `Unsupported` for formats that cannot be decoded (`IQ1`, `IQ2`, `IQ3`, `TQ`,
    /// `Q8_1`, `Q8_K`, integers).
    ///
    /// ```
    /// # use warpweft::io::BlockFormat;
    /// // A scale of 0.5 as f16, and 32 numbers of 8 bits.
    /// let block: Vec<u8> = [0x00, 0x38].into_iter().chain((0..32).map(|n| n - 16i8).map(|n| n as u8)).collect();
    /// let format = BlockFormat::from_name("Q8_0").expect("a format");
    /// assert_eq!(format.decode(&block)?[..3], [-8.0, -7.5, -7.0]);
    /// # Ok::<(), warpweft::error::Error>(())
    /// ```
    pub fn decode(self, bytes: &[u8]) -> Result<Vec<f32>> {
        let (_, name, length, size, decode) = *self.row();
        if !bytes.len().is_multiple_of(size) {
            return Err(Error::format(format!(
                "decode: the bytes must be whole blocks of {size}, as {name} has, got {} bytes",
                bytes.len()
            )));
        }
        let Some(decode) = decode else {
            let message = format!("decode: the format must be one that can be decoded, got {name}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let count = bytes.len() / size * length;
        let mut all = try_vec("decode", count)?;
        all.resize(count, 0.0);
        for (block, y) in bytes.chunks_exact(size).zip(all.chunks_exact_mut(length)) {
            decode(block, y);
        }
        Ok(all)
    }

    /// Returns the format with a name, such as `Q4_K`.
    pub fn from_name(name: &str) -> Option<BlockFormat> {
        FORMATS.iter().find(|row| row.1 == name).map(|row| BlockFormat(row.0))
    }
}

impl fmt::Debug for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Decodes 32 numbers of 4 bits from 16 bytes. The lower halves of the bytes are the first 16 numbers.
fn nibbles(packed: &[u8], y: &mut [f32], value: impl Fn(u8) -> f32) {
    let (low, high) = y.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(packed) {
        (*low, *high) = (value(byte & 15), value(byte >> 4));
    }
}

/// Decodes 32 numbers of 5 bits. The fifth bits are in the first 4 bytes, and the other bits in the 16 bytes after them.
fn five_bits(packed: &[u8], y: &mut [f32], value: impl Fn(u8) -> f32) {
    let fifth = u32::from_le_bytes([packed[0], packed[1], packed[2], packed[3]]);
    for (n, &byte) in packed[4..20].iter().enumerate() {
        y[n] = value(byte & 15 | ((fifth >> n & 1) as u8) << 4);
        y[n + 16] = value(byte >> 4 | ((fifth >> (n + 16) & 1) as u8) << 4);
    }
}

/// Returns the n-th scale and minimum of `Q4_K` and `Q5_K`. A block has eight of each, of 6 bits, in 12 bytes.
pub fn scale_and_minimum(scales: &[u8], n: usize) -> (u8, u8) {
    match n {
        0..4 => (scales[n] & 63, scales[n + 4] & 63),
        _ => {
            (scales[n + 4] & 15 | scales[n - 4] >> 6 << 4, scales[n + 4] >> 4 | scales[n] >> 6 << 4)
        }
    }
}

fn single(block: &[u8], y: &mut [f32]) {
    y[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
}

fn half(block: &[u8], y: &mut [f32]) {
    y[0] = half_at(block, 0);
}

fn brain(block: &[u8], y: &mut [f32]) {
    y[0] = bf16::from_le_bytes([block[0], block[1]]).to_f32();
}

fn double(block: &[u8], y: &mut [f32]) {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(block);
    y[0] = f64::from_le_bytes(bytes) as f32;
}

fn q4_0(block: &[u8], y: &mut [f32]) {
    let d = half_at(block, 0);
    nibbles(&block[2..], y, |q| d * (f32::from(q) - 8.0));
}

fn q4_1(block: &[u8], y: &mut [f32]) {
    let (d, least) = (half_at(block, 0), half_at(block, 2));
    nibbles(&block[4..], y, |q| d * f32::from(q) + least);
}

fn q5_0(block: &[u8], y: &mut [f32]) {
    let d = half_at(block, 0);
    five_bits(&block[2..], y, |q| d * (f32::from(q) - 16.0));
}

fn q5_1(block: &[u8], y: &mut [f32]) {
    let (d, least) = (half_at(block, 0), half_at(block, 2));
    five_bits(&block[4..], y, |q| d * f32::from(q) + least);
}

fn q8_0(block: &[u8], y: &mut [f32]) {
    let d = half_at(block, 0);
    for (y, &q) in y.iter_mut().zip(&block[2..]) {
        *y = d * f32::from(q as i8);
    }
}

fn q2_k(block: &[u8], y: &mut [f32]) {
    let (scales, packed) = (&block[..16], &block[16..80]);
    let (d, least) = (half_at(block, 80), half_at(block, 82));
    for (n, y) in y.iter_mut().enumerate() {
        let (half, shift, at) = (n / 128, n % 128 / 32 * 2, n % 32);
        let scale = scales[n / 16];
        let q = packed[half * 32 + at] >> shift & 3;
        *y = d * f32::from(scale & 15) * f32::from(q) - least * f32::from(scale >> 4);
    }
}

fn q3_k(block: &[u8], y: &mut [f32]) {
    let (high, packed, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = half_at(block, 108);
    for (n, y) in y.iter_mut().enumerate() {
        let (half, quarter, at) = (n / 128, n % 128 / 32, n % 32);
        let i = n / 16;
        let low = if i < 8 { scales[i] & 15 } else { scales[i - 8] >> 4 };
        let scale = i32::from(low | (scales[8 + i % 4] >> (2 * (i / 4)) & 3) << 4) - 32;
        let bit = high[at] >> (half * 4 + quarter) & 1;
        let q =
            i32::from(packed[half * 32 + at] >> (2 * quarter) & 3) - if bit == 1 { 0 } else { 4 };
        *y = d * scale as f32 * q as f32;
    }
}

fn q4_k(block: &[u8], y: &mut [f32]) {
    let (d, least) = (half_at(block, 0), half_at(block, 2));
    let (scales, packed) = (&block[4..16], &block[16..144]);
    for (n, y) in y.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(scales, n / 32);
        let q = packed[n / 64 * 32 + n % 32] >> (4 * (n / 32 % 2)) & 15;
        *y = d * f32::from(scale) * f32::from(q) - least * f32::from(minimum);
    }
}

fn q5_k(block: &[u8], y: &mut [f32]) {
    let (d, least) = (half_at(block, 0), half_at(block, 2));
    let (scales, high, packed) = (&block[4..16], &block[16..48], &block[48..176]);
    for (n, y) in y.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(scales, n / 32);
        let low = packed[n / 64 * 32 + n % 32] >> (4 * (n / 32 % 2)) & 15;
        let q = low | (high[n % 32] >> (n / 32) & 1) << 4;
        *y = d * f32::from(scale) * f32::from(q) - least * f32::from(minimum);
    }
}

fn q6_k(block: &[u8], y: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half_at(block, 208);
    for (n, y) in y.iter_mut().enumerate() {
        let (half, quarter, at) = (n / 128, n % 128 / 32, n % 32);
        let four = low[half * 64 + quarter % 2 * 32 + at] >> (4 * (quarter / 2)) & 15;
        let two = high[half * 32 + at] >> (2 * quarter) & 3;
        let q = i32::from(four | two << 4) - 32;
        *y = d * f32::from(scales[n / 16] as i8) * q as f32;
    }
}

fn iq4_nl(block: &[u8], y: &mut [f32]) {
    let d = half_at(block, 0);
    nibbles(&block[2..], y, |q| d * f32::from(UNEVEN[usize::from(q)]));
}

fn mxfp4(block: &[u8], y: &mut [f32]) {
    let d = half_of_power(block[0]);
    nibbles(&block[1..], y, |q| d * f32::from(E2M1[usize::from(q)]));
}

fn iq4_xs(block: &[u8], y: &mut [f32]) {
    let (d, high) = (half_at(block, 0), u16::from_le_bytes([block[2], block[3]]));
    for (n, y) in y.chunks_exact_mut(32).enumerate() {
        let low = block[4 + n / 2] >> (4 * (n % 2)) & 15;
        let scale = i32::from(low) | i32::from(high >> (2 * n) & 3) << 4;
        let scale = d * (scale - 32) as f32;
        nibbles(&block[8 + 16 * n..], y, |q| scale * f32::from(UNEVEN[usize::from(q)]));
    }
}
