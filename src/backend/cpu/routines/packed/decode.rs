//! Decoding of packed rows: their quants, and the scales and minima of groups.

use crate::backend::cpu::math::lanes::{half, Lanes, Sixteen};
use crate::op::packed::{half_of_power, Layout, PackedFormat, Planes, Shared, E2M1, SUPER, UNEVEN};
use bytemuck::{cast_slice, pod_read_unaligned};

/// The elements that are decoded together.
pub const DECODE_ELEMENTS: usize = 32;

/// The words of a cache line.
const LINE: usize = 16;

/// 32 neighbors.
pub type Chunk = [Sixteen; 2];

/// A packed matrix.
#[derive(Clone, Copy)]
pub struct Packed<'a> {
    pub format: PackedFormat,
    pub columns: usize,
    /// The words of all rows.
    pub words: &'a [u32],
}

impl<'a> Packed<'a> {
    /// Returns the `width` words of a row. If the format has a plane of upper bits, this also touches each cache line of the
    /// next row to prefetch it. Processors do not predict reads that alternate between two planes.
    #[inline(always)]
    pub fn row<D: Decode>(&self, row: usize, width: usize) -> &'a [u32] {
        let (words, rest) = self.words[row * width..].split_at(width);
        if D::BYTES[1] > 0 {
            let next = &rest[..width.min(rest.len())];
            std::hint::black_box(next.iter().step_by(LINE).fold(0, |all, word| all | word));
        }
        words
    }
}

/// The decoder of a format: computes the numbers of a chunk before their scale.
pub trait Decode: Copy {
    /// The bytes of a chunk in the lower plane and in the upper plane.
    const BYTES: [usize; 2];
    /// The elements of a group, or 0 if the format has no scales.
    const GROUP: usize = DECODE_ELEMENTS;
    /// The groups of a chunk.
    const GROUPS: usize = if Self::GROUP == 16 { 2 } else { 1 };
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], high: &[u8]) -> [L::Floats; 2];

    /// Returns the same numbers as 8-bit integers. Only for formats with scales.
    fn bytes<L: Lanes>(self, _: L, _: &[u8], _: &[u8]) -> L::Bytes {
        unreachable!("the format has scales")
    }
}

#[inline(always)]
fn sixteen(bytes: &[u8], at: usize) -> &[u8; 16] {
    bytes[at..].first_chunk().expect("a chunk has as many bytes")
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[4 * at..].first_chunk().expect("a chunk has as many bytes"))
}

#[inline(always)]
fn eight_bytes(bytes: &[u8]) -> &[u8; 8] {
    bytes.first_chunk().expect("a chunk has as many bytes")
}

/// Unsigned fields of `LOW` bits, plus `HIGH` bits in the upper plane, minus `ZERO`.
#[derive(Clone, Copy)]
struct Fields<const LOW: usize, const HIGH: usize, const ZERO: i32, const GROUP: usize>;

impl<const LOW: usize, const HIGH: usize, const ZERO: i32, const GROUP: usize> Decode
    for Fields<LOW, HIGH, ZERO, GROUP>
{
    const BYTES: [usize; 2] = [4 * LOW, 4 * HIGH];
    const GROUP: usize = GROUP;

    #[inline(always)]
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], high: &[u8]) -> [L::Floats; 2] {
        let mut q = match LOW {
            4 => {
                let bytes = lanes.bytes(sixteen(low, 0));
                [lanes.nibble(bytes), lanes.above_nibble(bytes)]
            }
            _ => [lanes.pairs_of_bits(word(low, 0)), lanes.pairs_of_bits(word(low, 1))],
        };
        if HIGH > 0 {
            let upper = match HIGH {
                1 => {
                    let word = word(high, 0);
                    [lanes.single_bits(word), lanes.single_bits(word >> 16)]
                }
                _ => [lanes.pairs_of_bits(word(high, 0)), lanes.pairs_of_bits(word(high, 1))],
            };
            q = match LOW {
                4 => [lanes.add_above::<4>(q[0], upper[0]), lanes.add_above::<4>(q[1], upper[1])],
                _ => [lanes.add_above::<2>(q[0], upper[0]), lanes.add_above::<2>(q[1], upper[1])],
            };
        }
        if ZERO != 0 {
            q = [lanes.less(q[0], ZERO), lanes.less(q[1], ZERO)];
        }
        [lanes.floats(q[0]), lanes.floats(q[1])]
    }

    #[inline(always)]
    fn bytes<L: Lanes>(self, lanes: L, low: &[u8], high: &[u8]) -> L::Bytes {
        let mut q = match LOW {
            4 => lanes.nibbles(sixteen(low, 0)),
            _ => lanes.quarters(eight_bytes(low)),
        };
        if HIGH > 0 {
            let upper = match HIGH {
                1 => lanes.bits(word(high, 0)),
                _ => lanes.quarters(eight_bytes(high)),
            };
            q = match LOW {
                4 => lanes.put_above::<4>(q, upper),
                _ => lanes.put_above::<2>(q, upper),
            };
        }
        match ZERO {
            0 => q,
            _ => lanes.less_bytes(q, ZERO as i8),
        }
    }
}

/// Signed bytes.
#[derive(Clone, Copy)]
struct SignedBytes;

impl Decode for SignedBytes {
    const BYTES: [usize; 2] = [32, 0];
    #[inline(always)]
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> [L::Floats; 2] {
        let (first, second) = (lanes.signed(sixteen(low, 0)), lanes.signed(sixteen(low, 16)));
        [lanes.floats(first), lanes.floats(second)]
    }

    #[inline(always)]
    fn bytes<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> L::Bytes {
        lanes.load_bytes(low.first_chunk().expect("a chunk has as many bytes"))
    }
}

/// Indices in a table, of four bits each.
#[derive(Clone, Copy)]
struct Table(&'static [i8; 16]);

impl Decode for Table {
    const BYTES: [usize; 2] = [16, 0];
    #[inline(always)]
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> [L::Floats; 2] {
        let bytes = lanes.bytes(sixteen(low, 0));
        let (first, second) = (lanes.nibble(bytes), lanes.above_nibble(bytes));
        let table = self.0.map(f32::from);
        [lanes.looked_up(&table, first), lanes.looked_up(&table, second)]
    }

    #[inline(always)]
    fn bytes<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> L::Bytes {
        lanes.table(self.0, lanes.nibbles(sixteen(low, 0)))
    }
}

/// Floats of 16 bits: `f16`, or `bf16`.
#[derive(Clone, Copy)]
struct Halves<const BRAIN: bool>;

impl<const BRAIN: bool> Decode for Halves<BRAIN> {
    const BYTES: [usize; 2] = [64, 0];
    const GROUP: usize = 0;
    #[inline(always)]
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> [L::Floats; 2] {
        let [first, second]: [[u16; 16]; 2] = pod_read_unaligned(&low[..64]);
        match BRAIN {
            true => [lanes.brains(&first), lanes.brains(&second)],
            false => [lanes.halves(&first), lanes.halves(&second)],
        }
    }
}

/// Floats of 32 bits.
#[derive(Clone, Copy)]
struct Singles;

impl Decode for Singles {
    const BYTES: [usize; 2] = [128, 0];
    const GROUP: usize = 0;
    #[inline(always)]
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> [L::Floats; 2] {
        let [first, second]: Chunk = pod_read_unaligned(&low[..128]);
        [lanes.load(&first), lanes.load(&second)]
    }
}

/// Work that is compiled for each format.
pub trait With {
    type Output;
    fn with<D: Decode>(self, decode: D) -> Self::Output;
}

/// Runs the work of one format. In WebAssembly, where all code has the same instructions, it is a separate function, because
/// engines compile one function for all formats badly.
#[cfg_attr(target_arch = "wasm32", inline(never))]
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
fn of<W: With, D: Decode>(work: W, decode: D) -> W::Output {
    work.with(decode)
}

#[inline(always)]
pub fn by_format<W: With>(format: PackedFormat, work: W) -> W::Output {
    use PackedFormat::*;
    match format {
        F32 => of(work, Singles),
        F16 => of(work, Halves::<false>),
        BF16 => of(work, Halves::<true>),
        Q8_0 => of(work, SignedBytes),
        Q4_0 => of(work, Fields::<4, 0, 8, 32>),
        Q4_1 | Q4_K => of(work, Fields::<4, 0, 0, 32>),
        Q5_0 => of(work, Fields::<4, 1, 16, 32>),
        Q5_1 | Q5_K => of(work, Fields::<4, 1, 0, 32>),
        Q2_K => of(work, Fields::<2, 0, 0, 16>),
        Q3_K => of(work, Fields::<2, 1, 4, 16>),
        Q6_K => of(work, Fields::<4, 2, 32, 16>),
        IQ4_NL | IQ4_XS => of(work, Table(&UNEVEN)),
        MXFP4 => of(work, Table(&E2M1)),
    }
}

/// The scale and the minimum of each group of a row.
pub struct Groups {
    pub scales: Vec<f32>,
    pub minima: Vec<f32>,
}

impl Groups {
    /// Allocates memory for a row of `columns` elements, in whole lanes.
    #[inline(always)]
    pub fn new(format: PackedFormat, columns: usize) -> Groups {
        let count = (columns / format.layout().group).next_multiple_of(16);
        Groups { scales: vec![0.0; count], minima: vec![0.0; count] }
    }
}

/// The layout of a format's rows, and the offsets of their planes.
#[derive(Clone, Copy)]
pub struct Places {
    layout: Layout,
    pub columns: usize,
    pub planes: Planes,
}

/// Returns the bytes in the lower and in the upper plane for each whole chunk of a row.
#[inline(always)]
pub fn quants<'w, D: Decode>(
    places: &Places,
    words: &'w [u32],
) -> impl Iterator<Item = (&'w [u8], &'w [u8])> {
    let [low, high]: [&[u8]; 2] = places.planes.quants.map(|start| cast_slice(&words[start..]));
    // Formats without an upper plane do not use `high`.
    let high = if D::BYTES[1] == 0 { low } else { high };
    let whole = places.columns / DECODE_ELEMENTS;
    let low = low[..whole * D::BYTES[0]].chunks_exact(D::BYTES[0]);
    low.zip(high.chunks_exact(D::BYTES[1].max(1)))
}

/// The storage of a number for each group, a scale or a minimum.
struct PerGroup {
    shared: Shared,
    planes: [usize; 2],
    bits: [u32; 2],
    above: usize,
    /// 1, or -1 if the format subtracts the number. Only for numbers in super-blocks.
    sign: f32,
}

impl Places {
    /// Returns the layout for rows of `columns` elements.
    #[inline(always)]
    pub fn new(format: PackedFormat, columns: usize) -> Places {
        Places { layout: format.layout(), columns, planes: format.planes(columns) }
    }

    /// Reads the scales and minima of a row. Minima are added, regardless of their sign in the format.
    #[inline(always)]
    pub fn read<L: Lanes>(&self, lanes: L, row: &[u32], groups: &mut Groups) {
        let Places { layout, columns, planes } = self;
        let counts = (columns / layout.group, SUPER / layout.group);
        let scales = PerGroup {
            shared: layout.scale,
            planes: planes.scales,
            bits: layout.scale_bits,
            above: planes.super_scales,
            sign: 1.0,
        };
        scales.read(lanes, row, counts, &mut groups.scales);
        let minima = PerGroup {
            shared: layout.minimum,
            planes: planes.minima,
            bits: layout.minimum_bits,
            above: planes.super_minima,
            sign: if layout.minimum.in_supers() { -1.0 } else { 1.0 },
        };
        minima.read(lanes, row, counts, &mut groups.minima);
    }
}

impl PerGroup {
    /// Reads the numbers of a row's groups. A super-block has `in_super` groups.
    #[inline(always)]
    fn read<L: Lanes>(
        &self,
        lanes: L,
        row: &[u32],
        (count, in_super): (usize, usize),
        out: &mut [f32],
    ) {
        let PerGroup { shared, planes, bits, above, sign } = *self;
        match shared {
            Shared::Nothing => {}
            Shared::Half => read_halves(lanes, &cast_slice(&row[planes[0]..])[..count], out),
            Shared::Power => {
                let exponents: &[u8] = &cast_slice(&row[planes[0]..])[..count];
                out.iter_mut().zip(exponents).for_each(|(out, &e)| *out = half_of_power(e));
            }
            Shared::Signed | Shared::From(_) => {
                let supers: &[u16] = &cast_slice(&row[above..])[..count / in_super];
                let of_super =
                    |group: usize| supers.get(group / in_super).map_or(0.0, |&x| half(x));
                // Lanes after the last group read words of other planes, which are multiplied with a scale of 0.
                let word = |plane: usize, at: usize| row.get(plane + at).copied().unwrap_or(0);
                for (n, out) in out[..count.next_multiple_of(16)].chunks_exact_mut(16).enumerate() {
                    let q = match shared {
                        Shared::From(zero) => {
                            let words = [word(planes[0], 2 * n), word(planes[0], 2 * n + 1)];
                            let low = lanes.fours_of_bits(words);
                            let q = match bits[1] {
                                0 => low,
                                _ => {
                                    let high = lanes.pairs_of_bits(word(planes[1], n));
                                    lanes.add_above::<4>(low, high)
                                }
                            };
                            lanes.less(q, i32::from(zero))
                        }
                        _ => lanes.signed(sixteen(cast_slice(&row[planes[0]..]), 16 * n)),
                    };
                    let by = [of_super(16 * n), of_super(16 * n + 8)].map(|scale| sign * scale);
                    let numbers = lanes.mul(lanes.floats(q), lanes.two(by));
                    out.copy_from_slice(&lanes.store(numbers));
                }
            }
        }
    }
}

/// Decodes `f16` numbers. `out` has room for whole lanes.
#[inline(always)]
fn read_halves<L: Lanes>(lanes: L, bits: &[u16], out: &mut [f32]) {
    if bits.len() < 16 {
        let some = std::array::from_fn(|i| bits.get(i).copied().unwrap_or(0));
        out[..16].copy_from_slice(&lanes.store(lanes.halves(&some)));
        return;
    }
    // If the last sixteen numbers overlap others, they are stored first. Later stores then match the loads that follow. A
    // load of numbers from two stores would wait for both.
    let rest = (!bits.len().is_multiple_of(16)).then_some(bits.len() - 16);
    for at in rest.into_iter().chain((0..bits.len() / 16).map(|n| 16 * n)) {
        let some = bits[at..].first_chunk().expect("there are as many");
        out[at..at + 16].copy_from_slice(&lanes.store(lanes.halves(some)));
    }
}

/// The sums of groups of rows of floats, which are multiplied with the minima of packed rows.
pub struct GroupSums {
    /// The sums of each row, padded with zeros to whole lanes. Empty if the format has no minima.
    sums: Vec<f32>,
    /// The number of sums of a row.
    groups: usize,
}

impl GroupSums {
    /// Computes the sums of some rows, for products with matrices of a format.
    #[inline(always)]
    pub fn new(format: PackedFormat, columns: usize, rows: &[&[f32]]) -> GroupSums {
        let layout = format.layout();
        if layout.minimum == Shared::Nothing {
            return GroupSums { sums: Vec::new(), groups: 0 };
        }
        let groups = (columns / layout.group).next_multiple_of(16);
        let mut sums = vec![0.0; rows.len() * groups];
        for (row, sums) in rows.iter().zip(sums.chunks_mut(groups.max(1))) {
            for (group, sum) in row[..columns].chunks(layout.group).zip(sums) {
                *sum = group.iter().sum();
            }
        }
        GroupSums { sums, groups }
    }

    /// Adds the products of a packed row's minima and the sums of a row to `sum`.
    #[inline(always)]
    pub fn add<L: Lanes>(
        &self,
        lanes: L,
        (row, minima): (usize, &[f32]),
        mut sum: L::Floats,
    ) -> L::Floats {
        let minima: &[Sixteen] = cast_slice(minima);
        let of_row: &[Sixteen] = cast_slice(&self.sums[row * self.groups..][..self.groups]);
        for (minima, of_row) in minima.iter().zip(of_row) {
            sum = lanes.mul_add(lanes.load(minima), lanes.load(of_row), sum);
        }
        sum
    }
}
