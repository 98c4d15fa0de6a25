//! The WebAssembly modules of the npm package. wasm-pack builds them from this crate, which exports what the library's module
//! `js` declares. The library itself is only an `rlib`, so native builds do not link a shared library that nothing uses.

// Naming the crate links it. Its exports are then exports of this module.
#[cfg(target_arch = "wasm32")]
extern crate warpweft;
