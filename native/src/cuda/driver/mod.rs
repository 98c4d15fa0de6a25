//! GPUs of NVIDIA, through the driver: discovery, and streams. This folder has the only calls of NVIDIA's library.

mod api;
mod context;
mod discovery;
mod events;
mod kernel_cache;
mod module;
mod staging;
mod stream;

pub use discovery::register;
