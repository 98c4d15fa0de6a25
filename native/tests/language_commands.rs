//! Tests the commands of language models, with the real SmolLM2. The expected numbers are from llama.cpp and a reference in 64
//! bits.

mod real_models;

use serde_json::{json, Value};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const TOKENS: &str = include_str!("../../tests/golden/tokens-smollm2.json");
const LOGITS: &str = include_str!("../../tests/golden/logits-smollm2.json");

fn golden(text: &str) -> Value {
    serde_json::from_str(text).expect("golden values")
}

fn smollm2() -> Option<PathBuf> {
    real_models::model("SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Returns the command with a model and with pipes.
fn command(name: &str, model: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.arg(name).arg(model).args(arguments).env("WARPWEFT_DEVICE", "cpu");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(name: &str, model: &PathBuf, arguments: &[&str]) -> Output {
    command(name, model, arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Returns the output of a call, which must succeed.
fn printed(name: &str, model: &PathBuf, arguments: &[&str]) -> String {
    let output = output(name, model, arguments);
    assert!(output.status.success(), "{name} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn figures(name: &str, model: &PathBuf, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(name, model, arguments)).expect("JSON")
}

/// Returns the tokens as an argument.
fn list(ids: &Value) -> String {
    let ids: Vec<String> = ids.as_array().expect("ids").iter().map(Value::to_string).collect();
    ids.join(",")
}

fn close(found: &Value, expected: f64, limit: f64) {
    let number = found.as_f64().expect("a number");
    assert!((number - expected).abs() < limit, "{number}, not {expected}");
}

#[test]
fn texts_and_conversations_become_tokens() {
    let Some(model) = smollm2() else { return };
    let golden = golden(TOKENS);
    for case in golden["tokens"].as_array().expect("texts").iter().step_by(7) {
        let words = case["text"].as_str().expect("a text");
        let text = format!("--text={words}");
        let found = figures("tokenize", &model, &[&text, "--json"]);
        assert_eq!(found, json!({ "ids": case["ids"] }), "{words:?}");
        let found = figures("tokenize", &model, &[&text, "--special", "--json"]);
        assert_eq!(found["ids"], case["ids_special"], "{words:?}");
    }
    let file = std::env::temp_dir().join(format!("warpweft-chat-{}.json", std::process::id()));
    for case in golden["chat"].as_array().expect("conversations").iter().step_by(3) {
        std::fs::write(&file, case["messages"].to_string()).expect("it can be written");
        let path = file.to_str().expect("a path of Unicode");
        let found = figures("tokenize", &model, &["--chat", path, "--json"]);
        assert_eq!(found["text"], case["jinja"]);
        assert_eq!(found["ids"], case["ids_safe"]);
    }
    std::fs::remove_file(&file).expect("it can be removed");
}

/// Also tests that the number of threads and the cache's element type are accepted and change no token.
#[test]
fn a_text_goes_on_as_in_64_bits() {
    let Some(model) = smollm2() else { return };
    let case = &golden(LOGITS)["prompts"][0];
    let ids = list(&case["ids"]);
    let call = ["--ids", &ids, "--max-tokens=8", "--temperature=0", "--logprobs=20", "--json"];
    for more in [&["--kv=f32"][..], &["--threads=1"], &["--threads=2", "--context=64", "--kv=f16"]]
    {
        let found = figures("generate", &model, &[&call[..], more].concat());
        assert_eq!(found["prompt_ids"], case["ids"]);
        let expected = case["greedy"].as_array().expect("ids");
        assert_eq!(found["ids"].as_array().expect("ids")[..], expected[..8], "{more:?}");
        assert!(found["text"].as_str().is_some_and(|text| text.starts_with(" Paris.")), "{found}");
        let likeliest = found["logprobs"][0].as_array().expect("the likeliest tokens");
        assert_eq!(likeliest.len(), 20);
        let [first, ..] = &likeliest[..] else { panic!("there are 20") };
        // Differences of log-probabilities are differences of logits.
        for (pair, top) in likeliest.iter().zip(case["top"].as_array().expect("logits")) {
            assert_eq!(pair[0], top[0], "{more:?}");
            let number = |value: &Value| value.as_f64().expect("a number");
            let expected = number(&top[1]) - number(&case["top"][0][1]) + number(&first[1]);
            close(&pair[1], expected, if more.contains(&"--kv=f32") { 1e-3 } else { 0.1 });
        }
        for name in ["load_s", "prompt_tokens_per_s", "decode_tokens_per_s"] {
            assert!(found["timings"][name].as_f64().is_some_and(|x| x > 0.0), "{name} in {found}");
        }
    }
}

#[test]
fn the_perplexity_is_that_of_64_bits() {
    let Some(model) = smollm2() else { return };
    let golden = &golden(LOGITS)["perplexity"];
    let found =
        figures("perplexity", &model, &["--ids", &list(&golden["ids"]), "--kv=f32", "--json"]);
    close(&found["ppl"], golden["ppl"].as_f64().expect("a number"), 0.01);
    let logprobs = golden["logprobs"].as_array().expect("numbers");
    assert_eq!(found["logprobs"].as_array().map(Vec::len), Some(logprobs.len()));
    for (found, expected) in found["logprobs"].as_array().expect("numbers").iter().zip(logprobs) {
        close(found, expected.as_f64().expect("a number"), 1e-3);
    }
    for ids in ["3,49152", "3,14,4294967295", "49152,3"] {
        let output = output("perplexity", &model, &["--ids", ids]);
        assert_eq!(output.status.code(), Some(1), "{ids}");
        let says = "perplexity: tokens must be below 49152, got ";
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
}

/// Returns the output of a conversation whose questions come through a pipe.
fn conversation(model: &PathBuf, questions: &[u8]) -> Output {
    let mut child = command("chat", model, &["--max-tokens=12"]).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("an input");
    input.write_all(questions).expect("it reads");
    drop(input);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_conversation_comes_through_a_pipe() {
    let Some(model) = smollm2() else { return };
    let output = conversation(&model, b"What is the capital of France?\nAnd of Italy?\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answers = text(&output.stdout);
    assert!(answers.starts_with("The capital of France is Paris.\n"), "{answers}");
    assert!(answers.contains("Rome"), "{answers}");
    // Input that is not text is an error. It does not end the conversation silently.
    let output = conversation(&model, b"What is the capital of France?\n\xff\xfe\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("The capital of France is Paris."));
    assert!(text(&output.stderr).contains("chat: the input must be readable text"));
}

#[test]
fn a_model_is_measured() {
    let Some(model) = smollm2() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    let command = command.args(["bench", "--device=cpu", "--runs=1", "--model"]).arg(&model);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for name in ["prompt of 128", "prompt of 512", "tokens from 0 on", "tokens from 512 on"] {
        let row = table.lines().find(|line| line.starts_with(&format!("| {name} ")));
        let cell = row.and_then(|row| row.split('|').nth(2)?.trim().parse::<f64>().ok());
        assert!(cell.is_some_and(|speed| speed > 0.0), "{name} in {table}");
    }
    assert!(table.contains(" kernels, 10.1 for each layer; "), "{table}");
}

#[test]
fn wrong_options_are_refused() {
    let Some(model) = smollm2() else { return };
    for arguments in [
        &["--prompt=a", "--threads=0"][..],
        &["--prompt=a", "--kv=f64"],
        &["--prompt=a", "--arithmetic=int4"],
        &["--prompt=a", "--ids=1"],
        &[],
    ] {
        let output = output("generate", &model, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    for (arguments, says) in [
        (&["--ids=49152"][..], "49152"),
        (&["--prompt=a", "--temperature=-1"], "temperature"),
        (&["--prompt=one two three four", "--context=2"], "context"),
    ] {
        let output = output("generate", &model, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// Returns the process of a long text, and the start of its output.
#[cfg(unix)]
fn long_text(model: &PathBuf) -> (std::process::Child, String) {
    let arguments = ["--prompt=Once upon a time", "--max-tokens=2000", "--ignore-eos"];
    let mut child = command("generate", model, &arguments).spawn().expect("it starts");
    let mut start = [0];
    child.stdout.as_mut().expect("an output").read_exact(&mut start).expect("there is a text");
    (child, text(&start))
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_text_at_once() {
    use std::os::unix::process::ExitStatusExt;
    let Some(model) = smollm2() else { return };
    let (child, start) = long_text(&model);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill starts").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(2), "{}", text(&output.stderr));
    // A whole text has more than 5,000 characters.
    let read = start + &text(&output.stdout);
    assert!(!read.is_empty() && read.len() < 2_000, "{read}");
    assert_eq!(text(&output.stderr), "");
}

#[cfg(unix)]
#[test]
fn a_closed_output_ends_a_text_without_an_error() {
    let Some(model) = smollm2() else { return };
    let (mut child, _) = long_text(&model);
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}
