//! NVIDIA GPUs. [`ptx`] translates WGSL to PTX, the assembly language of these GPUs, and [`CudaBackend`] runs kernels on a
//! [`Stream`].
//!
//! No stream on a real GPU exists yet. Tests run the backend on an interpreter of PTX (`tests/interpreter`).

mod backend;
pub mod ptx;
pub mod tensor_cores;

pub use backend::{CudaBackend, Launch, Stream};
