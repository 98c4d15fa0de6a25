//! Arithmetic on indices: sums, products with constants, and division with remainder that recovers what reshapes took
//! apart.

use super::lower::Writer;
use crate::dtype::DType;
use crate::expr::Binary;
use crate::kernel::{Atom, Index, Inst, ValueId};
use crate::shape::Shape;

/// Where a value that is used as an atom came from: it is `of / by` or `of % by`.
#[derive(Clone, Debug)]
pub struct Origin {
    of: Index,
    by: i64,
    remainder: bool,
    /// The largest value it takes.
    max: i64,
}

/// Coordinates of another space as a kernel being written says them, with where their values came from.
pub struct Coordinates {
    pub coords: Vec<Index>,
    origins: Origins,
}

/// Where values came from: few.
pub type Origins = Vec<(ValueId, Origin)>;

/// Where a value came from, if that is known.
fn origin(origins: &[(ValueId, Origin)], value: ValueId) -> Option<&Origin> {
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

fn linearise(origins: &[(ValueId, Origin)], coords: &[Index], strides: &[usize]) -> Index {
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

impl Writer {
    /// Coordinates of another space, with where they came from; this space is given up.
    pub fn found(&mut self, coords: &[Index]) -> Coordinates {
        Coordinates { coords: coords.to_vec(), origins: std::mem::take(&mut self.origins) }
    }

    /// A number of the user's as an index: one from 0 to `max`.
    pub fn number(&mut self, value: ValueId, max: usize) -> Index {
        let max = max as i64;
        match self.numbers.iter_mut().find(|(known, _)| *known == value) {
            Some((_, most)) => *most = max.min(*most),
            None => self.numbers.push((value, max)),
        }
        Index::atom(Atom::Value(value))
    }

    /// The largest number of the user's that a value can be; `None` for other values.
    fn most(&self, value: ValueId) -> Option<i64> {
        self.numbers.iter().find(|(known, _)| *known == value).map(|(_, max)| *max)
    }

    /// The smallest and largest value an index takes; `None` where an atom's range is unknown.
    fn range(&self, index: &Index) -> Option<(i64, i64)> {
        let (mut low, mut high) = (index.offset, index.offset);
        for &(atom, stride) in &index.terms {
            let max = match atom {
                Atom::Coord(d) => (self.dims[d as usize] as i64 - 1).max(0),
                Atom::Value(v) => match self.most(v) {
                    Some(max) => max,
                    None => origin(&self.origins, v)?.max,
                },
            };
            if stride > 0 {
                high += stride * max;
            } else {
                low += stride * max;
            }
        }
        Some((low, high))
    }

    /// `(index / by, index % by)` for an index that is not negative wherever its value is used.
    pub fn divide(&mut self, index: &Index, by: i64) -> (Index, Index) {
        if by == 1 {
            return (index.clone(), Index::constant(0));
        }
        let mut quotient = Index::constant(index.offset.div_euclid(by));
        let mut rest = Index::constant(index.offset.rem_euclid(by));
        for &(atom, stride) in &index.terms {
            if stride % by == 0 {
                quotient.terms.push((atom, stride / by));
            } else {
                rest.terms.push((atom, stride));
            }
        }
        match self.range(&rest) {
            Some((low, high)) if low >= 0 && high < by => (quotient, rest),
            Some((low, high)) if low >= 0 => {
                let extra = self.quotient(&rest, by, high / by, false);
                (quotient.plus(&extra, 1), self.quotient(&rest, by, by - 1, true))
            }
            // Below zero only together: divide the whole.
            _ => {
                let max = self.range(index).map_or(i64::from(i32::MAX), |r| r.1.max(0));
                let divided = self.quotient(index, by, max / by, false);
                (divided, self.quotient(index, by, by - 1, true))
            }
        }
    }

    fn quotient(&mut self, of: &Index, by: i64, max: i64, remainder: bool) -> Index {
        let of_value = self.builder.index(of);
        // Bits do for what is not negative, which compilers cannot know.
        let (op, by_value) = match (by & (by - 1) == 0, remainder) {
            (true, true) => (Binary::And, by - 1),
            (true, false) => (Binary::Shr, i64::from(by.trailing_zeros())),
            (false, true) => (Binary::Rem, by),
            (false, false) => (Binary::Div, by),
        };
        let by_value = self.builder.number(DType::I32, by_value as f64);
        let value = self.builder.push(Inst::Binary(op, of_value, by_value));
        let origin = Origin { of: of.clone(), by, remainder, max };
        match self.origins.iter_mut().find(|(known, _)| *known == value) {
            Some(known) => known.1 = origin,
            None => self.origins.push((value, origin)),
        }
        Index { offset: 0, terms: vec![(Atom::Value(value), 1)] }
    }

    /// The coordinates in `dims` of the element at `linear`, row-major.
    pub fn delinearise(&mut self, linear: &Index, dims: &[usize]) -> Vec<Index> {
        let mut rest = linear.clone();
        let mut coords = Index::zeros(dims.len());
        for (i, &extent) in dims.iter().enumerate().rev() {
            if extent <= 1 {
                continue;
            }
            // The outermost extent that matters needs no remainder.
            if dims[..i].iter().all(|&d| d <= 1) {
                coords[i] = rest;
                break;
            }
            let (quotient, remainder) = self.divide(&rest, extent as i64);
            coords[i] = remainder;
            rest = quotient;
        }
        coords
    }

    /// The coordinates in `shape` of the space's own element, both row-major.
    pub fn reshaped(&mut self, shape: &[usize]) -> Vec<Index> {
        let mut linear = Index::constant(0);
        let mut stride = 1;
        for (dim, &extent) in self.dims.iter().enumerate().rev() {
            if extent != 1 {
                linear.add(&Index::coordinate(dim), stride);
                stride *= extent as i64;
            }
        }
        self.delinearise(&linear, shape)
    }

    /// `sum(coords[i] * strides[i])`, with `by * (a / by) + a % by` put together to `a` again.
    pub fn linearise(&self, coords: &[Index], strides: &[usize]) -> Index {
        linearise(&self.origins, coords, strides)
    }

    /// Which coordinates of the space indices depend on; `None` if also on loaded data.
    pub fn coordinates(&self, indices: &[Index]) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        for (atom, _) in indices.iter().flat_map(|index| &index.terms) {
            match atom {
                Atom::Coord(d) => found.push(*d),
                // The same everywhere.
                Atom::Value(v) if self.most(*v).is_some() => {}
                Atom::Value(v) => {
                    let origin = origin(&self.origins, *v)?;
                    found.extend(self.coordinates(std::slice::from_ref(&origin.of))?);
                }
            }
        }
        Some(found)
    }
}
