//! Tests `warpweft inspect` on the command line.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A file of two tensors and two metadata entries, which is deleted when dropped.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn row(name: &str, extents: &[u64], format: u32, offset: u64) -> Vec<u8> {
    let axes = (extents.len() as u32).to_le_bytes().to_vec();
    let extents = extents.iter().flat_map(|extent| extent.to_le_bytes()).collect();
    let format = format.to_le_bytes().to_vec();
    [text(name), axes, extents, format, offset.to_le_bytes().to_vec()].concat()
}

/// Writes the file without its last `without` bytes.
fn file(name: &str, without: usize) -> File {
    let counts = [2u64, 2].map(u64::to_le_bytes).concat();
    let mut bytes = [b"GGUF".to_vec(), 3u32.to_le_bytes().to_vec(), counts].concat();
    bytes.extend(
        [text("general.architecture"), 8u32.to_le_bytes().to_vec(), text("llama")].concat(),
    );
    let context = 8192u32.to_le_bytes().to_vec();
    bytes.extend([text("llama.context_length"), 4u32.to_le_bytes().to_vec(), context].concat());
    bytes.extend([row("w", &[64, 2], 8, 0), row("b", &[3], 0, 160)].concat());
    bytes.resize(bytes.len().next_multiple_of(32) + 172 - without, 0);
    let path = std::env::temp_dir().join(format!("{name}-{}.gguf", std::process::id()));
    std::fs::write(&path, bytes).expect("the file is written");
    File(path)
}

fn inspect(file: &File, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.arg("inspect").arg(&file.0).args(more).output().expect("the program starts")
}

#[test]
fn a_file_is_shown_as_a_table_and_as_json() {
    let file = file("whole", 0);
    let output = inspect(&file, &[]);
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{shown}");
    for words in [
        "GGUF version 3",
        "\"llama\"",
        "8192",
        "[2, 64]",
        "Q8_0: 1 tensor, 128 elements, 136 bytes",
    ] {
        assert!(shown.contains(words), "{words} in {shown}");
    }
    let json: Value = serde_json::from_slice(&inspect(&file, &["--json"]).stdout).expect("JSON");
    assert_eq!(json["metadata"]["llama.context_length"], 8192);
    let w = &json["tensors"][1];
    assert_eq!((&w["name"], &w["format"], &w["bytes"]), (&"w".into(), &"Q8_0".into(), &136.into()));
    assert_eq!(w["shape"], serde_json::json!([2, 64]));
}

#[test]
fn a_file_that_is_incomplete_is_refused_with_the_tensor_and_the_byte() {
    let output = inspect(&file("cut", 1), &[]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for words in
        ["cut-", "at byte ", "tensor \"b\"", "12 bytes at offset 160", "it may be incomplete"]
    {
        assert!(stderr.contains(words), "{words} in {stderr}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_that_is_missing_is_named() {
    let missing = File(std::env::temp_dir().join("no-such-file.gguf"));
    let output = inspect(&missing, &[]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && stderr.contains("no-such-file.gguf"), "{stderr}");
}
