//! The operations of tensors: the pointwise table, structural operations, routines, and custom operations.

pub mod constant;
pub mod custom;
pub mod formulas;
pub mod function;
pub mod packed;
pub mod pointwise;
pub mod routine;
pub mod spans;
pub mod structural;

pub use constant::Const;
pub use custom::{Element, Shader, ShaderCall};
pub use function::Function;
pub use packed::{PackedArithmetic, PackedFormat};
pub use pointwise::{Pointwise, Row, Types};
pub use routine::{Attention, Conv2d, Routine};
pub use spans::{Offset, PadAmount, Span, Windows};
pub use structural::{Op, Reduction};
