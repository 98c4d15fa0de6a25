//! Incremental SHA-256 of files. Browsers can hash only whole files.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use wasm_bindgen::prelude::*;

/// An incremental hash, for `www/src/model-files.ts`.
#[wasm_bindgen(js_name = Sha256, skip_typescript)]
#[derive(Default)]
pub struct JsSha256(Sha256);

#[wasm_bindgen(js_class = "Sha256")]
impl JsSha256 {
    /// Starts a hash.
    #[wasm_bindgen(constructor, skip_typescript)]
    pub fn new() -> JsSha256 {
        JsSha256::default()
    }

    /// Adds bytes.
    #[wasm_bindgen(skip_typescript)]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of all bytes as 64 hexadecimal digits, and starts a new hash.
    #[wasm_bindgen(skip_typescript)]
    pub fn finish(&mut self) -> String {
        self.0.finalize_reset().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}
