//! Tests damaged vocabularies. Each works or is rejected with the key or the token and the reason. None panics.

use super::golden::lines;
use super::{gguf, Random};
use serde_json::{json, Value};
use std::time::{Duration, Instant};
use warpweft::error::ErrorKind;
use warpweft::text::{ChatOptions, ChatTemplate, Message, Tokenizer};

const TEXT: &str = "Hello world's <end><keep> ﬁ 日本 👍🏽   \n the</s>\u{0}";

fn named(name: &str) -> Value {
    super::golden::line(name)
}

/// Calls all methods of a tokenizer.
fn use_it(tokenizer: &Tokenizer) {
    for special in [false, true] {
        if let Ok(ids) = tokenizer.encode_with_ends(TEXT, special) {
            tokenizer.decode(&ids);
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()), "{ids:?}");
        }
    }
    let mut decoder = tokenizer.decoder().with_special();
    for id in (0..400).chain([u32::MAX]) {
        decoder.push(id);
        assert!(tokenizer.token(id).is_none() || (id as usize) < tokenizer.vocab_size());
    }
    decoder.finish();
    if let Ok(template) = ChatTemplate::named("chatml") {
        let _ = template.encode(tokenizer, &[Message::new("user", TEXT)], &ChatOptions::default());
    }
}

/// Returns the kinds of vocabularies, the key that is changed, its value (none if the key is removed), and a part of the
/// message.
fn damages() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    vec![
        (
            "bpe",
            "model",
            Value::Null,
            "`tokenizer.ggml.model` must name the kind of tokenizer, got nothing",
        ),
        (
            "bpe",
            "tokens",
            Value::Null,
            "`tokenizer.ggml.tokens` must be an array of texts, got nothing",
        ),
        ("bpe", "tokens", 7.into(), "`tokenizer.ggml.tokens` must be an array of texts, got 7"),
        (
            "bpe",
            "tokens",
            json!(["a", "b", "a"]),
            "the tokens of `tokenizer.ggml.tokens` must differ, got \"a\" as 0 and as 2",
        ),
        (
            "bpe",
            "merges",
            json!(["ab"]),
            "`tokenizer.ggml.merges` must have two tokens in each row, got \"ab\"",
        ),
        (
            "bpe",
            "merges",
            json!(["a zzzzzz"]),
            "merge 0 of `tokenizer.ggml.merges` must join two tokens to a third, got \"a\" \
          and \"zzzzzz\", and no token \"zzzzzz\"",
        ),
        ("bpe", "merges", json!([1]), "`tokenizer.ggml.merges` must be an array of texts"),
        (
            "bpe",
            "token_type",
            json!([1, 1]),
            "must be an array of 333 numbers, one for each token, got 2 integers",
        ),
        (
            "bpe",
            "bos_token_id",
            100_000.into(),
            "`tokenizer.ggml.bos_token_id` must be an id below 333, got 100000",
        ),
        (
            "bpe",
            "eos_token_id",
            (-1).into(),
            "`tokenizer.ggml.eos_token_id` must be an id below 333, got -1",
        ),
        (
            "bpe",
            "add_bos_token",
            true.into(),
            "`tokenizer.ggml.add_bos_token` must be false where the file has no such token",
        ),
        ("bpe", "pre", 1.into(), "`tokenizer.ggml.pre` must be text, got 1"),
        (
            "spm",
            "scores",
            Value::Null,
            "`tokenizer.ggml.scores` must have a number for each token, got nothing",
        ),
        ("spm", "scores", json!([1.5]), "one for each token, got 1 numbers"),
        (
            "spm",
            "add_space_prefix",
            "yes".into(),
            "`tokenizer.ggml.add_space_prefix` must be true or false",
        ),
        (
            "unigram",
            "precompiled_charsmap",
            json!([255, 255, 255, 255]),
            "must be an array of bytes, got 4 integers",
        ),
        (
            "unigram",
            "precompiled_charsmap",
            json!([-1, -1, -1, 127]),
            "must have a trie of whole words in at most 0 bytes",
        ),
    ]
}

#[test]
fn damage_is_named() {
    let damaged = |kind: &str, key: &str, value: Value| {
        let mut metadata = named(kind)["gguf"].clone();
        match value {
            Value::Null => drop(metadata.as_object_mut().expect("an object").remove(key)),
            value => metadata[key] = value,
        }
        let error = Tokenizer::from_gguf(&gguf(&metadata)).expect_err(key);
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        error.message().to_string()
    };
    for (kind, key, value, expected) in damages() {
        let message = damaged(kind, key, value);
        assert!(
            message.starts_with("tokenizer: ") && message.contains(expected),
            "{message}\nnot\n{expected}"
        );
    }
}

#[test]
fn empty_and_unknown_vocabularies_are_refused() {
    let mut metadata = named("bpe")["gguf"].clone();
    metadata["tokens"] = json!([]);
    assert!(Tokenizer::from_gguf(&gguf(&metadata)).is_err());
    metadata["model"] = "rwkv".into();
    let error = Tokenizer::from_gguf(&gguf(&metadata)).expect_err("not known");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error
            .message()
            .ends_with("must be one of \"gpt2\", \"llama\", \"t5\" and \"bert\", got \"rwkv\""),
        "{error}"
    );
    let mut metadata = named("spm")["gguf"].clone();
    metadata["scores"][290] = Value::Null;
    let error = Tokenizer::from_gguf(&gguf(&metadata));
    assert!(error.is_err_and(|error| error.message().contains("NaN for token 290")));
}

#[test]
fn damaged_json_is_named() {
    let refused = |json: &Value| {
        let error = Tokenizer::from_json(json.to_string().as_bytes()).expect_err("damaged");
        error.message().to_string()
    };
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut json = named(name)["json"].clone();
        change(&mut json);
        refused(&json)
    };
    let cases: [(String, &str); 9] = [
        (refused(&json!([])), "tokenizer.json: the file must be a tokenizer as JSON"),
        (
            changed("bpe", &|json| json["model"]["merges"] = json!([["a", "b", "c"]])),
            "a merge must have two tokens",
        ),
        (
            changed("bpe", &|json| json["model"]["merges"] = json!(["Hello worldHello world x"])),
            "a merge of two tokens",
        ),
        (
            changed("bpe", &|json| json["model"]["merges"] = json!([["Ġ", "nothere"]])),
            "no token \"nothere\"",
        ),
        (
            changed("bpe", &|json| json["model"]["vocab"]["far"] = 4_000_000_000u32.into()),
            "ids must be below",
        ),
        (
            changed("bpe", &|json| json["model"]["vocab"]["again"] = 5.into()),
            "ids must differ, got 5 of",
        ),
        (
            changed("bpe", &|json| json["model"]["type"] = "Hmm".into()),
            "the model must be of a kind that is known",
        ),
        (
            changed("bpe", &|json| json["decoder"] = json!({"type": "CTC"})),
            "the decoder must be of a kind that is known",
        ),
        (
            changed("unigram", &|json| {
                json["normalizer"] =
                    json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
            }),
            "`precompiled_charsmap` must have a trie of whole words",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}\nnot\n{expected}");
    }
}

/// Returns a different value.
fn other(random: &mut Random, old: &Value) -> Value {
    match random.below(9) {
        0 => Value::Bool(true),
        1 => json!(random.below(400)),
        2 => json!(-(random.below(5) as i64)),
        3 => json!(["<end>", "a", "", "a"]),
        4 => json!(["<end>", " ", "\u{0}", "日本", "Ġ", "##a", "▁"][random.below(7)]),
        5 => json!([1.5, -3.25, 0.0]),
        6 => json!([random.below(7), random.below(400), -1]),
        7 => json!(4_294_967_295u32),
        _ => old.clone(),
    }
}

/// Changes one place of a value.
fn mutate(random: &mut Random, value: &mut Value) {
    let deeper = random.below(8) > 0;
    match value {
        Value::Array(all) if deeper && !all.is_empty() => {
            let at = random.below(all.len());
            match random.below(5) {
                0 => drop(all.remove(at)),
                1 => all.truncate(at),
                2 => {
                    let copy = all[random.below(all.len())].clone();
                    all[at] = copy;
                }
                _ => mutate(random, &mut all[at]),
            }
        }
        Value::Object(all) if deeper && !all.is_empty() => {
            let key = all.keys().nth(random.below(all.len())).cloned().expect("a key");
            match random.below(5) {
                0 => drop(all.remove(&key)),
                _ => mutate(random, all.get_mut(&key).expect("it is there")),
            }
        }
        value => *value = other(random, value),
    }
}

/// Whether a value can be written as metadata. Elements of a list have one type, and objects are not supported.
fn is_metadata(value: &Value) -> bool {
    let kind = |value: &Value| match value {
        Value::String(_) => 0,
        Value::Number(_) | Value::Null => 1,
        _ => 2,
    };
    match value {
        Value::Array(all) => {
            let first = all.first().map_or(1, kind);
            first < 2
                && all.iter().all(|value| kind(value) == first && (first == 0 || value.is_number()))
        }
        Value::Number(number) => number.is_i64(),
        Value::Null | Value::Object(_) => false,
        _ => true,
    }
}

#[test]
fn mutated_metadata_never_panics() {
    let mut random = Random(17);
    let (mut good, mut bad) = (0, 0);
    for line in lines().iter().filter(|line| line.get("gguf").is_some()) {
        for _ in 0..400 {
            let mut metadata = line["gguf"].clone();
            for _ in 0..1 + random.below(3) {
                mutate(&mut random, &mut metadata);
            }
            let all = metadata.as_object_mut();
            let Some(all) = all else { continue };
            all.retain(|_, value| is_metadata(value));
            match Tokenizer::from_gguf(&gguf(&metadata)) {
                Ok(tokenizer) => {
                    use_it(&tokenizer);
                    good += 1;
                }
                Err(error) => {
                    assert!(error.message().starts_with("tokenizer: "), "{error}");
                    bad += 1;
                }
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} worked, {bad} were refused");
}

#[test]
fn mutated_json_never_panics() {
    let mut random = Random(23);
    let (mut good, mut bad) = (0, 0);
    for line in lines().iter().filter(|line| line.get("json").is_some()) {
        for round in 0..600 {
            let mut json = line["json"].clone();
            // Otherwise, the large lists would get all changes.
            for _ in 0..1 + random.below(3) {
                match random.below(2) {
                    0 => mutate(&mut random, &mut json),
                    _ => {
                        let parts = [
                            "normalizer",
                            "pre_tokenizer",
                            "decoder",
                            "post_processor",
                            "added_tokens",
                        ];
                        let part = parts[random.below(5)];
                        if let Some(value) = json.get_mut(part) {
                            mutate(&mut random, value);
                        }
                    }
                }
            }
            let mut bytes = json.to_string().into_bytes();
            if round % 3 == 0 {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            match Tokenizer::from_json(&bytes) {
                Ok(tokenizer) => {
                    use_it(&tokenizer);
                    good += 1;
                }
                Err(error) => {
                    assert!(error.message().starts_with("tokenizer"), "{error}");
                    bad += 1;
                }
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} worked, {bad} were refused");
}

#[test]
fn damaged_tables_of_characters_never_panic() {
    let mut random = Random(5);
    for _ in 0..3000 {
        let mut metadata = named("unigram")["gguf"].clone();
        let words = random.below(40);
        let mut bytes: Vec<i8> =
            ((words * 4) as u32).to_le_bytes().iter().map(|byte| *byte as i8).collect();
        bytes.extend(
            (0..words * 4 + random.below(20)).map(|_| (random.below(256) as u8 % 128) as i8),
        );
        metadata["precompiled_charsmap"] = json!(bytes);
        if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf(&metadata)) {
            use_it(&tokenizer);
        }
    }
}

#[test]
fn long_texts_take_time_that_grows_with_their_length() {
    for name in ["bpe", "spm", "unigram", "wordpiece"] {
        let tokenizer = Tokenizer::from_gguf(&gguf(&named(name)["gguf"])).expect("a tokenizer");
        for unit in ["a", " ", "\n", "<", "👍", "a ", "the", "<end", "1"] {
            let text = unit.repeat(200_000 / unit.len());
            let begun = Instant::now();
            tokenizer.encode(&text, true).expect("ids");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(20), "{name} took {took:?} for {unit:?}");
        }
    }
}
