//! Tokenizers from the metadata of GGUF files, `tokenizer.ggml.*`. Missing values have llama.cpp's defaults.

use super::added::{Added, AddedToken};
use super::charsmap::Charsmap;
use super::model::{BpeOptions, Model, LONGEST_WORD};
use super::pieces::{Pieces, SPACE_MARK};
use super::pipeline::{Normalizer, Pipeline, Words};
use super::pretokenizers::pretokenizer;
use super::scores::Scores;
use super::vocabulary::{Kind, Vocabulary};
use super::{Ends, Tokenizer};
use crate::error::{brief, Error, ErrorKind, Result};
use crate::io::{GgufArray, GgufValue};
use std::collections::BTreeMap;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

/// The metadata of a file.
pub(super) struct Metadata<'a>(pub(super) &'a BTreeMap<String, GgufValue>);

fn wrong(key: &str, must: &str, got: impl std::fmt::Display) -> Error {
    Error::format(format!("tokenizer: `tokenizer.ggml.{key}` {must}, got {got}"))
}

impl<'a> Metadata<'a> {
    fn get(&self, key: &str) -> Option<&'a GgufValue> {
        self.0.get(&format!("tokenizer.ggml.{key}"))
    }

    /// Returns the tokens of the vocabulary, by id.
    pub(super) fn tokens(&self) -> Result<&'a [String]> {
        let must = "must be an array of texts";
        let Some(value) = self.get("tokens") else { return Err(wrong("tokens", must, "nothing")) };
        match value.as_array().and_then(GgufArray::as_strings) {
            Some(tokens) => Ok(tokens),
            None => Err(wrong("tokens", must, value)),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = value.as_str().map(Some);
        text.ok_or_else(|| wrong(key, "must be text", value))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let flag = value.as_bool().map(Some);
        flag.ok_or_else(|| wrong(key, "must be true or false", value))
    }

    /// Returns the id of a token that the file names. The number 4294967295 means that the token does not exist.
    pub(super) fn id(&self, key: &str, count: usize) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        match id {
            Some(u32::MAX) => Ok(None),
            Some(id) if (id as usize) < count => Ok(Some(id)),
            _ => Err(wrong(key, &format!("must be an id below {count}"), value)),
        }
    }

    /// Returns numbers, at least one for each token.
    fn numbers(&self, key: &str, count: usize) -> Result<Option<Vec<f64>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let numbers: Option<Vec<f64>> = match value.as_array() {
            Some(GgufArray::F32(all)) => Some(all.iter().map(|x| f64::from(*x)).collect()),
            Some(GgufArray::F64(all)) => Some(all.clone()),
            Some(GgufArray::I32(all)) => Some(all.iter().map(|x| f64::from(*x)).collect()),
            Some(GgufArray::U32(all)) => Some(all.iter().map(|x| f64::from(*x)).collect()),
            _ => None,
        };
        match numbers {
            Some(numbers) if numbers.len() >= count => Ok(Some(numbers)),
            _ => Err(wrong(
                key,
                &format!("must be an array of {count} numbers, one for each token"),
                value,
            )),
        }
    }
}

/// The defaults that differ between kinds of tokenizers.
struct Defaults {
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    adds_bos: bool,
    adds_eos: bool,
}

/// Builds the tokenizer of a file.
pub(super) fn tokenizer(all: &BTreeMap<String, GgufValue>) -> Result<Tokenizer> {
    let file = Metadata(all);
    let Some(kind) = file.text("model")? else {
        return Err(wrong("model", "must name the kind of tokenizer", "nothing"));
    };
    let defaults = match kind {
        "llama" => (Some(1), Some(2), Some(0), true, false),
        "bert" => (Some(101), Some(102), Some(100), true, true),
        "t5" => (None, Some(1), Some(2), false, true),
        "gpt2" => (None, None, None, false, false),
        _ => {
            let must = "must be one of \"gpt2\", \"llama\", \"t5\" and \"bert\"";
            let error = wrong("model", must, brief(kind));
            return Err(Error::new(ErrorKind::Unsupported, error.message()));
        }
    };
    let (bos, eos, unknown, adds_bos, adds_eos) = defaults;
    let mut defaults = Defaults { bos, eos, unknown, adds_bos, adds_eos };
    let pre = match kind {
        "gpt2" => Some(pretokenizer(file.text("pre")?)?),
        _ => None,
    };
    defaults.adds_bos |= pre.as_ref().is_some_and(|pre| pre.adds_bos);

    let tokens = file.tokens()?;
    let kinds = file.numbers("token_type", tokens.len())?;
    let kind_of =
        |id: usize| kinds.as_ref().map_or(Kind::Normal, |kinds| Kind::of(kinds[id] as i64));
    let named = tokens.iter().enumerate().map(|(id, token)| (token.as_str(), kind_of(id)));
    let mut vocabulary = Vocabulary::new("`tokenizer.ggml.tokens`", named)?;
    let count = tokens.len();
    let or_default =
        |id: Option<u32>, or: Option<u32>| id.or(or.filter(|or| (*or as usize) < count));
    let unknown = or_default(file.id("unknown_token_id", count)?, defaults.unknown);
    let ends = ends(&file, kind, count, &defaults)?;
    let turns = [file.id("eot_token_id", count)?, file.id("eom_token_id", count)?];
    vocabulary.mark_ends(turns.into_iter().flatten().chain(ends.eos));
    if let Some(unknown) =
        unknown.filter(|id| vocabulary.kind(*id) == Kind::Normal && kind != "gpt2")
    {
        vocabulary.set_kind(unknown, Kind::Unknown);
    }

    let added = added(&vocabulary, all)?;
    let prefix = file.flag("add_space_prefix")?;
    let (pipeline, pieces) = match (kind, pre) {
        ("gpt2", Some(pre)) => {
            let model = bpe(&file, &vocabulary, pre.ignores_merges)?;
            let words = Words::new(pre.words()?);
            let pieces = Pieces { is_byte_level: true, ..Pieces::default() };
            (Pipeline { normalizers: Vec::new(), added: None, words, model }, pieces)
        }
        ("bert", _) => wordpiece(&file, &vocabulary, unknown)?,
        ("t5", _) => unigram(&file, &vocabulary, unknown, prefix.unwrap_or(false))?,
        _ => scored(&file, &vocabulary, unknown, prefix.unwrap_or(true))?,
    };
    Tokenizer::new(vocabulary, added, pipeline, pieces, ends)
}

/// Reads the tokens around a text.
fn ends(file: &Metadata, kind: &str, count: usize, defaults: &Defaults) -> Result<Ends> {
    let or_default =
        |id: Option<u32>, or: Option<u32>| id.or(or.filter(|or| (*or as usize) < count));
    let first = match file.id("bos_token_id", count)? {
        None => file.id("cls_token_id", count)?,
        some => some,
    };
    let bos = or_default(first, defaults.bos);
    let is_bert = kind == "bert";
    let last = match is_bert {
        // The key has this spelling in llama.cpp.
        true => file.id("seperator_token_id", count)?,
        false => file.id("eos_token_id", count)?,
    };
    let eos = or_default(last, defaults.eos);
    let adds = |key: &str, default: bool, id: Option<u32>| -> Result<Vec<u32>> {
        match (file.flag(key)?, id) {
            (Some(true), None) => {
                Err(wrong(key, "must be false where the file has no such token", "true"))
            }
            (flag, Some(id)) if flag.unwrap_or(default) => Ok(vec![id]),
            _ => Ok(Vec::new()),
        }
    };
    let before = adds("add_bos_token", defaults.adds_bos, bos)?;
    let add_last = if is_bert { "add_sep_token" } else { "add_eos_token" };
    let after = adds(add_last, defaults.adds_eos, eos)?;
    Ok(Ends { bos, eos, before, after })
}

/// Returns the tokens that are cut out of a text, and the white space that they include. Files do not have the latter, so it
/// depends on the model's name, as in llama.cpp.
fn added(vocabulary: &Vocabulary, all: &BTreeMap<String, GgufValue>) -> Result<Added> {
    let text = |key: &str| all.get(key).and_then(GgufValue::as_str).unwrap_or_default();
    let name = text("general.name").to_lowercase();
    let (pre, architecture) = (text("tokenizer.ggml.pre"), text("general.architecture"));
    let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let is_jina = has(pre, &["jina-v2-de", "jina-v2-es", "jina-v2-code"])
        || has(architecture, &["nomic-bert-moe", "jina-bert-v3"]);
    let is_phi3 = has(&name, &["phi-3", "phi3"]);
    let is_modern_bert = name.contains("modern-bert");
    let chosen =
        vocabulary.iter().filter(|(_, _, kind)| kind.is_special() || *kind == Kind::UserDefined);
    let tokens = chosen.map(|(id, text, kind)| {
        let mut token = AddedToken::new(id, text, kind.is_special());
        token.strips_left = is_jina && text == "<mask>" || is_modern_bert && text == "[MASK]";
        token.strips_right = is_phi3 && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>");
        token
    });
    Added::new(tokens.collect())
}

fn bpe(file: &Metadata, vocabulary: &Vocabulary, ignores_merges: bool) -> Result<Model> {
    let must = "must be an array of texts";
    let Some(value) = file.get("merges") else { return Err(wrong("merges", must, "nothing")) };
    let Some(rows) = value.as_array().and_then(GgufArray::as_strings) else {
        return Err(wrong("merges", must, value));
    };
    let mut merges = Vec::with_capacity(rows.len());
    for row in rows {
        // The search skips the first character, because a token can begin with a space.
        let space = row.char_indices().skip(1).find(|(_, c)| *c == ' ');
        let Some((at, _)) = space else {
            return Err(wrong("merges", "must have two tokens in each row", brief(row)));
        };
        merges.push((row[..at].to_string(), row[at + 1..].to_string()));
    }
    let options = BpeOptions { ignores_merges, ..BpeOptions::default() };
    Model::bpe(vocabulary, "`tokenizer.ggml.merges`", merges.into_iter(), options)
}

fn scored(
    file: &Metadata,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
    has_prefix: bool,
) -> Result<(Pipeline, Pieces)> {
    let Some(scores) = file.numbers("scores", vocabulary.len())? else {
        return Err(wrong("scores", "must have a number for each token", "nothing"));
    };
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(wrong("scores", "must be numbers", format!("NaN for token {id}")));
    }
    let scores = scores.into_iter().map(|score| score as f32).collect();
    let model = Model::Scores(Scores::new(vocabulary, scores, unknown));
    let mut normalizers = vec![Normalizer::MarkSpaces];
    if has_prefix {
        normalizers.insert(0, Normalizer::SpaceInFront);
    }
    let pieces = Pieces { strips_spaces: usize::from(has_prefix), ..Pieces::spaces() };
    Ok((Pipeline { normalizers, added: None, words: Words::default(), model }, pieces))
}

fn unigram(
    file: &Metadata,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
    has_prefix: bool,
) -> Result<(Pipeline, Pieces)> {
    let Some(scores) = file.numbers("scores", vocabulary.len())? else {
        return Err(wrong("scores", "must have a number for each token", "nothing"));
    };
    let model = Model::unigram(vocabulary, "`tokenizer.ggml.scores`", &scores, unknown, false)?;
    let mut normalizers = Vec::new();
    if let Some(value) = file.get("precompiled_charsmap") {
        let key = "`tokenizer.ggml.precompiled_charsmap`";
        let map = match value.as_array() {
            Some(GgufArray::Bytes(bytes)) => Charsmap::new(key, bytes)?,
            Some(GgufArray::I32(bytes)) if bytes.iter().all(|byte| (-128..128).contains(byte)) => {
                Charsmap::new(key, &bytes.iter().map(|byte| *byte as u8).collect::<Vec<u8>>())?
            }
            _ => return Err(wrong("precompiled_charsmap", "must be an array of bytes", value)),
        };
        normalizers.push(Normalizer::Charsmap(map));
    }
    let merges = file.flag("remove_extra_whitespaces")?.unwrap_or(false);
    normalizers.push(Normalizer::MarkWords { in_front: has_prefix, merges });
    let strips_spaces = usize::from(has_prefix || merges);
    let pieces = Pieces { strips_spaces, has_byte_names: false, ..Pieces::spaces() };
    Ok((Pipeline { normalizers, added: None, words: Words::default(), model }, pieces))
}

/// Builds a WordPiece model. In GGUF files, tokens that begin a word have a mark in front. In BERT's files, tokens that
/// continue a word have `##` in front.
fn wordpiece(
    file: &Metadata,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
) -> Result<(Pipeline, Pieces)> {
    let Some(unknown) = unknown.and_then(|id| vocabulary.token(id)) else {
        return Err(wrong("unknown_token_id", "must be there for kind \"bert\"", "nothing"));
    };
    let mut tokens = Vec::with_capacity(vocabulary.len());
    for (id, token, kind) in vocabulary.iter() {
        if token == unknown {
            tokens.push((token.to_string(), id));
        } else if !kind.is_special() && kind != Kind::UserDefined {
            tokens.push(match token.strip_prefix(SPACE_MARK) {
                Some(begins) => (begins.to_string(), id),
                None => (format!("##{token}"), id),
            });
        }
    }
    let model = Model::wordpiece("`tokenizer.ggml.tokens`", tokens, "##", unknown, LONGEST_WORD)?;
    let lowercase = file.flag("normalizer.lowercase")?.unwrap_or(true);
    let strips_accents = file.flag("normalizer.strip_accents")?.unwrap_or(lowercase);
    let bert = BertNormalizer::new(true, true, Some(strips_accents), lowercase);
    let normalizers = vec![Normalizer::HuggingFace(Box::new(bert.into()))];
    let words = Words::new(BertPreTokenizer.into());
    let pieces = Pieces { strips_spaces: 1, has_byte_names: false, ..Pieces::spaces() };
    Ok((Pipeline { normalizers, added: None, words, model }, pieces))
}
