//! SentencePiece's BPE without a table of merges. The scores of tokens decide which pair is merged first.
//!
//! A text begins as single characters. Of all neighbors whose joined text is a token, the pair with the best score is merged.
//! The leftmost of equal pairs is merged first. This repeats until no pair is left. Characters without a token become the
//! tokens of their bytes.
//!
//! Merges need only the vocabulary, so a tokenizer of 262,144 tokens is ready at once. The equivalent table of merges would
//! have 513,511 rows and take a second to build.
//!
//! The pairs are in a heap, so a text of `n` characters takes O(n log n) time. A pair whose halves have changed since is
//! detected by its length and skipped. Example: with the tokens `a b c ab bc`, of which `bc` has the best score, `abc`
//! becomes `a bc`.

use super::vocabulary::{Kind, Vocabulary};
use crate::error::{brief, Error, Result};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The position of a missing neighbor.
const NONE: usize = usize::MAX;

pub(super) struct Scores {
    /// The scores of the tokens, by id.
    scores: Vec<f32>,
    bytes: Box<[Option<u32>; 256]>,
    unknown: Option<u32>,
}

/// A part of the text that is merged so far. After it is merged into its left neighbor, its length is 0.
struct Symbol {
    start: usize,
    length: usize,
    left: usize,
    right: usize,
}

/// A pair of neighbors that can be merged.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    length: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl Scores {
    /// Creates the model. `scores` has one score for each token of the vocabulary.
    pub(super) fn new(vocabulary: &Vocabulary, scores: Vec<f32>, unknown: Option<u32>) -> Scores {
        Scores { scores, bytes: Box::new(vocabulary.bytes()), unknown }
    }

    /// Appends the ids of a text.
    ///
    /// # Errors
    /// `InvalidArgument` if a character has no token, and the vocabulary has no token for unknown characters.
    pub(super) fn encode(&self, tokens: &Vocabulary, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
        for (start, c) in text.char_indices() {
            let place = symbols.len();
            let left = place.checked_sub(1).unwrap_or(NONE);
            symbols.push(Symbol { start, length: c.len_utf8(), left, right: place + 1 });
        }
        match symbols.last_mut() {
            None => return Ok(()),
            Some(last) => last.right = NONE,
        }
        let mut pairs = BinaryHeap::with_capacity(symbols.len());
        for right in 1..symbols.len() {
            pairs.extend(self.pair(tokens, text, &symbols, right - 1, right));
        }
        while let Some(Pair { left, right, length, .. }) = pairs.pop() {
            let (a, b) = (symbols[left].length, symbols[right].length);
            if a == 0 || b == 0 || a + b != length {
                continue;
            }
            let next = symbols[right].right;
            symbols[right].length = 0;
            symbols[left].length = length;
            symbols[left].right = next;
            if next != NONE {
                symbols[next].left = left;
            }
            pairs.extend(self.pair(tokens, text, &symbols, symbols[left].left, left));
            pairs.extend(self.pair(tokens, text, &symbols, left, next));
        }
        for Symbol { start, length, .. } in symbols.iter().filter(|symbol| symbol.length > 0) {
            self.push(tokens, &text[*start..start + length], ids)?;
        }
        Ok(())
    }

    /// Returns a pair of neighbors if their joined text is a token.
    fn pair(
        &self,
        tokens: &Vocabulary,
        text: &str,
        symbols: &[Symbol],
        left: usize,
        right: usize,
    ) -> Option<Pair> {
        let (a, b) = (symbols.get(left)?, symbols.get(right)?);
        let length = a.length + b.length;
        let id = plain_id(tokens, &text[a.start..a.start + length])?;
        let score = self.scores.get(id as usize).copied()?;
        Some(Pair { score, left, right, length })
    }

    /// Appends the token of a text, or the tokens of its bytes if the text has none.
    fn push(&self, tokens: &Vocabulary, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        if let Some(id) = plain_id(tokens, text) {
            ids.push(id);
            return Ok(());
        }
        let bytes: Option<Vec<u32>> =
            text.bytes().map(|byte| self.bytes[usize::from(byte)]).collect();
        match (bytes, self.unknown) {
            (Some(bytes), _) => ids.extend(bytes),
            (None, Some(unknown)) => ids.push(unknown),
            (None, None) => {
                let must =
                    "every character must have a token, tokens of its bytes, or the unknown token";
                return Err(Error::argument(format!("tokenizer: {must}, got {}", brief(text))));
            }
        }
        Ok(())
    }
}

/// Returns the token of a text, unless the token is special or represents a byte. Text from outside must not be able to name
/// such tokens.
fn plain_id(tokens: &Vocabulary, text: &str) -> Option<u32> {
    let id = tokens.id(text)?;
    (!matches!(tokens.kind(id), Kind::Control | Kind::Unknown | Kind::Byte)).then_some(id)
}
