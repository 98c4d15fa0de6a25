//! The operations on lanes with WebAssembly's 128-bit vectors.

use super::operations::{eight_total, Lanes, Sixteen};
use bytemuck::cast;
use std::arch::wasm32::*;
use std::array::from_fn;

/// 128-bit vectors. Sixteen numbers are four of them.
#[derive(Clone, Copy)]
pub struct Simd128;

/// Returns the bits from `place` on of each word. The number of bits is the one in `mask`.
#[inline(always)]
fn fields(word: u32, places: [u32; 4], mask: u32) -> v128 {
    // WebAssembly has no shift by different counts. A product moves each field to the same position, the highest bits.
    let by: [u32; 4] = places.map(|place| 1 << (32 - mask.count_ones() - place));
    let moved = i32x4_mul(u32x4_splat(word), cast(by));
    u32x4_shr(moved, 32 - mask.count_ones())
}

/// Applies a function to each of the four vectors.
#[inline(always)]
fn each(x: [v128; 4], f: impl Fn(v128) -> v128) -> [v128; 4] {
    from_fn(|i| f(x[i]))
}

impl Lanes for Simd128 {
    type Ints = [v128; 4];
    type Floats = [v128; 4];
    type Bytes = [v128; 2];
    type Sums = [v128; 2];
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 16]) -> [v128; 4] {
        let bytes = cast::<[u8; 16], v128>(*bytes);
        let (low, high) = (u16x8_extend_low_u8x16(bytes), u16x8_extend_high_u8x16(bytes));
        let [a, b] = [u32x4_extend_low_u16x8(low), u32x4_extend_high_u16x8(low)];
        [a, b, u32x4_extend_low_u16x8(high), u32x4_extend_high_u16x8(high)]
    }
    #[inline(always)]
    fn signed(self, bytes: &[u8; 16]) -> [v128; 4] {
        let bytes = cast::<[u8; 16], v128>(*bytes);
        let (low, high) = (i16x8_extend_low_i8x16(bytes), i16x8_extend_high_i8x16(bytes));
        let [a, b] = [i32x4_extend_low_i16x8(low), i32x4_extend_high_i16x8(low)];
        [a, b, i32x4_extend_low_i16x8(high), i32x4_extend_high_i16x8(high)]
    }
    #[inline(always)]
    fn nibble(self, x: [v128; 4]) -> [v128; 4] {
        each(x, |x| v128_and(x, u32x4_splat(15)))
    }
    #[inline(always)]
    fn above_nibble(self, x: [v128; 4]) -> [v128; 4] {
        each(x, |x| u32x4_shr(x, 4))
    }
    #[inline(always)]
    fn single_bits(self, word: u32) -> [v128; 4] {
        from_fn(|i| fields(word, from_fn(|j| (4 * i + j) as u32), 1))
    }
    #[inline(always)]
    fn pairs_of_bits(self, word: u32) -> [v128; 4] {
        from_fn(|i| fields(word, from_fn(|j| 2 * (4 * i + j) as u32), 3))
    }
    #[inline(always)]
    fn fours_of_bits(self, words: [u32; 2]) -> [v128; 4] {
        from_fn(|i| fields(words[i / 2], from_fn(|j| 4 * (4 * (i % 2) + j) as u32), 15))
    }
    #[inline(always)]
    fn add_above<const BITS: i32>(self, x: [v128; 4], y: [v128; 4]) -> [v128; 4] {
        from_fn(|i| i32x4_add(x[i], i32x4_shl(y[i], BITS as u32)))
    }
    #[inline(always)]
    fn less(self, x: [v128; 4], y: i32) -> [v128; 4] {
        each(x, |x| i32x4_sub(x, i32x4_splat(y)))
    }
    #[inline(always)]
    fn floats(self, x: [v128; 4]) -> [v128; 4] {
        each(x, |x| f32x4_convert_i32x4(x))
    }
    #[inline(always)]
    fn looked_up(self, table: &Sixteen, x: [v128; 4]) -> [v128; 4] {
        each(x, |x| {
            let places: [u32; 4] = cast(x);
            cast(places.map(|place| table[place as usize & 15]))
        })
    }
    #[inline(always)]
    fn halves(self, bits: &[u16; 16]) -> [v128; 4] {
        let [low, high]: [v128; 2] = cast(*bits);
        let [a, b] = [u32x4_extend_low_u16x8(low), u32x4_extend_high_u16x8(low)];
        each([a, b, u32x4_extend_low_u16x8(high), u32x4_extend_high_u16x8(high)], |bits| {
            // Computed as in `half`, because WebAssembly has no instruction for it.
            let size = u32x4_shl(v128_and(bits, u32x4_splat(0x7fff)), 13);
            let size = f32x4_mul(size, u32x4_splat(0x7780_0000));
            v128_or(size, u32x4_shl(v128_and(bits, u32x4_splat(0x8000)), 16))
        })
    }
    #[inline(always)]
    fn brains(self, bits: &[u16; 16]) -> [v128; 4] {
        let [low, high]: [v128; 2] = cast(*bits);
        let [a, b] = [u32x4_extend_low_u16x8(low), u32x4_extend_high_u16x8(low)];
        let all = [a, b, u32x4_extend_low_u16x8(high), u32x4_extend_high_u16x8(high)];
        each(all, |bits| u32x4_shl(bits, 16))
    }
    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> [v128; 2] {
        let bytes = cast::<[u8; 16], v128>(*bytes);
        [v128_and(bytes, u8x16_splat(15)), u8x16_shr(bytes, 4)]
    }
    #[inline(always)]
    fn bits(self, word: u32) -> [v128; 2] {
        // Byte i of a half has the word's byte i / 8. The result is bit i % 8 of that byte.
        let bit = u64x2_splat(0x8040_2010_0804_0201);
        let all = u32x4_splat(word);
        let low = u8x16_swizzle(all, cast([0u8, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]));
        let high = u8x16_swizzle(all, cast([2u8, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]));
        [low, high].map(|bytes| v128_and(u8x16_eq(v128_and(bytes, bit), bit), u8x16_splat(1)))
    }
    #[inline(always)]
    fn quarters(self, bytes: &[u8; 8]) -> [v128; 2] {
        let bytes = u64x2_splat(u64::from_le_bytes(*bytes));
        let low = u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(bytes));
        let high = u32x4_extend_high_u16x8(u16x8_extend_low_u8x16(bytes));
        // Spreads a byte over four bytes: first its halves to a distance of 16 bits, and then the halves of these to a
        // distance of 8 bits.
        [low, high].map(|x| {
            let x = v128_and(v128_or(x, u32x4_shl(x, 12)), u32x4_splat(0x000f_000f));
            v128_and(v128_or(x, u32x4_shl(x, 6)), u32x4_splat(0x0303_0303))
        })
    }
    #[inline(always)]
    fn load_bytes(self, bytes: &[u8; 32]) -> [v128; 2] {
        cast(*bytes)
    }
    #[inline(always)]
    fn put_above<const BITS: i32>(self, x: [v128; 2], y: [v128; 2]) -> [v128; 2] {
        from_fn(|i| v128_or(x[i], u8x16_shl(y[i], BITS as u32)))
    }
    #[inline(always)]
    fn less_bytes(self, x: [v128; 2], y: i8) -> [v128; 2] {
        x.map(|x| i8x16_sub(x, i8x16_splat(y)))
    }
    #[inline(always)]
    fn table(self, table: &[i8; 16], x: [v128; 2]) -> [v128; 2] {
        x.map(|x| i8x16_swizzle(cast(*table), x))
    }
    #[inline(always)]
    fn no_sums(self) -> [v128; 2] {
        [f32x4_splat(0.0); 2]
    }
    #[inline(always)]
    fn add_products(self, x: [v128; 2], y: &[i8; 32], by: [f32; 2], sums: [v128; 2]) -> [v128; 2] {
        let y: [v128; 2] = cast(*y);
        from_fn(|i| {
            let low = i16x8_extmul_low_i8x16(x[i], y[i]);
            let high = i16x8_extmul_high_i8x16(x[i], y[i]);
            let [low, high] = [low, high].map(|x| i32x4_extadd_pairwise_i16x8(x));
            // Adds four products each: first neighboring pairs of the first eight, and then of the last eight.
            let even = i32x4_shuffle::<0, 2, 4, 6>(low, high);
            let fours = i32x4_add(even, i32x4_shuffle::<1, 3, 5, 7>(low, high));
            f32x4_add(f32x4_mul(f32x4_convert_i32x4(fours), f32x4_splat(by[i])), sums[i])
        })
    }
    #[inline(always)]
    fn total_sums(self, sums: [v128; 2]) -> f32 {
        eight_total(cast(sums))
    }
    #[inline(always)]
    fn splat(self, x: f32) -> [v128; 4] {
        [f32x4_splat(x); 4]
    }
    #[inline(always)]
    fn two(self, x: [f32; 2]) -> [v128; 4] {
        let [low, high] = x.map(|x| f32x4_splat(x));
        [low, low, high, high]
    }
    #[inline(always)]
    fn load(self, x: &Sixteen) -> [v128; 4] {
        cast(*x)
    }
    #[inline(always)]
    fn store(self, x: [v128; 4]) -> Sixteen {
        cast(x)
    }
    #[inline(always)]
    fn mul(self, x: [v128; 4], y: [v128; 4]) -> [v128; 4] {
        from_fn(|i| f32x4_mul(x[i], y[i]))
    }
    #[inline(always)]
    fn mul_add(self, x: [v128; 4], y: [v128; 4], z: [v128; 4]) -> [v128; 4] {
        from_fn(|i| f32x4_add(f32x4_mul(x[i], y[i]), z[i]))
    }
}
