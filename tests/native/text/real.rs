//! Tests the tokenizers and templates of two real files against llama.cpp and Hugging Face's `tokenizers`. The files are not in
//! this repository; `npm run setup` downloads them.

use serde_json::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Instant;
use warpweft::io::Gguf;
use warpweft::text::{ChatOptions, ChatTemplate, Message, Tokenizer};

/// A file, and its expected results.
struct Model {
    file: &'static str,
    golden: &'static str,
}

const SMOLLM2: Model = Model {
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    golden: include_str!("../../golden/tokens-smollm2.json"),
};

const GEMMA3: Model = Model {
    file: "gemma-3-270m-q4_k_m.gguf",
    golden: include_str!("../../golden/tokens-gemma3.json"),
};

impl Model {
    /// Returns the path of the file, or `None` with a visible message.
    fn find(&self) -> Option<PathBuf> {
        crate::model::path(self.file)
    }
}

fn ids(value: &Value) -> Vec<u32> {
    let all = value.as_array().expect("a list of ids");
    all.iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn read(path: &Path) -> Gguf {
    let file = File::open(path).expect("it can be opened");
    Gguf::read(&mut BufReader::new(file)).expect("a GGUF file")
}

/// Checks every text of the expectations, encoded in both ways and decoded.
fn tokens_agree(tokenizer: &Tokenizer, golden: &Value) {
    let cases = golden["tokens"].as_array().expect("a list of texts");
    assert!(cases.len() > 50, "only {} texts", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let text = case["text"].as_str().expect("a text");
        let plain = tokenizer.encode(text, false).expect("ids");
        let special = tokenizer.encode_with_ends(text, true).expect("ids");
        let accepted = |got: &[u32], key: &str| {
            got == ids(&case[key]) || case.get("hf_ids").is_some_and(|other| got == ids(other))
        };
        if !accepted(&plain, "ids") {
            wrong.push(format!("{text:?}: {plain:?}, not {}", case["ids"]));
        }
        if !accepted(&special, "ids_special") {
            wrong.push(format!("{text:?} special: {special:?}, not {}", case["ids_special"]));
        }
        let back = tokenizer.decode(&plain);
        let expected = match case.get("detok_hex").and_then(Value::as_str) {
            None => text.to_string(),
            Some(digits) => {
                let digit = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
                let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(digit).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        if back != expected {
            wrong.push(format!("{text:?} came back as {back:?}, not {expected:?}"));
        }
        let mut decoder = tokenizer.decoder();
        let parts: String = plain.iter().map(|&id| decoder.push(id)).collect();
        if parts + &decoder.finish() != back {
            wrong.push(format!("{text:?} came back differently token by token"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Checks every conversation, as text and as ids. `text` names the expected prompt.
fn chats_agree(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    golden: &Value,
    text: &str,
    bos: &str,
) {
    let cases = golden["chat"].as_array().expect("a list of conversations");
    assert!(!cases.is_empty());
    for case in cases {
        let messages: Vec<Message> =
            serde_json::from_value(case["messages"].clone()).expect("messages");
        let options = ChatOptions::default();
        let prompt = template.render(&messages, &options).expect("a prompt");
        let expected = format!("{bos}{}", case[text].as_str().expect("a prompt"));
        assert_eq!(prompt, expected, "{messages:?}");
        let encoded = template.encode(tokenizer, &messages, &options).expect("ids");
        assert_eq!(encoded, ids(&case["ids_safe"]), "{messages:?}");
        if let Some(expected) = case.get("jinja_no_prompt").and_then(Value::as_str) {
            let options = ChatOptions { add_generation_prompt: false, ..options };
            let prompt = template.render(&messages, &options).expect("a prompt");
            assert_eq!(prompt, expected, "{messages:?}");
        }
    }
}

#[test]
fn smollm2_agrees_with_llama_cpp() {
    let Some(path) = SMOLLM2.find() else { return };
    let golden: Value = serde_json::from_str(SMOLLM2.golden).expect("JSON");
    let head = read(&path);
    let tokenizer = Tokenizer::from_gguf(&head).expect("a tokenizer");
    tokens_agree(&tokenizer, &golden);
    let template = ChatTemplate::from_gguf(&head).expect("no damage").expect("a template");
    chats_agree(&template, &tokenizer, &golden, "jinja", "");
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.adds_bos()), (Some(1), Some(2), false));
    let ends: Vec<u32> = (0..49152).filter(|&id| tokenizer.is_end_of_generation(id)).collect();
    let names: Vec<&str> = ends.iter().filter_map(|&id| tokenizer.token(id)).collect();
    assert_eq!(names, ["<|endoftext|>", "<|im_end|>", "<reponame>"]);
}

#[test]
fn gemma3_agrees_with_llama_cpp() {
    let Some(path) = GEMMA3.find() else { return };
    let golden: Value = serde_json::from_str(GEMMA3.golden).expect("JSON");
    let head = read(&path);
    let begun = Instant::now();
    let tokenizer = Tokenizer::from_gguf(&head).expect("a tokenizer");
    let took = begun.elapsed();
    eprintln!("the tokenizer of Gemma 3 was ready after {took:?}");
    tokens_agree(&tokenizer, &golden);
    assert_eq!(ChatTemplate::from_gguf(&head).expect("no damage").map(|_| ()), None);
    assert_eq!(ChatTemplate::guess(&tokenizer), Some("gemma"));
    let template = ChatTemplate::named("gemma").expect("it is built in");
    chats_agree(&template, &tokenizer, &golden, "llama_cpp", "<bos>");
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.adds_bos()), (Some(2), Some(1), true));
    let ends: Vec<u32> = (0..262_144).filter(|&id| tokenizer.is_end_of_generation(id)).collect();
    let names: Vec<&str> = ends.iter().filter_map(|&id| tokenizer.token(id)).collect();
    assert_eq!(names, ["<eos>", "<end_of_turn>", "</s>"]);
}
