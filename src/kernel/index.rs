//! Indices into buffers: sums of coordinates and values times strides.

/// The result of an earlier instruction of the same program.
pub type ValueId = u32;

/// A variable of a linear index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// The coordinate along a dimension of the space.
    Coord(u32),
    /// An `i32` value of the program.
    Value(ValueId),
}

/// The position of an element in a buffer: `offset + sum(atom * stride)`. A strided view is such an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Index {
    pub offset: i64,
    /// The strides, sorted by atom, without duplicates and without strides of 0.
    pub terms: Vec<(Atom, i64)>,
}

impl Index {
    /// Creates a constant index.
    pub fn constant(offset: i64) -> Index {
        Index { offset, terms: Vec::new() }
    }

    /// Creates the index of one coordinate of the space.
    pub fn coordinate(dim: usize) -> Index {
        Index::atom(Atom::Coord(dim as u32))
    }

    /// Creates the indices of the first coordinates of the space.
    pub fn coordinates(count: usize) -> Vec<Index> {
        let mut coordinates = Vec::with_capacity(count);
        for dim in 0..count {
            coordinates.push(Index::coordinate(dim));
        }
        coordinates
    }

    /// Creates `count` indices of 0.
    pub fn zeros(count: usize) -> Vec<Index> {
        let mut zeros = Vec::with_capacity(count);
        for _ in 0..count {
            zeros.push(Index::constant(0));
        }
        zeros
    }

    /// Creates the index of a coordinate or a value.
    pub fn atom(atom: Atom) -> Index {
        Index { offset: 0, terms: vec![(atom, 1)] }
    }

    /// Returns `self + other * factor`.
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

    /// Returns the stride of a coordinate or value. It is 0 if the atom does not occur.
    pub fn stride(&self, atom: Atom) -> i64 {
        self.terms.iter().find(|term| term.0 == atom).map_or(0, |term| term.1)
    }

    /// Whether the index depends on a coordinate from `outer` on, or on a value marked in `varying`.
    pub fn varies(&self, outer: usize, varying: &[bool]) -> bool {
        self.terms.iter().any(|(atom, _)| match atom {
            Atom::Coord(d) => *d as usize >= outer,
            Atom::Value(v) => varying[*v as usize],
        })
    }

    /// Returns the values that occur in the index.
    pub fn values(&self) -> Vec<ValueId> {
        let mut values = Vec::new();
        for &(atom, _) in &self.terms {
            if let Atom::Value(value) = atom {
                values.push(value);
            }
        }
        values
    }

    /// Returns the index with new value numbers and, if given, new coordinates.
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
