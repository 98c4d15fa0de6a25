//! The operations on lanes, which each machine has in its own way.

/// How many numbers the operations take at once.
pub const LANES: usize = 16;

/// Sixteen floats, in memory.
pub type Sixteen = [f32; LANES];

/// A machine's operations on sixteen numbers.
pub trait Lanes: Copy {
    /// Sixteen integers of 32 bits.
    type Ints: Copy;
    /// Sixteen floats.
    type Floats: Copy;
    /// Thirty-two bytes.
    type Bytes: Copy;
    /// Eight sums of floats.
    type Sums: Copy;
    /// How many [`Floats`](Lanes::Floats) the registers hold.
    const REGISTERS: usize;

    /// Bytes without a sign.
    fn bytes(self, bytes: &[u8; 16]) -> Self::Ints;
    /// Bytes with a sign.
    fn signed(self, bytes: &[u8; 16]) -> Self::Ints;
    /// The lower four bits of each.
    fn nibble(self, x: Self::Ints) -> Self::Ints;
    /// Each without its lower four bits.
    fn above_nibble(self, x: Self::Ints) -> Self::Ints;
    /// The sixteen lowest bits of a word.
    fn single_bits(self, word: u32) -> Self::Ints;
    /// The pairs of bits of a word.
    fn pairs_of_bits(self, word: u32) -> Self::Ints;
    /// The fields of four bits of two words.
    fn fours_of_bits(self, words: [u32; 2]) -> Self::Ints;
    /// `x + y * 2^bits`.
    fn add_above<const BITS: i32>(self, x: Self::Ints, y: Self::Ints) -> Self::Ints;
    /// `x - y`.
    fn less(self, x: Self::Ints, y: i32) -> Self::Ints;
    /// As floats.
    fn floats(self, x: Self::Ints) -> Self::Floats;
    /// The table's entries at places from 0 to 15.
    fn looked_up(self, table: &Sixteen, x: Self::Ints) -> Self::Floats;
    /// The numbers that the bits of `f16` stand for.
    fn halves(self, bits: &[u16; 16]) -> Self::Floats;
    /// The numbers that the bits of `bf16` stand for.
    fn brains(self, bits: &[u16; 16]) -> Self::Floats;

    /// The lower four bits of each byte, then the upper four.
    fn nibbles(self, bytes: &[u8; 16]) -> Self::Bytes;
    /// The bits of a word.
    fn bits(self, word: u32) -> Self::Bytes;
    /// The pairs of bits of eight bytes.
    fn quarters(self, bytes: &[u8; 8]) -> Self::Bytes;
    fn load_bytes(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// `x + y * 2^bits`, where these have no bits in common and there is no sign.
    fn put_above<const BITS: i32>(self, x: Self::Bytes, y: Self::Bytes) -> Self::Bytes;
    /// `x - y`.
    fn less_bytes(self, x: Self::Bytes, y: i8) -> Self::Bytes;
    /// The table's entries at places from 0 to 15.
    fn table(self, table: &[i8; 16], x: Self::Bytes) -> Self::Bytes;

    fn no_sums(self) -> Self::Sums;
    /// Adds the products of bytes with a sign, those of the first 16 times `by[0]`, the others times `by[1]`. No byte of `y` is
    /// -128.
    fn add_products(
        self,
        x: Self::Bytes,
        y: &[i8; 32],
        by: [f32; 2],
        sums: Self::Sums,
    ) -> Self::Sums;
    /// The sum of all.
    fn total_sums(self, sums: Self::Sums) -> f32;

    fn splat(self, x: f32) -> Self::Floats;
    /// Eight times the one, eight times the other.
    fn two(self, x: [f32; 2]) -> Self::Floats;
    fn load(self, x: &Sixteen) -> Self::Floats;
    fn store(self, x: Self::Floats) -> Sixteen;
    fn mul(self, x: Self::Floats, y: Self::Floats) -> Self::Floats;
    /// `x * y + z`.
    fn mul_add(self, x: Self::Floats, y: Self::Floats, z: Self::Floats) -> Self::Floats;

    /// The sum of all.
    #[inline(always)]
    fn total(self, x: Self::Floats) -> f32 {
        let x = self.store(x);
        eight_total(std::array::from_fn(|i| x[i] + x[i + 8]))
    }
}

/// The sum of all.
#[inline(always)]
pub fn eight_total(x: [f32; 8]) -> f32 {
    let four: [f32; 4] = std::array::from_fn(|i| x[i] + x[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Work on lanes, compiled anew for each machine. It must be `#[inline(always)]`.
pub trait LaneWork {
    type Output;
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}
