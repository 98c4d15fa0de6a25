//! Index arithmetic across spaces: broadcasting, and cancellation of division and remainder that reshapes introduce.

use crate::kernel::{Atom, Index, ValueId};
use crate::shape::Shape;

/// The origin of a value that is an atom of an index: `of / by` or `of % by`.
#[derive(Clone, Debug)]
pub struct Origin {
    pub of: Index,
    pub by: i64,
    pub remainder: bool,
    /// The largest value.
    pub max: i64,
}

/// Coordinates of another space in terms of a kernel's space, with the origins of their values.
pub struct Coordinates {
    pub coords: Vec<Index>,
    pub origins: Origins,
}

/// The origins of values. A list, because there are few.
pub type Origins = Vec<(ValueId, Origin)>;

/// Returns the origin of a value, if known.
pub fn origin(origins: &[(ValueId, Origin)], value: ValueId) -> Option<&Origin> {
    origins.iter().find(|(known, _)| *known == value).map(|(_, origin)| origin)
}

/// Returns the coordinates in an operand of shape `from` that is broadcast to the space of `coords`.
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

/// Returns `sum(coords[i] * strides[i])`, with `by * (a / by) + a % by` simplified to `a`.
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

/// Combines one quotient with its remainder, if the index has both.
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
    /// Whether the coordinates visit the elements of `there` in the row-major order of `here`.
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

    /// Derives the value of some `a` from the known values of `a / by` and `a % by`, unless `a` is known already.
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
