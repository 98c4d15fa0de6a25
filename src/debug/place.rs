//! The place in a program where an object is made.

use std::sync::Arc;
#[cfg(target_arch = "wasm32")]
use std::sync::OnceLock;

/// A place in a program.
#[derive(Clone)]
pub(crate) struct Place(
    #[cfg(not(target_arch = "wasm32"))] Arc<std::backtrace::Backtrace>,
    #[cfg(target_arch = "wasm32")] Arc<str>,
);

/// The JavaScript function that returns the current place.
#[cfg(target_arch = "wasm32")]
static CURRENT_PLACE: OnceLock<fn() -> String> = OnceLock::new();

/// Sets the function that returns the current place. Later calls have no effect.
#[cfg(all(target_arch = "wasm32", feature = "js"))]
pub(crate) fn place_by(current_place: fn() -> String) {
    let _ = CURRENT_PLACE.set(current_place);
}

impl Place {
    /// Returns the current place.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn here() -> Place {
        Place(Arc::new(std::backtrace::Backtrace::force_capture()))
    }

    /// Returns the current place.
    #[cfg(target_arch = "wasm32")]
    pub fn here() -> Place {
        Place(CURRENT_PLACE.get().map(|current_place| current_place()).unwrap_or_default().into())
    }

    /// Returns the file and line of the call into this library, or the name of the calling function if these are unknown.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn describe(&self) -> String {
        caller(&self.0.to_string())
    }

    /// Returns the place as JavaScript described it.
    #[cfg(target_arch = "wasm32")]
    pub fn describe(&self) -> String {
        self.0.to_string()
    }
}

/// The path of this file in the folder of the library's sources.
#[cfg(not(target_arch = "wasm32"))]
const HERE: &str = "debug/place.rs";

/// Returns whether a function belongs to a crate between a program and this library.
#[cfg(not(target_arch = "wasm32"))]
fn is_between(function: &str) -> bool {
    let crates = ["warpweft", "warpweft_native", "std", "core", "alloc", "pollster"];
    let name = function.trim_start_matches(['<', '&']);
    crates.iter().any(|own| name.strip_prefix(own).is_some_and(|rest| rest.starts_with("::")))
}

/// Returns the innermost frame of a backtrace that is outside of this library, such as `src/main.rs:12:5`, or the name of the
/// function if files are unknown. Inlined functions have no crate name, so the file decides if it is known.
#[cfg(not(target_arch = "wasm32"))]
fn caller(backtrace: &str) -> String {
    let mut frames: Vec<(&str, Option<&str>)> = Vec::new();
    for line in backtrace.lines().map(str::trim) {
        match (line.strip_prefix("at "), line.split_once(": "), frames.last_mut()) {
            (Some(file), _, Some(frame)) => frame.1 = Some(file),
            (None, Some((number, function)), _) if number.parse::<u32>().is_ok() => {
                frames.push((function, None));
            }
            _ => {}
        }
    }
    let path = |file: &str| -> String {
        let end = file.find(".rs:").map_or(file.len(), |at| at + 3);
        file[..end].replace('\\', "/")
    };
    let own = |file: &str| path(file).strip_suffix(HERE).map(str::to_string);
    let root = frames.iter().find_map(|(_, file)| own((*file)?));
    let outside = |&&(function, file): &&(&str, Option<&str>)| match (file, &root) {
        (Some(file), Some(root)) => {
            let file = path(file);
            let between = file.starts_with("/rustc/") || file.contains("/pollster-");
            !(between || is_between(function) || file.starts_with(root.as_str()))
        }
        _ => !is_between(function),
    };
    match frames.iter().find(outside) {
        Some((function, file)) => file.unwrap_or(function).trim_start_matches("./").to_string(),
        None => "an unknown place".to_string(),
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::caller;

    #[test]
    fn the_first_frame_outside() {
        let trace = "   0: std::backtrace::Backtrace::force_capture\n             at /rustc/1/library/std/backtrace.rs:1:2\n   \
                     1: here\n             at ./src/debug/place.rs:35:9\n   \
                     2: adopt\n             at ./src/tensor/mod.rs:78:9\n   \
                     3: <warpweft::tensor::Tensor as core::ops::Add>::add\n   \
                     4: main\n             at ./native/src/main.rs:12:5\n   5: std::rt::lang_start\n";
        assert_eq!(caller(trace), "native/src/main.rs:12:5");
        assert_eq!(caller("   0: warpweft::x\n   1: app::step\n   2: app::main\n"), "app::step");
        assert_eq!(caller(""), "an unknown place");
    }
}
