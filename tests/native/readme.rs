//! Compiles and runs the README's Rust examples. They are copied word for word to `readme/`, which `UPDATE_EXPECT=1` rewrites.

// Formatted as in the README, not by rustfmt.
#[rustfmt::skip]
#[path = "readme/example.rs"]
mod example;
#[rustfmt::skip]
#[path = "readme/training.rs"]
mod training;

use expect_test::expect_file;
use std::path::Path;

/// Returns the blocks of a Markdown text that are fenced as `language`.
fn blocks(markdown: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in markdown.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) if info.trim() == language => open = Some(String::new()),
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => *block += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    found
}

#[test]
fn the_examples_are_the_readmes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("there is a README");
    let [first, training, generate, search] = &blocks(&readme, "rust")[..] else {
        panic!("not four blocks of Rust in README.md")
    };
    let head = "//! An example of the README; `UPDATE_EXPECT=1` rewrites this file.\n\n";
    let text = |block: &str| format!("{head}{}", block.replacen("fn main", "pub fn main", 1));
    expect_file!["readme/example.rs"].assert_eq(&text(first));
    expect_file!["readme/training.rs"].assert_eq(&text(training));
    // These need models, so they are examples, which `native/tests/examples.rs` runs.
    let text =
        |about: &str, block: &str| format!("//! {about} (The README has this, too.)\n\n{block}");
    let about = "A language model from a GGUF file goes on with a text.";
    expect_file!["../../native/examples/generate.rs"].assert_eq(&text(about, generate));
    let about = "An encoder says which texts mean something similar.";
    expect_file!["../../native/examples/search.rs"].assert_eq(&text(about, search));
}

#[test]
fn the_examples_run() {
    example::main().expect("the README's first example runs");
    training::main().expect("the README's example of training runs");
}

#[test]
fn blocks_are_found() {
    let text = "a\n```rust\nx\n```\n```js\ny\n```\n```rust\nz\n";
    assert_eq!(blocks(text, "rust"), ["x\n"]);
    assert_eq!(blocks(text, "js"), ["y\n"]);
}
