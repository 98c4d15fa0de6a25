//! The folder of caches on disk.

use std::path::PathBuf;

/// Returns the folder of `WARPWEFT_CACHE`, otherwise `warpweft` in the system's cache folder. Returns `None` if that variable
/// is empty, or the system has no cache folder. Nothing is cached on disk then.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("WARPWEFT_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => dirs::cache_dir()?.join("warpweft"),
    };
    (!folder.as_os_str().is_empty()).then_some(folder)
}
