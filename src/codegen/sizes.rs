//! Where in a text numbers stand that follow from sizes. Only such numbers are marked that may be read when the kernel
//! runs: no extents of arrays, no sizes of workgroups, nothing that is written out.

use std::fmt;

/// A number as it is printed first, to be found by [`take_marks`]. WGSL has no `$`.
const MARK: char = '$';

/// A number that follows from sizes, as a `u32`: `50u`.
pub struct Unsigned(pub usize);

/// The same where an `i32` is expected: `50`.
pub struct Signed(pub u64);

impl fmt::Display for Unsigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}u", self.0)
    }
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}", self.0)
    }
}

/// A number in a text that follows from sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Where in the text it begins, and how many bytes it has there, its suffix included.
    pub at: usize,
    pub len: usize,
    pub value: u32,
}

/// A text without the marks, and where they were.
pub(super) fn take_marks(marked: &str) -> (String, Vec<Size>) {
    let (mut text, mut sizes) = (String::with_capacity(marked.len()), Vec::new());
    for (i, part) in marked.split(MARK).enumerate() {
        if i > 0 {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let suffix = part[digits..].starts_with(['u', 'i']);
            let most = if part[digits..].starts_with('u') { u32::MAX } else { i32::MAX as u32 };
            // What does not fit stays as it is: compilers refuse it, and nothing else would.
            if let Some(value) = part[..digits].parse().ok().filter(|&value| value <= most) {
                sizes.push(Size { at: text.len(), len: digits + usize::from(suffix), value });
            }
        }
        text += part;
    }
    (text, sizes)
}
