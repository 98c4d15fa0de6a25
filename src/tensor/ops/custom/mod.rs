//! Operations that users write in WGSL: functions of elements and compute shaders.

mod element;
mod shader;

pub use element::ElementFunction;
pub use shader::Shader;
