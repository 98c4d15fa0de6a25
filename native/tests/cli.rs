//! Tests the `warpweft` program on the command line.

use serde_json::Value;
use std::process::{Command, Output};

fn warpweft(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.args(arguments).env("WARPWEFT_DEVICE", "cpu").output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Returns the output of a call, which must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = warpweft(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn devices_are_listed_with_one_recommended() {
    let table = printed(&["devices"]);
    assert!(table.contains(" cpu ") && table.contains(" * 0 "), "{table}");
    let marks = table.lines().filter(|line| line.starts_with(" * ")).count();
    assert_eq!(marks, 1, "{table}");

    let json: Value = serde_json::from_str(&printed(&["devices", "--json"])).expect("JSON");
    let all = json.as_array().expect("a list");
    let recommended: Vec<&Value> = all.iter().filter(|it| it["recommended"] == true).collect();
    assert_eq!(recommended.len(), 1, "{json:#}");
    for it in all {
        // One device is recommended. All others have a reason why they are not.
        assert_eq!(it["reason"].is_string(), it["recommended"] == false, "{it:#}");
        assert_eq!(it["limits"].is_object(), it["available"] == true, "{it:#}");
    }
    let cpu = all.iter().find(|it| it["backend"] == "cpu").expect("the CPU is there");
    if cfg!(target_os = "linux") {
        assert!(cpu["memory"].as_u64().is_some_and(|bytes| bytes > 1 << 28), "{cpu:#}");
    }
}

#[test]
fn what_is_not_a_command_is_refused_with_the_usage() {
    for arguments in [&["dance"][..], &["demo", "--jsn", "x"], &["devices", "more"], &[]] {
        let output = warpweft(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("Usage: warpweft"), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_names_the_commands_and_their_options() {
    let help = printed(&["--help"]);
    for word in ["devices", "demo", "tune", "bench", "completions", "WARPWEFT_DEVICE"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert_eq!(printed(&["help"]), help);
    let help = printed(&["bench", "--help"]);
    let options = "device only runs json numpy list heavy programs lengths training torch peers";
    for word in options.split(' ') {
        assert!(help.contains(&format!("--{word}")), "{word} in {help}");
    }
    assert!(!help.contains("--bench"), "{help}");
}

#[test]
fn shells_complete_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("completions") && script.contains("programs"), "{shell}");
    }
    assert_eq!(warpweft(&["completions", "tcsh"]).status.code(), Some(2));
}

/// Runs `tune`, which prints the device that it uses.
fn taken(arguments: &[&str], environment: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.arg("tune").args(arguments).env("WARPWEFT_DEVICE", environment);
    command.env("WARPWEFT_CACHE", "").output().expect("the program starts")
}

#[test]
fn the_environment_chooses_a_device_and_an_option_goes_before_it() {
    let output = taken(&[], "cpu");
    assert!(text(&output.stdout).contains("(cpu)"), "{}", text(&output.stdout));
    let output = taken(&["--device", "cpu"], "no such device");
    assert!(text(&output.stdout).contains("(cpu)"), "{}", text(&output.stdout));
    let output = taken(&[], "no such device");
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("must match a device, got the name \"no such device\""), "{stderr}");
}

#[test]
fn the_demo_is_right_on_the_cpu_and_writes_its_figures() {
    let file = std::env::temp_dir().join(format!("warpweft-demo-{}.json", std::process::id()));
    let output = warpweft(&["demo", "--json", file.to_str().expect("a plain path")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = std::fs::read_to_string(&file).expect("the file is there");
    std::fs::remove_file(&file).expect("it can be removed");
    assert!(!figures.contains("null"), "{figures}");
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    assert_eq!(figures["picture"]["hash"], 83_052_090);
    let cpu = figures["devices"].as_array().and_then(|all| all.last()).expect("a device");
    assert_eq!(cpu["backend"], "cpu");
    assert!(cpu["filters"]["sobel-x"]["mean"].as_f64().is_some_and(|mean| mean > 0.4), "{cpu:#}");
    assert!(cpu["attention"]["rowSums"].as_f64().is_some_and(|sum| sum < 1e-5), "{cpu:#}");
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
    let file = std::env::temp_dir().join(format!("warpweft-bench-{}.json", std::process::id()));
    let path = file.to_str().expect("a plain path");
    let table = printed(&["bench", "--only", "adds-200", "--runs", "1", "--json", path]);
    assert!(table.contains("| adds-200 | "), "{table}");
    let figures = std::fs::read_to_string(&file).expect("the file is there");
    std::fs::remove_file(&file).expect("it can be removed");
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    let case = &figures["cases"][0];
    assert_eq!((&case["name"], &case["failure"]), (&"adds-200".into(), &Value::Null));
    assert!(case["times"]["warpweft"]["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{case:#}");
    let unknown = warpweft(&["bench", "--only", "dance"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("the case must be known, got dance"));
    assert_eq!(warpweft(&["bench", "--quick"]).status.code(), Some(2));
    assert_eq!(warpweft(&["bench", "--runs", "0"]).status.code(), Some(2));
}

/// Tests training peers: one learns all models, one all except two, and one has another number of parameters in a third model.
#[cfg(unix)]
#[test]
fn training_is_timed_beside_peers() {
    use std::os::unix::fs::PermissionsExt;
    let script = r#"#!/bin/sh
if [ "$1" = list ]; then echo "steady-$2"; echo moody; echo small; exit; fi
loss=1000
while read word model; do
    case "$1 $word $model" in
        *" new mlp-"*) [ "$1" = moody ] && echo - || echo 535818;;
        *" new cnn-"*) [ "$1" = small ] && echo 206921 || echo 206922;;
        *" new lstm-"*) echo 100618;;
        *" new "*) echo 3290368;;
        *) loss=$((loss - 1)); echo "0.002 $loss";;
    esac
done
"#;
    let file = std::env::temp_dir().join(format!("warpweft-peers-{}.sh", std::process::id()));
    std::fs::write(&file, script).expect("it can be written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let path = file.to_str().expect("a plain path");
    let timed = warpweft(&["bench", "--training", "--runs", "1", "--peers", path]);
    std::fs::remove_file(&file).expect("it can be removed");
    let (table, stderr) = (text(&timed.stdout), text(&timed.stderr));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_string()).collect();
    let rows: Vec<Vec<String>> = table.lines().filter(|l| l.starts_with('|')).map(cells).collect();
    assert_eq!(rows.len(), 7, "{table}{stderr}");
    assert_eq!(
        rows[0][7..10],
        ["steady-cpu", "moody", "small"].map(|n| format!("{n}: ms (ratio)"))
    );
    for (number, row) in rows[2..].iter().enumerate() {
        let cells = [true, number > 1, number != 2];
        for (cell, answers) in row[7..10].iter().zip(cells) {
            assert_eq!(cell.starts_with("2.00 ("), answers, "{table}{stderr}");
            assert_eq!(cell == "-", !answers, "{table}{stderr}");
        }
    }
    assert!(stderr.contains("cnn-64 must have 206922 parameters, got 206921"), "{stderr}");
    assert!(stderr.contains("moody must answer `new mlp-64` with numbers, got `-`"), "{stderr}");
    let absent = warpweft(&["bench", "--training", "--peers", "/no/such/program"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).contains("/no/such/program"));
}

#[test]
fn texts_are_embedded() {
    let golden = include_str!("../../tests/golden/encoders.json");
    let golden: Value = serde_json::from_str(golden).expect("golden values");
    let folder = std::env::temp_dir().join(format!("warpweft-encoder-{}", std::process::id()));
    for (name, content) in golden["cases"][0]["files"].as_object().expect("files") {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        let bytes = match name.ends_with(".json") {
            true => content.as_str().expect("JSON").as_bytes(),
            false => include_bytes!("../../tests/golden/encoder-bert.safetensors"),
        };
        std::fs::write(path, bytes).expect("it can be written");
    }
    let place = folder.to_str().expect("a path of Unicode");
    let texts: Vec<&str> = golden["texts"].as_array().expect("texts")[..3]
        .iter()
        .map(|text| text.as_str().expect("a text"))
        .collect();
    let lines = printed(&[&["embed", place][..], &texts].concat());
    let vectors: Vec<Vec<f64>> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a vector")).collect();
    assert_eq!(vectors.len(), 3);
    let want = &golden["cases"][0]["vectors"][""];
    for (n, number) in vectors.iter().flatten().enumerate() {
        let want = want[n / 16][n % 16].as_f64().expect("a number");
        assert!((number - want).abs() < 2e-5, "{n}: {number}, not {want}");
    }
    let lines = printed(&["embed", place, "--similarity", texts[0], texts[0]]);
    assert_eq!(lines, format!("1.0000\t{0}\n1.0000\t{0}\n", texts[0]));
    for (arguments, says) in [
        (["embed", "nowhere", "a"], "nowhere"),
        (["embed", "Cargo.toml", "a"], "Cargo.toml"),
        (["embed", place, "--prompt-name=poem"], "must be one of"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
        command.args(arguments).env("WARPWEFT_DEVICE", "cpu").stdin(std::process::Stdio::piped());
        let mut child = command
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("an input"), b"a\n").ok();
        let output = child.wait_with_output().expect("it ends");
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

#[test]
fn shaders_are_translated_to_ptx() {
    let folder = std::env::temp_dir().join(format!("warpweft-cli-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let file = folder.join("shader.wgsl");
    let path = file.to_str().expect("a path in Unicode");
    let shader = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn double(@builtin(local_invocation_index) i: u32) { y[i] *= 2.0; }
@compute @workgroup_size(1) fn zero() { y[0] = 0.0; }";
    std::fs::write(&file, shader).expect("a writable file");
    let ptx = printed(&["ptx", path, "--sm", "90"]);
    assert!(ptx.contains(".target sm_90") && ptx.contains(".entry double("), "{ptx}");
    assert!(ptx.contains(".entry zero("), "{ptx}");
    let zero = printed(&["ptx", path, "--entry", "zero", "--unchecked"]);
    assert!(zero.contains(".target sm_75") && !zero.contains(".entry double("), "{zero}");
    std::fs::write(&file, "@compute @workgroup_size(1) fn f() { let x = ; }").expect("writable");
    let output = warpweft(&["ptx", path]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains(path) && error.contains("at line 1 column 46"), "{error}");
    std::fs::remove_dir_all(&folder).expect("the folder is there");
}
