//! The small parts of a `tokenizer.json`: normalizer, pre-tokenizer, post-processor and decoder.

use super::super::charsmap::Charsmap;
use super::super::pieces::{Pieces, SPACE_MARK};
use super::super::pipeline::{Normalizer, Words};
use super::super::Ends;
use super::{unsupported, wrong};
use crate::error::{brief, Result};
use serde_json::Value;
use std::sync::Arc;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};

/// The most levels of nested parts. Real files have fewer.
const DEEPEST: usize = 8;

/// Returns the kind of a part.
fn kind<'a>(part: &str, value: &'a Value) -> Result<&'a str> {
    let kind = value.get("type").and_then(Value::as_str);
    kind.ok_or_else(|| wrong(part, format!("must have a type, got {}", brief(value.to_string()))))
}

/// Flattens a part that can be a sequence of parts. The list is empty if the part is `null`.
fn flat<'a>(part: &str, list: &str, value: &'a Value) -> Result<Vec<&'a Value>> {
    fn collect<'a>(
        part: &str,
        list: &str,
        value: &'a Value,
        depth: usize,
        all: &mut Vec<&'a Value>,
    ) -> Result<()> {
        if kind(part, value)? != "Sequence" {
            all.push(value);
            return Ok(());
        }
        let Some(members) = value.get(list).and_then(Value::as_array) else {
            return Err(wrong(part, format!("must have a list {list:?}, got none")));
        };
        if depth == DEEPEST {
            let must = format!("must not have more than {DEEPEST} sequences in each other");
            return Err(wrong(part, format!("{must}, got more")));
        }
        members.iter().try_for_each(|member| collect(part, list, member, depth + 1, all))
    }
    let mut all = Vec::new();
    if !value.is_null() {
        collect(part, list, value, 0, &mut all)?;
    }
    Ok(all)
}

/// Reads the normalizers.
pub(super) fn normalizers(value: &Value) -> Result<Vec<Normalizer>> {
    let part = "the normalizer";
    let mut all = Vec::new();
    for value in flat(part, "normalizers", value)? {
        all.push(match kind(part, value)? {
            "Precompiled" => {
                let text = value.get("precompiled_charsmap").and_then(Value::as_str);
                let Some(bytes) = text.and_then(from_base64) else {
                    return Err(wrong(
                        part,
                        "must have `precompiled_charsmap` in Base64, got none",
                    ));
                };
                Normalizer::Charsmap(Charsmap::new("`precompiled_charsmap`", &bytes)?)
            }
            "Replace" if is_mark(value) => Normalizer::MarkSpaces,
            "BertNormalizer" | "ByteLevel" | "Lowercase" | "NFC" | "NFD" | "NFKC" | "NFKD"
            | "Nmt" | "Prepend" | "Replace" | "Strip" | "StripAccents" => {
                let normalizer: NormalizerWrapper = serde_json::from_value(value.clone())
                    .map_err(|error| wrong(part, format!("must be complete, got {error}")))?;
                Normalizer::HuggingFace(Box::new(normalizer))
            }
            other => return Err(unsupported(part, other)),
        });
    }
    Ok(all)
}

/// Whether a normalizer replaces spaces by marks.
fn is_mark(value: &Value) -> bool {
    let from = value.get("pattern").and_then(|pattern| pattern.get("String"));
    let to = value.get("content").and_then(Value::as_str);
    from.and_then(Value::as_str) == Some(" ") && to == Some("\u{2581}")
}

/// Reads the pre-tokenizer. If it marks the beginning of a text, it does not mark text after a special token.
pub(super) fn words(value: &Value) -> Result<Words> {
    let part = "the pre-tokenizer";
    let all = flat(part, "pretokenizers", value)?;
    if all.is_empty() {
        return Ok(Words::default());
    }
    for value in &all {
        let kind = kind(part, value)?;
        let known = [
            "BertPreTokenizer",
            "ByteLevel",
            "Delimiter",
            "CharDelimiterSplit",
            "Digits",
            "Metaspace",
            "Punctuation",
            "Split",
            "UnicodeScripts",
            "Whitespace",
            "WhitespaceSplit",
        ];
        if !known.contains(&kind) {
            return Err(unsupported(part, kind));
        }
    }
    let sequence = |all: &[Value]| -> Result<PreTokenizerWrapper> {
        let value = serde_json::json!({"type": "Sequence", "pretokenizers": all});
        serde_json::from_value(value)
            .map_err(|error| wrong(part, format!("must be complete, got {error}")))
    };
    let mut all: Vec<Value> = all.into_iter().cloned().collect();
    let first = Arc::new(sequence(&all)?);
    let mut differs = false;
    for scheme in all.iter_mut().filter_map(|value| value.get_mut("prepend_scheme")) {
        if *scheme == "first" {
            *scheme = "never".into();
            differs = true;
        }
    }
    let rest = if differs { Arc::new(sequence(&all)?) } else { first.clone() };
    Ok(Words { first: Some(first), rest: Some(rest) })
}

/// Reads the tokens that a post-processor puts around a text.
pub(super) fn ends(value: &Value, count: usize) -> Result<Ends> {
    let part = "the post-processor";
    let mut ends = Ends::default();
    let checked = |id: Option<u64>| -> Result<u32> {
        let id = id.and_then(|id| u32::try_from(id).ok()).filter(|id| (*id as usize) < count);
        id.ok_or_else(|| wrong(part, format!("must name tokens by ids below {count}, got another")))
    };
    for value in flat(part, "processors", value)? {
        match kind(part, value)? {
            "ByteLevel" => {}
            "BertProcessing" | "RobertaProcessing" => {
                let id = |key: &str| {
                    checked(value.get(key).and_then(|v| v.get(1)).and_then(Value::as_u64))
                };
                ends.before.insert(0, id("cls")?);
                ends.after.push(id("sep")?);
            }
            "TemplateProcessing" => {
                let Some(single) = value.get("single").and_then(Value::as_array) else {
                    return Err(wrong(part, "must have a list `single`, got none"));
                };
                let mut is_after = false;
                for item in single {
                    if item.get("Sequence").is_some() {
                        is_after = true;
                        continue;
                    }
                    let name = item.get("SpecialToken").and_then(|token| token.get("id"));
                    let special = name.and_then(Value::as_str).and_then(|name| {
                        value.get("special_tokens").and_then(|all| all.get(name)?.get("ids"))
                    });
                    for id in special.and_then(Value::as_array).into_iter().flatten() {
                        let id = checked(id.as_u64())?;
                        if is_after {
                            ends.after.push(id)
                        } else {
                            ends.before.push(id)
                        }
                    }
                }
            }
            other => return Err(unsupported(part, other)),
        }
    }
    ends.bos = ends.before.first().copied();
    ends.eos = ends.after.last().copied();
    Ok(ends)
}

/// Reads the rules that turn tokens into text. Without a decoder, tokens are separated by spaces.
pub(super) fn pieces(value: &Value) -> Result<Pieces> {
    let part = "the decoder";
    if value.is_null() {
        return Ok(Pieces { has_space_in_front: true, strips_spaces: 1, ..Pieces::default() });
    }
    let mut pieces = Pieces::default();
    for value in flat(part, "decoders", value)? {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match kind(part, value)? {
            "ByteLevel" => pieces.is_byte_level = true,
            "ByteFallback" => pieces.has_byte_names = true,
            "Fuse" => {}
            "BPEDecoder" => pieces.word_end = Some(text("suffix").unwrap_or("</w>").into()),
            "WordPiece" => {
                pieces.continuation = Some(text("prefix").unwrap_or("##").into());
                pieces.cleans_spaces =
                    value.get("cleanup").and_then(Value::as_bool).unwrap_or(true);
                pieces.strips_spaces = 1;
            }
            "Metaspace" => {
                let mark = text("replacement").map_or(SPACE_MARK.to_string(), str::to_string);
                pieces.replace.push((mark, " ".into()));
                let never = text("prepend_scheme") == Some("never")
                    || value.get("add_prefix_space") == Some(&Value::Bool(false));
                pieces.strips_spaces = usize::from(!never);
            }
            "Replace" => {
                let from = value.get("pattern").and_then(|pattern| pattern.get("String"));
                let (Some(from), Some(to)) = (from.and_then(Value::as_str), text("content")) else {
                    return Err(unsupported(part, "Replace by a pattern"));
                };
                pieces.replace.push((from.into(), to.into()));
            }
            "Strip" => {
                let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
                if text("content") != Some(" ") || number("stop") != 0 {
                    return Err(unsupported(part, "Strip of more than spaces at the beginning"));
                }
                pieces.strips_spaces = number("start") as usize;
            }
            other => return Err(unsupported(part, other)),
        }
    }
    Ok(pieces)
}

/// Decodes Base64.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut word = 0u32;
        for &letter in group {
            let digit = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(digit);
        }
        let count = group.len() * 6 / 8;
        word <<= 6 * (4 - group.len());
        bytes.extend(word.to_be_bytes().iter().skip(1).take(count));
    }
    Some(bytes)
}
