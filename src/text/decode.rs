//! Ids back to text, as a whole or one by one.

use super::Tokenizer;

/// A decoder for ids that arrive one by one. It gives text only once its characters are complete: an emoji can be four tokens.
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
    /// A decoder of ids that continue a text: a space in front of the first is text.
    pub(super) fn new(tokenizer: &'a Tokenizer) -> TextDecoder<'a> {
        TextDecoder { tokenizer, text: Incomplete::default() }
    }

    /// A decoder of a whole text.
    pub(super) fn whole(tokenizer: &'a Tokenizer) -> TextDecoder<'a> {
        let spaces = tokenizer.pieces.strips_spaces;
        TextDecoder { tokenizer, text: Incomplete { spaces, ..Incomplete::default() } }
    }

    /// The same decoder, which also gives the names of special tokens, such as `<|im_end|>`.
    pub fn with_special(self) -> TextDecoder<'a> {
        TextDecoder { text: Incomplete { shows_special: true, ..self.text }, ..self }
    }

    /// The text that is complete with this id. Unknown ids have none.
    pub fn push(&mut self, id: u32) -> String {
        self.text.push(self.tokenizer, id)
    }

    /// The rest: U+FFFD for a character that was not completed. The decoder is as new then.
    pub fn finish(&mut self) -> String {
        self.text.finish()
    }

    /// Appends the text that is complete with this id.
    pub(super) fn push_onto(&mut self, id: u32, text: &mut String) {
        self.text.push_onto(self.tokenizer, id, text);
    }
}

/// What a decoder has of a text that is not complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Incomplete {
    /// The beginning of a character.
    pending: Vec<u8>,
    shows_special: bool,
    /// Spaces that are still to be removed.
    spaces: usize,
}

impl Incomplete {
    /// [`TextDecoder::push`].
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let mut text = String::new();
        self.push_onto(tokenizer, id, &mut text);
        text
    }

    /// [`TextDecoder::finish`].
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
