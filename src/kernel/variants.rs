//! Which of several kernels for the same work a device runs. All give right results everywhere; which is fastest differs
//! from machine to machine.

use std::fmt;

/// How the threads of a workgroup share the rows of a reduction or a row program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// A row has one thread.
    Alone,
    /// A row has several, which meet in workgroup memory.
    Meet,
    /// The same, but neighbours pass their results to each other directly first, where the device can
    /// ([`Limits::subgroups`](super::Limits::subgroups)).
    Subgroups,
}

/// How the results of a product or a convolution are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tile {
    /// Each thread reads what its own eight by eight results need.
    Alone,
    /// A workgroup reads what its 32 x 32 results need, into its memory.
    Small,
    /// The same with 64 x 64 results.
    Middle,
    /// The same with 128 x 128 results.
    Large,
}

/// How elements move to where they are written along another axis than they lie along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moves {
    /// Each thread reads what it writes.
    Alone,
    /// A workgroup turns tiles of 32 x 32 elements in its memory.
    Tiles,
}

/// How products of two operands that are halves are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Halves {
    /// As all others.
    #[default]
    Tiles,
    /// By cooperative matrices of 8 x 8, where the device has them
    /// ([`Limits::cooperative`](super::Limits::cooperative)): natively only.
    Matrices,
}

/// The kernels that a device runs where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variants {
    pub rows: Rows,
    /// For products with fewer than 64 tiles of 64 x 64 results, with more, and with at least 128 of 128 x 128. A product
    /// of at most 16 rows or columns has tiles of its own in all but [`Tile::Alone`].
    pub products: [Tile; 3],
    /// The same for convolutions, seen as products of the weights and the windows.
    pub convolutions: [Tile; 3],
    /// Whether products of few results and long sums are computed in parts of the sums, which are then added (split-K).
    pub split_k: bool,
    /// For attention of at most four queries, and of more: whether it is one kernel; otherwise it is two products and a
    /// softmax, as long as the scores take at most 128 MiB.
    pub attention: [bool; 2],
    /// For products of halves with more than 16 rows and columns.
    pub halves: Halves,
    pub moves: Moves,
}

impl Default for Variants {
    fn default() -> Variants {
        Variants::TOGETHER
    }
}

impl fmt::Display for Variants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = ["alone", "meet", "subgroups"][self.rows as usize];
        write!(f, "rows: {rows}; products:")?;
        let tiles = |f: &mut fmt::Formatter<'_>, tiles: &[Tile]| {
            tiles.iter().try_for_each(|&tile| {
                let name = ["alone", "32 x 32", "64 x 64", "128 x 128"][tile as usize];
                write!(f, " {name},")
            })
        };
        tiles(f, &self.products)?;
        f.write_str(" convolutions:")?;
        tiles(f, &self.convolutions)?;
        f.write_str(if self.split_k { " long sums: split; attention:" } else { " attention:" })?;
        for whole in self.attention {
            f.write_str(if whole { " one kernel," } else { " apart," })?;
        }
        f.write_str([" moves: alone", " moves: tiles"][self.moves as usize])?;
        f.write_str(["", "; halves: matrices"][self.halves as usize])
    }
}

impl Variants {
    /// What GPUs get before anything is measured.
    pub const TOGETHER: Variants = Variants {
        rows: Rows::Meet,
        products: [Tile::Small, Tile::Middle, Tile::Large],
        convolutions: [Tile::Small, Tile::Middle, Tile::Large],
        split_k: true,
        attention: [true; 2],
        halves: Halves::Tiles,
        moves: Moves::Tiles,
    };

    /// What GPUs get that a CPU plays: their threads meet slowly, so none do but in the one kernel for long attention.
    pub const ALONE: Variants = Variants {
        rows: Rows::Alone,
        products: [Tile::Alone; 3],
        convolutions: [Tile::Alone; 3],
        split_k: false,
        attention: [false; 2],
        halves: Halves::Tiles,
        moves: Moves::Alone,
    };

    /// All as one number, for storing it.
    pub fn number(&self) -> u32 {
        let mut number = u32::from(self.attention[1]) << 2 | self.rows as u32;
        for (at, tile) in self.products.iter().chain(&self.convolutions).enumerate() {
            number |= (*tile as u32) << (3 + 2 * at);
        }
        number |= (self.halves as u32) << 15 | (self.moves as u32) << 16;
        number | u32::from(self.attention[0]) << 17 | u32::from(self.split_k) << 18
    }

    /// What [`number`](Variants::number) gave; `None` for any other number.
    pub fn from_number(number: u32) -> Option<Variants> {
        let tile = |at: u32| {
            let all = [Tile::Alone, Tile::Small, Tile::Middle, Tile::Large];
            all[(number >> (3 + 2 * at) & 3) as usize]
        };
        let rows = *[Rows::Alone, Rows::Meet, Rows::Subgroups].get(number as usize & 3)?;
        let moves = [Moves::Alone, Moves::Tiles][number as usize >> 16 & 1];
        let halves = [Halves::Tiles, Halves::Matrices][number as usize >> 15 & 1];
        if number >> 19 != 0 {
            return None;
        }
        Some(Variants {
            rows,
            products: [tile(0), tile(1), tile(2)],
            convolutions: [tile(3), tile(4), tile(5)],
            split_k: number >> 18 & 1 != 0,
            attention: [number >> 17 & 1 != 0, number & 4 != 0],
            moves,
            halves,
        })
    }
}

/// Which entry of a list of tiles a product of `batch` times `m` x `n` results gets.
pub fn class(batch: usize, m: usize, n: usize) -> usize {
    let tiles = |size: usize| batch * m.div_ceil(size) * n.div_ceil(size);
    match () {
        _ if m > 64 && n > 64 && tiles(128) >= 128 => 2,
        _ if tiles(64) >= 64 => 1,
        _ => 0,
    }
}
