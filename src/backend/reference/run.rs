//! The memory accesses of a running kernel.

use super::scalar::Cell;
use crate::dtype::DType;
use crate::kernel::Counts;

/// The result of a step of a kernel, or the rule of the contract that it breaks.
pub type Outcome<T = ()> = Result<T, String>;

/// The buffers and numbers of a kernel.
pub struct Run<'a> {
    inputs: Vec<&'a [u8]>,
    /// The previous contents of the outputs.
    before: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
    /// For each byte of the outputs, whether an element that begins there was written.
    written: Vec<Vec<bool>>,
    pub params: Vec<u32>,
}

impl<'a> Run<'a> {
    pub fn new(inputs: Vec<&'a [u8]>, outputs: Vec<Vec<u8>>, params: Vec<u32>) -> Run<'a> {
        let written = outputs.iter().map(|output| vec![false; output.len()]).collect();
        Run { inputs, before: outputs.clone(), outputs, written, params }
    }

    /// Returns what programs may refer to. `epilogue` tells whether there is a result of a routine.
    pub fn counts(&self, epilogue: bool) -> Counts {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        Counts { inputs, outputs, params: self.params.len(), epilogue }
    }

    /// Reads an element of an input as a value of the kernel.
    pub fn load(&self, input: usize, at: Option<i64>, dtype: DType) -> Cell {
        element(self.inputs.get(input)?, at, dtype)
    }

    /// Reads the previous value of an element of an output.
    pub fn before(&self, output: usize, at: Option<i64>, dtype: DType) -> Cell {
        element(self.before.get(output)?, at, dtype)
    }

    /// Writes an element of an output. Each element is written once.
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

/// Reads an element in memory as a value of the kernel.
fn element(memory: &[u8], at: Option<i64>, dtype: DType) -> Cell {
    let (at, size) = (usize::try_from(at?).ok()?, dtype.size());
    let start = at.checked_mul(size)?;
    let element = memory.get(start..start.checked_add(size)?)?;
    let mut word = [0; 4];
    word[..size].copy_from_slice(element);
    Some(dtype.load(u32::from_le_bytes(word)))
}
