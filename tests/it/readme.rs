//! The README's Rust example is compiled and run: it stands word for word in `readme/example.rs`, which `UPDATE_EXPECT=1`
//! rewrites.

// As the README has it, not as rustfmt would.
#[rustfmt::skip]
#[path = "readme/example.rs"]
mod example;

use expect_test::expect_file;
use std::path::Path;

/// The blocks of a Markdown text that are fenced as `language`.
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
fn the_example_is_the_readmes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("there is a README");
    let [block] = &blocks(&readme, "rust")[..] else {
        panic!("not one block of Rust in README.md")
    };
    let head = "//! The README's Rust example; `UPDATE_EXPECT=1` rewrites this file.\n\n";
    let text = format!("{head}{}", block.replacen("fn main", "pub fn main", 1));
    expect_file!["readme/example.rs"].assert_eq(&text);
}

#[test]
fn the_example_runs() {
    example::main().expect("the README's example runs");
}

#[test]
fn blocks_are_found() {
    let text = "a\n```rust\nx\n```\n```js\ny\n```\n```rust\nz\n";
    assert_eq!(blocks(text, "rust"), ["x\n"]);
    assert_eq!(blocks(text, "js"), ["y\n"]);
}
