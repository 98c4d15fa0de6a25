//! Operations on sixteen numbers at once, for packed rows: bytes and bit fields as integers, and these as floats. Products of
//! integers use thirty-two bytes at once. Compilers do not vectorize such conversions well, so each machine implements these
//! few operations.

mod operations;
#[cfg(target_feature = "simd128")]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::elementary::from_half;
pub use operations::{LaneWork, Lanes, Sixteen, LANES};

/// Runs the work with the best available instructions.
#[inline(always)]
pub fn run<W: LaneWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(machine) = pulp::x86::V4::try_new() {
            return machine.vectorize(x86::With(machine, work));
        }
        if let Some(machine) = pulp::x86::V3::try_new() {
            return machine.vectorize(x86::With(machine, work));
        }
    }
    #[cfg(target_feature = "simd128")]
    return work.run(wasm::Simd128);
    #[cfg(not(target_feature = "simd128"))]
    work.run(Portable)
}

/// A strided matrix of `f16`, converted to floats row by row. All its elements must be inside `data`.
pub struct Widen<'a> {
    pub data: &'a [u16],
    pub offset: i64,
    pub strides: [i64; 2],
    pub columns: usize,
    pub out: &'a mut [f32],
}

impl LaneWork for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for (row, out) in self.out.chunks_mut(self.columns.max(1)).enumerate() {
            let start = self.offset + row as i64 * self.strides[0];
            if self.strides[1] != 1 {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = half(self.data[(start + column as i64 * self.strides[1]) as usize]);
                }
                continue;
            }
            let bits = &self.data[start as usize..][..out.len()];
            let mut chunks = out.chunks_exact_mut(16);
            for (out, bits) in (&mut chunks).zip(bits.chunks_exact(16)) {
                let bits: [u16; 16] = std::array::from_fn(|i| bits[i]);
                out.copy_from_slice(&lanes.store(lanes.halves(&bits)));
            }
            let whole = bits.len() / 16 * 16;
            for (out, &bits) in chunks.into_remainder().iter_mut().zip(&bits[whole..]) {
                *out = half(bits);
            }
        }
    }
}

/// Whether all machines of this architecture have a fused multiply-add. They then have 32 registers of four floats.
const FUSED: bool = cfg!(target_arch = "aarch64");

/// The portable implementation.
#[derive(Clone, Copy)]
pub struct Portable;

impl Lanes for Portable {
    type Ints = [i32; 16];
    type Floats = Sixteen;
    type Bytes = [i8; 32];
    type Sums = [f32; 8];
    const REGISTERS: usize = if FUSED { 8 } else { 4 };

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 16]) -> [i32; 16] {
        bytes.map(i32::from)
    }
    #[inline(always)]
    fn signed(self, bytes: &[u8; 16]) -> [i32; 16] {
        bytes.map(|byte| i32::from(byte as i8))
    }
    #[inline(always)]
    fn nibble(self, x: [i32; 16]) -> [i32; 16] {
        x.map(|x| x & 15)
    }
    #[inline(always)]
    fn above_nibble(self, x: [i32; 16]) -> [i32; 16] {
        x.map(|x| x >> 4)
    }
    #[inline(always)]
    fn single_bits(self, word: u32) -> [i32; 16] {
        std::array::from_fn(|i| (word >> i & 1) as i32)
    }
    #[inline(always)]
    fn pairs_of_bits(self, word: u32) -> [i32; 16] {
        std::array::from_fn(|i| (word >> (2 * i) & 3) as i32)
    }
    #[inline(always)]
    fn fours_of_bits(self, words: [u32; 2]) -> [i32; 16] {
        std::array::from_fn(|i| (words[i / 8] >> (4 * (i % 8)) & 15) as i32)
    }
    #[inline(always)]
    fn add_above<const BITS: i32>(self, x: [i32; 16], y: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|i| x[i] + (y[i] << BITS))
    }
    #[inline(always)]
    fn less(self, x: [i32; 16], y: i32) -> [i32; 16] {
        x.map(|x| x - y)
    }
    #[inline(always)]
    fn floats(self, x: [i32; 16]) -> Sixteen {
        x.map(|x| x as f32)
    }
    #[inline(always)]
    fn looked_up(self, table: &Sixteen, x: [i32; 16]) -> Sixteen {
        x.map(|x| table[x as usize & 15])
    }
    #[inline(always)]
    fn halves(self, bits: &[u16; 16]) -> Sixteen {
        bits.map(half)
    }
    #[inline(always)]
    fn brains(self, bits: &[u16; 16]) -> Sixteen {
        bits.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> [i8; 32] {
        std::array::from_fn(|i| (if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 }) as i8)
    }
    #[inline(always)]
    fn bits(self, word: u32) -> [i8; 32] {
        std::array::from_fn(|i| (word >> i & 1) as i8)
    }
    #[inline(always)]
    fn quarters(self, bytes: &[u8; 8]) -> [i8; 32] {
        std::array::from_fn(|i| (bytes[i / 4] >> (2 * (i % 4)) & 3) as i8)
    }
    #[inline(always)]
    fn load_bytes(self, bytes: &[u8; 32]) -> [i8; 32] {
        bytes.map(|byte| byte as i8)
    }
    #[inline(always)]
    fn put_above<const BITS: i32>(self, x: [i8; 32], y: [i8; 32]) -> [i8; 32] {
        std::array::from_fn(|i| x[i] | y[i] << BITS)
    }
    #[inline(always)]
    fn less_bytes(self, x: [i8; 32], y: i8) -> [i8; 32] {
        x.map(|x| x - y)
    }
    #[inline(always)]
    fn table(self, table: &[i8; 16], x: [i8; 32]) -> [i8; 32] {
        x.map(|x| table[x as usize & 15])
    }
    #[inline(always)]
    fn no_sums(self) -> [f32; 8] {
        [0.0; 8]
    }
    #[inline(always)]
    fn add_products(self, x: [i8; 32], y: &[i8; 32], by: [f32; 2], sums: [f32; 8]) -> [f32; 8] {
        let product = |i: usize| i32::from(x[i]) * i32::from(y[i]);
        std::array::from_fn(|i| {
            let whole: i32 = (4 * i..4 * i + 4).map(product).sum();
            whole as f32 * by[i / 4] + sums[i]
        })
    }
    #[inline(always)]
    fn total_sums(self, x: [f32; 8]) -> f32 {
        operations::eight_total(x)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Sixteen {
        [x; 16]
    }
    #[inline(always)]
    fn two(self, x: [f32; 2]) -> Sixteen {
        std::array::from_fn(|i| x[i / 8])
    }
    #[inline(always)]
    fn load(self, x: &Sixteen) -> Sixteen {
        *x
    }
    #[inline(always)]
    fn store(self, x: Sixteen) -> Sixteen {
        x
    }
    #[inline(always)]
    fn mul(self, x: Sixteen, y: Sixteen) -> Sixteen {
        std::array::from_fn(|i| x[i] * y[i])
    }
    #[inline(always)]
    fn mul_add(self, x: Sixteen, y: Sixteen, z: Sixteen) -> Sixteen {
        std::array::from_fn(|i| if FUSED { x[i].mul_add(y[i], z[i]) } else { x[i] * y[i] + z[i] })
    }
}

/// Returns the value of the bits of an `f16`.
#[inline(always)]
pub fn half(bits: u16) -> f32 {
    f32::from_bits(from_half(bits))
}
