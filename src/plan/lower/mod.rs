//! Lowering: from placed nodes to kernels.

pub mod collapse;
pub mod context;
pub mod index;
pub mod indexed_loads;
pub mod kernels;
pub mod memo;
pub mod order;
pub mod reduce;
pub mod rewrite;
pub mod routines;
pub mod shaders;
pub mod writer;
