//! The reference: an eager float64 interpreter of the contract in `docs/state.md`. It shares no code with the library.
//!
//! Every operation is computed at once and recorded on a tape, so nothing can be computed too late or freed too early.
//! Gradients follow the tape backwards by textbook rules. Optimizers are the formulas of their papers.

pub mod array;
pub mod number;
pub mod optimizer;
pub mod random;
pub mod rules;
pub mod tape;
