//! Tokenizers and chat templates of language models, which convert text to the ids that a model reads, and ids back to text.
//!
//! A [`Tokenizer`] is built from a GGUF file's vocabulary or from Hugging Face's `tokenizer.json`. A [`ChatTemplate`] turns
//! the messages of a conversation into a prompt, with the template in the file or a built-in one. `docs/tokenizers.md` lists
//! the supported kinds, and explains how they were compared with llama.cpp and Hugging Face.
//!
//! **Special tokens** such as `<|im_end|>` end a turn or a text. Text from outside must not be able to write one.
//! [`Tokenizer::encode`] therefore reads their names as plain text by default. [`ChatTemplate::encode`] recognizes them only
//! where the template wrote them.
//!
//! ```
//! use warpweft::text::Tokenizer;
//!
//! // A vocabulary of one merge and one special token; real ones are files.
//! let json = r#"{
//!     "added_tokens": [{"id": 3, "content": "<end>", "special": true}],
//!     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
//!     "decoder": {"type": "ByteLevel"},
//!     "model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "hi": 2, "<": 4, ">": 5, "e": 6, "n": 7, "d": 8},
//!         "merges": [["h", "i"]]}
//! }"#;
//! let tokenizer = Tokenizer::from_json(json.as_bytes())?;
//! assert_eq!(tokenizer.encode("hi", false)?, [2]);
//! assert_eq!(tokenizer.encode("hi<end>", true)?, [2, 3]);
//! assert_eq!(tokenizer.encode("<end>", false)?, [4, 6, 7, 8, 5]); // Plain text.
//! assert_eq!(tokenizer.decode(&[2, 3]), "hi"); // Special tokens are not part of the text.
//! # Ok::<(), warpweft::error::Error>(())
//! ```

mod added;
mod charsmap;
mod chat;
mod decode;
mod gguf;
mod json;
mod model;
mod pieces;
mod pipeline;
mod pretokenizers;
mod scores;
mod vocabulary;

pub use chat::{ChatOptions, ChatTemplate, Message};
pub(crate) use decode::Incomplete;
pub use decode::TextDecoder;

use crate::error::Result;
use crate::io::Gguf;
use added::{Added, Fragment};
use pieces::Pieces;
use pipeline::Pipeline;
use vocabulary::Vocabulary;

/// The tokens that begin and end a text, and whether [`Tokenizer::encode_with_ends`] adds them.
#[derive(Clone, Debug, Default)]
struct Ends {
    bos: Option<u32>,
    eos: Option<u32>,
    /// Tokens in front of a text.
    before: Vec<u32>,
    /// Tokens after a text.
    after: Vec<u32>,
}

/// A tokenizer: a vocabulary, and the rules that split text into its tokens.
///
/// Encoding a text of length n takes O(n log n) time, for any text.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    added: Added,
    /// The special tokens that a template can write. They include tokens that are cut out of the normalized text, if
    /// normalization leaves their names as they are.
    written: Added,
    pipeline: Pipeline,
    pieces: Pieces,
    ends: Ends,
}

impl Tokenizer {
    fn new(
        vocabulary: Vocabulary,
        added: Added,
        pipeline: Pipeline,
        pieces: Pieces,
        ends: Ends,
    ) -> Result<Tokenizer> {
        let written = Added::new(Vec::new())?;
        let mut new = Tokenizer { vocabulary, added, written, pipeline, pieces, ends };
        new.update_special()?;
        Ok(new)
    }

    /// Reads the tokenizer of a GGUF file, from its metadata `tokenizer.ggml.*`.
    ///
    /// # Errors
    /// `Format` if the vocabulary is damaged, with the key or the token. `Unsupported` for unknown kinds and pre-tokenizers.
    pub fn from_gguf(file: &Gguf) -> Result<Tokenizer> {
        gguf::tokenizer(&file.metadata)
    }

    /// Reads the tokenizer of a `tokenizer.json`. The file does not name BOS and EOS. They are the tokens that its
    /// post-processor adds, unless [`Tokenizer::with_config`] sets others.
    ///
    /// # Errors
    /// `Format` if the file is damaged, with the part and the reason. `Unsupported` for unknown parts.
    pub fn from_json(json: &[u8]) -> Result<Tokenizer> {
        json::tokenizer(json)
    }

    /// Applies the settings of a `tokenizer_config.json`: `bos_token`, `eos_token`, `add_bos_token` and `add_eos_token`.
    ///
    /// # Errors
    /// `Format` if the file is damaged, or names a token that the vocabulary does not have.
    pub fn with_config(mut self, json: &[u8]) -> Result<Tokenizer> {
        json::apply_config(json, &mut self.vocabulary, &mut self.ends)?;
        self.update_special()?;
        Ok(self)
    }

    /// Adds tokens that end a generation. Ids without a token are ignored.
    pub(crate) fn with_ends_of_generation(
        mut self,
        ids: impl IntoIterator<Item = u32>,
    ) -> Result<Tokenizer> {
        let ids: Vec<u32> = ids.into_iter().filter(|&id| self.token(id).is_some()).collect();
        self.vocabulary.mark_ends(ids.into_iter().chain(self.ends.eos));
        self.update_special()?;
        Ok(self)
    }

    /// Updates the added tokens after tokens of the vocabulary became special.
    fn update_special(&mut self) -> Result<()> {
        let Tokenizer { vocabulary, added, pipeline, written, .. } = self;
        let mut all = Vec::new();
        for (is_late, added) in [(false, Some(added)), (true, pipeline.added.as_mut())] {
            let Some(added) = added else { continue };
            let mut tokens = added.tokens().to_vec();
            let mut is_changed = false;
            for token in &mut tokens {
                let is_special = vocabulary.kind(token.id).is_special();
                is_changed |= token.is_special != is_special;
                token.is_special = is_special;
                let is_same = !is_late || vocabulary.token(token.id) == Some(&token.text);
                all.extend(Some(&*token).filter(|_| is_special && is_same).cloned());
            }
            if is_changed {
                *added = Added::new(tokens)?;
            }
        }
        *written = Added::new(all)?;
        Ok(())
    }

    /// Encodes a text, without BOS and EOS. With `special`, the names of special tokens in the text become those tokens.
    /// Otherwise they are plain text. Tokens that a model's user defined, such as runs of spaces, are recognized in both
    /// cases.
    ///
    /// # Errors
    /// `InvalidArgument` if a character has no token and the vocabulary has no token for unknown characters.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        self.encode_onto(text, special, &mut ids)?;
        Ok(ids)
    }

    /// Encodes a text as [`Tokenizer::encode`] does, with the tokens around it that the file configures (`add_bos_token`,
    /// `add_eos_token`, or the post-processor). If the text already begins with BOS, the result has two.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    pub fn encode_with_ends(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let mut ids = self.ends.before.clone();
        self.encode_onto(text, special, &mut ids)?;
        ids.extend(&self.ends.after);
        Ok(ids)
    }

    /// Encodes a text as [`Tokenizer::encode_with_ends`] does, with at most `most` tokens. A longer text loses its last
    /// tokens, but not the tokens around it. Names of special tokens are plain text.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    pub fn encode_truncated(&self, text: &str, most: usize) -> Result<Vec<u32>> {
        let mut ids = self.ends.before.clone();
        self.encode_onto(text, false, &mut ids)?;
        ids.truncate(most.saturating_sub(self.ends.after.len()));
        ids.extend(&self.ends.after);
        ids.truncate(most);
        Ok(ids)
    }

    /// Decodes ids to a whole text. Special tokens and unknown ids are left out. A space that the tokenizer put in front of
    /// the text is removed. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = TextDecoder::whole(self);
        let mut text = String::with_capacity(ids.len() * 4);
        for &id in ids {
            decoder.push_onto(id, &mut text);
        }
        text + &decoder.finish()
    }

    /// Returns a decoder for ids that arrive one by one and continue a text, as in a generation.
    pub fn decoder(&self) -> TextDecoder<'_> {
        TextDecoder::new(self)
    }

    /// Returns the token of an id as the vocabulary stores it, such as `Ġthe`. [`Tokenizer::decode`] returns the text.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocabulary.token(id)
    }

    /// Returns the id of a token, spelled as in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token)
    }

    /// Returns one more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns the token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.ends.bos
    }

    /// Returns the token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.ends.eos
    }

    /// Whether [`Tokenizer::encode_with_ends`] puts BOS in front.
    pub fn adds_bos(&self) -> bool {
        self.ends.bos.is_some() && self.ends.before.first() == self.ends.bos.as_ref()
    }

    /// Whether a model that generates this token has finished. These are EOS, the end of a turn, and the names that llama.cpp
    /// treats likewise (`<|im_end|>`, `<end_of_turn>`, `</s>` and more).
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.vocabulary.ends_generation(id)
    }

    /// Whether the token is special, which means that it controls a model and is not part of a text.
    pub fn is_special(&self, id: u32) -> bool {
        self.vocabulary.kind(id).is_special()
    }

    /// Appends the ids of a text.
    fn encode_onto(&self, text: &str, special: bool, ids: &mut Vec<u32>) -> Result<()> {
        let mut is_first = true;
        for fragment in self.added.split(text, special) {
            match fragment {
                Fragment::Token(id) => ids.push(id),
                Fragment::Text(text) => {
                    self.pipeline.encode(&self.vocabulary, text, is_first, special, ids)?;
                }
            }
            is_first = false;
        }
        Ok(())
    }

    /// Returns the names of special tokens.
    fn special_names(&self) -> impl Iterator<Item = &str> {
        self.written.special_names()
    }

    /// Returns the special tokens of a prompt, as [`Tokenizer::encode_marked`] recognizes them.
    fn special_in(&self, text: &str, marks: [char; 2]) -> Vec<u32> {
        let all = self.written.split_special(text, marks[1]).into_iter();
        all.filter_map(|fragment| match fragment {
            Fragment::Token(id) => Some(id),
            Fragment::Text(_) => None,
        })
        .collect()
    }

    /// Encodes a prompt with marks. A special token is recognized unless it has a mark inside, or the second mark in front.
    /// The marks are removed from the text.
    fn encode_marked(&self, text: &str, marks: [char; 2]) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut plain = String::new();
        let mut is_first = true;
        let flush = |plain: &mut String, ids: &mut Vec<u32>, is_first: bool| -> Result<()> {
            let mut is_first = is_first;
            for fragment in self.added.split(plain, false) {
                match fragment {
                    Fragment::Token(id) => ids.push(id),
                    Fragment::Text(text) => {
                        self.pipeline.encode(&self.vocabulary, text, is_first, false, ids)?;
                    }
                }
                is_first = false;
            }
            plain.clear();
            Ok(())
        };
        for fragment in self.written.split_special(text, marks[1]) {
            match fragment {
                Fragment::Text(text) => plain.extend(text.chars().filter(|c| !marks.contains(c))),
                Fragment::Token(id) => {
                    flush(&mut plain, &mut ids, is_first)?;
                    is_first = false;
                    ids.push(id);
                }
            }
        }
        flush(&mut plain, &mut ids, is_first)?;
        Ok(ids)
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = self.vocabulary.len();
        f.debug_struct("Tokenizer").field("tokens", &tokens).field("ends", &self.ends).finish()
    }
}
