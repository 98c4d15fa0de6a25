//! Tests the translation of WGSL to PTX: each construct and function is run on an interpreter, and compared with Rust.

mod accuracy;
mod common;
mod fuzz;
mod semantics;
mod subgroups;
mod translation;
