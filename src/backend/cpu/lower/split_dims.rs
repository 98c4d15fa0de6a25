//! Splitting of coordinates that a program divides. A view at quotients and remainders of a coordinate then becomes a sum of
//! strides, which is read in runs instead of element by element.

use crate::expr::Binary;
use crate::kernel::{Atom, Builder, Index, Inst, Program, Space, Store, ValueId};

/// Splits the divided coordinates of a valid program. Returns `None` if no coordinate can be split. Elements keep their
/// order.
pub fn split(space: &Space, program: &Program) -> Option<(Space, Program)> {
    let divisors: Vec<Vec<usize>> =
        (0..space.dims.len()).map(|d| divisors(space.dims[d], program, d)).collect();
    if divisors.iter().all(Vec::is_empty) {
        return None;
    }
    let digits = SplitDims::new(space, &divisors);
    let coordinates: Vec<Index> = (0..space.dims.len()).map(|d| digits.whole(d)).collect();
    let mut b = Builder::default();
    let mut values: Vec<ValueId> = Vec::with_capacity(program.insts.len());
    // The values that are sums of strides.
    let mut sums: Vec<Option<Index>> = Vec::with_capacity(program.insts.len());
    for inst in &program.insts {
        let found = match (inst, part(program, inst)) {
            (Inst::Coord(d), _) => Some(coordinates[*d as usize].clone()),
            (_, Some((d, part))) if divisors[d].contains(&part.by()) => Some(digits.part(d, part)),
            _ => None,
        };
        values.push(match (&found, inst) {
            (Some(index), _) => b.index(index),
            (None, Inst::Load { input, index, dtype }) => {
                let index = replaced(index, &coordinates, &sums, &values);
                b.push(Inst::Load { input: *input, index, dtype: *dtype })
            }
            (None, other) => b.push(other.substitute(None, &values)),
        });
        sums.push(found);
    }
    for store in &program.stores {
        let index = replaced(&store.index, &coordinates, &sums, &values);
        b.store(Store { index, value: values[store.value as usize], ..store.clone() });
    }
    Some((digits.space, b.finish()))
}

/// A space whose coordinates are split into digits of a mixed radix.
struct SplitDims {
    space: Space,
    /// The digits of each original coordinate, slowest first. Each has its number in the new space and its weight.
    places: Vec<Vec<(u32, usize)>>,
}

impl SplitDims {
    fn new(space: &Space, divisors: &[Vec<usize>]) -> SplitDims {
        let (mut dims, mut outer, mut places) = (Vec::new(), 0, Vec::new());
        for (d, divisors) in divisors.iter().enumerate() {
            let mut digits = Vec::new();
            let mut above = space.dims[d];
            for &weight in divisors.iter().rev().chain([&1]) {
                digits.push((dims.len() as u32, weight));
                dims.push(above / weight);
                above = weight;
            }
            places.push(digits);
            if d < space.outer {
                outer = dims.len();
            }
        }
        SplitDims { space: Space { dims, outer }, places }
    }

    /// Returns an original coordinate.
    fn whole(&self, d: usize) -> Index {
        self.part(d, Part::Quotient(1))
    }

    /// Returns a part of an original coordinate, in units of its lowest digit.
    fn part(&self, d: usize, part: Part) -> Index {
        let mut index = Index::constant(0);
        for &(digit, weight) in &self.places[d] {
            let times = match part {
                Part::Quotient(by) if weight >= by => weight / by,
                Part::Remainder(by) if weight < by => weight,
                _ => continue,
            };
            index.add(&Index::atom(Atom::Coord(digit)), times as i64);
        }
        index
    }
}

fn replaced(
    index: &Index,
    coordinates: &[Index],
    sums: &[Option<Index>],
    values: &[ValueId],
) -> Index {
    let mut new = Index::constant(index.offset);
    for &(atom, stride) in &index.terms {
        match atom {
            Atom::Coord(d) => new.add(&coordinates[d as usize], stride),
            Atom::Value(v) => match &sums[v as usize] {
                Some(sum) => new.add(sum, stride),
                None => new.add(&Index::atom(Atom::Value(values[v as usize])), stride),
            },
        }
    }
    new
}

/// A part of a coordinate that an instruction computes.
#[derive(Clone, Copy)]
enum Part {
    Quotient(usize),
    Remainder(usize),
}

impl Part {
    fn by(self) -> usize {
        let (Part::Quotient(by) | Part::Remainder(by)) = self;
        by
    }
}

fn part(program: &Program, inst: &Inst) -> Option<(usize, Part)> {
    let Inst::Binary(op, x, y) = inst else { return None };
    let (Inst::Coord(d), Inst::Const(number)) =
        (&program.insts[*x as usize], &program.insts[*y as usize])
    else {
        return None;
    };
    let number = number.bits;
    let part = match op {
        Binary::Shr if number < 31 => Part::Quotient(1 << number),
        Binary::And if (number as i32) > 0 && (number + 1).is_power_of_two() => {
            Part::Remainder(number as usize + 1)
        }
        Binary::Div if (number as i32) > 0 => Part::Quotient(number as usize),
        Binary::Rem if (number as i32) > 0 => Part::Remainder(number as usize),
        _ => return None,
    };
    Some((*d as usize, part))
}

/// Returns the divisors of coordinate `d` in ascending order, if each divides the next one and the last divides the extent.
fn divisors(extent: usize, program: &Program, d: usize) -> Vec<usize> {
    let parts = program.insts.iter().filter_map(|inst| match part(program, inst) {
        Some((of, part)) if of == d => Some(part.by()),
        _ => None,
    });
    let mut divisors: Vec<usize> = parts.filter(|&by| by > 1).collect();
    divisors.sort_unstable();
    divisors.dedup();
    let steps = divisors.windows(2).all(|pair| pair[1].is_multiple_of(pair[0]));
    let nested = extent > 0 && steps && divisors.last().is_none_or(|&by| extent.is_multiple_of(by));
    if !nested {
        divisors.clear();
    }
    divisors
}
