//! Constants of programs.

use crate::dtype::DType;

/// A constant of a known type, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Const {
    pub dtype: DType,
    pub bits: u32,
}
