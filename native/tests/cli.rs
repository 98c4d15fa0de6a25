//! The `warpweft` program as a person calls it.

use std::process::{Command, Output};

fn warpweft(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.args(arguments).env("WARPWEFT_DEVICE", "cpu").output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

#[test]
fn devices_are_listed_with_one_recommended() {
    let output = warpweft(&["devices"]);
    assert!(output.status.success());
    let printed = text(&output.stdout);
    assert!(printed.contains("cpu:"), "{printed}");
    assert_eq!(printed.matches(" * ").count(), 1, "{printed}");
}

#[test]
fn what_is_not_a_command_is_refused_with_the_help() {
    for arguments in [&["dance"][..], &["demo", "--jsn", "x"], &["devices", "more"], &[]] {
        let output = warpweft(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("warpweft devices"), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let output = warpweft(&["help"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("warpweft demo"));
}

#[test]
fn the_demo_is_right_on_the_cpu_and_writes_its_figures() {
    let file = std::env::temp_dir().join(format!("warpweft-demo-{}.json", std::process::id()));
    let output = warpweft(&["demo", "--json", file.to_str().expect("a plain path")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = std::fs::read_to_string(&file).expect("the file is there");
    std::fs::remove_file(&file).expect("it can be removed");
    for part in ["\"hash\": 83052090", "\"backend\": \"cpu\"", "\"sobel-x\"", "\"rowSums\""] {
        assert!(figures.contains(part), "{part} in {figures}");
    }
    assert!(!figures.contains("null"), "{figures}");
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let output = warpweft(&["demo", "--json", "/no/such/folder/figures.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/folder/figures.json"));
}

#[test]
fn the_benchmark_lists_runs_and_refuses() {
    let listed = warpweft(&["bench", "--list"]);
    assert!(text(&listed.stdout).lines().any(|line| line == "matmul-1024"));
    let ran = warpweft(&["bench", "--only", "adds-200", "--runs", "1"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(text(&ran.stdout).contains("| adds-200 | "), "{}", text(&ran.stdout));
    let unknown = warpweft(&["bench", "--only", "dance"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("no such case: dance"));
    assert_eq!(warpweft(&["bench", "--quick"]).status.code(), Some(2));
}
