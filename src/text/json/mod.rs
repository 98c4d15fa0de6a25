//! Tokenizers from Hugging Face's `tokenizer.json`, and the settings of `tokenizer_config.json`.

mod parts;
mod values;

use super::added::{Added, AddedToken};
use super::model::{BpeOptions, Model, LONGEST_WORD};
use super::pipeline::{Normalizer, Pipeline};
use super::vocabulary::{Kind, Vocabulary};
use super::{Ends, Tokenizer};
use crate::error::{brief, Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;
use values::{Entries, Merge};

/// The contents of a `tokenizer.json`. Padding and truncation are ignored, because callers do them.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added1>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: ModelFile,
}

/// A token that is cut out of texts.
#[derive(Deserialize)]
struct Added1 {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: Option<bool>,
    #[serde(default)]
    special: bool,
}

/// The model of a tokenizer, of any kind.
#[derive(Deserialize)]
struct ModelFile {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    vocab: Entries,
    #[serde(default)]
    merges: Option<Vec<Merge>>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    unk_id: Option<u32>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    max_input_chars_per_word: Option<usize>,
}

impl ModelFile {
    /// Returns the kind. Old files do not name it.
    fn kind(&self) -> &str {
        match &self.kind {
            Some(kind) => kind,
            None if matches!(self.vocab, Entries::Scores(_)) => "Unigram",
            None if self.merges.is_some() => "BPE",
            None if self.continuing_subword_prefix.is_some() => "WordPiece",
            None => "WordLevel",
        }
    }

    /// Returns the name of the token for unknown text.
    fn unknown(&self) -> Option<&str> {
        match (&self.vocab, self.unk_id) {
            (Entries::Scores(all), Some(id)) => all.get(id as usize).map(|(token, _)| &**token),
            _ => self.unk_token.as_deref(),
        }
    }
}

fn wrong(part: &str, why: impl std::fmt::Display) -> Error {
    Error::format(format!("tokenizer.json: {part} {why}"))
}

/// Builds the tokenizer of a file.
pub(super) fn tokenizer(json: &[u8]) -> Result<Tokenizer> {
    let file: File = serde_json::from_slice(json)
        .map_err(|error| wrong("the file", format!("must be a tokenizer as JSON, got {error}")))?;
    let mut vocabulary = vocabulary(&file)?;
    let ends = parts::ends(&file.post_processor, vocabulary.len())?;
    vocabulary.mark_ends(ends.eos);

    let normalizers = parts::normalizers(&file.normalizer)?;
    let words = parts::words(&file.pre_tokenizer)?;
    let pieces = parts::pieces(&file.decoder)?;
    let (added, late) = added(&file, &vocabulary, &normalizers)?;
    let model = model(file.model, &vocabulary)?;
    let pipeline = Pipeline { normalizers, added: late, words, model };
    Tokenizer::new(vocabulary, added, pipeline, pieces, ends)
}

/// Collects the tokens of the model, and the added tokens.
fn vocabulary(file: &File) -> Result<Vocabulary> {
    let model = &file.model;
    let count = model.vocab.len() + file.added_tokens.len();
    // Files leave out few ids. A damaged id must not allocate gigabytes of memory.
    let most = count * 2 + 65_536;
    let mut all: Vec<(&str, Kind)> = Vec::with_capacity(count);
    let mut set = |id: u64, token, kind| -> Result<()> {
        let Some(place) = usize::try_from(id).ok().filter(|place| *place < most) else {
            let token = brief(token);
            return Err(wrong("ids", format!("must be below {most}, got {id} of token {token}")));
        };
        if all.len() <= place {
            all.resize(place + 1, ("", Kind::Absent));
        }
        let old = all[place].0;
        if !old.is_empty() && old != token {
            let (old, token) = (brief(old), brief(token));
            return Err(wrong("ids", format!("must differ, got {id} of {old} and of {token}")));
        }
        all[place] = (token, kind);
        Ok(())
    };
    let unknown = model.unknown();
    let kind_of = |token: &str| match unknown == Some(token) {
        true => Kind::Unknown,
        false => Kind::Normal,
    };
    match &model.vocab {
        Entries::Ids(all) => {
            for (token, id) in all {
                set(*id, token, kind_of(token))?;
            }
        }
        Entries::Scores(all) => {
            for (id, (token, _)) in all.iter().enumerate() {
                set(id as u64, token, kind_of(token))?;
            }
        }
    }
    for token in &file.added_tokens {
        let kind = match (unknown == Some(&token.content), token.special) {
            (true, _) => Kind::Unknown,
            (false, true) => Kind::Control,
            (false, false) => Kind::UserDefined,
        };
        set(token.id.into(), &token.content, kind)?;
    }
    Vocabulary::new("tokenizer.json", all.into_iter())
}

/// Returns the tokens that are cut out of the original text, and the ones that are cut out of the normalized text.
fn added(
    file: &File,
    vocabulary: &Vocabulary,
    normalizers: &[Normalizer],
) -> Result<(Added, Option<Added>)> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for token in &file.added_tokens {
        let mut text = token.content.clone();
        let is_late = token.normalized.unwrap_or(!token.special) && !normalizers.is_empty();
        if is_late {
            for normalizer in normalizers {
                text = normalizer.apply(text.into())?.into_owned();
            }
        }
        let added = AddedToken {
            strips_left: token.lstrip,
            strips_right: token.rstrip,
            is_word: token.single_word,
            // Names that end a generation are always special, even if the file does not mark them.
            ..AddedToken::new(token.id, &text, vocabulary.kind(token.id).is_special())
        };
        match is_late {
            true => late.push(added),
            false => early.push(added),
        }
    }
    let late = if late.is_empty() { None } else { Some(Added::new(late)?) };
    Ok((Added::new(early)?, late))
}

fn model(file: ModelFile, vocabulary: &Vocabulary) -> Result<Model> {
    let kind = file.kind().to_string();
    let unknown = file.unknown().map(str::to_string);
    let what = "tokenizer.json";
    match (&*kind, file.vocab) {
        ("BPE", Entries::Ids(_)) => {
            let options = BpeOptions {
                unknown,
                continuing_prefix: file.continuing_subword_prefix,
                word_end: file.end_of_word_suffix,
                fuses_unknown: file.fuse_unk,
                has_byte_fallback: file.byte_fallback,
                ignores_merges: file.ignore_merges,
            };
            let merges = file.merges.unwrap_or_default().into_iter().map(|merge| merge.0);
            Model::bpe(vocabulary, what, merges, options)
        }
        ("Unigram", Entries::Scores(all)) => {
            let scores: Vec<f64> = all.iter().map(|(_, score)| *score).collect();
            Model::unigram(vocabulary, what, &scores, file.unk_id, file.byte_fallback)
        }
        ("WordPiece", Entries::Ids(_)) => {
            let unknown = unknown.unwrap_or_else(|| "[UNK]".into());
            let plain = vocabulary
                .iter()
                .filter(|(_, token, kind)| !kind.is_special() || *token == unknown);
            let tokens = plain.map(|(id, token, _)| (token.to_string(), id)).collect();
            let continuation = file.continuing_subword_prefix.unwrap_or_else(|| "##".into());
            let longest = file.max_input_chars_per_word.unwrap_or(LONGEST_WORD);
            Model::wordpiece(what, tokens, &continuation, &unknown, longest)
        }
        ("WordLevel", Entries::Ids(_)) => {
            Model::words(vocabulary, what, &unknown.unwrap_or_else(|| "<unk>".into()))
        }
        ("BPE" | "Unigram" | "WordPiece" | "WordLevel", _) => {
            let must = "must have ids by token, or for kind \"Unigram\" a list of scores";
            Err(wrong("the vocabulary", format!("{must}, got the other for kind {kind:?}")))
        }
        _ => Err(unsupported("the model", &kind)),
    }
}

fn unsupported(part: &str, kind: &str) -> Error {
    let message =
        format!("tokenizer.json: {part} must be of a kind that is known, got {}", brief(kind));
    Error::new(ErrorKind::Unsupported, message)
}

/// The contents of a `tokenizer_config.json`.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    bos_token: Value,
    #[serde(default)]
    eos_token: Value,
    #[serde(default)]
    add_bos_token: Option<bool>,
    #[serde(default)]
    add_eos_token: Option<bool>,
}

/// Sets BOS and EOS to the tokens that a `tokenizer_config.json` names.
pub(super) fn apply_config(
    json: &[u8],
    vocabulary: &mut Vocabulary,
    ends: &mut Ends,
) -> Result<()> {
    let wrong = |why: String| Error::format(format!("tokenizer_config.json: {why}"));
    let config: Config = serde_json::from_slice(json)
        .map_err(|error| wrong(format!("the file must be an object of JSON, got {error}")))?;
    let id = |value: &Value, key: &str| -> Result<Option<u32>> {
        let name = value.get("content").unwrap_or(value);
        let Some(name) = name.as_str() else { return Ok(None) };
        let id = vocabulary.id(name).map(Some);
        let must = "must name a token of the vocabulary";
        id.ok_or_else(|| wrong(format!("{key} {must}, got {}", brief(name))))
    };
    let (bos, eos) = (id(&config.bos_token, "bos_token")?, id(&config.eos_token, "eos_token")?);
    ends.bos = bos.or(ends.bos);
    ends.eos = eos.or(ends.eos);
    for (adds, id, list) in [
        (config.add_bos_token, ends.bos, &mut ends.before),
        (config.add_eos_token, ends.eos, &mut ends.after),
    ] {
        match adds {
            Some(true) if list.is_empty() => list.extend(id),
            Some(false) => list.clear(),
            _ => {}
        }
    }
    vocabulary.mark_ends(ends.eos);
    Ok(())
}
