//! Packing: rearranges blocks of files into rows of packed matrices. The bits stay the same.

use super::blocks::{scale_and_minimum, BlockFormat};
use crate::alloc::try_vec;
use crate::error::{Error, ErrorKind, Result};
use crate::op::packed::{PackedFormat, Planes};

/// The elements of a chunk, which are adjacent in a packed row.
const CHUNK: usize = 32;

impl BlockFormat {
    /// Returns the packed format with the same numbers. Returns `None` for integers, `F64`, and formats that cannot be
    /// decoded.
    ///
    /// ```
    /// # use warpweft::{io::BlockFormat, op::PackedFormat};
    /// let format = BlockFormat::from_name("Q4_K").expect("a format");
    /// assert_eq!(format.packed(), Some(PackedFormat::Q4_K));
    /// ```
    pub fn packed(self) -> Option<PackedFormat> {
        PackedFormat::ALL.into_iter().find(|format| format.name() == self.name())
    }

    /// Packs rows of `columns` elements from their blocks, row by row. The result has the same bits in another order.
    ///
    /// # Errors
    /// `Unsupported` for formats that are not packed, `Format` if `blocks` is not whole rows of whole blocks, `Memory`.
    ///
    /// ```
    /// # use warpweft::{io::BlockFormat, op::PackedFormat};
    /// let format = BlockFormat::from_name("BF16").expect("a format");
    /// let rows = format.pack(2, &[0x80, 0x3F, 0x00, 0x40])?;
    /// assert_eq!(rows, [0x4000_3F80]);
    /// assert_eq!(PackedFormat::BF16.number(&rows, 2, 1), 2.0);
    /// # Ok::<(), warpweft::error::Error>(())
    /// ```
    pub fn pack(self, columns: usize, blocks: &[u8]) -> Result<Vec<u32>> {
        let Some(format) = self.packed() else {
            let message = format!("pack: the format must be one that is packed, got {self}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let bytes = columns / self.block_len() * self.block_bytes();
        if !columns.is_multiple_of(self.block_len()) || !blocks.len().is_multiple_of(bytes.max(1)) {
            let message = format!(
                "pack: there must be whole rows of {columns} elements in {self}, got {} bytes",
                blocks.len()
            );
            return Err(Error::format(message));
        }
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let width = format.row_words(columns);
        let count = blocks.len() / bytes * width;
        let mut words = try_vec("pack", count)?;
        words.resize(count, 0u32);
        for (blocks, row) in blocks.chunks_exact(bytes).zip(words.chunks_exact_mut(width)) {
            pack_row(format, columns, blocks, bytemuck::cast_slice_mut(row));
        }
        Ok(words)
    }
}

/// The bytes of a packed row, and the positions of its planes.
struct Row<'a> {
    bytes: &'a mut [u8],
    planes: Planes,
}

impl Row<'_> {
    /// Writes bytes into a plane that begins at the word `start`.
    fn put(&mut self, start: usize, at: usize, bytes: &[u8]) {
        self.bytes[4 * start + at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes the `at`-th field of `bits` bits, 8 at most, into a plane of zeros.
    fn put_field(&mut self, start: usize, bits: usize, at: usize, value: u8) {
        self.bytes[4 * start + at * bits / 8] |= value << (at * bits % 8);
    }

    /// Writes a chunk of numbers of four bits.
    fn put_nibbles(&mut self, chunk: usize, number: impl Fn(usize) -> u8) {
        let bytes: [u8; 16] = std::array::from_fn(|i| number(i) | number(i + 16) << 4);
        self.put(self.planes.quants[0], 16 * chunk, &bytes);
    }

    /// Writes a chunk of numbers of one or two bits into a plane.
    fn put_bits(&mut self, start: usize, bits: usize, chunk: usize, number: impl Fn(usize) -> u8) {
        for i in 0..CHUNK {
            self.put_field(start, bits, chunk * CHUNK + i, number(i));
        }
    }

    /// Writes a group's scale of six bits: four bits into one plane, and the upper two into another.
    fn put_scale(&mut self, planes: [usize; 2], group: usize, value: u8) {
        self.put_field(planes[0], 4, group, value & 15);
        self.put_field(planes[1], 2, group, value >> 4);
    }
}

/// Packs the blocks of a row into `row`, which has zeros before. Blocks and row must be complete.
fn pack_row(format: PackedFormat, columns: usize, blocks: &[u8], row: &mut [u8]) {
    use PackedFormat::*;
    let planes = format.planes(columns);
    let mut row = Row { bytes: row, planes };
    let simple = |blocks, row: &mut Row, sizes| simple(blocks, row, sizes);
    match format {
        F32 | F16 | BF16 => row.put(0, 0, blocks),
        // Each list has the bytes of the scale, the minimum, the upper bits and the lower bits.
        Q4_0 | IQ4_NL => simple(blocks, &mut row, [2, 0, 0, 16]),
        Q4_1 => simple(blocks, &mut row, [2, 2, 0, 16]),
        Q5_0 => simple(blocks, &mut row, [2, 0, 4, 16]),
        Q5_1 => simple(blocks, &mut row, [2, 2, 4, 16]),
        Q8_0 => simple(blocks, &mut row, [2, 0, 0, 32]),
        MXFP4 => simple(blocks, &mut row, [1, 0, 0, 16]),
        Q2_K => blocks.chunks_exact(84).enumerate().for_each(|(n, block)| q2_k(&mut row, n, block)),
        Q3_K => {
            blocks.chunks_exact(110).enumerate().for_each(|(n, block)| q3_k(&mut row, n, block))
        }
        Q4_K => {
            blocks.chunks_exact(144).enumerate().for_each(|(n, block)| q4_k(&mut row, n, block))
        }
        Q5_K => {
            blocks.chunks_exact(176).enumerate().for_each(|(n, block)| q5_k(&mut row, n, block))
        }
        Q6_K => {
            blocks.chunks_exact(210).enumerate().for_each(|(n, block)| q6_k(&mut row, n, block))
        }
        IQ4_XS => {
            blocks.chunks_exact(136).enumerate().for_each(|(n, block)| iq4_xs(&mut row, n, block))
        }
    }
}

/// Packs blocks of 32, whose parts have the same layout in the packed row.
fn simple(blocks: &[u8], row: &mut Row, [scale, minimum, upper, lower]: [usize; 4]) {
    let planes = row.planes;
    for (n, block) in blocks.chunks_exact(scale + minimum + upper + lower).enumerate() {
        let (of_scale, rest) = block.split_at(scale);
        let (of_minimum, rest) = rest.split_at(minimum);
        let (of_upper, of_lower) = rest.split_at(upper);
        row.put(planes.scales[0], n * scale, of_scale);
        row.put(planes.minima[0], n * minimum, of_minimum);
        row.put(planes.quants[1], n * upper, of_upper);
        row.put(planes.quants[0], n * lower, of_lower);
    }
}

fn q2_k(row: &mut Row, n: usize, block: &[u8]) {
    let (scales, packed, planes) = (&block[..16], &block[16..80], row.planes);
    for j in 0..8 {
        let (half, shift) = (j / 4, j % 4 * 2);
        row.put_bits(planes.quants[0], 2, 8 * n + j, |i| packed[half * 32 + i] >> shift & 3);
    }
    for (i, &scale) in scales.iter().enumerate() {
        row.put_field(planes.scales[0], 4, 16 * n + i, scale & 15);
        row.put_field(planes.minima[0], 4, 16 * n + i, scale >> 4);
    }
    row.put(planes.super_scales, 2 * n, &block[80..82]);
    row.put(planes.super_minima, 2 * n, &block[82..84]);
}

fn q3_k(row: &mut Row, n: usize, block: &[u8]) {
    let (high, packed, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let planes = row.planes;
    for j in 0..8 {
        let (half, shift) = (j / 4, j % 4 * 2);
        row.put_bits(planes.quants[0], 2, 8 * n + j, |i| packed[half * 32 + i] >> shift & 3);
        row.put_bits(planes.quants[1], 1, 8 * n + j, |i| high[i] >> j & 1);
    }
    for i in 0..16 {
        let low = if i < 8 { scales[i] & 15 } else { scales[i - 8] >> 4 };
        let high = scales[8 + i % 4] >> (2 * (i / 4)) & 3;
        row.put_scale(planes.scales, 16 * n + i, low | high << 4);
    }
    row.put(planes.super_scales, 2 * n, &block[108..110]);
}

/// Packs the parts that `Q4_K` and `Q5_K` have in common: scales, minima, and the lower bits.
fn k(row: &mut Row, n: usize, block: &[u8], packed: &[u8]) {
    let planes = row.planes;
    row.put(planes.super_scales, 2 * n, &block[..2]);
    row.put(planes.super_minima, 2 * n, &block[2..4]);
    for j in 0..8 {
        let shift = j % 2 * 4;
        row.put_nibbles(8 * n + j, |i| packed[j / 2 * 32 + i] >> shift & 15);
        let (scale, minimum) = scale_and_minimum(&block[4..16], j);
        row.put_scale(planes.scales, 8 * n + j, scale);
        row.put_scale(planes.minima, 8 * n + j, minimum);
    }
}

fn q4_k(row: &mut Row, n: usize, block: &[u8]) {
    k(row, n, block, &block[16..]);
}

fn q5_k(row: &mut Row, n: usize, block: &[u8]) {
    k(row, n, block, &block[48..]);
    for j in 0..8 {
        row.put_bits(row.planes.quants[1], 1, 8 * n + j, |i| block[16 + i] >> j & 1);
    }
}

fn q6_k(row: &mut Row, n: usize, block: &[u8]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let planes = row.planes;
    for j in 0..8 {
        let (half, quarter) = (j / 4, j % 4);
        let (from, shift) = (half * 64 + quarter % 2 * 32, quarter / 2 * 4);
        row.put_nibbles(8 * n + j, |i| low[from + i] >> shift & 15);
        let upper = |i| high[half * 32 + i] >> (2 * quarter) & 3;
        row.put_bits(planes.quants[1], 2, 8 * n + j, upper);
    }
    row.put(planes.scales[0], 16 * n, scales);
    row.put(planes.super_scales, 2 * n, &block[208..210]);
}

fn iq4_xs(row: &mut Row, n: usize, block: &[u8]) {
    let planes = row.planes;
    row.put(planes.super_scales, 2 * n, &block[..2]);
    row.put(planes.scales[1], 2 * n, &block[2..4]);
    row.put(planes.scales[0], 4 * n, &block[4..8]);
    row.put(planes.quants[0], 128 * n, &block[8..]);
}
