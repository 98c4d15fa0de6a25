//! Operations that users write in WGSL: elementwise functions and compute shaders.

mod element;
mod shader;

pub use element::ElementFunction;
pub use shader::Shader;
