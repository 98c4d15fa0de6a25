//! GPUs of NVIDIA, through the driver: discovery, and streams. Only this folder and `distributed/nccl` call NVIDIA's library.

pub(crate) mod api;
mod context;
mod discovery;
mod events;
pub(crate) mod functions;
mod kernel_cache;
mod module;
mod staging;
mod stream;

pub use discovery::register;
