//! The model files that tests use as a user would.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Returns the path of a model that `npm run setup` downloads. Returns `None` with a visible message if the file is missing, or
/// fails if `WARPWEFT_REQUIRE` names models.
pub fn model(file: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("WARPWEFT_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/models"),
    };
    let path = folder.join(file);
    if !path.exists() {
        let message = format!("models: {} is not there; `npm run setup` gets it", path.display());
        let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
        assert!(!required.contains("models"), "WARPWEFT_REQUIRE={required}, but {message}");
        let _ = writeln!(std::io::stderr(), "{message}");
        return None;
    }
    Some(path)
}
