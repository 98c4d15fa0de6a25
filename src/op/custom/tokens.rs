//! The tokenizer for custom WGSL. It handles as much of the language as is needed to find and rename declarations.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;

/// The deepest nesting of brackets.
const MAX_BRACKET_DEPTH: usize = 64;
/// The most tokens between two semicolons or braces.
const MAX_STATEMENT_TOKENS: usize = 1000;
/// The most occurrences of `else` in a source.
const MAX_ELSE: usize = 200;
/// The most bytes of a source.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// A name, a keyword, a number, or one other character.
#[derive(Clone, Debug)]
pub struct Token {
    pub at: Range<usize>,
    pub kind: Kind,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Name,
    Number,
    Symbol,
}

/// A source with its tokens.
#[derive(Clone, Debug)]
pub struct Text {
    pub source: String,
    pub tokens: Vec<Token>,
}

/// Creates an error at a position of a source. `op` names the source. Lines and columns count from 1, columns in
/// characters.
pub fn located(op: &str, source: &str, at: usize, message: &str) -> Error {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Error::argument(format!("{op}: line {line}, column {column}: {message}"))
}

impl Text {
    /// Splits `source` into tokens. Errors name `op`.
    pub fn new(op: &str, source: &str) -> Result<Text> {
        if source.len() > MAX_SOURCE_BYTES {
            let (bytes, most) = (source.len(), MAX_SOURCE_BYTES);
            return Err(Error::argument(format!(
                "{op}: the source must have at most {most} bytes, got {bytes}"
            )));
        }
        let (mut words, mut at) = (Vec::new(), 0);
        while let Some(first) = source[at..].chars().next() {
            let start = at;
            let rest = &source[at..];
            if first.is_whitespace() {
                at += first.len_utf8();
                continue;
            }
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            if rest.starts_with("/*") {
                at = after_comment(source, at)
                    .ok_or_else(|| located(op, source, start, "a comment that does not end"))?;
                continue;
            }
            let part = |c: char| c.is_alphanumeric() || c == '_';
            let kind = match first {
                '0'..='9' => {
                    at += number(rest);
                    Kind::Number
                }
                '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    at += number(rest);
                    Kind::Number
                }
                _ if part(first) => {
                    at += rest.find(|c| !part(c)).unwrap_or(rest.len());
                    Kind::Name
                }
                _ if first.is_ascii_punctuation() && !"$\\\"'`#?".contains(first) => {
                    at += 1;
                    Kind::Symbol
                }
                _ => {
                    let message = format!("characters must be those of WGSL, got {first:?}");
                    return Err(located(op, source, at, &message));
                }
            };
            words.push(Token { at: start..at, kind });
        }
        let text = Text { source: source.to_string(), tokens: words };
        text.check_depth(op)?;
        Ok(text)
    }

    /// Limits the nesting of a source, because compilers recurse into it and could overflow the stack.
    fn check_depth(&self, op: &str) -> Result<()> {
        let (mut depth, mut length, mut others) = (0usize, 0, 0);
        for n in 0..self.tokens.len() {
            length += 1;
            match self.word(n) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                "{" => (depth, length) = (depth + 1, 0),
                "}" => (depth, length) = (depth.saturating_sub(1), 0),
                ";" => length = 0,
                "else" => others += 1,
                _ => {}
            }
            let excess = [
                (depth, MAX_BRACKET_DEPTH, "brackets in each other"),
                (length, MAX_STATEMENT_TOKENS, "words of one statement"),
                (others, MAX_ELSE, "times `else`"),
            ];
            if let Some((_, most, of)) = excess.into_iter().find(|(count, most, _)| count > most) {
                return Err(located(
                    op,
                    &self.source,
                    self.at(n),
                    &format!("more than {most} {of}"),
                ));
            }
        }
        Ok(())
    }

    /// Returns the n-th word, or an empty text after the last one.
    pub fn word(&self, n: usize) -> &str {
        self.tokens.get(n).map_or("", |word| &self.source[word.at.clone()])
    }

    /// Returns the position of the n-th word.
    pub fn at(&self, n: usize) -> usize {
        self.tokens.get(n).map_or(self.source.len(), |word| word.at.start)
    }

    /// Whether the n-th word is a name or a keyword.
    pub fn is_name(&self, n: usize) -> bool {
        self.tokens.get(n).is_some_and(|word| word.kind == Kind::Name)
    }

    /// Finds two adjacent words.
    pub fn pair(&self, first: &str, second: &str) -> Option<usize> {
        (0..self.tokens.len()).find(|&n| self.word(n) == first && self.word(n + 1) == second)
    }

    /// Whether any name begins with `prefix`.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        (0..self.tokens.len()).any(|n| self.is_name(n) && self.word(n).starts_with(prefix))
    }

    /// Returns the text without comments, with `prefix` in front of each name in `declared`.
    pub fn renamed(&self, declared: &BTreeSet<String>, prefix: &str) -> String {
        let members = self.members();
        let (mut text, mut from) = (String::with_capacity(self.source.len()), 0);
        for (n, word) in self.tokens.iter().enumerate() {
            text += &blank(&self.source[from..word.at.start]);
            from = word.at.end;
            let name = self.word(n);
            let member = n > 0 && self.word(n - 1) == "." || members.contains(&n);
            if word.kind == Kind::Name && !member && declared.contains(name) {
                text += prefix;
            }
            text += name;
        }
        text
    }

    /// Returns the words that name members of structures.
    fn members(&self) -> BTreeSet<usize> {
        let (mut members, mut inside) = (BTreeSet::new(), false);
        for n in 0..self.tokens.len() {
            match self.word(n) {
                "struct" => inside = true,
                "}" => inside = false,
                _ if inside && self.is_name(n) && self.word(n + 1) == ":" => {
                    members.insert(n);
                }
                _ => {}
            }
        }
        members
    }
}

/// Returns the text between two words, with comments replaced by blanks.
fn blank(between: &str) -> String {
    match between.contains('/') {
        true if between.contains('\n') => "\n".into(),
        true => " ".into(),
        false => between.into(),
    }
}

/// Returns the end of the comment that begins at `from`. Comments can be nested.
fn after_comment(source: &str, from: usize) -> Option<usize> {
    let (mut depth, mut at) = (0usize, from);
    loop {
        let rest = &source[at..];
        let next = rest.find(['*', '/'])?;
        at += next;
        let rest = &rest[next..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
}

/// Returns the bytes of the number that a text begins with.
fn number(text: &str) -> usize {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let exponent = if hex { "pP" } else { "eE" };
        let signed = "+-".contains(c) && exponent.contains(before);
        if !(c.is_ascii_alphanumeric() || c == '.' || signed) {
            return at;
        }
        before = c;
    }
    text.len()
}
