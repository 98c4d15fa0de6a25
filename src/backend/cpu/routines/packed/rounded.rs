//! Products of packed rows with a few rows of floats that are rounded to 8 bits. They are sums of products of integers.
//!
//! The sums of 32 neighbors are exact in 32 bits, so only the rounding of the floats loses accuracy.

use super::decode::{quants, Decode, GroupSums, Groups, Places, DECODE_ELEMENTS};
use super::rows::{together, Left};
use crate::backend::cpu::math::lanes::{self, LaneWork, Lanes};
use crate::op::packed::PackedFormat;

/// The largest integer.
const LARGEST: f32 = 127.0;

/// Rows of floats as integers, with a scale for 32 neighbors. The first 32 integers of every row come first, then the next
/// 32, and so on.
pub struct Rounded {
    rows: usize,
    integers: Vec<[i8; DECODE_ELEMENTS]>,
    /// A scale for each group of the format. If a group has 16 elements, two groups share a scale.
    scales: Vec<f32>,
    sums: GroupSums,
}

impl Rounded {
    /// Prepares rows for products with matrices of a format that has scales.
    pub fn new(format: PackedFormat, columns: usize, rows: &[&[f32]]) -> Rounded {
        lanes::run(Rounding { format, columns, rows })
    }
}

/// The work of [`Rounded::new`].
struct Rounding<'a> {
    format: PackedFormat,
    columns: usize,
    rows: &'a [&'a [f32]],
}

impl LaneWork for Rounding<'_> {
    type Output = Rounded;
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Rounded {
        let Rounding { format, columns, rows } = self;
        let (m, length) = (together(rows.len()), columns / DECODE_ELEMENTS);
        let groups = DECODE_ELEMENTS / format.layout().group;
        let mut integers = vec![[0i8; DECODE_ELEMENTS]; m * length];
        let mut scales = vec![0f32; m * length * groups];
        let mut numbers = vec![0f32; rows.len() * columns];
        for i in 0..m {
            let row = i.min(rows.len() - 1);
            let numbers = numbers[row * columns..][..columns].chunks_exact_mut(DECODE_ELEMENTS);
            for (at, (x, numbers)) in
                rows[row].chunks_exact(DECODE_ELEMENTS).zip(numbers).enumerate()
            {
                let integers = &mut integers[at * m + i];
                let scale = round(x, integers);
                (0..groups).for_each(|group| scales[(at * groups + group) * m + i] = scale);
                for (number, &integer) in numbers.iter_mut().zip(&*integers) {
                    *number = f32::from(integer) * scale;
                }
            }
        }
        let numbers: Vec<&[f32]> = numbers.chunks(columns.max(1)).collect();
        let sums = GroupSums::new(format, columns, &numbers);
        Rounded { rows: rows.len(), integers, scales, sums }
    }
}

/// Rounds neighbors to integers. Returns their scale, which is NaN if a number is infinite or NaN.
#[inline(always)]
fn round(x: &[f32], integers: &mut [i8; DECODE_ELEMENTS]) -> f32 {
    // The order of absolute values is the order of their bits, whose maximum is easier to vectorize.
    let sizes = x.iter().map(|x| x.abs().to_bits());
    let largest = f32::from_bits(sizes.max().unwrap_or(0));
    if !largest.is_finite() {
        return f32::NAN;
    }
    let by = LARGEST / largest;
    if !by.is_finite() {
        return 0.0; // All are 0, or far below the least normal number.
    }
    for (integer, x) in integers.iter_mut().zip(x) {
        *integer = (x * by).round_ties_even() as i8;
    }
    largest / LARGEST
}

impl Left for Rounded {
    fn rows(&self) -> usize {
        self.rows
    }

    /// Returns memory for the scale of each group, multiplied with the packed row's.
    fn scratch(&self) -> Vec<f32> {
        vec![0.0; self.scales.len()]
    }

    #[inline(always)]
    fn products<L: Lanes, D: Decode, const M: usize>(
        &self,
        (lanes, decode): (L, D),
        (places, words, groups): (&Places, &[u32], &Groups),
        scales: &mut [f32],
        out: &mut [f32],
    ) {
        let own = self.scales.chunks_exact(M);
        let both = scales.chunks_exact_mut(M).zip(own);
        for (scale, (product, own)) in groups.scales.iter().zip(both) {
            (0..M).for_each(|i| product[i] = scale * own[i]);
        }
        let mut sums = [lanes.no_sums(); M];
        let x = self.integers.chunks_exact(M);
        let scales = scales.chunks_exact(M * D::GROUPS);
        for (((low, high), x), scales) in quants::<D>(places, words).zip(x).zip(scales) {
            let q = decode.bytes(lanes, low, high);
            for i in 0..M {
                let by = [scales[i], scales[M * (D::GROUPS - 1) + i]];
                sums[i] = lanes.add_products(q, &x[i], by, sums[i]);
            }
        }
        for (i, out) in out.iter_mut().enumerate() {
            let minima = self.sums.add(lanes, (i, &groups.minima), lanes.splat(0.0));
            *out = lanes.total_sums(sums[i]) + lanes.total(minima);
        }
    }
}
