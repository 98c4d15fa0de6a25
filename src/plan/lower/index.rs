//! Coordinates of other spaces, and division with remainder put together again that reshapes took apart.

use crate::kernel::{Atom, Index, ValueId};
use crate::shape::Shape;

/// Where a value that is used as an atom came from: it is `of / by` or `of % by`.
#[derive(Clone, Debug)]
pub struct Origin {
    pub of: Index,
    pub by: i64,
    pub remainder: bool,
    /// The largest value it takes.
    pub max: i64,
}

/// Coordinates of another space as a kernel being written says them, with where their values came from.
pub struct Coordinates {
    pub coords: Vec<Index>,
    pub origins: Origins,
}

/// Where values came from: few.
pub type Origins = Vec<(ValueId, Origin)>;

/// Where a value came from, if that is known.
pub fn origin(origins: &[(ValueId, Origin)], value: ValueId) -> Option<&Origin> {
    origins.iter().find(|(known, _)| *known == value).map(|(_, origin)| origin)
}

/// The coordinates of an operand of shape `from` that is broadcast to where `coords` are.
pub fn broadcast(coords: &[Index], from: &[usize]) -> Vec<Index> {
    let aligned = &coords[coords.len() - from.len()..];
    let mut coords = aligned.to_vec();
    for (coord, &extent) in coords.iter_mut().zip(from) {
        if extent == 1 {
            *coord = Index::constant(0);
        }
    }
    coords
}

/// `sum(coords[i] * strides[i])`, with `by * (a / by) + a % by` put together to `a` again.
pub fn linearise(origins: &[(ValueId, Origin)], coords: &[Index], strides: &[usize]) -> Index {
    let mut sum = Index::constant(0);
    for (coord, &stride) in coords.iter().zip(strides) {
        sum.add(coord, stride as i64);
    }
    while let Some(better) = rejoin(origins, &sum) {
        sum = better;
    }
    sum
}

/// The index with a quotient and a remainder put together, if there are such.
fn rejoin(origins: &[(ValueId, Origin)], index: &Index) -> Option<Index> {
    let value = |atom: Atom| match atom {
        Atom::Value(v) => Some((v, origin(origins, v)?)),
        Atom::Coord(_) => None,
    };
    for &(atom, stride) in &index.terms {
        let Some((_, remainder)) = value(atom).filter(|(_, o)| o.remainder) else { continue };
        for &(other, larger) in &index.terms {
            let Some((_, quotient)) = value(other).filter(|(_, o)| !o.remainder) else {
                continue;
            };
            let same = quotient.of == remainder.of && quotient.by == remainder.by;
            if same && larger == stride * remainder.by {
                let mut joined = index.plus(&Index::atom(atom), -stride);
                joined.add(&Index::atom(other), -larger);
                joined.add(&remainder.of, stride);
                return Some(joined);
            }
        }
    }
    None
}

impl Coordinates {
    /// Whether they name the same elements in row-major order, `here` being this space and `there` theirs.
    pub fn keep_order(&self, here: &Shape, there: &Shape) -> bool {
        let mut linear = linearise(&self.origins, &self.coords, &there.strides());
        for (axis, (&extent, stride)) in here.iter().zip(here.strides()).enumerate() {
            let coordinate = Index::coordinate(axis);
            let has = linear.stride(Atom::Coord(axis as u32));
            if extent != 1 && has != stride as i64 {
                return false;
            }
            linear.add(&coordinate, -has);
        }
        linear == Index::constant(0)
    }

    /// What `a / by` and `a % by` that are known say of `a`, unless that is known, too.
    pub fn rejoin(&self, known: &[(Index, Index)]) -> Option<(Index, Index)> {
        let of = |index: &Index| match index.terms[..] {
            [(Atom::Value(v), 1)] if index.offset == 0 => origin(&self.origins, v),
            _ => None,
        };
        let half = |remainder: bool| {
            let known = known.iter().filter_map(move |(from, to)| Some((of(from)?, to)));
            known.filter(move |(origin, _)| origin.remainder == remainder)
        };
        half(false).find_map(|(quotient, high)| {
            let same = |o: &Origin| o.of == quotient.of && o.by == quotient.by;
            let (_, low) = half(true).find(|(remainder, _)| same(remainder))?;
            let new = known.iter().all(|k| k.0 != quotient.of);
            new.then(|| (quotient.of.clone(), low.plus(high, quotient.by)))
        })
    }
}
