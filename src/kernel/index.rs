//! Positions in buffers: sums of coordinates and values times strides.

/// The result of an earlier instruction of the same program.
pub type ValueId = u32;

/// What a linear index is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// The coordinate along a dimension of the space.
    Coord(u32),
    /// An `i32` value of the program.
    Value(ValueId),
}

/// An element's position in a buffer: `offset + sum(atom * stride)`. A view is nothing but such an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Index {
    pub offset: i64,
    /// Sorted by atom, each once, no stride 0.
    pub terms: Vec<(Atom, i64)>,
}

impl Index {
    /// A constant.
    pub fn constant(offset: i64) -> Index {
        Index { offset, terms: Vec::new() }
    }

    /// One coordinate of the space.
    pub fn coordinate(dim: usize) -> Index {
        Index::atom(Atom::Coord(dim as u32))
    }

    /// The first coordinates of the space.
    pub fn coordinates(count: usize) -> Vec<Index> {
        let mut coordinates = Vec::with_capacity(count);
        for dim in 0..count {
            coordinates.push(Index::coordinate(dim));
        }
        coordinates
    }

    /// So many times 0.
    pub fn zeros(count: usize) -> Vec<Index> {
        let mut zeros = Vec::with_capacity(count);
        for _ in 0..count {
            zeros.push(Index::constant(0));
        }
        zeros
    }

    /// A coordinate or a value.
    pub fn atom(atom: Atom) -> Index {
        Index { offset: 0, terms: vec![(atom, 1)] }
    }

    /// `self + other * factor`.
    pub fn plus(&self, other: &Index, factor: i64) -> Index {
        let mut sum = self.clone();
        sum.add(other, factor);
        sum
    }

    /// Adds `other * factor`.
    pub fn add(&mut self, other: &Index, factor: i64) {
        self.offset += other.offset * factor;
        for &(atom, stride) in &other.terms {
            let at = self.terms.iter().position(|term| term.0 >= atom).unwrap_or(self.terms.len());
            let there = self.terms.get(at).is_some_and(|term| term.0 == atom);
            if !there {
                self.terms.insert(at, (atom, 0));
            }
            self.terms[at].1 += stride * factor;
            if self.terms[at].1 == 0 {
                self.terms.remove(at);
            }
        }
    }

    /// The stride of a coordinate or value; 0 where it does not occur.
    pub fn stride(&self, atom: Atom) -> i64 {
        self.terms.iter().find(|term| term.0 == atom).map_or(0, |term| term.1)
    }

    /// Whether it depends on a coordinate from `outer` on, or on a value that `varying` says so of.
    pub fn varies(&self, outer: usize, varying: &[bool]) -> bool {
        self.terms.iter().any(|(atom, _)| match atom {
            Atom::Coord(d) => *d as usize >= outer,
            Atom::Value(v) => varying[*v as usize],
        })
    }

    /// The values it names.
    pub fn values(&self) -> Vec<ValueId> {
        let mut values = Vec::new();
        for &(atom, _) in &self.terms {
            if let Atom::Value(value) = atom {
                values.push(value);
            }
        }
        values
    }

    /// The same position where the values have new numbers, and the coordinates (if they are given) are others.
    pub fn substitute(&self, coordinates: Option<&[Index]>, values: &[ValueId]) -> Index {
        let mut result = Index::constant(self.offset);
        for &(atom, stride) in &self.terms {
            let atom = match (atom, coordinates) {
                (Atom::Coord(d), Some(coordinates)) => {
                    result.add(&coordinates[d as usize], stride);
                    continue;
                }
                (Atom::Coord(_), None) => atom,
                (Atom::Value(v), _) => Atom::Value(values[v as usize]),
            };
            result.add(&Index::atom(atom), stride);
        }
        result
    }
}
