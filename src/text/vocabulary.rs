//! The tokens of a vocabulary, by id and by text.

use crate::error::{brief, Error, Result};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The kinds of tokens, as GGUF files have them (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of text.
    Normal,
    /// A token that represents text without a token.
    Unknown,
    /// A token that controls the model, and is never part of a text.
    Control,
    /// Text that is always one token.
    UserDefined,
    /// A reserved token.
    Unused,
    /// A token for one byte.
    Byte,
    /// An id without a token.
    Absent,
}

impl Kind {
    /// Returns the kind for a number in a GGUF file. Unknown numbers are ordinary tokens.
    pub(super) fn of(number: i64) -> Kind {
        match number {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Normal,
        }
    }

    /// Whether tokens of this kind are recognized only if special tokens are requested.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// Tokens by id and by text.
pub(super) struct Vocabulary {
    tokens: Vec<Arc<str>>,
    kinds: Vec<Kind>,
    ids: HashMap<Arc<str>, u32>,
    end: BTreeSet<u32>,
}

impl Vocabulary {
    /// Creates a vocabulary whose ids are the positions in a list. Empty texts are ids without a token.
    ///
    /// # Errors
    /// `Format`, and the message names `what`, if the list is empty or two tokens have the same text.
    pub(super) fn new<'a>(
        what: &str,
        tokens: impl ExactSizeIterator<Item = (&'a str, Kind)>,
    ) -> Result<Vocabulary> {
        let count = tokens.len();
        if count == 0 || u32::try_from(count).is_err() {
            let must = "must have between 1 and 4294967295 tokens";
            return Err(Error::format(format!("tokenizer: {what} {must}, got {count}")));
        }
        let mut all = Vocabulary {
            tokens: Vec::with_capacity(count),
            kinds: Vec::with_capacity(count),
            ids: HashMap::with_capacity(count),
            end: BTreeSet::new(),
        };
        for (id, (token, kind)) in tokens.enumerate() {
            let text: Arc<str> = token.into();
            let absent = token.is_empty();
            let first = if absent { None } else { all.ids.insert(text.clone(), id as u32) };
            if let Some(first) = first {
                let token = brief(token);
                return Err(Error::format(format!(
                    "tokenizer: the tokens of {what} must differ, got {token} as {first} and as {id}"
                )));
            }
            all.tokens.push(text);
            all.kinds.push(if absent { Kind::Absent } else { kind });
        }
        Ok(all)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn token(&self, id: u32) -> Option<&str> {
        let token = self.tokens.get(id as usize)?;
        (self.kind(id) != Kind::Absent).then_some(token)
    }

    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    pub(super) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Absent)
    }

    pub(super) fn set_kind(&mut self, id: u32, kind: Kind) {
        if let Some(place) = self.kinds.get_mut(id as usize).filter(|old| **old != Kind::Absent) {
            *place = kind;
        }
    }

    pub(super) fn ends_generation(&self, id: u32) -> bool {
        self.end.contains(&id)
    }

    /// Returns ids and texts with their kinds. Ids without a token are left out.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        let all = self.tokens.iter().zip(&self.kinds).enumerate();
        let present = all.filter(|(_, (_, kind))| **kind != Kind::Absent);
        present.map(|(id, (token, kind))| (id as u32, &**token, *kind))
    }

    /// Returns the tokens of the 256 bytes, found by names such as `<0x0A>`.
    pub(super) fn bytes(&self) -> [Option<u32>; 256] {
        std::array::from_fn(|byte| self.id(&byte_name(byte as u8)))
    }

    /// Finds the tokens that end a generation by their names, as llama.cpp does, and makes them special. Text from outside
    /// must not be able to end a turn. `also` has ids that the file names.
    pub(super) fn mark_ends(&mut self, also: impl IntoIterator<Item = u32>) {
        let also: Vec<u32> = also.into_iter().collect();
        let mut named: BTreeSet<u32> = ENDS.iter().filter_map(|name| self.id(name)).collect();
        for names in FILL_IN {
            named.extend(names.iter().find_map(|name| self.id(name)));
        }
        let has = |name: &str| self.id(name).is_some_and(|id| named.contains(&id));
        let calls = has("<|call|>") || has("<|calls|>");
        // Harmony and Solar end a message with `<|end|>`, and a generation with other tokens.
        let end_is_inner = calls && (has("<|return|>") || has("<|flush|>"));
        // In such vocabularies, `</s>` ends struck-out text of a web page.
        let s_is_text = has("<|tool_response>");
        named.retain(|id| match self.token(*id) {
            Some("<|end|>") => !end_is_inner,
            Some("</s>") => !s_is_text,
            _ => true,
        });
        for &id in named.iter().chain(&also) {
            if self.kind(id) != Kind::Unknown {
                self.set_kind(id, Kind::Control);
            }
        }
        self.end = named;
        self.end.extend(also);
    }
}

/// Returns the name of a byte's token, such as `<0x0A>`.
fn byte_name(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

/// The names of tokens that end a generation.
const ENDS: [&str; 24] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|file_sep|>",
    "<|eot|>",
];

/// The names of tokens around code that is filled in: padding, and the name of a repository. Only the first name that the
/// vocabulary has counts.
const FILL_IN: [&[&str]; 2] = [
    &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
    &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
];
