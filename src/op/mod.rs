//! What can be asked of a tensor: the pointwise table, structural operations, and routines.

pub mod formulas;
pub mod pointwise;
pub mod routine;
pub mod spans;
pub mod structural;

pub use pointwise::{Pointwise, Row, Types};
pub use routine::{Attention, Conv2d, Routine};
pub use spans::{Margin, Span, Start, Windows};
pub use structural::{Const, Op, Reduction};
