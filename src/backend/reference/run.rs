//! A kernel at work: what it reads, and what it writes.

use super::scalar::Cell;
use crate::dtype::DType;
use crate::kernel::Counts;

/// What a kernel does, or what of its contract it breaks.
pub type Outcome<T = ()> = Result<T, String>;

/// A kernel's buffers and numbers.
pub struct Run<'a> {
    inputs: Vec<&'a [u8]>,
    /// What the outputs held before.
    before: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
    /// For each byte of the outputs whether an element that begins there was written.
    written: Vec<Vec<bool>>,
    pub params: Vec<u32>,
}

impl<'a> Run<'a> {
    pub fn new(inputs: Vec<&'a [u8]>, outputs: Vec<Vec<u8>>, params: Vec<u32>) -> Run<'a> {
        let written = outputs.iter().map(|output| vec![false; output.len()]).collect();
        Run { inputs, before: outputs.clone(), outputs, written, params }
    }

    /// What programs may name; `epilogue` says whether there is a routine's result.
    pub fn counts(&self, epilogue: bool) -> Counts {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        Counts { inputs, outputs, params: self.params.len(), epilogue }
    }

    /// An element of an input, as a kernel's value.
    pub fn load(&self, input: usize, at: Option<i64>, dtype: DType) -> Cell {
        element(self.inputs.get(input)?, at, dtype)
    }

    /// An element of an output, as it was before the kernel.
    pub fn before(&self, output: usize, at: Option<i64>, dtype: DType) -> Cell {
        element(self.before.get(output)?, at, dtype)
    }

    /// Writes an element of an output; each is written once.
    pub fn store(&mut self, output: usize, at: Option<i64>, dtype: DType, value: Cell) -> Outcome {
        let bits = value.ok_or("a store of what lies outside a buffer")?;
        let at = at.and_then(|at| usize::try_from(at).ok()).ok_or("a store before its buffer")?;
        let start = at.saturating_mul(dtype.size());
        let place = start..start.saturating_add(dtype.size());
        let memory = self.outputs.get_mut(output).and_then(|output| output.get_mut(place));
        let memory = memory.ok_or("a store behind its buffer")?;
        memory.copy_from_slice(&dtype.store(bits).to_le_bytes()[..dtype.size()]);
        match std::mem::replace(&mut self.written[output][start], true) {
            true => Err(format!("element {at} of output {output} is written twice")),
            false => Ok(()),
        }
    }
}

/// An element in memory, as a kernel's value.
fn element(memory: &[u8], at: Option<i64>, dtype: DType) -> Cell {
    let (at, size) = (usize::try_from(at?).ok()?, dtype.size());
    let start = at.checked_mul(size)?;
    let element = memory.get(start..start.checked_add(size)?)?;
    let mut word = [0; 4];
    word[..size].copy_from_slice(element);
    Some(dtype.load(u32::from_le_bytes(word)))
}
