//! The contract of `docs/state.md`: tensors, variables, steps, programs and checkpoints in any order.

mod found;
