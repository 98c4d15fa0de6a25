//! A matrix product, as its shaders take it.

use crate::codegen::slot::Slot;
use crate::kernel::Tile;

/// A matrix product by its shader.
pub struct Product<'a> {
    pub tile: Tile,
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a_along_k: bool,
    pub b_along_k: bool,
    pub a: Slot<'a>,
    pub b: Slot<'a>,
    pub epilogue: Slot<'a>,
}
