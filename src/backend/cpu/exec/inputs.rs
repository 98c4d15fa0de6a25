//! The inputs of a kernel.

use crate::backend::cpu::lower::plan::Moves;

/// The input buffers and params of a kernel.
#[derive(Clone)]
pub struct Inputs<'a> {
    pub buffers: Vec<&'a [u32]>,
    pub params: Vec<u32>,
}

impl Inputs<'_> {
    /// Returns the distance by which params move a view.
    pub fn moved(&self, moves: &Moves) -> i64 {
        let step = |&(word, stride): &(usize, i64)| {
            let number = self.params.get(word).copied().unwrap_or(0);
            i64::from(number as i32).wrapping_mul(stride)
        };
        moves.iter().map(step).fold(0, i64::wrapping_add)
    }
}
