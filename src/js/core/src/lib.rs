//! The WebAssembly modules of the npm package. wasm-pack builds them from this crate, which exports what the library's module
//! `js` declares. The library itself is an `rlib` alone, because natively a shared library would be linked for nobody.

// Naming the crate links it. Its exports are then exports of this module.
#[cfg(target_arch = "wasm32")]
extern crate warpweft;
