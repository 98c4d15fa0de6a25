//! Marks in messages, which show who wrote a special token.
//!
//! A mark is a character of a private use area that occurs in no message, in no special token and not in the template. Three
//! styles exist.
//!
//! **Dense**: marks are at the beginning and the end of a text, and between any two of its letters. A template may cut and
//! join texts, but two letters that were neighbors in a message always have a mark between them. Two exceptions let templates
//! examine messages. White space has no mark next to it, so `trim` and `split` work as before. Texts that the template itself
//! mentions, such as `'</think>'` or `'user'`, have no mark inside and next to them, so comparisons work as before. Texts
//! with the name of a special token are not excepted.
//!
//! **Sparse**: marks are only inside the names of special tokens. This style is for templates that count letters or change
//! their case, because the dense prompt then differs from the real one. Such a template could join a name from parts without
//! a mark. So the special tokens of the sparse prompt must equal those of the neutral one.
//!
//! **Neutral**: letters are replaced by `x`, without marks. All special tokens of that prompt are the template's.
//!
//! A name of a single letter cannot have a mark inside. In both styles with marks, it has another mark in front.
//!
//! Limits: names in keys of maps are marked as in the sparse style. A token of only white space, such as a line break, is
//! recognized in messages, too.

use super::super::Tokenizer;
use crate::error::{Error, Result};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde_json::Value;
use std::collections::HashSet;

/// The most texts of a template that are kept without marks.
const MAX_LITERALS: usize = 1024;
/// The most bytes of such a text.
const MAX_LITERAL: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Style {
    Dense,
    Sparse,
    Neutral,
}

/// Puts marks into texts.
pub(super) struct Marker {
    /// The mark between letters, and the mark in front of names of a single letter.
    pub(super) marks: [char; 2],
    /// Texts that the template mentions.
    literals: Option<AhoCorasick>,
    /// Names of special tokens.
    names: Option<AhoCorasick>,
}

/// Builds a search for several texts, which also finds overlapping matches.
fn search(texts: &[&str]) -> Result<Option<AhoCorasick>> {
    if texts.is_empty() {
        return Ok(None);
    }
    let built = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(texts);
    let built = built.map_err(|error| {
        Error::format(format!("chat template: its texts must be searchable, got {error}"))
    })?;
    Ok(Some(built))
}

impl Marker {
    /// Creates a marker for the values of `context` in a template. `real` is the prompt without marks.
    pub(super) fn new(
        source: &str,
        context: &Value,
        real: &str,
        tokenizer: &Tokenizer,
    ) -> Result<Marker> {
        let names: Vec<&str> = tokenizer.special_names().collect();
        let mut used: HashSet<char> = HashSet::new();
        let is_private = |c: &char| matches!(c, '\u{f0000}'..='\u{ffffd}');
        for text in [source, real].iter().chain(&names) {
            used.extend(text.chars().filter(is_private));
        }
        every_text(context, &mut |text| used.extend(text.chars().filter(is_private)));
        let mut free = ('\u{f0000}'..='\u{ffffd}').filter(|c| !used.contains(c));
        let (Some(inner), Some(front)) = (free.next(), free.next()) else {
            let must = "messages must leave two characters from U+F0000 to U+FFFFD unused";
            return Err(Error::argument(format!("chat template: {must}, got all of them")));
        };
        let names = search(&names)?;
        let literals = literals(source);
        let has_name = |text: &str| names.as_ref().is_some_and(|names| names.is_match(text));
        let literals: Vec<&str> =
            literals.iter().map(|text| &**text).filter(|text| !has_name(text)).collect();
        let literals = search(&literals[..literals.len().min(MAX_LITERALS)])?;
        Ok(Marker { marks: [inner, front], literals, names })
    }

    /// Whether a prompt equals `real` except for marks.
    pub(super) fn is_same(&self, marked: &str, real: &str) -> bool {
        marked.chars().filter(|c| !self.marks.contains(c)).eq(real.chars())
    }

    /// Returns the values with marks in their texts.
    pub(super) fn mark(&self, value: &Value, style: Style) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, style)),
            Value::Array(all) => all.iter().map(|value| self.mark(value, style)).collect(),
            Value::Object(all) => {
                let entries = all.iter().map(|(key, value)| {
                    let key = match style {
                        Style::Neutral => key.clone(),
                        _ => self.text(key, Style::Sparse),
                    };
                    (key, self.mark(value, style))
                });
                Value::Object(entries.collect())
            }
            other => other.clone(),
        }
    }

    fn text(&self, text: &str, style: Style) -> String {
        // The mark in front of each position.
        let [inner, front] = self.marks;
        let mut marks = vec![None; text.len() + 1];
        if style == Style::Dense {
            let mut before = None;
            for (at, c) in text.char_indices() {
                let is_word = !c.is_whitespace();
                // White space before the first letter and after the last one gets no mark.
                if is_word && before.is_none_or(|before: char| !before.is_whitespace()) {
                    marks[at] = Some(inner);
                }
                before = Some(c);
            }
            if before.is_some_and(|last| !last.is_whitespace()) {
                marks[text.len()] = Some(inner);
            }
        }
        let is_neutral = style == Style::Neutral;
        let mut kept = vec![false; if is_neutral { text.len() } else { 0 }];
        if style != Style::Sparse {
            for found in self.literals.iter().flat_map(|all| all.find_overlapping_iter(text)) {
                match is_neutral {
                    true => kept[found.range()].fill(true),
                    false => marks[found.start()..=found.end()].fill(None),
                }
            }
        }
        if is_neutral {
            let keeps = |(at, c): (usize, char)| match kept[at] || c.is_whitespace() {
                true => c,
                false => 'x',
            };
            return text.char_indices().map(keeps).collect();
        }
        for found in self.names.iter().flat_map(|all| all.find_overlapping_iter(text)) {
            let name = &text[found.range()];
            let first = name.chars().next().map_or(0, char::len_utf8);
            match first == name.len() {
                true => marks[found.start()] = Some(front),
                false => {
                    marks[found.start() + first] = marks[found.start() + first].or(Some(inner))
                }
            }
        }
        let mut out = String::with_capacity(text.len() * 2);
        let ends = std::iter::once((text.len(), None));
        for (at, c) in text.char_indices().map(|(at, c)| (at, Some(c))).chain(ends) {
            out.extend(marks[at]);
            out.extend(c);
        }
        out
    }
}

/// Calls a function for every text in a value, including keys.
fn every_text(value: &Value, call: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => call(text),
        Value::Array(all) => all.iter().for_each(|value| every_text(value, call)),
        Value::Object(all) => {
            for (key, value) in all {
                call(key);
                every_text(value, call);
            }
        }
        _ => {}
    }
}

/// Returns the texts in quotes between `{{` or `{%` and their ends, of at least two letters.
fn literals(source: &str) -> Vec<String> {
    let mut found = HashSet::new();
    let mut rest = source;
    while let Some(at) = ["{{", "{%"].iter().filter_map(|start| rest.find(start)).min() {
        let mut letters = rest[at + 2..].char_indices().peekable();
        let mut end = rest.len();
        while let Some((place, c)) = letters.next() {
            let after = at + 2 + place;
            if matches!(c, '}' | '%') && rest[after + 1..].starts_with('}') {
                end = after + 2;
                break;
            }
            if !matches!(c, '"' | '\'') {
                continue;
            }
            let mut text = String::new();
            while let Some((_, inner)) = letters.next() {
                match inner {
                    '\\' => match letters.next() {
                        Some((_, 'n')) => text.push('\n'),
                        Some((_, 't')) => text.push('\t'),
                        Some((_, 'r')) => text.push('\r'),
                        Some((_, other)) => text.push(other),
                        None => break,
                    },
                    _ if inner == c => break,
                    _ => text.push(inner),
                }
            }
            if text.len() <= MAX_LITERAL && text.chars().nth(1).is_some() {
                found.insert(text);
            }
        }
        rest = &rest[end.min(rest.len())..];
    }
    let mut found: Vec<String> = found.into_iter().collect();
    found.sort();
    found
}
