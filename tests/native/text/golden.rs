//! Tests small tokenizers of each kind. Hugging Face's `tokenizers` computed the ids: `tests/golden/tokens.py` writes
//! `tokens.txt`.

use super::gguf;
use serde_json::{json, Value};
use warpweft::error::ErrorKind;
use warpweft::text::Tokenizer;

const GOLDEN: &str = include_str!("../../golden/tokens.txt");

pub(super) fn lines() -> Vec<Value> {
    GOLDEN.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(super) fn line(name: &str) -> Value {
    lines().into_iter().find(|line| line["name"] == name).expect("it is there")
}

fn ids(value: &Value) -> Vec<u32> {
    let all = value.as_array().expect("a list of ids");
    all.iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn agrees(what: &str, tokenizer: &Tokenizer, cases: &Value) {
    let mut wrong = Vec::new();
    for case in cases.as_array().expect("a list of texts") {
        let text = case[0].as_str().expect("a text");
        for (special, expected) in [(false, &case[1]), (true, &case[2])] {
            let got = tokenizer.encode(text, special).expect("ids");
            if !special {
                let forged = got.iter().find(|&&id| tokenizer.is_end_of_generation(id));
                assert_eq!(forged, None, "{what}: {text:?}");
            }
            if !expected.is_null() && got != ids(expected) {
                wrong.push(format!(
                    "{what}, special {special}, {text:?}: {got:?}, not {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tokenizers_of_each_kind_agree() {
    let mut count = 0;
    for line in lines() {
        let name = line["name"].as_str().expect("a name");
        if let Some(metadata) = line.get("gguf") {
            let tokenizer = Tokenizer::from_gguf(&gguf(metadata)).expect("a tokenizer");
            agrees(&format!("{name} of GGUF"), &tokenizer, &line["cases"]);
            count += 1;
        }
        if let Some(file) = line.get("json") {
            let tokenizer = Tokenizer::from_json(file.to_string().as_bytes()).expect("a tokenizer");
            agrees(&format!("{name} of JSON"), &tokenizer, &line["cases"]);
            count += 1;
        }
    }
    assert_eq!(count, 7);
}

#[test]
fn pretokenizers_agree_by_name() {
    let (bpe, pre) = (line("bpe"), line("pre"));
    let text = pre["text"].as_str().expect("a text");
    let mut wrong = Vec::new();
    let names = pre["pre"].as_object().expect("names");
    for (name, expected) in names {
        let mut metadata = bpe["gguf"].clone();
        metadata["pre"] = name.clone().into();
        let tokenizer = Tokenizer::from_gguf(&gguf(&metadata)).expect("a tokenizer");
        let got = tokenizer.encode(text, false).expect("ids");
        if got != ids(expected) {
            wrong.push(format!("{name}: {got:?}, not {expected}"));
        }
        assert_eq!(tokenizer.decode(&got), text, "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names.len() > 15);
    // The results differ, so the names matter.
    let different: std::collections::BTreeSet<String> =
        names.values().map(Value::to_string).collect();
    assert!(different.len() >= 10, "{}", different.len());
}

#[test]
fn every_name_of_a_pretokenizer_is_valid() {
    let bpe = line("bpe");
    let names = "default gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe \
                 gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4 starcoder refact \
                 command-r smollm codeshell exaone minerva-7b mellum2 llama3 llama-v3 llama-bpe falcon3 falcon-h1 \
                 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe qwen2 deepseek-r1-qwen kormo \
                 f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 qwen35 tekken gpt-4o llama4 kanana2 talkie \
                 minimax-m2 granite-embed-multi-97m tiny_aya cohere2moe deepseek-llm deepseek-coder deepseek-v3 \
                 hunyuan-dense joyai-llm hy_v4 spark2_5 youtu falcon poro-chat bloom gpt3-finnish viking chameleon \
                 bailingmoe bailingmoe2 llada-moe seed-coder ufakzeka laguna exaone-moe jais-2 minicpm5";
    let text = "It's 2026; ÄRGER\u{308} 한국 <sentinel:1>\n\n\n   été 12345!! ";
    for name in names.split_whitespace() {
        let mut metadata = bpe["gguf"].clone();
        metadata["pre"] = name.into();
        metadata["add_bos_token"] = false.into();
        let tokenizer = Tokenizer::from_gguf(&gguf(&metadata)).expect(name);
        let ids = tokenizer.encode(text, false).expect(name);
        assert_eq!(tokenizer.decode(&ids), text, "{name}");
    }
    let mut metadata = bpe["gguf"].clone();
    metadata["pre"] = "a-new-one".into();
    let error = Tokenizer::from_gguf(&gguf(&metadata)).expect_err("an unknown name");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let expected = "tokenizer: `tokenizer.ggml.pre` must name a pre-tokenizer that is known, got \"a-new-one\"";
    assert_eq!(error.message(), expected);
    // Files without a name are split as in llama.cpp.
    metadata.as_object_mut().expect("an object").remove("pre");
    let tokenizer = Tokenizer::from_gguf(&gguf(&metadata)).expect("a tokenizer");
    let pre = line("pre");
    let text = pre["text"].as_str().expect("a text");
    assert_eq!(tokenizer.encode(text, false).expect("ids"), ids(&pre["pre"]["default"]));
}

/// Returns SentencePiece with the tokens of the golden file, and this metadata.
fn spm(facts: &[(&str, Value)]) -> Tokenizer {
    let mut metadata = line("spm")["gguf"].clone();
    for (name, value) in facts {
        metadata[*name] = value.clone();
    }
    Tokenizer::from_gguf(&gguf(&metadata)).expect("a tokenizer")
}

#[test]
fn ends_are_added_as_the_file_says() {
    let plain = spm(&[]).encode("the world", false).expect("ids");
    let with_ends =
        |facts: &[(&str, Value)]| spm(facts).encode_with_ends("the world", true).expect("ids");
    assert_eq!(with_ends(&[]), [&[1], &plain[..]].concat());
    assert_eq!(with_ends(&[("add_bos_token", false.into())]), plain);
    let both = with_ends(&[("add_eos_token", true.into())]);
    assert_eq!(both, [&[1], &plain[..], &[2]].concat());
    // A BOS in the text is not recognized.
    assert_eq!(spm(&[]).encode_with_ends("<s>", true).expect("ids"), [1, 1]);
    assert!(spm(&[]).adds_bos());
    assert!(spm(&[]).is_end_of_generation(2) && !spm(&[]).is_end_of_generation(1));
}

#[test]
fn the_space_in_front_depends_on_the_file() {
    let with = spm(&[]);
    let without = spm(&[("add_space_prefix", false.into())]);
    let names = |tokenizer: &Tokenizer, text: &str| -> Vec<String> {
        let ids = tokenizer.encode(text, true).expect("ids");
        ids.iter().map(|&id| tokenizer.token(id).expect("a token").to_string()).collect()
    };
    assert_eq!(names(&with, "the<end>the"), ["▁the", "<end>", "▁the"]);
    assert_eq!(names(&without, "the"), ["t", "he"]);
    // A decoded text equals the original. A continuation keeps its space.
    let ids = with.encode("the world", false).expect("ids");
    assert_eq!(with.decode(&ids), "the world");
    let mut decoder = with.decoder();
    let parts: String = ids.iter().map(|&id| decoder.push(id)).collect();
    assert_eq!(parts, " the world");
}

#[test]
fn bert_gets_its_ends_and_words_back() {
    let metadata = line("wordpiece")["gguf"].clone();
    let tokenizer = Tokenizer::from_gguf(&gguf(&metadata)).expect("a tokenizer");
    let ids = tokenizer.encode_with_ends("Hello, worlds!", true).expect("ids");
    let names: Vec<&str> = ids.iter().filter_map(|&id| tokenizer.token(id)).collect();
    assert_eq!(names, ["[CLS]", "▁hello", "▁,", "▁world", "s", "▁!", "[SEP]"]);
    assert_eq!(tokenizer.decode(&ids), "hello , worlds !");
    let json = line("wordpiece")["json"].to_string();
    let tokenizer = Tokenizer::from_json(json.as_bytes()).expect("a tokenizer");
    assert_eq!(tokenizer.decode(&ids), "hello, worlds!");
}

#[test]
fn json_names_the_tokens_around_a_text() {
    let mut file = line("wordpiece")["json"].clone();
    file["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
        ],
        "pair": [],
        "special_tokens": {
            "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
            "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}
        }
    });
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes()).expect("a tokenizer");
    assert_eq!(tokenizer.encode_with_ends("hello", false).expect("ids"), [2, 4, 3]);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(2), Some(3)));
    let config =
        br#"{"bos_token": {"content": "[PAD]"}, "eos_token": "[SEP]", "add_bos_token": false}"#;
    let tokenizer = tokenizer.with_config(config).expect("it fits");
    assert_eq!(tokenizer.encode_with_ends("hello", false).expect("ids"), [4, 3]);
    assert_eq!(tokenizer.bos(), Some(0));
    let error = tokenizer.with_config(br#"{"eos_token": "<none>"}"#).expect_err("no such token");
    assert!(error
        .message()
        .contains("eos_token must name a token of the vocabulary, got \"<none>\""));
}
