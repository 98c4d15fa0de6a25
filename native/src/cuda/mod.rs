//! NVIDIA GPUs. [`ptx`] translates WGSL to PTX, the assembly language of these GPUs, and [`CudaBackend`] runs kernels on a
//! [`Stream`]. The streams of real GPUs are in `driver`. [`register`] makes these GPUs devices.
//!
//! Tests run the backend on an interpreter of PTX (`tests/interpreter`), and the streams on a mock of NVIDIA's library
//! (`tests/mock-driver`). Nothing has run on a real GPU yet.

mod backend;
pub(crate) mod driver;
pub mod ptx;
pub mod tensor_cores;

pub use backend::{CudaBackend, Launch, Stream};
pub use driver::register;
