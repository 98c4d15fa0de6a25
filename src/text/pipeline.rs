//! The pipeline for a text between special tokens. Normalizers change the text, a pre-tokenizer splits it into words, and a
//! model splits the words into tokens.

use super::added::{Added, Fragment};
use super::charsmap::Charsmap;
use super::model::Model;
use super::pieces::SPACE_MARK;
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;
use tokenizers::{
    NormalizedString, Normalizer as _, NormalizerWrapper, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper,
};

/// A change of a text.
pub(super) enum Normalizer {
    /// A normalizer of Hugging Face's `tokenizers`.
    HuggingFace(Box<NormalizerWrapper>),
    /// SentencePiece's table of replacements.
    Charsmap(Charsmap),
    /// Puts a space in front of the text.
    SpaceInFront,
    /// Replaces spaces by marks.
    MarkSpaces,
    /// Marks the beginning of words, as SentencePiece's unigram models do.
    MarkWords {
        /// Whether a mark is put in front of the first word.
        in_front: bool,
        /// Whether one mark replaces any number of spaces.
        merges: bool,
    },
}

impl Normalizer {
    /// Applies the change to a text.
    pub(super) fn apply<'a>(&self, text: Cow<'a, str>) -> Result<Cow<'a, str>> {
        Ok(Cow::Owned(match self {
            Normalizer::SpaceInFront => format!(" {text}"),
            Normalizer::MarkSpaces if !text.contains(' ') => return Ok(text),
            Normalizer::MarkSpaces => text.replace(' ', "\u{2581}"),
            Normalizer::Charsmap(map) => map.normalize(&text),
            Normalizer::MarkWords { in_front, merges } => marked(&text, *in_front, *merges),
            Normalizer::HuggingFace(normalizer) => {
                let mut text = NormalizedString::from(&*text);
                normalizer.normalize(&mut text).map_err(|error| {
                    Error::argument(format!("tokenizer: text must be normalizable, got {error}"))
                })?;
                text.get().to_string()
            }
        }))
    }
}

/// Replaces spaces by marks. With `merges`, each word has one mark in front.
fn marked(text: &str, in_front: bool, merges: bool) -> String {
    let mut out = String::with_capacity(text.len() + 3);
    let mut is_in_word = false;
    let mut has_begun = false;
    for c in text.chars() {
        if c == ' ' {
            is_in_word = false;
            if !merges {
                out.push(SPACE_MARK);
            }
            continue;
        }
        if !is_in_word && (merges || in_front && !has_begun) {
            out.push(SPACE_MARK);
            has_begun = true;
        }
        is_in_word = true;
        out.push(c);
    }
    out
}

/// A pre-tokenizer. The beginning of a text can have another one than the rest.
#[derive(Default)]
pub(super) struct Words {
    pub(super) first: Option<Arc<PreTokenizerWrapper>>,
    pub(super) rest: Option<Arc<PreTokenizerWrapper>>,
}

impl Words {
    /// Uses one pre-tokenizer for the whole text.
    pub(super) fn new(words: PreTokenizerWrapper) -> Words {
        let words = Some(Arc::new(words));
        Words { first: words.clone(), rest: words }
    }
}

/// The steps from a text to ids.
pub(super) struct Pipeline {
    pub(super) normalizers: Vec<Normalizer>,
    /// Tokens that are cut out of the normalized text.
    pub(super) added: Option<Added>,
    pub(super) words: Words,
    pub(super) model: Model,
}

impl Pipeline {
    /// Appends the ids of a text without special tokens. `is_first` is whether the text begins the whole input.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        is_first: bool,
        special: bool,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let mut text = Cow::Borrowed(text);
        for normalizer in &self.normalizers {
            text = normalizer.apply(text)?;
        }
        let Some(added) = &self.added else {
            return self.encode_words(vocabulary, &text, is_first, ids);
        };
        let mut is_first = is_first;
        for fragment in added.split(&text, special) {
            match fragment {
                Fragment::Token(id) => ids.push(id),
                Fragment::Text(text) => self.encode_words(vocabulary, text, is_first, ids)?,
            }
            is_first = false;
        }
        Ok(())
    }

    fn encode_words(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        is_first: bool,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let words = if is_first { &self.words.first } else { &self.words.rest };
        let Some(words) = words else { return self.model.encode(vocabulary, text, ids) };
        let mut split = PreTokenizedString::from(text);
        words.pre_tokenize(&mut split).map_err(|error| {
            Error::argument(format!("tokenizer: text must be splittable into words, got {error}"))
        })?;
        for (word, _, _) in split.get_splits(OffsetReferential::Original, OffsetType::None) {
            self.model.encode(vocabulary, word, ids)?;
        }
        Ok(())
    }
}
