//! Dynamic shapes: where in a text numbers stand that follow from sizes, and the same text with some of them read from the
//! params instead. Only such numbers are marked that may be read when the kernel runs: no extents of arrays, no sizes of
//! workgroups, nothing that is written out.

use crate::codegen::Source;
use rustc_hash::FxHasher;
use std::fmt;
use std::hash::{Hash, Hasher};

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

impl Source {
    /// A hash of all but the sizes: two kernels that differ in these alone have the same.
    pub fn structure(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let mut from = 0;
        for size in &self.sizes {
            self.text[from..size.at].hash(&mut hasher);
            from = size.at + size.len;
        }
        self.text[from..].hash(&mut hasher);
        hasher.finish()
    }

    /// The same kernel, which reads sizes from its params: `words` says for each size which word it is after the
    /// [`params`](Source::params) there are, or that it stays. Constants that are made of those are written where they are
    /// used.
    pub fn dynamic(&self, words: &[Option<usize>]) -> Source {
        let count = words.iter().flatten().max().map_or(0, |last| last + 1);
        let params = self.params + count.div_ceil(4);
        let mut text = String::with_capacity(self.text.len());
        let mut from = 0;
        // The first one is the extent of the params themselves.
        for (n, size) in self.sizes.iter().enumerate() {
            text += &self.text[from..size.at];
            from = size.at + size.len;
            let printed = &self.text[size.at..from];
            match words[n] {
                _ if n == 0 => put!(text, "{params}"),
                Some(word) => {
                    let kind = if printed.ends_with('u') { "u32" } else { "i32" };
                    let component = ["x", "y", "z", "w"][word % 4];
                    put!(text, "{kind}(params[{}].{component})", self.params + word / 4);
                }
                None => text += printed,
            }
        }
        text += &self.text[from..];
        Source { text: inline_constants(&text), sizes: Vec::new(), params, ..*self }
    }
}

/// Writes what the module calls constants, and is none, where it is used.
fn inline_constants(text: &str) -> String {
    let (mut all, mut known) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        let line = inlined(line, &known);
        let constant = line.strip_prefix("const ").filter(|rest| rest.contains("params["));
        if let Some((name, value)) = constant.and_then(|rest| rest.split_once(" = ")) {
            known.push((name.to_string(), format!("({})", value.trim_end_matches(';'))));
        } else {
            all += &line;
            all.push('\n');
        }
    }
    all
}

/// A line with these values in the place of their names.
fn inlined(line: &str, known: &[(String, String)]) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut text, mut rest) = (String::new(), line);
    while let Some(start) = rest.find(word) {
        let (before, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|c| !word(c)).unwrap_or(from.len()));
        let value = known.iter().find(|(known, _)| known == name);
        text += before;
        text += value.map_or(name, |(_, value)| value);
        rest = after;
    }
    text + rest
}
