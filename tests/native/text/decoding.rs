//! Tests text that is decoded token by token.

use super::golden::line;
use super::{gguf, Random};
use warpweft::text::Tokenizer;

/// Emojis of several characters, accents, and characters of two and three bytes.
const TEXT: &str = "a👍🏽b🧑🏻‍🚀é€ e\u{301}日本🇺🇳\u{10ffff}";

/// Returns tokenizers that have a token for every byte.
fn tokenizers() -> [Tokenizer; 2] {
    ["bpe", "spm"]
        .map(|name| Tokenizer::from_gguf(&gguf(&line(name)["gguf"])).expect("a tokenizer"))
}

/// Returns the token of a byte.
fn of_byte(tokenizer: &Tokenizer, byte: u8) -> u32 {
    let named = tokenizer.id(&format!("<0x{byte:02X}>"));
    named.unwrap_or_else(|| {
        let alone = (0..tokenizer.vocab_size() as u32).find(|&id| {
            let mut decoder = tokenizer.decoder();
            let text = decoder.push(id) + &decoder.finish();
            let is_short = tokenizer.token(id).is_some_and(|token| token.chars().count() == 1);
            is_short && text.len() <= 3 && tokenizer.token(id).and_then(gpt2_byte) == Some(byte)
        });
        alone.expect("every byte has a token")
    })
}

/// Returns the byte of a character in GPT-2's alphabet, as the paper's code computes it.
fn gpt2_byte(token: &str) -> Option<u8> {
    let mut next = 256u32;
    let c = u32::from(token.chars().next()?);
    for byte in 0..=255u8 {
        let is_shown = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let code = if is_shown { u32::from(byte) } else { next };
        next += u32::from(!is_shown);
        if code == c {
            return Some(byte);
        }
    }
    None
}

#[test]
fn characters_are_never_split() {
    for tokenizer in tokenizers() {
        let table: Vec<u32> = (0..=255).map(|byte| of_byte(&tokenizer, byte)).collect();
        let ids: Vec<u32> = TEXT.bytes().map(|byte| table[usize::from(byte)]).collect();
        let mut decoder = tokenizer.decoder();
        let mut whole = String::new();
        for (at, &id) in ids.iter().enumerate() {
            let part = decoder.push(id);
            assert!(!part.contains('\u{fffd}'), "byte {at}");
            whole += &part;
            // All complete characters are returned at once.
            let complete =
                (0..=at + 1).rev().find(|&end| TEXT.is_char_boundary(end)).expect("0 is one");
            assert_eq!(whole, TEXT[..complete]);
        }
        assert_eq!(decoder.finish(), "");
        assert_eq!(whole, TEXT);
        assert_eq!(tokenizer.decode(&ids), TEXT);
    }
}

#[test]
fn damaged_bytes_become_replacements_as_in_the_standard_library() {
    let mut random = Random(7);
    for tokenizer in tokenizers() {
        let table: Vec<u32> = (0..=255).map(|byte| of_byte(&tokenizer, byte)).collect();
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = TEXT.bytes().collect();
            for _ in 0..random.below(6) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, random.below(256) as u8),
                }
            }
            let mut decoder = tokenizer.decoder();
            let mut text = String::new();
            for &byte in &bytes {
                text += &decoder.push(table[usize::from(byte)]);
            }
            text += &decoder.finish();
            assert_eq!(text, String::from_utf8_lossy(&bytes), "{bytes:?}");
        }
    }
}

#[test]
fn an_unfinished_character_is_replaced_at_the_end() {
    let [bpe, _] = tokenizers();
    let mut decoder = bpe.decoder();
    assert_eq!(decoder.push(of_byte(&bpe, 0xf0)), "");
    assert_eq!(decoder.push(of_byte(&bpe, 0x9f)), "");
    assert_eq!(decoder.finish(), "\u{fffd}");
    assert_eq!(decoder.push(of_byte(&bpe, b'a')), "a");
}

#[test]
fn special_tokens_are_shown_only_if_asked_for() {
    let [bpe, _] = tokenizers();
    let end = bpe.id("<end>").expect("it is there");
    let keep = bpe.id("<keep>").expect("it is there");
    let a = of_byte(&bpe, b'a');
    assert_eq!(bpe.decode(&[a, end, keep, 4_000_000_000]), "a<keep>");
    let mut decoder = bpe.decoder().with_special();
    let text: String = [a, end, keep].iter().map(|&id| decoder.push(id)).collect();
    assert_eq!(text, "a<end><keep>");
}
