//! Outputs, which are divided between tasks.

use crate::backend::cpu::lower::plan::{Level, SerialStore, Target};
use crate::backend::cpu::lower::walk::Walk;
use crate::backend::cpu::math::elementary::{from_half, to_half};
use crate::dtype::DType;
use crate::error::{Error, Result};
use bytemuck::cast_slice_mut;

/// Writable elements.
#[derive(Debug)]
pub enum Elements<'a> {
    Words(&'a mut [u32]),
    /// Floats of 16 bits.
    Halves(&'a mut [u16]),
    /// Integers of 16 bits.
    Shorts(&'a mut [u16]),
    Bytes(&'a mut [u8]),
}

impl<'a> Elements<'a> {
    /// Borrows the elements of a buffer.
    pub fn of(buffer: &'a mut [u32], dtype: DType) -> Elements<'a> {
        match dtype.size() {
            1 => Elements::Bytes(cast_slice_mut(buffer)),
            2 if dtype.is_packed() => Elements::Shorts(cast_slice_mut(buffer)),
            2 => Elements::Halves(cast_slice_mut(buffer)),
            _ => Elements::Words(buffer),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Elements::Words(words) => words.len(),
            Elements::Halves(halves) | Elements::Shorts(halves) => halves.len(),
            Elements::Bytes(bytes) => bytes.len(),
        }
    }

    fn reborrow(&mut self) -> Elements<'_> {
        match self {
            Elements::Words(words) => Elements::Words(words),
            Elements::Halves(halves) => Elements::Halves(halves),
            Elements::Shorts(shorts) => Elements::Shorts(shorts),
            Elements::Bytes(bytes) => Elements::Bytes(bytes),
        }
    }

    /// Splits off the first `len` elements.
    fn take(&mut self, len: usize) -> Elements<'a> {
        match self {
            Elements::Words(words) => Elements::Words(first(words, len)),
            Elements::Halves(halves) => Elements::Halves(first(halves, len)),
            Elements::Shorts(shorts) => Elements::Shorts(first(shorts, len)),
            Elements::Bytes(bytes) => Elements::Bytes(first(bytes, len)),
        }
    }
}

/// Splits off the first `len` elements.
fn first<'a, T>(elements: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (taken, rest) = std::mem::take(elements).split_at_mut(len);
    *elements = rest;
    taken
}

/// A task's part of a target: the elements from position `base` on.
#[derive(Debug)]
pub struct Piece<'a> {
    elements: Elements<'a>,
    base: i64,
}

impl Piece<'_> {
    /// Creates an empty piece.
    pub fn empty() -> Piece<'static> {
        Piece { elements: Elements::Words(&mut []), base: 0 }
    }

    /// Creates a piece of words, which begin at position `base` of a target.
    pub fn words(words: &mut [u32], base: usize) -> Piece<'_> {
        Piece { elements: Elements::Words(words), base: base as i64 }
    }

    /// Writes `values`, from the count `start` on.
    pub fn store(&mut self, walk: &Walk, start: usize, values: &[u32]) {
        match &mut self.elements {
            Elements::Words(words) => walk.store(start, self.base, values, words, |x| x),
            Elements::Halves(halves) => {
                walk.store(start, self.base, values, halves, to_half);
            }
            Elements::Shorts(shorts) => walk.store(start, self.base, values, shorts, |x| x as u16),
            Elements::Bytes(bytes) => walk.store(start, self.base, values, bytes, |x| x as u8),
        }
    }

    /// Reads elements, from the count `start` on.
    pub fn load(&self, walk: &Walk, start: usize, out: &mut [u32]) {
        let at = (start, -self.base);
        match &self.elements {
            Elements::Words(words) => walk.load(at, words, out, |x| x),
            Elements::Halves(halves) => walk.load(at, halves, out, from_half),
            // Elements that share words are never read and overwritten by one kernel.
            Elements::Shorts(_) | Elements::Bytes(_) => {}
        }
    }
}

/// The targets with the elements that they write.
pub struct Outputs<'p, 'a> {
    targets: &'p [Target],
    elements: Vec<Elements<'a>>,
}

impl<'p, 'a> Outputs<'p, 'a> {
    /// Combines the targets with the outputs `buffers`. Targets without an output use the words in `aside`.
    pub fn new(
        targets: &'p [Target],
        buffers: &mut [Option<&'a mut [u32]>],
        aside: &'a mut [Vec<u32>],
    ) -> Result<Outputs<'p, 'a>> {
        let mut aside = aside.iter_mut();
        let mut elements = Vec::with_capacity(targets.len());
        for target in targets {
            let found = match target.output {
                Some((output, dtype)) => {
                    let buffer = buffers.get_mut(output).and_then(Option::take);
                    buffer.map(|buffer| Elements::of(buffer, dtype))
                }
                None => aside.next().map(|words| Elements::Words(words)),
            };
            let all = |found: &Elements<'_>| target.walks.iter().all(|w| w.inside(found.len()));
            let there = found.filter(all);
            elements.push(there.ok_or_else(too_short)?);
        }
        Ok(Outputs { targets, elements })
    }

    /// Returns the pieces of each of `parts`, which are ranges of rows and elements.
    pub fn divide(&mut self, parts: &[Part]) -> Vec<Vec<Piece<'_>>> {
        let mut pieces: Vec<Vec<Piece<'_>>> = Vec::with_capacity(parts.len());
        pieces.resize_with(parts.len(), || Vec::with_capacity(self.targets.len()));
        for (target, elements) in self.targets.iter().zip(&mut self.elements) {
            let mut rest = elements.reborrow();
            let mut base = 0i64;
            for (part, pieces) in parts.iter().zip(&mut pieces) {
                let (start, end) = match target.level {
                    Level::Element => part.elements,
                    _ => part.rows,
                };
                if start >= end {
                    pieces.push(Piece::empty());
                    continue;
                }
                let (first, past) = target.range(start, end);
                rest.take((first - base) as usize);
                pieces.push(Piece { elements: rest.take((past - first) as usize), base: first });
                base = past;
            }
        }
        pieces
    }
}

/// A task's part of a space.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub rows: (usize, usize),
    pub elements: (usize, usize),
}

/// Copies temporary words to their positions in an output.
pub fn copy_to_output(
    after: &SerialStore,
    buffer: &mut [u32],
    values: &[u32],
    positions: Option<&[u32]>,
) -> Result<()> {
    let mut elements = Elements::of(buffer, after.dtype);
    let Some(positions) = positions else {
        if !after.walk.inside(elements.len()) {
            return Err(too_short());
        }
        Piece { elements, base: 0 }.store(&after.walk, 0, values);
        return Ok(());
    };
    for (&position, &value) in positions.iter().zip(values) {
        let at = position as usize;
        match &mut elements {
            Elements::Words(words) => {
                if let Some(word) = words.get_mut(at) {
                    *word = value;
                }
            }
            Elements::Halves(halves) => {
                if let Some(half) = halves.get_mut(at) {
                    *half = to_half(value);
                }
            }
            Elements::Shorts(shorts) => {
                if let Some(short) = shorts.get_mut(at) {
                    *short = value as u16;
                }
            }
            Elements::Bytes(bytes) => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value as u8;
                }
            }
        }
    }
    Ok(())
}

/// Returns the error for an output that is smaller than the writes.
pub fn too_short() -> Error {
    Error::state("cpu: a kernel must write inside its output, got another position")
}
