//! SentencePiece's precompiled normalizer: a table of replacements for characters, such as `ﬁ` by `fi`.
//!
//! The table is a trie over bytes, stored as a double array in the `Darts-clone` format of
//! <https://github.com/google/sentencepiece>. The child of a node for a byte is at the node's offset XOR the byte. It is
//! valid if its label is that byte. The value of a leaf is a position in a list of texts that end with a zero byte. The file
//! is not trusted, so every position is checked before use.

use crate::error::{Error, Result};

/// The longest part of a text that is looked up, in bytes. SentencePiece's tables have no longer parts.
const LONGEST: usize = 64;

/// The longest replacement, in bytes.
const MAX_REPLACEMENT: usize = 1024;

#[derive(Clone, Debug)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    texts: String,
}

impl Charsmap {
    /// Reads a table, whose first 4 bytes are the length of its trie.
    ///
    /// # Errors
    /// `Format`, and the message names `what`.
    pub(super) fn new(what: &str, bytes: &[u8]) -> Result<Charsmap> {
        let wrong = |why: String| Error::format(format!("tokenizer: {what} {why}"));
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
            let got = bytes.len();
            return Err(wrong(format!("must have at least 4 bytes, got {got}")));
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > rest.len() || !length.is_multiple_of(4) {
            let most = rest.len();
            let must = format!("must have a trie of whole words in at most {most} bytes");
            return Err(wrong(format!("{must}, got {length}")));
        }
        let (trie, texts) = rest.split_at(length);
        let words = trie.chunks_exact(4).filter_map(|word| word.first_chunk::<4>());
        let units = words.map(|word| u32::from_le_bytes(*word)).collect();
        match String::from_utf8(texts.to_vec()) {
            Ok(texts) => Ok(Charsmap { units, texts }),
            Err(error) => Err(wrong(format!("must replace by UTF-8, got {error}"))),
        }
    }

    /// Replaces the parts that are in the table. The longest part wins.
    pub(super) fn normalize(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match self.longest(rest) {
                Some((length, by)) => {
                    out.push_str(by);
                    rest = &rest[length..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }

    /// Finds the longest beginning of a text that is in the table. Returns its length and the replacement.
    fn longest(&self, text: &str) -> Option<(usize, &str)> {
        let mut found = None;
        let mut place = offset(*self.units.first()?);
        for (at, &byte) in text.as_bytes().iter().enumerate().take(LONGEST) {
            place ^= usize::from(byte);
            let Some(&unit) = self.units.get(place) else { break };
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            place ^= offset(unit);
            let has_leaf = unit >> 8 & 1 == 1;
            if has_leaf && text.is_char_boundary(at + 1) {
                let by = self.units.get(place).and_then(|leaf| self.text(*leaf));
                found = by.map(|by| (at + 1, by)).or(found);
            }
        }
        found
    }

    /// Returns the text at the position that is the value of a leaf. Texts that are too long are ignored, because a damaged
    /// table could replace each letter by all texts.
    fn text(&self, leaf: u32) -> Option<&str> {
        let rest = self.texts.get((leaf & 0x7fff_ffff) as usize..)?;
        let end = rest.bytes().take(MAX_REPLACEMENT + 1).position(|byte| byte == 0);
        rest.get(..end.unwrap_or(rest.len())).filter(|text| text.len() <= MAX_REPLACEMENT)
    }
}

/// Returns the offset of a node, from which its children are found.
fn offset(unit: u32) -> usize {
    ((unit >> 10) as usize) << ((unit & 1 << 9) >> 6)
}
