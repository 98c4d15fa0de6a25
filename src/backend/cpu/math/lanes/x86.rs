//! The operations on lanes with AVX2 and AVX-512.

use super::operations::{LaneWork, Lanes, Sixteen};
use pulp::cast;
use pulp::x86::{V3, V4};
use std::arch::x86_64::{__m128, __m128i, __m256, __m256i, __m512, __m512i};

/// Work with the machine that it runs on.
pub struct With<M, W>(pub M, pub W);

impl<M: Lanes, W: LaneWork> pulp::NullaryFnOnce for With<M, W> {
    type Output = W::Output;
    #[inline(always)]
    fn call(self) -> W::Output {
        self.1.run(self.0)
    }
}

/// Returns 0, 1, ..., 15 times a step.
const fn steps(step: i32) -> [i32; 16] {
    let (mut steps, mut i) = ([0; 16], 0);
    while i < 16 {
        steps[i] = i as i32 * step;
        i += 1;
    }
    steps
}

/// The positions of the fields of four bits in a word, twice.
const FOURS: [i32; 16] = [0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28];

/// AVX-512.
impl Lanes for V4 {
    type Ints = __m512i;
    type Floats = __m512;
    type Bytes = __m256i;
    type Sums = __m256;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 16]) -> __m512i {
        self.avx512f._mm512_cvtepu8_epi32(cast::<[u8; 16], __m128i>(*bytes))
    }
    #[inline(always)]
    fn signed(self, bytes: &[u8; 16]) -> __m512i {
        self.avx512f._mm512_cvtepi8_epi32(cast::<[u8; 16], __m128i>(*bytes))
    }
    #[inline(always)]
    fn nibble(self, x: __m512i) -> __m512i {
        self.avx512f._mm512_and_si512(x, self.avx512f._mm512_set1_epi32(15))
    }
    #[inline(always)]
    fn above_nibble(self, x: __m512i) -> __m512i {
        self.avx512f._mm512_srli_epi32::<4>(x)
    }
    #[inline(always)]
    fn single_bits(self, word: u32) -> __m512i {
        let f = self.avx512f;
        let all = f._mm512_srlv_epi32(f._mm512_set1_epi32(word as i32), cast(steps(1)));
        f._mm512_and_si512(all, f._mm512_set1_epi32(1))
    }
    #[inline(always)]
    fn pairs_of_bits(self, word: u32) -> __m512i {
        let f = self.avx512f;
        let all = f._mm512_srlv_epi32(f._mm512_set1_epi32(word as i32), cast(steps(2)));
        f._mm512_and_si512(all, f._mm512_set1_epi32(3))
    }
    #[inline(always)]
    fn fours_of_bits(self, words: [u32; 2]) -> __m512i {
        let f = self.avx512f;
        let words = cast([[words[0]; 8], [words[1]; 8]]);
        let all = f._mm512_srlv_epi32(words, cast(FOURS));
        f._mm512_and_si512(all, f._mm512_set1_epi32(15))
    }
    #[inline(always)]
    fn add_above<const BITS: i32>(self, x: __m512i, y: __m512i) -> __m512i {
        let f = self.avx512f;
        f._mm512_add_epi32(x, f._mm512_sllv_epi32(y, f._mm512_set1_epi32(BITS)))
    }
    #[inline(always)]
    fn less(self, x: __m512i, y: i32) -> __m512i {
        self.avx512f._mm512_sub_epi32(x, self.avx512f._mm512_set1_epi32(y))
    }
    #[inline(always)]
    fn floats(self, x: __m512i) -> __m512 {
        self.avx512f._mm512_cvtepi32_ps(x)
    }
    #[inline(always)]
    fn looked_up(self, table: &Sixteen, x: __m512i) -> __m512 {
        self.avx512f._mm512_permutexvar_ps(x, cast(*table))
    }
    #[inline(always)]
    fn halves(self, bits: &[u16; 16]) -> __m512 {
        self.avx512f._mm512_cvtph_ps(cast::<[u16; 16], __m256i>(*bits))
    }
    #[inline(always)]
    fn brains(self, bits: &[u16; 16]) -> __m512 {
        let f = self.avx512f;
        let wide = f._mm512_cvtepu16_epi32(cast::<[u16; 16], __m256i>(*bits));
        cast(f._mm512_slli_epi32::<16>(wide))
    }
    // Without instructions for products of bytes, which `pulp` does not provide, AVX-512 is not faster than AVX2 here.
    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> __m256i {
        (*self).nibbles(bytes)
    }
    #[inline(always)]
    fn bits(self, word: u32) -> __m256i {
        (*self).bits(word)
    }
    #[inline(always)]
    fn quarters(self, bytes: &[u8; 8]) -> __m256i {
        (*self).quarters(bytes)
    }
    #[inline(always)]
    fn load_bytes(self, bytes: &[u8; 32]) -> __m256i {
        (*self).load_bytes(bytes)
    }
    #[inline(always)]
    fn put_above<const BITS: i32>(self, x: __m256i, y: __m256i) -> __m256i {
        (*self).put_above::<BITS>(x, y)
    }
    #[inline(always)]
    fn less_bytes(self, x: __m256i, y: i8) -> __m256i {
        (*self).less_bytes(x, y)
    }
    #[inline(always)]
    fn table(self, table: &[i8; 16], x: __m256i) -> __m256i {
        (*self).table(table, x)
    }
    #[inline(always)]
    fn no_sums(self) -> __m256 {
        (*self).no_sums()
    }
    #[inline(always)]
    fn add_products(self, x: __m256i, y: &[i8; 32], by: [f32; 2], sums: __m256) -> __m256 {
        (*self).add_products(x, y, by, sums)
    }
    #[inline(always)]
    fn total_sums(self, sums: __m256) -> f32 {
        (*self).total_sums(sums)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        self.avx512f._mm512_set1_ps(x)
    }
    #[inline(always)]
    fn two(self, x: [f32; 2]) -> __m512 {
        cast([[x[0]; 8], [x[1]; 8]])
    }
    #[inline(always)]
    fn load(self, x: &Sixteen) -> __m512 {
        cast(*x)
    }
    #[inline(always)]
    fn store(self, x: __m512) -> Sixteen {
        cast(x)
    }
    #[inline(always)]
    fn mul(self, x: __m512, y: __m512) -> __m512 {
        self.avx512f._mm512_mul_ps(x, y)
    }
    #[inline(always)]
    fn mul_add(self, x: __m512, y: __m512, z: __m512) -> __m512 {
        self.avx512f._mm512_fmadd_ps(x, y, z)
    }
}

/// AVX2. Sixteen numbers are two vectors.
impl Lanes for V3 {
    type Ints = [__m256i; 2];
    type Floats = [__m256; 2];
    type Bytes = __m256i;
    type Sums = __m256;
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 16]) -> [__m256i; 2] {
        let [low, high] = halves_of(bytes);
        [self.avx2._mm256_cvtepu8_epi32(low), self.avx2._mm256_cvtepu8_epi32(high)]
    }
    #[inline(always)]
    fn signed(self, bytes: &[u8; 16]) -> [__m256i; 2] {
        let [low, high] = halves_of(bytes);
        [self.avx2._mm256_cvtepi8_epi32(low), self.avx2._mm256_cvtepi8_epi32(high)]
    }
    #[inline(always)]
    fn nibble(self, x: [__m256i; 2]) -> [__m256i; 2] {
        let mask = self.avx._mm256_set1_epi32(15);
        [self.avx2._mm256_and_si256(x[0], mask), self.avx2._mm256_and_si256(x[1], mask)]
    }
    #[inline(always)]
    fn above_nibble(self, x: [__m256i; 2]) -> [__m256i; 2] {
        [self.avx2._mm256_srli_epi32::<4>(x[0]), self.avx2._mm256_srli_epi32::<4>(x[1])]
    }
    #[inline(always)]
    fn single_bits(self, word: u32) -> [__m256i; 2] {
        let word = self.avx._mm256_set1_epi32(word as i32);
        let [low, high] = cast::<[i32; 16], [__m256i; 2]>(steps(1));
        let mask = self.avx._mm256_set1_epi32(1);
        let low = self.avx2._mm256_srlv_epi32(word, low);
        let high = self.avx2._mm256_srlv_epi32(word, high);
        [self.avx2._mm256_and_si256(low, mask), self.avx2._mm256_and_si256(high, mask)]
    }
    #[inline(always)]
    fn pairs_of_bits(self, word: u32) -> [__m256i; 2] {
        let word = self.avx._mm256_set1_epi32(word as i32);
        let [low, high] = cast::<[i32; 16], [__m256i; 2]>(steps(2));
        let mask = self.avx._mm256_set1_epi32(3);
        let low = self.avx2._mm256_srlv_epi32(word, low);
        let high = self.avx2._mm256_srlv_epi32(word, high);
        [self.avx2._mm256_and_si256(low, mask), self.avx2._mm256_and_si256(high, mask)]
    }
    #[inline(always)]
    fn fours_of_bits(self, words: [u32; 2]) -> [__m256i; 2] {
        let [steps, _] = cast::<[i32; 16], [__m256i; 2]>(FOURS);
        let mask = self.avx._mm256_set1_epi32(15);
        let first = self.avx._mm256_set1_epi32(words[0] as i32);
        let second = self.avx._mm256_set1_epi32(words[1] as i32);
        let first = self.avx2._mm256_srlv_epi32(first, steps);
        let second = self.avx2._mm256_srlv_epi32(second, steps);
        [self.avx2._mm256_and_si256(first, mask), self.avx2._mm256_and_si256(second, mask)]
    }
    #[inline(always)]
    fn add_above<const BITS: i32>(self, x: [__m256i; 2], y: [__m256i; 2]) -> [__m256i; 2] {
        let low = self.avx2._mm256_slli_epi32::<BITS>(y[0]);
        let high = self.avx2._mm256_slli_epi32::<BITS>(y[1]);
        [self.avx2._mm256_add_epi32(x[0], low), self.avx2._mm256_add_epi32(x[1], high)]
    }
    #[inline(always)]
    fn less(self, x: [__m256i; 2], y: i32) -> [__m256i; 2] {
        let y = self.avx._mm256_set1_epi32(y);
        [self.avx2._mm256_sub_epi32(x[0], y), self.avx2._mm256_sub_epi32(x[1], y)]
    }
    #[inline(always)]
    fn floats(self, x: [__m256i; 2]) -> [__m256; 2] {
        [self.avx._mm256_cvtepi32_ps(x[0]), self.avx._mm256_cvtepi32_ps(x[1])]
    }
    #[inline(always)]
    fn looked_up(self, table: &Sixteen, x: [__m256i; 2]) -> [__m256; 2] {
        let table = cast::<Sixteen, [__m256; 2]>(*table);
        [eight_looked_up(self, table, x[0]), eight_looked_up(self, table, x[1])]
    }
    #[inline(always)]
    fn halves(self, bits: &[u16; 16]) -> [__m256; 2] {
        let [low, high] = cast::<[u16; 16], [__m128i; 2]>(*bits);
        [eight_halves(self, low), eight_halves(self, high)]
    }
    #[inline(always)]
    fn brains(self, bits: &[u16; 16]) -> [__m256; 2] {
        let [low, high] = cast::<[u16; 16], [__m128i; 2]>(*bits);
        let low = self.avx2._mm256_cvtepu16_epi32(low);
        let high = self.avx2._mm256_cvtepu16_epi32(high);
        cast([self.avx2._mm256_slli_epi32::<16>(low), self.avx2._mm256_slli_epi32::<16>(high)])
    }
    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> __m256i {
        let bytes = cast::<[u8; 16], __m128i>(*bytes);
        let upper = self.sse2._mm_srli_epi16::<4>(bytes);
        let mask = self.avx._mm256_set1_epi8(15);
        self.avx2._mm256_and_si256(self.avx._mm256_set_m128i(upper, bytes), mask)
    }
    #[inline(always)]
    fn bits(self, word: u32) -> __m256i {
        // Byte i has the word's byte i / 8. The result is bit i % 8 of that byte.
        let all = self.avx._mm256_set1_epi32(word as i32);
        let places: [u8; 32] = std::array::from_fn(|i| i as u8 / 8);
        let spread = self.avx2._mm256_shuffle_epi8(all, cast(places));
        let bit = self.avx._mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let here = self.avx2._mm256_and_si256(spread, bit);
        let mask = self.avx2._mm256_cmpeq_epi8(here, bit);
        self.avx2._mm256_and_si256(mask, self.avx._mm256_set1_epi8(1))
    }
    #[inline(always)]
    fn quarters(self, bytes: &[u8; 8]) -> __m256i {
        let (avx, avx2) = (self.avx, self.avx2);
        let bytes = cast::<[u64; 2], __m128i>([u64::from_le_bytes(*bytes), 0]);
        // Spreads a byte over four bytes: first its halves to a distance of 16 bits, and then the halves of these to a
        // distance of 8 bits.
        let x = avx2._mm256_cvtepu8_epi32(bytes);
        let x = avx2._mm256_or_si256(x, avx2._mm256_slli_epi32::<12>(x));
        let x = avx2._mm256_and_si256(x, avx._mm256_set1_epi32(0x000f_000f));
        let x = avx2._mm256_or_si256(x, avx2._mm256_slli_epi32::<6>(x));
        avx2._mm256_and_si256(x, avx._mm256_set1_epi32(0x0303_0303))
    }
    #[inline(always)]
    fn load_bytes(self, bytes: &[u8; 32]) -> __m256i {
        cast(*bytes)
    }
    #[inline(always)]
    fn put_above<const BITS: i32>(self, x: __m256i, y: __m256i) -> __m256i {
        self.avx2._mm256_or_si256(x, self.avx2._mm256_slli_epi16::<BITS>(y))
    }
    #[inline(always)]
    fn less_bytes(self, x: __m256i, y: i8) -> __m256i {
        self.avx2._mm256_sub_epi8(x, self.avx._mm256_set1_epi8(y))
    }
    #[inline(always)]
    fn table(self, table: &[i8; 16], x: __m256i) -> __m256i {
        let table = self.avx2._mm256_broadcastsi128_si256(cast::<[i8; 16], __m128i>(*table));
        self.avx2._mm256_shuffle_epi8(table, x)
    }
    #[inline(always)]
    fn no_sums(self) -> __m256 {
        self.avx._mm256_setzero_ps()
    }
    #[inline(always)]
    fn add_products(self, x: __m256i, y: &[i8; 32], by: [f32; 2], sums: __m256) -> __m256 {
        let (avx, avx2) = (self.avx, self.avx2);
        // The instruction needs one unsigned operand, so the other one takes its sign.
        let y = avx2._mm256_sign_epi8(cast::<[i8; 32], __m256i>(*y), x);
        let pairs = avx2._mm256_maddubs_epi16(avx2._mm256_abs_epi8(x), y);
        let fours = avx2._mm256_madd_epi16(pairs, avx._mm256_set1_epi16(1));
        let by: [__m128; 2] = by.map(|by| cast([by; 4]));
        let by = avx._mm256_set_m128(by[1], by[0]);
        self.fma._mm256_fmadd_ps(avx._mm256_cvtepi32_ps(fours), by, sums)
    }
    #[inline(always)]
    fn total_sums(self, sums: __m256) -> f32 {
        super::operations::eight_total(cast(sums))
    }
    #[inline(always)]
    fn splat(self, x: f32) -> [__m256; 2] {
        [self.avx._mm256_set1_ps(x); 2]
    }
    #[inline(always)]
    fn two(self, x: [f32; 2]) -> [__m256; 2] {
        [self.avx._mm256_set1_ps(x[0]), self.avx._mm256_set1_ps(x[1])]
    }
    #[inline(always)]
    fn load(self, x: &Sixteen) -> [__m256; 2] {
        cast(*x)
    }
    #[inline(always)]
    fn store(self, x: [__m256; 2]) -> Sixteen {
        cast(x)
    }
    #[inline(always)]
    fn mul(self, x: [__m256; 2], y: [__m256; 2]) -> [__m256; 2] {
        [self.avx._mm256_mul_ps(x[0], y[0]), self.avx._mm256_mul_ps(x[1], y[1])]
    }
    #[inline(always)]
    fn mul_add(self, x: [__m256; 2], y: [__m256; 2], z: [__m256; 2]) -> [__m256; 2] {
        let low = self.fma._mm256_fmadd_ps(x[0], y[0], z[0]);
        [low, self.fma._mm256_fmadd_ps(x[1], y[1], z[1])]
    }
}

/// Returns the table's entries at eight indices.
#[inline(always)]
fn eight_looked_up(machine: V3, [low, high]: [__m256; 2], x: __m256i) -> __m256 {
    let found = machine.avx2._mm256_permutevar8x32_ps(low, x);
    let above = machine.avx2._mm256_permutevar8x32_ps(high, x);
    // The fourth bit, moved to the sign, selects the half of the table.
    let upper = machine.avx2._mm256_slli_epi32::<28>(x);
    machine.avx._mm256_blendv_ps(found, above, cast(upper))
}

/// Computed as in `half`, because these machines may not have an instruction for it.
#[inline(always)]
fn eight_halves(machine: V3, bits: __m128i) -> __m256 {
    let (avx, avx2) = (machine.avx, machine.avx2);
    let bits = avx2._mm256_cvtepu16_epi32(bits);
    let size = avx2._mm256_and_si256(bits, avx._mm256_set1_epi32(0x7fff));
    let size = cast(avx2._mm256_slli_epi32::<13>(size));
    let size = avx._mm256_mul_ps(size, avx._mm256_set1_ps(f32::from_bits(0x7780_0000)));
    let sign = avx2._mm256_and_si256(bits, avx._mm256_set1_epi32(0x8000));
    avx._mm256_or_ps(size, cast(avx2._mm256_slli_epi32::<16>(sign)))
}

/// Returns the first and the last eight bytes, each in the lower half of a vector.
#[inline(always)]
fn halves_of(bytes: &[u8; 16]) -> [__m128i; 2] {
    let [low, high] = cast::<[u8; 16], [u64; 2]>(*bytes);
    [cast([low, 0]), cast([high, 0])]
}
