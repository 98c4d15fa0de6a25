//! The pre-tokenizers of GGUF files, by their names in llama.cpp (`tokenizer.ggml.pre`).
//!
//! Each is a list of patterns. The first pattern splits a text into its matches and the text between them. The next pattern
//! splits these parts further. The patterns are those of the models' `tokenizer.json`, even where llama.cpp uses a simpler
//! one.

use crate::error::{brief, Error, ErrorKind, Result};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

/// The properties of a BPE tokenizer that follow from its pre-tokenizer's name.
pub(super) struct PreTokenizer {
    pub(super) patterns: &'static [&'static str],
    /// Whether a word that is a token becomes that token without merges.
    pub(super) ignores_merges: bool,
    /// Whether BOS is added by default.
    pub(super) adds_bos: bool,
}

/// Words with a space in front, as in GPT-2.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// GPT-2's words, after single digits were split off.
const DIGITS_GPT2: &[&str] = &[r"\p{N}", GPT2];
/// Words with one other character in front, and up to three digits, as in Llama 3.
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Llama 3's words with single digits.
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Words of letters with or without a capital, which end before the next capital.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Tekken's words with the endings of English, and up to three digits.
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const YOUTU: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const SPARK: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
);
/// Chinese characters and Japanese syllables.
const HAN_KANA: &str = r"[一-龥\x{3040}-ゟ゠-ヿ]+";
/// Letters that have case, as listed in DeepSeek's file.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[",
    r"\x{41}-\x{5a}\x{61}-\x{7a}\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}",
    r"\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}",
    r"\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}",
    r"\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}",
    r"\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}",
    r"\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}",
    r"\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}",
    r"\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}",
    r"\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}",
    r"\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}",
    r"\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}",
    r"\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}",
    r"\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}",
    r"\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}",
    r"\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}",
    r"\x{1e900}-\x{1e943}",
    r"]+",
);
/// Chinese, Japanese and Korean characters in DeepSeek's files.
const DEEPSEEK_CJK: &str = r"[一-龥ࠀ-一가-\x{d7ff}]+";
/// Words up to white space or punctuation, as in BLOOM.
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const BAILING: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*",
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
);
const SEED: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const EXAONE_MOE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
);
/// Llama 3's words, with white space split into runs of powers of two.
const JAIS2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)",
    r"|\s{1,2}(?!\S)|\s{1}"
);
const MINICPM5: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const UFAKZEKA: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// The patterns of files without a name, or with the name `default`.
const DEFAULT: &[&str] = &[r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"];

/// Returns the pre-tokenizer with a name. Without a name, the patterns are llama.cpp's default.
///
/// # Errors
/// `Unsupported` for unknown names. Text would be split incorrectly, which shows only in bad answers.
pub(super) fn pretokenizer(name: Option<&str>) -> Result<PreTokenizer> {
    let (patterns, ignores_merges, adds_bos): (&[&str], bool, bool) = match name
        .unwrap_or("default")
    {
        "default" | "" => (DEFAULT, false, false),
        "gpt-2" | "phi-2" | "jina-es" | "jina-de" | "jina-v1-en" | "jina-v2-es" | "jina-v2-de"
        | "jina-v2-code" | "roberta-bpe" | "gigachat" | "a.x-4.0" | "mellum" | "modern-bert"
        | "mpt" | "olmo" | "jais" | "trillion" | "granite-docling" | "exaone4" => {
            (&[GPT2], false, false)
        }
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b"
        | "mellum2" => (DIGITS_GPT2, false, false),
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
        | "lfm2" | "jina-v5-nano" => (&[LLAMA3], true, true),
        "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe" => (&[LLAMA3], false, false),
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "stablelm2" | "megrez" | "hunyuan"
        | "solar-open" | "grok-2" => (&[QWEN2], false, false),
        "qwen35" => (&[QWEN35], false, false),
        "tekken" => (&[TEKKEN], true, true),
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => (&[GPT4O], false, false),
        "granite-embed-multi-97m" => (&[GPT4O], true, false),
        "tiny_aya" | "cohere2moe" => (&[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O], false, false),
        "deepseek-llm" => (
            &[
                r"[\r\n]",
                DEEPSEEK_LETTERS,
                r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+",
                r"\s+$",
                DEEPSEEK_CJK,
                r"\p{N}+",
            ],
            false,
            false,
        ),
        "deepseek-coder" => {
            (&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, r"\p{N}"], false, false)
        }
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => {
            (&[r"\p{N}{1,3}", HAN_KANA, DEEPSEEK3], false, false)
        }
        "spark2_5" => (&[r"\p{N}{1,3}", HAN_KANA, SPARK, r"\p{N}"], false, false),
        "youtu" => (
            &[r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\x{3040}-ゟ゠-ヿ]+", YOUTU],
            true,
            false,
        ),
        "falcon" => (&[r"[\p{P}$+<=>^~|`]+", GPT2, r"[0-9][0-9][0-9]"], false, false),
        "poro-chat" | "bloom" | "gpt3-finnish" => (&[BLOOM], false, false),
        "viking" => (&[BLOOM, r"\p{N}"], false, false),
        "chameleon" => (
            &[
                r"<sentinel:[0-9]+>",
                r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                r"([\t\n]|    |  )",
                r"\p{N}",
                r"[\p{P}!-/:-@\[-`{-~]",
                GPT2,
            ],
            false,
            true,
        ),
        "bailingmoe" | "bailingmoe2" | "llada-moe" => (&[BAILING], false, false),
        "seed-coder" => (&[SEED], false, false),
        "ufakzeka" => (&[UFAKZEKA], false, false),
        "laguna" => (&[r"[^\n]+|[\n]+", QWEN2], false, false),
        "exaone-moe" => (&[EXAONE_MOE], false, false),
        "jais-2" => (&[JAIS2], false, false),
        "minicpm5" => (&[r"\p{N}{1,3}", MINICPM5], true, false),
        unknown => {
            let must = "`tokenizer.ggml.pre` must name a pre-tokenizer that is known";
            let message = format!("tokenizer: {must}, got {}", brief(unknown));
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    Ok(PreTokenizer { patterns, ignores_merges, adds_bos })
}

impl PreTokenizer {
    /// Builds the pre-tokenizer, which applies the patterns and then maps bytes to characters.
    pub(super) fn words(&self) -> Result<PreTokenizerWrapper> {
        let mut all: Vec<PreTokenizerWrapper> = Vec::new();
        for pattern in self.patterns {
            let pattern = SplitPattern::Regex((*pattern).to_string());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
            let split = split.map_err(|error| {
                Error::format(format!("tokenizer: a pattern must be valid, got {error}"))
            })?;
            all.push(split.into());
        }
        all.push(ByteLevel::new(false, false, false).into());
        Ok(Sequence::new(all).into())
    }
}
