//! Validation of custom WGSL by naga.

use super::shader::Shader;
use super::tokens::located;
use crate::error::{Error, Result};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::Module;

/// Parses and validates a module. `source` is the user's part of it, at the beginning.
///
/// # Errors
/// `InvalidArgument`, with line and column.
pub fn parsed(op: &str, text: &str, source: &str) -> Result<Module> {
    let module = naga::front::wgsl::parse_str(text).map_err(|error| {
        let mut message = error.message().to_string();
        let mut at = None;
        for (span, label) in error.labels() {
            if !label.is_empty() {
                message += &format!(" ({label})");
            }
            at = at.or(span.to_range().map(|range| range.start));
        }
        error_at(op, source, at, &message)
    })?;
    let flags = ValidationFlags::all();
    match Validator::new(flags, Capabilities::SHADER_FLOAT16).validate(&module) {
        Ok(_) => Ok(module),
        Err(error) => {
            let at = error.spans().find_map(|(span, _)| span.to_range()).map(|range| range.start);
            let mut message = error.as_inner().to_string();
            let mut source_of = std::error::Error::source(error.as_inner());
            while let Some(cause) = source_of {
                message += &format!(": {cause}");
                source_of = cause.source();
            }
            Err(error_at(op, source, at, &message))
        }
    }
}

/// Validates a shader.
///
/// # Errors
/// `InvalidArgument`, with line and column.
pub fn shader(shader: &Shader) -> Result<()> {
    parsed("shader", shader.source(), shader.source()).map(drop)
}

/// Creates an error with its position in the user's text, if it is inside of that.
fn error_at(op: &str, source: &str, at: Option<usize>, message: &str) -> Error {
    match at {
        Some(at) if at < source.len() => located(op, source, at, message),
        _ => Error::argument(format!("{op}: {message}")),
    }
}
