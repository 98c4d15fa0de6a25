//! Tensor compute on whatever GPU is in front of you.
//!
//! The order of the paragraphs below is the architecture: a module names only modules of earlier paragraphs.

pub mod dtype;

pub mod error;

mod lru;
mod room;

pub mod shape;

pub mod expr;

pub mod op;

pub mod graph;
pub mod kernel;

pub mod codegen;
pub mod expand;

pub mod grad;
pub mod plan;

pub mod backend;

pub mod device;

pub mod tensor;

pub mod tune;

#[cfg(feature = "wgpu-interop")]
pub mod interop;

#[cfg(all(target_arch = "wasm32", feature = "js"))]
mod js;
