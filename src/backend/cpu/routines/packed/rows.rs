//! Rows of a packed matrix on the CPU: their products with a few rows of floats, and their unpacking.

use super::decode::{
    by_format, quants, Chunk, Decode, GroupSums, Groups, Packed, Places, With, DECODE_ELEMENTS,
};
use crate::backend::cpu::math::lanes::{LaneWork, Lanes};
use crate::op::packed::PackedFormat;
use bytemuck::cast_slice;

/// The most rows of floats that one pass over a packed row multiplies.
pub const MAX_ROWS_PER_PASS: usize = 4;

/// One to [`MAX_ROWS_PER_PASS`] rows of the left operand, prepared for products with packed rows.
pub trait Left {
    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Allocates the temporary memory of a task.
    fn scratch(&self) -> Vec<f32>;

    /// Computes the products of a packed row with each row. The packed row is given as its words and its groups. `M` is
    /// [`together`] of the rows.
    fn products<L: Lanes, D: Decode, const M: usize>(
        &self,
        on: (L, D),
        row: (&Places, &[u32], &Groups),
        scratch: &mut [f32],
        out: &mut [f32],
    );
}

/// Returns the rows that one pass computes: 1 or [`MAX_ROWS_PER_PASS`]. Missing rows repeat the last one.
#[inline(always)]
pub fn together(rows: usize) -> usize {
    match rows {
        1 => 1,
        _ => MAX_ROWS_PER_PASS,
    }
}

/// Products of some packed rows with the left rows. `out` has a row for each packed row.
pub struct Products<'a, X> {
    pub packed: Packed<'a>,
    pub left: &'a X,
    /// The first packed row.
    pub first: usize,
    pub out: &'a mut [f32],
}

impl<X: Left> LaneWork for Products<'_, X> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        by_format(self.packed.format, OnLanes(lanes, self));
    }
}

/// Work with the machine that it runs on.
struct OnLanes<L, W>(L, W);

impl<L: Lanes, X: Left> With for OnLanes<L, Products<'_, X>> {
    type Output = ();
    #[inline(always)]
    fn with<D: Decode>(self, decode: D) {
        let OnLanes(lanes, work) = self;
        match together(work.left.rows()) {
            1 => work.by_rows::<L, D, 1>(lanes, decode),
            _ => work.by_rows::<L, D, MAX_ROWS_PER_PASS>(lanes, decode),
        }
    }
}

impl<X: Left> Products<'_, X> {
    /// Processes packed rows one after the other. The processor then prefetches memory, which is three times as fast as
    /// alternating between several rows.
    #[inline(always)]
    fn by_rows<L: Lanes, D: Decode, const M: usize>(self, lanes: L, decode: D) {
        let Products { packed, left, first, out } = self;
        let Packed { format, columns, .. } = packed;
        let places = Places::new(format, columns);
        let (mut groups, mut scratch) = (Groups::new(format, columns), left.scratch());
        for (row, out) in out.chunks_exact_mut(left.rows()).enumerate() {
            let words = packed.row::<D>(first + row, places.planes.words);
            places.read(lanes, words, &mut groups);
            let row = (&places, words, &groups);
            left.products::<L, D, M>((lanes, decode), row, &mut scratch, out);
        }
    }
}

/// Rows of floats in chunks. The last chunk is padded with zeros. The first chunk of every row comes first, then the second,
/// and so on.
pub struct Few {
    rows: usize,
    chunks: Vec<Chunk>,
    sums: GroupSums,
}

impl Few {
    /// Prepares rows for products with matrices of a format.
    pub fn new(format: PackedFormat, columns: usize, rows: &[&[f32]]) -> Few {
        let (m, length) = (together(rows.len()), columns.div_ceil(DECODE_ELEMENTS));
        let mut chunks = vec![[[0f32; 16]; 2]; m * length];
        for i in 0..m {
            let row = &rows[i.min(rows.len() - 1)][..columns];
            for (chunk, x) in chunks[i..].iter_mut().step_by(m).zip(row.chunks(DECODE_ELEMENTS)) {
                chunk.as_flattened_mut()[..x.len()].copy_from_slice(x);
            }
        }
        Few { rows: rows.len(), chunks, sums: GroupSums::new(format, columns, rows) }
    }
}

impl Left for Few {
    fn rows(&self) -> usize {
        self.rows
    }

    fn scratch(&self) -> Vec<f32> {
        Vec::new()
    }

    #[inline(always)]
    fn products<L: Lanes, D: Decode, const M: usize>(
        &self,
        (lanes, decode): (L, D),
        (places, words, groups): (&Places, &[u32], &Groups),
        _: &mut [f32],
        out: &mut [f32],
    ) {
        let mut sums = dots::<L, D, M>((lanes, decode), places, words, groups, self);
        for (i, out) in out.iter_mut().enumerate() {
            sums[i] = self.sums.add(lanes, (i, &groups.minima), sums[i]);
            *out = lanes.total(sums[i]);
        }
    }
}

/// Returns the sums of products of a packed row's scaled quants and `M` rows of floats.
#[inline(always)]
fn dots<L: Lanes, D: Decode, const M: usize>(
    (lanes, decode): (L, D),
    places: &Places,
    words: &[u32],
    groups: &Groups,
    few: &Few,
) -> [L::Floats; M] {
    let mut sums = [lanes.splat(0.0); M];
    let x = few.chunks.chunks_exact(M);
    let scales = groups.scales.chunks_exact(D::GROUPS);
    for (((low, high), x), scales) in quants::<D>(places, words).zip(x).zip(scales) {
        let q = decode.chunk(lanes, low, high);
        let scale = (D::GROUP > 0).then(|| [scales[0], scales[D::GROUPS - 1]]);
        add::<L, M>(lanes, q, (scale, D::GROUP), x, &mut sums);
    }
    let whole = places.columns / DECODE_ELEMENTS;
    if !places.columns.is_multiple_of(DECODE_ELEMENTS) {
        let mut bytes = [0; 128];
        let low: &[u8] = cast_slice(&words[places.planes.quants[0]..]);
        let rest = &low[whole * D::BYTES[0]..];
        let count = rest.len().min(D::BYTES[0]);
        bytes[..count].copy_from_slice(&rest[..count]);
        let q = decode.chunk(lanes, &bytes[..D::BYTES[0]], &[]);
        add::<L, M>(lanes, q, (None, 0), &few.chunks[whole * M..], &mut sums);
    }
    sums
}

/// Adds the products of a chunk to the sums.
#[inline(always)]
fn add<L: Lanes, const M: usize>(
    lanes: L,
    q: [L::Floats; 2],
    (scale, group): (Option<[f32; 2]>, usize),
    x: &[Chunk],
    sums: &mut [L::Floats; M],
) {
    match scale {
        Some(scale) if M == 1 && group == DECODE_ELEMENTS => {
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

/// The unpacked numbers of some packed rows, row by row.
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
        let Packed { format, columns, .. } = packed;
        let places = Places::new(format, columns);
        let width = places.planes.words;
        let mut groups = Groups::new(format, columns);
        for (row, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
            let words = packed.row::<D>(first + row, width);
            places.read(lanes, words, &mut groups);
            let whole = columns / DECODE_ELEMENTS;
            let (chunks, rest) = out.split_at_mut(whole * DECODE_ELEMENTS);
            let chunks = chunks.chunks_exact_mut(DECODE_ELEMENTS).enumerate();
            for ((low, high), (at, out)) in quants::<D>(&places, words).zip(chunks) {
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
                *out = format.number(words, columns, whole * DECODE_ELEMENTS + i);
            }
        }
    }
}
