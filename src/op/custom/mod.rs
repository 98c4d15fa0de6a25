//! Custom operations that users write in WGSL: elementwise functions and compute shaders.

#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
mod check;
#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
mod compile;
mod element;
#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
mod places;
mod shader;
#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
mod steps;
mod tokens;
#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
mod values;

#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
pub use check::shader as check_shader;
#[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
pub use compile::compiled;
pub use element::{Element, Step, Steps};
pub use shader::{Binding, Shader, ShaderCall};
