//! The program writer, and index arithmetic: sums, products with constants, and division with remainder.

use super::index::{linearise, origin, Coordinates, Origin, Origins};
use crate::dtype::DType;
use crate::expr::Binary;
use crate::kernel::{Atom, Builder, Index, Inst, ValueId};
use rustc_hash::FxHashMap;

/// The role of a program: the body of a kernel, or the way a routine reads an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProgramRole {
    Body,
    Operand,
}

/// A writer of one program over a space.
pub struct ProgramWriter {
    pub builder: Builder,
    pub dims: Vec<usize>,
    pub outer: usize,
    pub origins: Origins,
    /// Numbers that the user passed and indices use, each with its largest value.
    pub numbers: Vec<(ValueId, i64)>,
    pub role: ProgramRole,
    /// The values written so far, by node and coordinates.
    pub memo: FxHashMap<(usize, Vec<Index>), ValueId>,
}

impl ProgramWriter {
    pub fn new(dims: &[usize], outer: usize, part: ProgramRole) -> ProgramWriter {
        ProgramWriter {
            builder: Builder::default(),
            dims: dims.to_vec(),
            outer,
            origins: Origins::new(),
            numbers: Vec::new(),
            role: part,
            memo: FxHashMap::default(),
        }
    }

    pub fn is_map(&self) -> bool {
        self.outer == self.dims.len()
    }

    /// Takes coordinates of another space with the origins of their values. The writer is not used afterwards.
    pub fn found(&mut self, coords: &[Index]) -> Coordinates {
        Coordinates { coords: coords.to_vec(), origins: std::mem::take(&mut self.origins) }
    }

    /// Makes a number that the user passed an index from 0 to `max`.
    pub fn number(&mut self, value: ValueId, max: usize) -> Index {
        let max = max as i64;
        match self.numbers.iter_mut().find(|(known, _)| *known == value) {
            Some((_, most)) => *most = max.min(*most),
            None => self.numbers.push((value, max)),
        }
        Index::atom(Atom::Value(value))
    }

    /// Returns the largest value of a number that the user passed. `None` for other values.
    fn most(&self, value: ValueId) -> Option<i64> {
        self.numbers.iter().find(|(known, _)| *known == value).map(|(_, max)| *max)
    }

    /// Returns the smallest and largest value of an index. `None` if the range of an atom is unknown.
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

    /// Returns `(index / by, index % by)` for an index that is not negative wherever its value is used.
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
            // Parts of the index may be negative, so the whole index is divided.
            _ => {
                let max = self.range(index).map_or(i64::from(i32::MAX), |r| r.1.max(0));
                let divided = self.quotient(index, by, max / by, false);
                (divided, self.quotient(index, by, by - 1, true))
            }
        }
    }

    fn quotient(&mut self, of: &Index, by: i64, max: i64, remainder: bool) -> Index {
        let of_value = self.builder.index(of);
        // Bit operations suffice because the value is not negative. Shader compilers cannot know that.
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

    /// Returns the row-major coordinates in `dims` of the element at `linear`.
    pub fn delinearise(&mut self, linear: &Index, dims: &[usize]) -> Vec<Index> {
        let mut rest = linear.clone();
        let mut coords = Index::zeros(dims.len());
        for (i, &extent) in dims.iter().enumerate().rev() {
            if extent <= 1 {
                continue;
            }
            // The outermost extent above 1 needs no remainder.
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

    /// Returns the coordinates in `shape` of this space's element, both in row-major order.
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

    /// Returns `sum(coords[i] * strides[i])`, with `by * (a / by) + a % by` simplified to `a`.
    pub fn linearise(&self, coords: &[Index], strides: &[usize]) -> Index {
        linearise(&self.origins, coords, strides)
    }

    /// Returns the coordinates of the space that the indices depend on. `None` if they also depend on loaded data.
    pub fn coordinates(&self, indices: &[Index]) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        for (atom, _) in indices.iter().flat_map(|index| &index.terms) {
            match atom {
                Atom::Coord(d) => found.push(*d),
                // A number that the user passed is the same at all coordinates.
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
