//! Which of several kernels for the same work a device runs. All give right results everywhere; which is fastest differs
//! from machine to machine.

use std::fmt;

/// How a workgroup's threads share the rows of a reduction or of a kernel that keeps whole rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One thread per row.
    Thread,
    /// Several threads per row, which combine their results in shared memory (WGSL's `workgroup` memory).
    SharedMemory,
    /// The same, after a subgroup reduction, if supported ([`Limits::subgroups`](super::Limits::subgroups)).
    Subgroups,
}

/// The tile of a matrix product or a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tile {
    /// Register tiles of 8 x 8 results per thread, without shared memory.
    Thread,
    /// A workgroup stages 32 x 32 results' operands in shared memory.
    Small,
    /// The same with 64 x 64 results.
    Medium,
    /// The same with 128 x 128 results.
    Large,
}

/// How elements are copied that lie along one axis and are written along another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Each thread reads what it writes.
    Direct,
    /// A workgroup transposes tiles of 32 x 32 elements in shared memory.
    Tiled,
}

/// How products of two `f16` operands are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Halves {
    /// Like all other products.
    #[default]
    Tiles,
    /// By cooperative matrices of 8 x 8, if supported ([`Limits::cooperative`](super::Limits::cooperative)): natively only.
    CooperativeMatrices,
}

/// The kernels that a device runs where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelConfig {
    pub rows: Rows,
    /// For products with fewer than 64 tiles of 64 x 64 results, with more, and with at least 128 of 128 x 128. A product
    /// of at most 16 rows or columns has tiles of its own in all but [`Tile::Thread`].
    pub products: [Tile; 3],
    /// The same for convolutions, seen as products of the weights and the windows.
    pub convolutions: [Tile; 3],
    /// Of products, and of convolutions: whether those of few results and long sums are computed in parts of the sums, which
    /// are then added (split-K).
    pub split_k: [bool; 2],
    /// For attention of at most four queries, and of more: whether it is one kernel; otherwise it is two products and a
    /// softmax, as long as the scores take at most 128 MiB.
    pub attention: [bool; 2],
    /// For products of halves with more than 16 rows and columns.
    pub halves: Halves,
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
        tiles(f, &self.products)?;
        f.write_str(" convolutions:")?;
        tiles(f, &self.convolutions)?;
        let cut = ["", " split-K of products;", " split-K of convolutions;", " split-K;"];
        write!(f, "{} attention:", cut[self.split() as usize])?;
        for whole in self.attention {
            f.write_str(if whole { " fused," } else { " separate," })?;
        }
        f.write_str([" transpose: direct", " transpose: tiled"][self.transpose as usize])?;
        f.write_str(["", "; f16: cooperative matrices"][self.halves as usize])
    }
}

impl KernelConfig {
    /// The default of GPUs, before anything is measured.
    pub const GPU: KernelConfig = KernelConfig {
        rows: Rows::SharedMemory,
        products: [Tile::Small, Tile::Medium, Tile::Large],
        convolutions: [Tile::Small, Tile::Medium, Tile::Large],
        split_k: [true; 2],
        attention: [true; 2],
        halves: Halves::Tiles,
        transpose: Transpose::Tiled,
    };

    /// The default of software GPUs: barriers are slow there, so no kernel has any but the fused one for long attention.
    pub const EMULATED: KernelConfig = KernelConfig {
        rows: Rows::Thread,
        products: [Tile::Thread; 3],
        convolutions: [Tile::Thread; 3],
        split_k: [false, true],
        attention: [false; 2],
        halves: Halves::Tiles,
        transpose: Transpose::Direct,
    };

    /// All as one number, for storing it.
    pub fn number(&self) -> u32 {
        let mut number = u32::from(self.attention[1]) << 2 | self.rows as u32;
        for (at, tile) in self.products.iter().chain(&self.convolutions).enumerate() {
            number |= (*tile as u32) << (3 + 2 * at);
        }
        number |= (self.halves as u32) << 15 | (self.transpose as u32) << 16;
        number | u32::from(self.attention[0]) << 17 | self.split() << 18
    }

    /// Which sums are cut, as a number.
    fn split(&self) -> u32 {
        u32::from(self.split_k[0]) | u32::from(self.split_k[1]) << 1
    }

    /// What [`number`](KernelConfig::number) gave; `None` for any other number.
    pub fn from_number(number: u32) -> Option<KernelConfig> {
        let tile = |at: u32| {
            let all = [Tile::Thread, Tile::Small, Tile::Medium, Tile::Large];
            all[(number >> (3 + 2 * at) & 3) as usize]
        };
        let rows = *[Rows::Thread, Rows::SharedMemory, Rows::Subgroups].get(number as usize & 3)?;
        let transpose = [Transpose::Direct, Transpose::Tiled][number as usize >> 16 & 1];
        let halves = [Halves::Tiles, Halves::CooperativeMatrices][number as usize >> 15 & 1];
        if number >> 20 != 0 {
            return None;
        }
        Some(KernelConfig {
            rows,
            products: [tile(0), tile(1), tile(2)],
            convolutions: [tile(3), tile(4), tile(5)],
            split_k: [number >> 18 & 1 != 0, number >> 19 & 1 != 0],
            attention: [number >> 17 & 1 != 0, number & 4 != 0],
            transpose,
            halves,
        })
    }
}
