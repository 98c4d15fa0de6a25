//! Rows of a packed matrix on the CPU: their products with a few rows of floats, and their numbers.

use crate::backend::cpu::math::lanes::{half, LaneWork, Lanes, Sixteen};
use crate::op::packed::{half_of_power, PackedFormat, Planes, Shared, E2M1, SUPER, UNEVEN};
use bytemuck::{cast_slice, pod_read_unaligned};

/// Elements that are decoded together.
pub const CHUNK: usize = 32;

/// Rows of floats that one pass over a packed row serves.
pub const MOST: usize = 4;

/// 32 neighbours.
pub type Chunk = [Sixteen; 2];

/// A packed matrix.
#[derive(Clone, Copy)]
pub struct Packed<'a> {
    pub format: PackedFormat,
    pub columns: usize,
    /// All rows' words.
    pub words: &'a [u32],
}

/// Rows of floats, as packed rows need them: in chunks, the last one filled up with zeros.
pub struct Few {
    rows: usize,
    /// Chunks of a row.
    length: usize,
    chunks: Vec<Chunk>,
    /// Sums of a row's groups, and how many: filled up to whole lanes with zeros. None where the format has no minima.
    sums: Vec<f32>,
    groups: usize,
}

impl Few {
    /// Rows for products with matrices of a format.
    pub fn new(format: PackedFormat, columns: usize, rows: &[&[f32]]) -> Few {
        let (layout, length) = (format.layout(), columns.div_ceil(CHUNK));
        let mut chunks = vec![[[0f32; 16]; 2]; rows.len() * length];
        for (row, chunks) in rows.iter().zip(chunks.chunks_mut(length.max(1))) {
            let flat = chunks.as_flattened_mut().as_flattened_mut();
            flat[..columns].copy_from_slice(&row[..columns]);
        }
        let mut few = Few { rows: rows.len(), length, chunks, sums: Vec::new(), groups: 0 };
        if layout.minimum != Shared::Nothing {
            few.groups = (columns / layout.group).next_multiple_of(16);
            few.sums = vec![0.0; rows.len() * few.groups];
            for (row, sums) in rows.iter().zip(few.sums.chunks_mut(few.groups)) {
                for (group, sum) in row[..columns].chunks(layout.group).zip(sums) {
                    *sum = group.iter().sum();
                }
            }
        }
        few
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn row(&self, row: usize) -> &[Chunk] {
        &self.chunks[row * self.length..][..self.length]
    }
}

/// The numbers of a chunk before their scale: how quants lie in a format.
trait Decode: Copy {
    /// Bytes of a chunk in the lower plane, and in the upper one.
    const BYTES: [usize; 2];
    /// Elements of a group; 0 where there are no scales.
    const GROUP: usize = CHUNK;
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], high: &[u8]) -> [L::Floats; 2];
}

#[inline(always)]
fn sixteen(bytes: &[u8], at: usize) -> &[u8; 16] {
    bytes[at..].first_chunk().expect("a chunk has as many bytes")
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[4 * at..].first_chunk().expect("a chunk has as many bytes"))
}

/// Unsigned fields of `LOW` bits, `HIGH` more in the upper plane, less `ZERO`.
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
}

/// Places in a table, four bits each.
#[derive(Clone, Copy)]
struct Table(Sixteen);

impl Decode for Table {
    const BYTES: [usize; 2] = [16, 0];
    #[inline(always)]
    fn chunk<L: Lanes>(self, lanes: L, low: &[u8], _: &[u8]) -> [L::Floats; 2] {
        let bytes = lanes.bytes(sixteen(low, 0));
        let (first, second) = (lanes.nibble(bytes), lanes.above_nibble(bytes));
        [lanes.looked_up(&self.0, first), lanes.looked_up(&self.0, second)]
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

/// Floats as they are.
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

/// What is done with a format's rows, whichever it is.
trait With {
    type Output;
    fn with<D: Decode>(self, decode: D) -> Self::Output;
}

#[inline(always)]
fn by_format<W: With>(format: PackedFormat, work: W) -> W::Output {
    use PackedFormat::*;
    match format {
        F32 => work.with(Singles),
        F16 => work.with(Halves::<false>),
        BF16 => work.with(Halves::<true>),
        Q8_0 => work.with(SignedBytes),
        Q4_0 => work.with(Fields::<4, 0, 8, 32>),
        Q4_1 | Q4_K => work.with(Fields::<4, 0, 0, 32>),
        Q5_0 => work.with(Fields::<4, 1, 16, 32>),
        Q5_1 | Q5_K => work.with(Fields::<4, 1, 0, 32>),
        Q2_K => work.with(Fields::<2, 0, 0, 16>),
        Q3_K => work.with(Fields::<2, 1, 4, 16>),
        Q6_K => work.with(Fields::<4, 2, 32, 16>),
        IQ4_NL | IQ4_XS => work.with(Table(UNEVEN.map(f32::from))),
        MXFP4 => work.with(Table(E2M1.map(f32::from))),
    }
}

/// What a row's groups share.
#[derive(Clone, Default)]
struct Groups {
    scales: Vec<f32>,
    minima: Vec<f32>,
}

/// Where a format keeps what.
#[derive(Clone, Copy)]
struct Places {
    format: PackedFormat,
    columns: usize,
    planes: Planes,
}

impl Places {
    /// Reads what the groups of a row share. Minima are what is to be added, whichever sign the format has for them.
    #[inline(always)]
    fn read<L: Lanes>(&self, lanes: L, row: &[u32], groups: &mut Groups) {
        let (layout, planes) = (self.format.layout(), &self.planes);
        let count = self.columns / layout.group;
        let above = [planes.super_scales, planes.super_minima];
        let scales = (layout.scale, planes.scales, layout.scale_bits, above[0]);
        shared(lanes, row, scales, (count, SUPER / layout.group), &mut groups.scales);
        let minima = (layout.minimum, planes.minima, layout.minimum_bits, above[1]);
        shared(lanes, row, minima, (count, SUPER / layout.group), &mut groups.minima);
        if layout.minimum.in_supers() {
            groups.minima.iter_mut().for_each(|minimum| *minimum = -*minimum);
        }
    }
}

/// What groups share, one number each.
#[inline(always)]
fn shared<L: Lanes>(
    lanes: L,
    row: &[u32],
    (shared, planes, bits, above): (Shared, [usize; 2], [u32; 2], usize),
    (count, in_super): (usize, usize),
    out: &mut [f32],
) {
    match shared {
        Shared::Nothing => {}
        Shared::Half => {
            let bits: &[u16] = &cast_slice(&row[planes[0]..])[..count];
            for (bits, out) in bits.chunks(16).zip(out.chunks_exact_mut(16)) {
                let bits: [u16; 16] = match bits.first_chunk() {
                    Some(bits) => *bits,
                    None => std::array::from_fn(|i| bits.get(i).copied().unwrap_or(0)),
                };
                out.copy_from_slice(&lanes.store(lanes.halves(&bits)));
            }
        }
        Shared::Power => {
            let exponents: &[u8] = &cast_slice(&row[planes[0]..])[..count];
            out.iter_mut().zip(exponents).for_each(|(out, &e)| *out = half_of_power(e));
        }
        Shared::Signed | Shared::From(_) => {
            let supers: &[u16] = &cast_slice(&row[above..])[..count / in_super];
            // Super-blocks have eight groups, or sixteen: eight fields are a word of four bits each, or two of eight.
            for (n, out) in out[..count].chunks_exact_mut(8).enumerate() {
                let scale = half(supers[8 * n / in_super]);
                let q = eight(row, planes, bits, n);
                for i in 0..8 {
                    out[i] = scale
                        * match shared {
                            Shared::From(zero) => (q[i] as i32 - i32::from(zero)) as f32,
                            _ => f32::from(q[i] as u8 as i8),
                        };
                }
            }
        }
    }
}

/// The n-th eight fields of a plane of 4 or 8 bits, with 2 more in an upper plane or none.
#[inline(always)]
fn eight(row: &[u32], planes: [usize; 2], bits: [u32; 2], n: usize) -> [u32; 8] {
    let mut fields = match bits[0] {
        4 => {
            let word = row[planes[0] + n];
            std::array::from_fn(|i| word >> (4 * i) & 15)
        }
        _ => {
            let bytes: [u8; 8] = pod_read_unaligned(cast_slice(&row[planes[0] + 2 * n..][..2]));
            bytes.map(u32::from)
        }
    };
    if bits[1] > 0 {
        let pairs = row[planes[1] + n / 2] >> (16 * (n % 2));
        for (i, field) in fields.iter_mut().enumerate() {
            *field |= (pairs >> (2 * i) & 3) << 4;
        }
    }
    fields
}

/// Products of some packed rows with a few rows of floats: `out` has a row for each packed one.
pub struct Products<'a> {
    pub packed: Packed<'a>,
    pub few: &'a Few,
    /// The first packed row.
    pub first: usize,
    pub out: &'a mut [f32],
}

impl LaneWork for Products<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        by_format(self.packed.format, OnLanes(lanes, self));
    }
}

struct OnLanes<L, W>(L, W);

impl<L: Lanes> With for OnLanes<L, Products<'_>> {
    type Output = ();
    #[inline(always)]
    fn with<D: Decode>(self, decode: D) {
        let OnLanes(lanes, work) = self;
        match work.few.rows {
            1 => work.by_rows::<L, D, 1>(lanes, decode),
            _ => work.by_rows::<L, D, MOST>(lanes, decode),
        }
    }
}

impl Products<'_> {
    /// `M` rows of floats at once. Packed rows come one after the other: the processor then reads memory ahead, three times as
    /// fast as when several rows take turns.
    #[inline(always)]
    fn by_rows<L: Lanes, D: Decode, const M: usize>(self, lanes: L, decode: D) {
        let Products { packed: Packed { format, columns, words }, few, first, out } = self;
        let places = Places { format, columns, planes: format.planes(columns) };
        let groups = (columns / format.layout().group).next_multiple_of(16);
        let mut groups = Groups { scales: vec![0.0; groups], minima: vec![0.0; groups] };
        let (width, m) = (places.planes.words, few.rows.min(M));
        // Of rows that are not there, the last one's products are computed again.
        let x: [&[Chunk]; M] = std::array::from_fn(|i| few.row(i.min(m - 1)));
        for (row, out) in out.chunks_exact_mut(m).enumerate() {
            let words = &words[(first + row) * width..][..width];
            places.read(lanes, words, &mut groups);
            let found = dots::<L, D, M>((lanes, decode), &places, words, &groups, x, few);
            out.copy_from_slice(&found[..m]);
        }
    }
}

/// The sums of products of a packed row and `M` rows of floats.
#[inline(always)]
fn dots<L: Lanes, D: Decode, const M: usize>(
    (lanes, decode): (L, D),
    places: &Places,
    words: &[u32],
    groups: &Groups,
    x: [&[Chunk]; M],
    few: &Few,
) -> [f32; M] {
    let mut sums = [lanes.splat(0.0); M];
    let whole = places.columns / CHUNK;
    let planes: [&[u8]; 2] = places.planes.quants.map(|start| cast_slice(&words[start..]));
    let low = &planes[0][..whole * D::BYTES[0]];
    let high = &planes[1][..whole * D::BYTES[1]];
    let x_whole: [&[Chunk]; M] = std::array::from_fn(|m| &x[m][..whole]);
    for at in 0..whole {
        let low = &low[at * D::BYTES[0]..][..D::BYTES[0]];
        let high = &high[at * D::BYTES[1]..][..D::BYTES[1]];
        let q = decode.chunk(lanes, low, high);
        let scale = match D::GROUP {
            0 => None,
            16 => Some([groups.scales[2 * at], groups.scales[2 * at + 1]]),
            _ => Some([groups.scales[at]; 2]),
        };
        let chunk: [&Chunk; M] = std::array::from_fn(|m| &x_whole[m][at]);
        add::<L, M>(lanes, q, (scale, D::GROUP), chunk, &mut sums);
    }
    if !places.columns.is_multiple_of(CHUNK) {
        let mut bytes = [0; 128];
        let rest = &planes[0][whole * D::BYTES[0]..];
        let count = rest.len().min(D::BYTES[0]);
        bytes[..count].copy_from_slice(&rest[..count]);
        let q = decode.chunk(lanes, &bytes[..D::BYTES[0]], &[]);
        let chunk = std::array::from_fn(|m| &x[m][whole]);
        add::<L, M>(lanes, q, (None, 0), chunk, &mut sums);
    }
    if few.groups > 0 {
        let minima: &[Sixteen] = cast_slice(&groups.minima);
        for (m, sum) in sums.iter_mut().enumerate() {
            let row = m.min(few.rows - 1);
            let of_x: &[Sixteen] = cast_slice(&few.sums[row * few.groups..][..few.groups]);
            for (minima, of_x) in minima.iter().zip(of_x) {
                *sum = lanes.mul_add(lanes.load(minima), lanes.load(of_x), *sum);
            }
        }
    }
    let mut totals = [0.0; M];
    for (sum, total) in sums.into_iter().zip(&mut totals) {
        *total = lanes.total(sum);
    }
    totals
}

/// Adds the products of a chunk.
#[inline(always)]
fn add<L: Lanes, const M: usize>(
    lanes: L,
    q: [L::Floats; 2],
    (scale, group): (Option<[f32; 2]>, usize),
    x: [&Chunk; M],
    sums: &mut [L::Floats; M],
) {
    match scale {
        Some(scale) if M == 1 && group == CHUNK => {
            let product = lanes.mul(q[0], lanes.load(&x[0][0]));
            let product = lanes.mul_add(q[1], lanes.load(&x[0][1]), product);
            sums[0] = lanes.mul_add(product, lanes.splat(scale[0]), sums[0]);
        }
        _ => {
            let w = match scale {
                Some([first, second]) => {
                    [lanes.mul(q[0], lanes.splat(first)), lanes.mul(q[1], lanes.splat(second))]
                }
                None => q,
            };
            for (x, sum) in x.iter().zip(sums) {
                *sum = lanes.mul_add(w[0], lanes.load(&x[0]), *sum);
                *sum = lanes.mul_add(w[1], lanes.load(&x[1]), *sum);
            }
        }
    }
}

/// The numbers of some packed rows, row by row.
pub struct Unpacked<'a> {
    pub packed: Packed<'a>,
    /// The first row.
    pub first: usize,
    pub out: &'a mut [f32],
}

impl LaneWork for Unpacked<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        by_format(self.packed.format, OnLanes(lanes, self));
    }
}

impl<L: Lanes> With for OnLanes<L, Unpacked<'_>> {
    type Output = ();
    #[inline(always)]
    fn with<D: Decode>(self, decode: D) {
        let OnLanes(lanes, Unpacked { packed, first, out }) = self;
        let Packed { format, columns, words } = packed;
        let planes = format.planes(columns);
        let places = Places { format, columns, planes };
        let groups = (columns / format.layout().group).next_multiple_of(16);
        let mut groups = Groups { scales: vec![0.0; groups], minima: vec![0.0; groups] };
        for (row, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
            let words = &words[(first + row) * planes.words..][..planes.words];
            places.read(lanes, words, &mut groups);
            let [low, high]: [&[u8]; 2] = planes.quants.map(|start| cast_slice(&words[start..]));
            let whole = columns / CHUNK;
            let (chunks, rest) = out.split_at_mut(whole * CHUNK);
            for (at, out) in chunks.chunks_exact_mut(CHUNK).enumerate() {
                let low = &low[at * D::BYTES[0]..][..D::BYTES[0]];
                let high = &high[at * D::BYTES[1]..][..D::BYTES[1]];
                let q = decode.chunk(lanes, low, high);
                for i in 0..2 {
                    let group = if D::GROUP == 16 { 2 * at + i } else { at };
                    let number = match D::GROUP {
                        0 => q[i],
                        _ => {
                            let minimum = lanes.splat(groups.minima[group]);
                            lanes.mul_add(q[i], lanes.splat(groups.scales[group]), minimum)
                        }
                    };
                    out[16 * i..16 * i + 16].copy_from_slice(&lanes.store(number));
                }
            }
            for (i, out) in rest.iter_mut().enumerate() {
                *out = format.number(words, columns, whole * CHUNK + i);
            }
        }
    }
}
