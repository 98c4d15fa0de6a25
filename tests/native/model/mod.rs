//! Tests language models: small ones with random weights against plain `f64` code, and real ones against exact values.

mod calls;
mod embedder;
mod folder;
mod lora;
mod lora_files;
mod random_programs;
mod real;
mod residency;
mod source;
mod tiny;
mod toy_reference;

use std::io::Write as _;
use std::path::PathBuf;

/// Returns the path of a model. Returns `None` with a visible message if the file is missing, or fails if `WARPWEFT_REQUIRE`
/// names models.
pub fn path(file: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("WARPWEFT_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".tools/models"),
    };
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    let message = format!("models: {} is not there; `npm run setup` gets it", path.display());
    let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
    assert!(!required.contains("models"), "WARPWEFT_REQUIRE={required}, but {message}");
    let _ = writeln!(std::io::stderr(), "{message}");
    None
}
