//! Fusion: which nodes are materialized, and which are computed inside the kernels that use them.

pub mod cost;
pub mod fusion_limits;
pub mod placement;
