//! The conversion of a token to text.

use super::vocabulary::{Kind, Vocabulary};
use std::borrow::Cow;

/// The mark of SentencePiece for a space.
pub(super) const SPACE_MARK: char = '\u{2581}';

/// The rules that convert a token to text. They are applied in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pieces {
    /// Whether characters represent bytes, as in GPT-2.
    pub(super) is_byte_level: bool,
    /// Whether names such as `<0x0A>` represent a byte.
    pub(super) has_byte_names: bool,
    /// Texts with their replacements.
    pub(super) replace: Vec<(String, String)>,
    /// The WordPiece prefix of tokens that continue a word. All other tokens begin a word.
    pub(super) continuation: Option<String>,
    /// Whether spaces before punctuation are removed (WordPiece).
    pub(super) cleans_spaces: bool,
    /// Whether tokens are words, with a space in front.
    pub(super) has_space_in_front: bool,
    /// The suffix that ends a word. A space follows the word.
    pub(super) word_end: Option<String>,
    /// The number of spaces that the tokenizer puts in front of a whole text.
    pub(super) strips_spaces: usize,
}

impl Pieces {
    /// Returns the rules of SentencePiece, where marks become spaces.
    pub(super) fn spaces() -> Pieces {
        let replace = vec![(SPACE_MARK.to_string(), " ".to_string())];
        Pieces { replace, has_byte_names: true, ..Pieces::default() }
    }

    /// Returns the bytes of a token's text. Tokens that are cut out of texts are their own text.
    pub(super) fn bytes<'a>(&self, vocabulary: &'a Vocabulary, id: u32) -> Cow<'a, [u8]> {
        let Some(token) = vocabulary.token(id) else { return Cow::Borrowed(&[]) };
        match vocabulary.kind(id) {
            Kind::Control | Kind::Unknown | Kind::UserDefined => {
                return Cow::Borrowed(token.as_bytes());
            }
            Kind::Byte => {
                if let Some(byte) = byte_of_name(token) {
                    return Cow::Owned(vec![byte]);
                }
            }
            _ => {}
        }
        if self.is_byte_level {
            let bytes: Option<Vec<u8>> = token.chars().map(byte_of_char).collect();
            return bytes.map_or(Cow::Borrowed(token.as_bytes()), Cow::Owned);
        }
        let byte = self.has_byte_names.then(|| byte_of_name(token)).flatten();
        if let Some(byte) = byte {
            return Cow::Owned(vec![byte]);
        }
        let mut text = Cow::Borrowed(token);
        for (from, to) in self.replace.iter().filter(|(from, _)| !from.is_empty()) {
            if text.contains(from) {
                text = Cow::Owned(text.replace(from, to));
            }
        }
        if let Some(mark) = &self.continuation {
            text = match text.strip_prefix(mark.as_str()) {
                Some(rest) => Cow::Owned(rest.to_string()),
                None => Cow::Owned(format!(" {text}")),
            };
            if self.cleans_spaces {
                text = Cow::Owned(cleaned(&text));
            }
        }
        if let Some(end) = self.word_end.as_ref().filter(|end| !end.is_empty()) {
            text = Cow::Owned(text.replace(end, " "));
        }
        if self.has_space_in_front {
            text = Cow::Owned(format!(" {text}"));
        }
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }
}

/// Removes the space before punctuation and endings from a WordPiece token, as BERT's tokenizer does when it joins words.
fn cleaned(text: &str) -> String {
    let rules = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    rules.iter().fold(text.to_string(), |text, (from, to)| text.replace(from, to))
}

/// Returns the byte of a name such as `<0x0A>`.
fn byte_of_name(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_byte.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns the byte of a character in GPT-2's alphabet. Printable bytes represent themselves. The other 68 bytes are U+0100
/// and following.
pub(super) fn byte_of_char(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}
