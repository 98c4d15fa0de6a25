//! Tests `warpweft train` on the command line: training, saving, resuming and rejected arguments.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use warpweft_native::files;
use warpweft_native::prelude::*;

fn train(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.arg("train").args(arguments).env("WARPWEFT_DEVICE", "cpu");
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Returns the output of a call, which must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = train(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the exit code and the error output of a call, which must fail.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = train(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    (output.status.code(), text(&output.stderr))
}

/// A file that is deleted when dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("warpweft-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the number after `words` in the last line that contains them.
fn number(text: &str, words: &str) -> f64 {
    let rest = text.lines().rev().find_map(|line| Some(line.split_once(words)?.1));
    let rest = rest.unwrap_or_else(|| panic!("no line has {words:?} in {text}"));
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("no number behind {words:?} in {text}"))
}

/// Returns the bits of all tensors of a file, and its metadata about the net.
fn opened(file: &Temporary) -> (Vec<(String, Vec<u8>)>, Value) {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU is there");
    let file = files::load_safetensors(&device, &file.0).expect("a file");
    let bits =
        |(name, x): (&String, &Tensor)| (name.clone(), x.read_bytes_blocking().expect("read"));
    let note = serde_json::from_str(&file.metadata["architecture"]).expect("JSON");
    (file.tensors.iter().map(bits).collect(), note)
}

#[test]
fn two_moons_are_told_apart_and_drawn() {
    let (out, svg) = (Temporary::new("moons.safetensors"), Temporary::new("moons.svg"));
    let output = printed(&["mlp", "--out", out.path(), "--loss-svg", svg.path()]);
    assert!(number(&output, "accuracy ") > 0.95, "{output}");
    assert!(output.contains("337 parameters, 30 epochs of 25 steps"), "{output}");
    let (tensors, note) = opened(&out);
    assert_eq!(note["layers"][0]["inputs"], 2);
    let weight = tensors.iter().find(|(name, _)| name == "0.weight").expect("a weight");
    assert_eq!(weight.1.len(), 16 * 2 * 4);
    let svg = std::fs::read_to_string(&svg.0).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    let line = svg.split("points=\"").nth(1).expect("a line");
    let points = line.split('"').next().expect("its points");
    assert_eq!(points.split(' ').count(), 30);
}

#[test]
fn digits_are_learnt() {
    let output = printed(&["digits", "--epochs", "3"]);
    assert!(number(&output, "accuracy ") > 0.85, "{output}");
    assert!(output.contains("epoch 3: ") && !output.contains("epoch 4: "), "{output}");
}

#[test]
fn what_is_resumed_is_the_same_to_the_bit() {
    let words = Temporary::new("words.txt");
    let story: String = (0..400).map(|n| ["one ", "two ", "three "][n * n % 3]).collect();
    std::fs::write(&words.0, story).expect("a text");
    for net in [&["mlp"][..], &["chars", "--data", words.path()]] {
        let (half, rest, whole) =
            (Temporary::new("half"), Temporary::new("rest"), Temporary::new("whole"));
        let run = |more: &[&str]| printed(&[net, &["--seed", "3"], more].concat());
        run(&["--epochs", "2", "--out", half.path()]);
        let output = run(&["--epochs", "4", "--resume", half.path(), "--out", rest.path()]);
        assert!(output.contains(": 2 epochs, "), "{output}");
        assert!(output.contains("epoch 3: ") && !output.contains("epoch 2: "), "{output}");
        run(&["--epochs", "4", "--out", whole.path()]);
        let (rest, whole) = (opened(&rest), opened(&whole));
        assert!(rest == whole, "{net:?}: other bits");
        assert_ne!(opened(&half).0, whole.0);
    }
}

#[test]
fn a_text_is_learnt_and_written() {
    let words = Temporary::new("song.txt");
    std::fs::write(&words.0, "abcdefgh".repeat(300)).expect("a text");
    let (out, weights) =
        (Temporary::new("song.safetensors"), Temporary::new("weights.safetensors"));
    let files = ["--out", out.path(), "--weights", weights.path()];
    let how = ["chars", "--data", words.path(), "--epochs", "15", "--lr", "0.005"];
    let output = printed(&[&how[..], &files].concat());
    assert!(number(&output, "accuracy ") > 0.9, "{output}");
    let written = output.split("sample:\n").nth(1).expect("it writes");
    assert!(written.contains("abcdefghabcdefgh"), "{output}");
    // A file of only the weights has the same weights and metadata.
    let (mut whole, note) = opened(&out);
    whole.retain(|(name, _)| !name.starts_with("trainer/"));
    assert!(opened(&weights) == (whole, note), "other weights");
}

#[test]
fn what_cannot_be_trained_is_refused() {
    for arguments in [&[][..], &["poems"], &["mlp", "--lr=-1"], &["mlp", "--epochs", "x"]] {
        assert_eq!(refused(arguments).0, Some(2), "{arguments:?}");
    }
    let out = Temporary::new("other.safetensors");
    printed(&["mlp", "--epochs", "1", "--out", out.path()]);
    let short = Temporary::new("short.txt");
    std::fs::write(&short.0, "too short").expect("a text");
    for (arguments, words) in [
        (&["digits", "--resume", out.path()][..], "load_state_dict: "),
        (&["mlp", "--resume", "/no/such/file"], "/no/such/file"),
        (&["mlp", "--data", out.path()], "load_npz: "),
        (&["chars", "--data", short.path()], "at least 1280 characters, got 9"),
        (&["chars", "--data", "/no/such/text"], "/no/such/text"),
        (&["mlp", "--epochs", "1", "--out", "/no/such/folder/x"], "/no/such/folder/x"),
        (&["mlp", "--epochs", "1", "--lr", "1e38"], "must be finite"),
    ] {
        let (code, stderr) = refused(arguments);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.starts_with("warpweft: ") && stderr.contains(words),
            "{stderr}, not {words}"
        );
    }
}
