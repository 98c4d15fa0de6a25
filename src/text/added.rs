//! Added tokens, which are cut out of a text before any other step: special tokens, and tokens that a model's user defined.
//!
//! An Aho-Corasick automaton searches all names at once. If several names begin at one position, the longest wins, as in
//! Hugging Face's tokenizers. In contrast, llama.cpp first cuts out the longest name of the whole text. The results differ
//! only if names overlap and neither contains the other.

use crate::error::{Error, Result};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// A token that is cut out of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) text: String,
    /// Whether the token is recognized only if special tokens are requested.
    pub(super) is_special: bool,
    /// Whether the token includes white space in front of it.
    pub(super) strips_left: bool,
    /// Whether the token includes white space after it.
    pub(super) strips_right: bool,
    /// Whether the token is not recognized inside a word.
    pub(super) is_word: bool,
}

impl AddedToken {
    pub(super) fn new(id: u32, text: &str, is_special: bool) -> AddedToken {
        AddedToken {
            id,
            text: text.into(),
            is_special,
            strips_left: false,
            strips_right: false,
            is_word: false,
        }
    }
}

/// A part of a text: a token that was cut out, or non-empty text between such tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fragment<'a> {
    Token(u32),
    Text(&'a str),
}

/// The tokens that are cut out of texts.
pub(super) struct Added {
    every: Matcher,
    plain: Matcher,
    special: Matcher,
}

impl Added {
    /// Builds the automatons.
    ///
    /// # Errors
    /// `Format` if the tokens are too many for an automaton.
    pub(super) fn new(tokens: Vec<AddedToken>) -> Result<Added> {
        let only = |is_special: bool| {
            let chosen = tokens.iter().filter(|token| token.is_special == is_special);
            Matcher::new(chosen.cloned().collect())
        };
        Ok(Added { plain: only(false)?, special: only(true)?, every: Matcher::new(tokens)? })
    }

    /// Splits a text at added tokens. Special tokens count only if `special` is set.
    pub(super) fn split<'a>(&self, text: &'a str, special: bool) -> Vec<Fragment<'a>> {
        let matcher = if special { &self.every } else { &self.plain };
        matcher.split(text, None)
    }

    /// Splits a text at special tokens only. A token is plain text if the character `forged` precedes it.
    pub(super) fn split_special<'a>(&self, text: &'a str, forged: char) -> Vec<Fragment<'a>> {
        self.special.split(text, Some(forged))
    }

    /// Returns all tokens.
    pub(super) fn tokens(&self) -> &[AddedToken] {
        &self.every.tokens
    }

    /// Returns the names of special tokens.
    pub(super) fn special_names(&self) -> impl Iterator<Item = &str> {
        self.special.tokens.iter().map(|token| &*token.text)
    }
}

struct Matcher {
    names: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
}

impl Matcher {
    fn new(mut tokens: Vec<AddedToken>) -> Result<Matcher> {
        tokens.retain(|token| !token.text.is_empty());
        if tokens.is_empty() {
            return Ok(Matcher { names: None, tokens });
        }
        let names = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // This kind is small and quick to build. There can be thousands of names.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(tokens.iter().map(|token| &token.text))
            .map_err(|error| {
                Error::format(format!("tokenizer: added tokens must be searchable, got {error}"))
            })?;
        Ok(Matcher { names: Some(names), tokens })
    }

    fn split<'a>(&self, text: &'a str, forged: Option<char>) -> Vec<Fragment<'a>> {
        let mut fragments = Vec::new();
        let mut done = 0;
        let mut from = 0;
        while let Some(found) = self.find(text, from) {
            let token = &self.tokens[found.pattern().as_usize()];
            let (start, end) = (found.start(), found.end());
            from = end;
            let is_forged = forged.is_some_and(|forged| text[..start].ends_with(forged));
            if is_forged || token.is_word && is_inside_word(text, start, end) {
                continue;
            }
            let mut before = &text[done..start];
            if token.strips_left {
                before = before.trim_end();
            }
            if !before.is_empty() {
                fragments.push(Fragment::Text(before));
            }
            fragments.push(Fragment::Token(token.id));
            done = match token.strips_right {
                true => text.len() - text[end..].trim_start().len(),
                false => end,
            };
            from = done;
        }
        if done < text.len() {
            fragments.push(Fragment::Text(&text[done..]));
        }
        fragments
    }

    fn find(&self, text: &str, from: usize) -> Option<aho_corasick::Match> {
        self.names.as_ref()?.find(aho_corasick::Input::new(text).range(from..))
    }
}

/// Whether a letter, a digit or `_` is next to a part of a text.
fn is_inside_word(text: &str, start: usize, end: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text[..start].chars().next_back().is_some_and(is_word)
        || text[end..].chars().next().is_some_and(is_word)
}
