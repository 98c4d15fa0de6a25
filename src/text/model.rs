//! The models that split a word into tokens. BPE, unigram, WordPiece and whole words are computed by Hugging Face's
//! `tokenizers`. SentencePiece's BPE by scores is in `scores.rs`.
//!
//! This module checks everything that `tokenizers` assumes, because it panics otherwise, for example for merges that are
//! longer than the longest token. Special tokens are not passed to the models, so that no text becomes one.

use super::scores::Scores;
use super::vocabulary::Vocabulary;
use crate::error::{brief, Error, Result};
use tokenizers::models::bpe::{self, BPE};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{Model as _, ModelWrapper};

/// The most letters of a word that WordPiece splits. Longer words are unknown, as in BERT.
pub(super) const LONGEST_WORD: usize = 100;
/// The most bytes of a unigram or WordPiece token. The limit makes encoding linear in the length of a text.
const LONGEST_PIECE: usize = 1024;

/// A model.
pub(super) enum Model {
    /// A model of Hugging Face's `tokenizers`.
    HuggingFace(Box<ModelWrapper>),
    /// SentencePiece's BPE by scores.
    Scores(Scores),
}

/// Options of BPE, from `tokenizer.json`.
#[derive(Clone, Debug, Default)]
pub(super) struct BpeOptions {
    pub(super) unknown: Option<String>,
    pub(super) continuing_prefix: Option<String>,
    pub(super) word_end: Option<String>,
    pub(super) fuses_unknown: bool,
    pub(super) has_byte_fallback: bool,
    pub(super) ignores_merges: bool,
}

fn refused(what: &str, error: &(dyn std::error::Error + Send + Sync)) -> Error {
    Error::format(format!("tokenizer: {what} must fit together, got {error}"))
}

impl Model {
    /// Builds byte-pair encoding. Merges are in the order of their priority. Merges that result in a special token are left
    /// out.
    ///
    /// # Errors
    /// `Format` if a merge names a token that does not exist.
    pub(super) fn bpe(
        vocabulary: &Vocabulary,
        what: &str,
        merges: impl Iterator<Item = (String, String)>,
        options: BpeOptions,
    ) -> Result<Model> {
        let prefix = options.continuing_prefix.clone().unwrap_or_default();
        let mut kept = Vec::new();
        let mut joined = String::new();
        for (row, (left, right)) in merges.enumerate() {
            joined.clear();
            joined.push_str(&left);
            joined.push_str(right.strip_prefix(&*prefix).unwrap_or(&right));
            let mut is_special = false;
            for name in [&left, &right, &joined] {
                match vocabulary.id(name) {
                    Some(id) => is_special |= vocabulary.kind(id).is_special(),
                    None => {
                        let (left, right) = (brief(&left), brief(&right));
                        return Err(Error::format(format!(
                            "tokenizer: merge {row} of {what} must join two tokens to a third, got {left} and {right}, and no \
                             token {}",
                            brief(name)
                        )));
                    }
                }
            }
            // `tokenizers` removes the bytes of the prefix from the right token without a check.
            if !right.starts_with(&*prefix) {
                let must = format!("must have {} in front of its second token", brief(&prefix));
                let got = brief(&right);
                return Err(Error::format(format!(
                    "tokenizer: merge {row} of {what} {must}, got {got}"
                )));
            }
            if !is_special {
                kept.push((left, right));
            }
        }
        let plain = vocabulary.iter().filter(|(_, token, kind)| {
            !kind.is_special() || options.unknown.as_deref() == Some(token)
        });
        let tokens: bpe::Vocab = plain.map(|(id, token, _)| (token.to_string(), id)).collect();
        let mut model = BPE::builder()
            .vocab_and_merges(tokens, kept)
            // A cache would keep its words as long as the thread lives.
            .cache_capacity(0)
            .fuse_unk(options.fuses_unknown)
            .byte_fallback(options.has_byte_fallback)
            .ignore_merges(options.ignores_merges);
        if let Some(unknown) = options.unknown {
            present(vocabulary, &unknown)?;
            model = model.unk_token(unknown);
        }
        if !prefix.is_empty() {
            model = model.continuing_subword_prefix(prefix);
        }
        if let Some(end) = options.word_end.filter(|end| !end.is_empty()) {
            model = model.end_of_word_suffix(end);
        }
        let model = model.build().map_err(|error| refused(what, &*error))?;
        Ok(Model::HuggingFace(Box::new(ModelWrapper::BPE(model))))
    }

    /// Builds a unigram model, with a score for each token.
    ///
    /// # Errors
    /// `Format` if a score is not finite, or a token is too long.
    pub(super) fn unigram(
        vocabulary: &Vocabulary,
        what: &str,
        scores: &[f64],
        unknown: Option<u32>,
        has_byte_fallback: bool,
    ) -> Result<Model> {
        // Ids are positions, so each id needs a text. These placeholders have a space, which no text has when it reaches the
        // model.
        let mut all: Vec<(String, f64)> =
            (0..vocabulary.len()).map(|id| (format!(" {id}"), 0.0)).collect();
        let worst = scores.iter().copied().fold(0.0, f64::min);
        for (id, token, kind) in vocabulary.iter() {
            let score = scores.get(id as usize).copied().unwrap_or(worst);
            if !score.is_finite() {
                let token = brief(token);
                let must = "must be a finite number";
                return Err(Error::format(format!(
                    "tokenizer: the score of token {token} in {what} {must}, got {score}"
                )));
            }
            short(what, token)?;
            let place = &mut all[id as usize];
            place.1 = score;
            if !kind.is_special() && !token.contains(' ') {
                place.0 = token.to_string();
            }
        }
        let unknown = unknown.map(|id| id as usize);
        let model = Unigram::from(all, unknown, has_byte_fallback);
        let model = model.map_err(|error| refused(what, &*error))?;
        Ok(Model::HuggingFace(Box::new(ModelWrapper::Unigram(model))))
    }

    /// Builds WordPiece. It takes the longest token that a word begins with, then the longest with `continuation` in front,
    /// and so on. `tokens` are the texts by id, which can differ from the ones in the vocabulary.
    ///
    /// # Errors
    /// `Format` if the token for unknown words is missing, or a token is too long.
    pub(super) fn wordpiece(
        what: &str,
        tokens: Vec<(String, u32)>,
        continuation: &str,
        unknown: &str,
        longest: usize,
    ) -> Result<Model> {
        tokens.iter().try_for_each(|(token, _)| short(what, token))?;
        if !tokens.iter().any(|(token, _)| token == unknown) {
            let must = "must have the token for unknown words";
            return Err(Error::format(format!(
                "tokenizer: {what} {must}, got none named {}",
                brief(unknown)
            )));
        }
        let tokens: bpe::Vocab = tokens.into_iter().collect();
        let model = WordPiece::builder()
            .vocab(tokens)
            .unk_token(unknown.into())
            .continuing_subword_prefix(continuation.into())
            .max_input_chars_per_word(longest.min(LONGEST_PIECE))
            .build();
        let model = model.map_err(|error| refused(what, &*error))?;
        Ok(Model::HuggingFace(Box::new(ModelWrapper::WordPiece(model))))
    }

    /// Builds a model of whole words.
    ///
    /// # Errors
    /// `Format` if the token for unknown words is missing.
    pub(super) fn words(vocabulary: &Vocabulary, what: &str, unknown: &str) -> Result<Model> {
        present(vocabulary, unknown)?;
        let plain =
            vocabulary.iter().filter(|(_, token, kind)| !kind.is_special() || *token == unknown);
        let tokens: bpe::Vocab = plain.map(|(id, token, _)| (token.to_string(), id)).collect();
        let model = WordLevel::builder().vocab(tokens).unk_token(unknown.into()).build();
        let model = model.map_err(|error| refused(what, &*error))?;
        Ok(Model::HuggingFace(Box::new(ModelWrapper::WordLevel(model))))
    }

    /// Appends the ids of a word.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        word: &str,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        match self {
            Model::Scores(model) => model.encode(vocabulary, word, ids),
            Model::HuggingFace(model) => {
                let tokens = model.tokenize(word).map_err(|error| {
                    let word = brief(word);
                    Error::argument(format!(
                        "tokenizer: a word must have tokens, got {word}: {error}"
                    ))
                })?;
                ids.extend(tokens.into_iter().map(|token| token.id));
                Ok(())
            }
        }
    }
}

fn present(vocabulary: &Vocabulary, unknown: &str) -> Result<()> {
    match vocabulary.id(unknown) {
        Some(_) => Ok(()),
        None => {
            let must = "the token for unknown text must be in the vocabulary";
            Err(Error::format(format!("tokenizer: {must}, got {}", brief(unknown))))
        }
    }
}

fn short(what: &str, token: &str) -> Result<()> {
    if token.len() <= LONGEST_PIECE {
        return Ok(());
    }
    let (token, length) = (brief(token), token.len());
    Err(Error::format(format!(
        "tokenizer: the tokens of {what} must have at most {LONGEST_PIECE} bytes, got {length} in {token}"
    )))
}
