//! The operations on lanes, which each machine implements.

/// The numbers that an operation processes at once.
pub const LANES: usize = 16;

/// Sixteen floats in memory.
pub type Sixteen = [f32; LANES];

/// The operations of a machine on sixteen numbers.
pub trait Lanes: Copy {
    /// Sixteen integers of 32 bits.
    type Ints: Copy;
    /// Sixteen floats.
    type Floats: Copy;
    /// Thirty-two bytes.
    type Bytes: Copy;
    /// Eight sums of floats.
    type Sums: Copy;
    /// The number of [`Floats`](Lanes::Floats) that fit into the registers.
    const REGISTERS: usize;

    /// Converts unsigned bytes.
    fn bytes(self, bytes: &[u8; 16]) -> Self::Ints;
    /// Converts signed bytes.
    fn signed(self, bytes: &[u8; 16]) -> Self::Ints;
    /// Returns the lower four bits of each integer.
    fn nibble(self, x: Self::Ints) -> Self::Ints;
    /// Clears the lower four bits of each integer.
    fn above_nibble(self, x: Self::Ints) -> Self::Ints;
    /// Returns the sixteen lowest bits of a word.
    fn single_bits(self, word: u32) -> Self::Ints;
    /// Returns the pairs of bits of a word.
    fn pairs_of_bits(self, word: u32) -> Self::Ints;
    /// Returns the fields of four bits of two words.
    fn fours_of_bits(self, words: [u32; 2]) -> Self::Ints;
    /// Returns `x + y * 2^bits`.
    fn add_above<const BITS: i32>(self, x: Self::Ints, y: Self::Ints) -> Self::Ints;
    /// Returns `x - y`.
    fn less(self, x: Self::Ints, y: i32) -> Self::Ints;
    /// Converts to floats.
    fn floats(self, x: Self::Ints) -> Self::Floats;
    /// Returns the table's entries at indices from 0 to 15.
    fn looked_up(self, table: &Sixteen, x: Self::Ints) -> Self::Floats;
    /// Returns the values of the bits of `f16`.
    fn halves(self, bits: &[u16; 16]) -> Self::Floats;
    /// Returns the values of the bits of `bf16`.
    fn brains(self, bits: &[u16; 16]) -> Self::Floats;

    /// Returns the lower four bits of each byte, and then the upper four.
    fn nibbles(self, bytes: &[u8; 16]) -> Self::Bytes;
    /// Returns the bits of a word.
    fn bits(self, word: u32) -> Self::Bytes;
    /// Returns the pairs of bits of eight bytes.
    fn quarters(self, bytes: &[u8; 8]) -> Self::Bytes;
    fn load_bytes(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// Returns `x + y * 2^bits`. The operands must be unsigned, and have no bits in common.
    fn put_above<const BITS: i32>(self, x: Self::Bytes, y: Self::Bytes) -> Self::Bytes;
    /// Returns `x - y`.
    fn less_bytes(self, x: Self::Bytes, y: i8) -> Self::Bytes;
    /// Returns the table's entries at indices from 0 to 15.
    fn table(self, table: &[i8; 16], x: Self::Bytes) -> Self::Bytes;

    fn no_sums(self) -> Self::Sums;
    /// Adds the products of signed bytes. Products of the first 16 bytes are multiplied with `by[0]`, and the others with
    /// `by[1]`. No byte of `y` may be -128.
    fn add_products(
        self,
        x: Self::Bytes,
        y: &[i8; 32],
        by: [f32; 2],
        sums: Self::Sums,
    ) -> Self::Sums;
    /// Returns the sum of all.
    fn total_sums(self, sums: Self::Sums) -> f32;

    fn splat(self, x: f32) -> Self::Floats;
    /// Returns eight copies of each number.
    fn two(self, x: [f32; 2]) -> Self::Floats;
    fn load(self, x: &Sixteen) -> Self::Floats;
    fn store(self, x: Self::Floats) -> Sixteen;
    fn mul(self, x: Self::Floats, y: Self::Floats) -> Self::Floats;
    /// Returns `x * y + z`.
    fn mul_add(self, x: Self::Floats, y: Self::Floats, z: Self::Floats) -> Self::Floats;

    /// Returns the sum of all.
    #[inline(always)]
    fn total(self, x: Self::Floats) -> f32 {
        let x = self.store(x);
        eight_total(std::array::from_fn(|i| x[i] + x[i + 8]))
    }
}

/// Returns the sum of all.
#[inline(always)]
pub fn eight_total(x: [f32; 8]) -> f32 {
    let four: [f32; 4] = std::array::from_fn(|i| x[i] + x[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Work on lanes, which is compiled for each machine. It must be `#[inline(always)]`.
pub trait LaneWork {
    type Output;
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}
