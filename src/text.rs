//! Texts: what the standard library does as well, but with tables and machinery that every page would have to load.

use std::fmt;

/// Where `part` first stands in `text`.
pub fn find(text: &str, part: &str) -> Option<usize> {
    let starts = 0..=text.len().checked_sub(part.len())?;
    starts.into_iter().find(|&at| text.as_bytes()[at..].starts_with(part.as_bytes()))
}

/// Numbers in brackets; a shape, as people write it.
pub struct List<'a>(pub &'a [usize]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

/// A number for people: six decimals at most.
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Number(value) = *self;
        if !value.is_finite() {
            return f.write_str(if value.is_nan() { "NaN" } else { "inf" });
        }
        let (mut size, mut exponent) = (value.abs(), 0);
        let plain = size == 0.0 || (1e-3..1e12).contains(&size);
        while !plain && size >= 10.0 {
            (size, exponent) = (size / 10.0, exponent + 1);
        }
        while !plain && size < 1.0 {
            (size, exponent) = (size * 10.0, exponent - 1);
        }
        let millionths = (size * 1e6).round() as u64;
        let (mut decimals, mut digits) = (millionths % 1_000_000, 6);
        while decimals % 10 == 0 && digits > 0 {
            (decimals, digits) = (decimals / 10, digits - 1);
        }
        write!(f, "{}{}", if value < 0.0 { "-" } else { "" }, millionths / 1_000_000)?;
        if digits > 0 {
            write!(f, ".{decimals:0digits$}")?;
        }
        if exponent != 0 {
            write!(f, "e{exponent}")?;
        }
        Ok(())
    }
}

/// The text of a shader as it is embedded, and its length: without comments, blank lines, indentation and bindings.
/// All of it is done by the compiler.
pub const fn strip<const LENGTH: usize>(shader: &str) -> ([u8; LENGTH], usize) {
    let text = shader.as_bytes();
    let mut out = [0; LENGTH];
    let (mut line, mut length) = (0, 0);
    while line < text.len() {
        let mut first = line;
        while first < text.len() && text[first] == b' ' {
            first += 1;
        }
        let dropped = first == text.len() || matches!(text[first], b'/' | b'\n' | b'\r');
        let dropped = dropped || text[first] == b'@' && text[first + 1] == b'g';
        let mut at = line;
        while at < text.len() && (at == line || text[at - 1] != b'\n') {
            // Of what a line is indented by, one blank tells it from the end of a function.
            if !dropped && text[at] != b'\r' && at + 1 >= first {
                if length < LENGTH {
                    out[length] = text[at];
                }
                length += 1;
            }
            at += 1;
        }
        line = at;
    }
    (out, length)
}

#[cfg(test)]
mod tests {
    use super::{find, strip, Number};

    #[test]
    fn numbers_for_people() {
        let text = |value: f64| Number(value).to_string();
        assert_eq!([2.0, -0.5, 1.25, 0.0].map(text), ["2", "-0.5", "1.25", "0"]);
        assert_eq!(
            [3e9, 1e15, 2.5e-7, f64::NAN].map(text),
            ["3000000000", "1e15", "2.5e-7", "NaN"]
        );
    }

    #[test]
    fn parts_of_texts() {
        assert_eq!(find("abcabd", "abd"), Some(3));
        assert_eq!((find("abc", "abd"), find("", "a"), find("a", "")), (None, None, Some(0)));
    }

    #[test]
    fn shaders_lose_what_is_for_people() {
        const TEXT: &str =
            "// What.\n\n@group(0) x\nconst A = 1;\n  // Why.\n  @compute fn b() {\n  }\n";
        let (bytes, length) = strip::<64>(TEXT);
        assert_eq!(&bytes[..length], b"const A = 1;\n @compute fn b() {\n }\n");
        assert_eq!(strip::<0>(TEXT).1, length);
    }
}
