//! Marks the numbers in generated WGSL that depend on tensor sizes, so that a kernel can later read them from its params
//! instead. Extents of arrays, sizes of workgroups and numbers that unroll code are not marked, because they must be
//! constant.

use std::fmt;

/// The mark in front of such a number, which [`take_marks`] finds. WGSL does not use `$`.
const MARK: char = '$';

/// A number that depends on sizes, printed as a `u32` such as `50u`.
pub struct Unsigned(pub usize);

/// A number that depends on sizes, printed as `50` where an `i32` is expected.
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

/// The position of a number in a text that depends on sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The offset in the text, and the number of bytes including the suffix.
    pub at: usize,
    pub len: usize,
    pub value: u32,
}

/// Removes the marks from a text, and returns their positions.
pub(super) fn take_marks(marked: &str) -> (String, Vec<Size>) {
    let (mut text, mut sizes) = (String::with_capacity(marked.len()), Vec::new());
    for (i, part) in marked.split(MARK).enumerate() {
        if i > 0 {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let suffix = part[digits..].starts_with(['u', 'i']);
            let most = if part[digits..].starts_with('u') { u32::MAX } else { i32::MAX as u32 };
            // A number that does not fit stays in the text, where the compiler rejects it. Nothing else would detect it.
            if let Some(value) = part[..digits].parse().ok().filter(|&value| value <= most) {
                sizes.push(Size { at: text.len(), len: digits + usize::from(suffix), value });
            }
        }
        text += part;
    }
    (text, sizes)
}
