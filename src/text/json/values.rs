//! The large parts of a `tokenizer.json`, which are read without an intermediate tree.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The most entries that memory is reserved for in advance, because the file's count is not trusted.
const RESERVED: usize = 1 << 16;

/// A vocabulary.
pub(super) enum Entries {
    /// Tokens with their ids.
    Ids(Vec<(String, u64)>),
    /// Tokens with their scores, in the order of their ids.
    Scores(Vec<(String, f64)>),
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        match self {
            Entries::Ids(all) => all.len(),
            Entries::Scores(all) => all.len(),
        }
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entries, D::Error> {
        from.deserialize_any(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("ids by token, or a list of tokens with scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut all = Vec::with_capacity(map.size_hint().unwrap_or(0).min(RESERVED));
        while let Some(entry) = map.next_entry()? {
            all.push(entry);
        }
        Ok(Entries::Ids(all))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
        let mut all = Vec::with_capacity(list.size_hint().unwrap_or(0).min(RESERVED));
        while let Some(entry) = list.next_element()? {
            all.push(entry);
        }
        Ok(Entries::Scores(all))
    }
}

/// A merge, stored as a text with a space between its tokens, or as a list of both.
pub(super) struct Merge(pub(super) (String, String));

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Merge, D::Error> {
        from.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a merge of two tokens")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Merge, E> {
        match text.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => {
                Ok(Merge((left.to_string(), right.to_string())))
            }
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
        let (left, right) = (list.next_element()?, list.next_element()?);
        match (left, right, list.next_element::<String>()?) {
            (Some(left), Some(right), None) => Ok(Merge((left, right))),
            _ => Err(A::Error::custom("a merge must have two tokens")),
        }
    }
}
