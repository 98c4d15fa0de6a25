//! The error of a translation.

use std::fmt;

/// The reason why a shader cannot be translated, and its location in the WGSL where known.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The reason, without the location.
    pub message: String,
    /// The line and the column, from 1.
    pub location: Option<(u32, u32)>,
}

impl Error {
    /// Makes an error without a location.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), location: None }
    }

    /// Adds the location of a span in the source, unless the error has one.
    pub(crate) fn locate(mut self, span: naga::Span, source: &str) -> Error {
        let inside = |range: std::ops::Range<usize>| {
            range.start <= source.len() && source.is_char_boundary(range.start)
        };
        if self.location.is_none() && span.is_defined() && span.to_range().is_some_and(inside) {
            let location = span.location(source);
            self.location = Some((location.line_number, location.line_position));
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ptx: {}", self.message)?;
        match self.location {
            Some((line, column)) => write!(f, ", at line {line} column {column}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The result of a step of the translation.
pub type Result<T> = std::result::Result<T, Error>;
