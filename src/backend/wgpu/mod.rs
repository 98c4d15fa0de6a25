//! wgpu
