//! The decoder of ids, for a whole text or one id after the other.

use super::Tokenizer;

/// A decoder for ids that arrive one by one. It returns only complete characters, because an emoji can be four tokens.
///
/// ```
/// # use warpweft::text::Tokenizer;
/// # let json = r#"{"decoder": {"type": "ByteLevel"},
/// #     "model": {"type": "BPE", "vocab": {"ð": 0, "Ł": 1, "ĺ": 2, "Ģ": 3}, "merges": []}}"#;
/// # let tokenizer = Tokenizer::from_json(json.as_bytes())?;
/// // A vocabulary that has a token for each byte.
/// let mut decoder = tokenizer.decoder();
/// let parts: Vec<String> = [0, 1, 2, 3].iter().map(|&id| decoder.push(id)).collect();
/// assert_eq!(parts, ["", "", "", "😀"]);
/// assert_eq!(decoder.finish(), "");
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextDecoder<'a> {
    tokenizer: &'a Tokenizer,
    text: Incomplete,
}

impl<'a> TextDecoder<'a> {
    /// Creates a decoder of ids that continue a text. A space in front of the first is part of the text.
    pub(super) fn new(tokenizer: &'a Tokenizer) -> TextDecoder<'a> {
        TextDecoder { tokenizer, text: Incomplete::default() }
    }

    /// Creates a decoder of a whole text. The spaces that the tokenizer put in front are removed.
    pub(super) fn whole(tokenizer: &'a Tokenizer) -> TextDecoder<'a> {
        let spaces = tokenizer.pieces.strips_spaces;
        TextDecoder { tokenizer, text: Incomplete { spaces, ..Incomplete::default() } }
    }

    /// Includes the names of special tokens, such as `<|im_end|>`.
    pub fn with_special(self) -> TextDecoder<'a> {
        TextDecoder { text: Incomplete { shows_special: true, ..self.text }, ..self }
    }

    /// Returns the text that is complete with this id. Unknown ids have no text.
    pub fn push(&mut self, id: u32) -> String {
        self.text.push(self.tokenizer, id)
    }

    /// Returns the rest, which is U+FFFD for an incomplete character, and resets the decoder's bytes.
    pub fn finish(&mut self) -> String {
        self.text.finish()
    }

    /// Appends the text that is complete with this id.
    pub(super) fn push_onto(&mut self, id: u32, text: &mut String) {
        self.text.push_onto(self.tokenizer, id, text);
    }
}

/// The state of a decoder: the part of a text that is not complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Incomplete {
    /// The first bytes of an incomplete character.
    pending: Vec<u8>,
    shows_special: bool,
    /// The number of spaces that are still to be removed.
    spaces: usize,
}

impl Incomplete {
    /// Does [`TextDecoder::push`] with `tokenizer`.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let mut text = String::new();
        self.push_onto(tokenizer, id, &mut text);
        text
    }

    /// Does [`TextDecoder::finish`].
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).into_owned()
    }

    fn push_onto(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) {
        let Tokenizer { vocabulary, pieces, .. } = tokenizer;
        let is_special = vocabulary.kind(id).is_special();
        if is_special && !self.shows_special {
            return;
        }
        let bytes = pieces.bytes(vocabulary, id);
        let mut bytes = &*bytes;
        while self.spaces > 0 && !is_special && !bytes.is_empty() {
            match bytes.strip_prefix(b" ") {
                Some(rest) => (self.spaces, bytes) = (self.spaces - 1, rest),
                None => self.spaces = 0,
            }
        }
        self.pending.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            let rest = &self.pending[done..];
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    done += valid.len();
                    break;
                }
                Err(error) => {
                    let (valid, _) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    done += valid.len();
                    match error.error_len() {
                        None => break,
                        Some(wrong) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            done += wrong;
                        }
                    }
                }
            }
        }
        self.pending.drain(..done);
    }
}
