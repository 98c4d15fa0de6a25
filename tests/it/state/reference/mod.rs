//! The reference: an eager float64 interpreter of the contract in `docs/state.md`. It shares no code with the library.
//!
//! Every operation is computed at once and recorded on a tape, so there is nothing that could be computed too late or
//! forgotten. Gradients follow the tape backwards by the rules of a textbook. Optimizers are the formulas of their papers.

pub mod array;
pub mod number;
pub mod optimizer;
pub mod rules;
pub mod tape;
