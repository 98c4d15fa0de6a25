//! The kernel configuration: which of several kernels for the same work a device runs. All of them give right results on every
//! device. Which one is fastest depends on the device.

use std::fmt;

/// The sharing of rows among a workgroup's threads, in a reduction or in a kernel that keeps whole rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rows {
    /// One thread per row.
    Thread,
    /// Several threads per row, which combine their results in shared memory (WGSL's `workgroup` memory).
    SharedMemory,
    /// Like [`Rows::SharedMemory`], after a subgroup reduction, if supported ([`Limits::subgroups`](super::Limits::subgroups)).
    Subgroups,
}

/// The tile of a matrix product or a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tile {
    /// Register tiles of 8 x 8 results per thread, without shared memory.
    Thread,
    /// A workgroup stages 32 x 32 results' operands in shared memory.
    Small,
    /// Like [`Tile::Small`], with 64 x 64 results.
    Medium,
    /// Like [`Tile::Small`], with 128 x 128 results.
    Large,
}

/// The method of copying elements from one axis to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transpose {
    /// Each thread reads what it writes.
    Direct,
    /// A workgroup transposes tiles of 32 x 32 elements in shared memory.
    Tiled,
}

/// The method of multiplying two `f16` operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum F16Matmul {
    /// Like all other products.
    #[default]
    Tiles,
    /// Cooperative matrices of 8 x 8, if supported ([`Limits::cooperative`](super::Limits::cooperative)). Only natively.
    CooperativeMatrices,
}

/// The kernels that a device runs where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelConfig {
    pub rows: Rows,
    /// The tiles of matrix products by size: of fewer than 64 tiles of 64 x 64 results, of more, and of at least 128 tiles of
    /// 128 x 128. Products of at most 16 rows or columns use special tiles unless the tile is [`Tile::Thread`].
    pub matmul_tiles: [Tile; 3],
    /// The tiles of convolutions by size, as matrix products of the weights and the windows.
    pub conv_tiles: [Tile; 3],
    /// Whether matrix products of few results and long sums are split along the sum, and the parts added (split-K).
    pub split_k_matmul: bool,
    /// Whether convolutions of few results and long sums are split along the sum (split-K).
    pub split_k_conv: bool,
    /// Whether attention of at most four queries is one kernel. Otherwise it is two products and a softmax, unless the scores
    /// take more than 128 MiB.
    pub fuse_short_attention: bool,
    /// Whether attention of more than four queries is one kernel.
    pub fuse_long_attention: bool,
    /// The kernel for products of two `f16` matrices with more than 16 rows and columns.
    pub f16_matmul: F16Matmul,
    pub transpose: Transpose,
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig::GPU
    }
}

impl fmt::Display for KernelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = ["one thread", "shared memory", "subgroups"][self.rows as usize];
        write!(f, "rows: {rows}; products:")?;
        let tiles = |f: &mut fmt::Formatter<'_>, tiles: &[Tile]| {
            tiles.iter().try_for_each(|&tile| {
                let name = ["8 x 8", "32 x 32", "64 x 64", "128 x 128"][tile as usize];
                write!(f, " {name},")
            })
        };
        tiles(f, &self.matmul_tiles)?;
        f.write_str(" convolutions:")?;
        tiles(f, &self.conv_tiles)?;
        let cut = ["", " split-K of products;", " split-K of convolutions;", " split-K;"];
        write!(f, "{} attention:", cut[self.split() as usize])?;
        for whole in [self.fuse_short_attention, self.fuse_long_attention] {
            f.write_str(if whole { " fused," } else { " separate," })?;
        }
        f.write_str([" transpose: direct", " transpose: tiled"][self.transpose as usize])?;
        f.write_str(["", "; f16: cooperative matrices"][self.f16_matmul as usize])
    }
}

impl KernelConfig {
    /// The default of GPUs, before anything is measured.
    pub const GPU: KernelConfig = KernelConfig {
        rows: Rows::SharedMemory,
        matmul_tiles: [Tile::Small, Tile::Medium, Tile::Large],
        conv_tiles: [Tile::Small, Tile::Medium, Tile::Large],
        split_k_matmul: true,
        split_k_conv: true,
        fuse_short_attention: true,
        fuse_long_attention: true,
        f16_matmul: F16Matmul::Tiles,
        transpose: Transpose::Tiled,
    };

    /// The default of software GPUs. Barriers are slow on them, so only the fused kernel for long attention has barriers.
    pub const EMULATED: KernelConfig = KernelConfig {
        rows: Rows::Thread,
        matmul_tiles: [Tile::Thread; 3],
        conv_tiles: [Tile::Thread; 3],
        split_k_matmul: false,
        split_k_conv: true,
        fuse_short_attention: false,
        fuse_long_attention: false,
        f16_matmul: F16Matmul::Tiles,
        transpose: Transpose::Direct,
    };

    /// Encodes the configuration as a number, for storage.
    pub fn number(&self) -> u32 {
        let mut number = u32::from(self.fuse_long_attention) << 2 | self.rows as u32;
        for (at, tile) in self.matmul_tiles.iter().chain(&self.conv_tiles).enumerate() {
            number |= (*tile as u32) << (3 + 2 * at);
        }
        number |= (self.f16_matmul as u32) << 15 | (self.transpose as u32) << 16;
        number | u32::from(self.fuse_short_attention) << 17 | self.split() << 18
    }

    /// Encodes the split-K options in two bits.
    fn split(&self) -> u32 {
        u32::from(self.split_k_matmul) | u32::from(self.split_k_conv) << 1
    }

    /// Decodes a result of [`number`](KernelConfig::number). `None` for any other number.
    pub fn from_number(number: u32) -> Option<KernelConfig> {
        let tile = |at: u32| {
            let all = [Tile::Thread, Tile::Small, Tile::Medium, Tile::Large];
            all[(number >> (3 + 2 * at) & 3) as usize]
        };
        let rows = *[Rows::Thread, Rows::SharedMemory, Rows::Subgroups].get(number as usize & 3)?;
        let transpose = [Transpose::Direct, Transpose::Tiled][number as usize >> 16 & 1];
        let halves = [F16Matmul::Tiles, F16Matmul::CooperativeMatrices][number as usize >> 15 & 1];
        if number >> 20 != 0 {
            return None;
        }
        Some(KernelConfig {
            rows,
            matmul_tiles: [tile(0), tile(1), tile(2)],
            conv_tiles: [tile(3), tile(4), tile(5)],
            split_k_matmul: number >> 18 & 1 != 0,
            split_k_conv: number >> 19 & 1 != 0,
            fuse_short_attention: number >> 17 & 1 != 0,
            fuse_long_attention: number & 4 != 0,
            transpose,
            f16_matmul: halves,
        })
    }
}
