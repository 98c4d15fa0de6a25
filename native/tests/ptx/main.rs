//! Tests the translation of WGSL to PTX: each construct and function is run on an interpreter, and compared with Rust.
// Threads and workgroups are numbers, and a comparison with NaN is not the opposite of the other one.
#![allow(clippy::needless_range_loop, clippy::neg_cmp_op_on_partial_ord)]

mod accuracy;
mod attention;
mod common;
mod fuzz;
mod semantics;
mod subgroups;
mod tensor_cores;
mod translation;
