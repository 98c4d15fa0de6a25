//! Runs external conformance vectors on every native backend.
//!
//! Some vectors are part of the repository. The others are in the folder that `WARPWEFT_CONFORMANCE` names, by default
//! `../shared/conformance` next to the repository. Without this folder they are skipped with a message;
//! `WARPWEFT_REQUIRE=conformance` makes this a failure.

use crate::conformance::exceptions::{Exception, EXCEPTIONS};
use crate::conformance::limits::ulps;
use crate::conformance::report::Counts;
use crate::conformance::vectors::{parse, Case, Kind};
use crate::conformance::{self, FILES, OWN};
use crate::suite::{every, required_name, say, Place};
use pollster::block_on;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use warpweft::backend::DeviceKind;

/// Returns the folder of the vectors.
fn folder() -> PathBuf {
    match std::env::var_os("WARPWEFT_CONFORMANCE") {
        Some(named) => named.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"),
    }
}

/// Returns the cases of a set. An existing set must be complete.
fn read(name: &str, json: &str, bytes: &[u8]) -> Vec<Case> {
    parse(json, bytes).unwrap_or_else(|what| panic!("{name}: {what}"))
}

/// Returns the cases in the repository, and those of the folder if it exists.
fn cases(place: Place) -> Vec<Case> {
    let mut cases = read("onnx", OWN.0, OWN.1);
    let folder = folder();
    if !folder.is_dir() {
        let what =
            format!("conformance: {FILES:?} NOT RUN on {}: no folder of vectors", place.name());
        assert!(!required_name("conformance"), "{what}");
        say(&what);
        return cases;
    }
    for name in FILES {
        let file = |end: &str| {
            let file = folder.join(format!("{name}.{end}"));
            fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        let json = String::from_utf8(file("json")).expect("text");
        cases.extend(read(name, &json, &file("bin")));
    }
    cases
}

/// GPUs run one after the other. The second finds most shaders of the first in the driver's cache.
static TURN: Mutex<()> = Mutex::new(());

fn run(place: Place) {
    let _turn = (place != Place::Cpu).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let device = match place.open() {
        Ok(device) => device,
        Err(error) => {
            assert!(!required_name(place.name()), "{}: {error}", place.name());
            return say(&format!("conformance: NOT RUN on {}: {error}", place.name()));
        }
    };
    let mut cases = cases(place);
    // As with the other cases, a part of the name selects cases.
    let (part, all) = (std::env::var("WARPWEFT_CASE"), cases.len());
    if let Ok(part) = &part {
        cases.retain(|case| format!("{}: {}", case.suite, case.name).contains(part));
    }
    if place != Place::Cpu {
        // Each case runs with one of two sets of kernels.
        let every = every().min(2);
        cases = cases.into_iter().skip(place.first() % every).step_by(every).collect();
    }
    let lenient = device.info().kind == DeviceKind::Gpu;
    let mut report = block_on(conformance::run(&device, place.name(), &cases, EXCEPTIONS, lenient));
    if cases.len() == all {
        report.check(&cases, EXCEPTIONS);
    }
    let pipelines = device.stats().pipelines;
    say(&format!("{} ({pipelines} pipelines)", report.summary()));
    if let Some(folder) = std::env::var_os("WARPWEFT_CONFORMANCE_REPORT") {
        let file = Path::new(&folder).join(format!("{}.json", place.name().replace(' ', "-")));
        let text = report.to_json(&device.info().name).to_string();
        fs::write(&file, text).expect("the report can be written");
    }
    let (wrong, all) = (report.failures.len(), cases.len());
    assert!(wrong == 0, "{wrong} of {all}:\n  {}", report.failures.join("\n  "));
}

#[test]
fn on_cpu() {
    run(Place::Cpu);
}

#[test]
fn on_wgpu() {
    run(Place::Wgpu);
}

#[test]
fn on_wgpu_without_barriers() {
    run(Place::Plain);
}

/// Returns a set of one case: `abs` of two numbers, with `change` applied to its text.
fn made(change: (&str, &str)) -> Result<Vec<Case>, String> {
    let text = r#"{"format": 1, "cases": [{"suite": "s", "op": "abs", "name": "n",
        "inputs": [{"name": "x", "dtype": "f32", "shape": [2], "off": 0, "len": 8}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": [2], "off": 8, "len": 8}],
        "operators": [{"name": "abs", "arguments": [{"input": "x"}], "outputs": "y"}],
        "tolerance": {"metric": "ULP", "value": 0}}]}"#;
    assert!(text.contains(change.0), "{}", change.0);
    let bytes: Vec<u8> = [-1.0f32, 2.0, 1.0, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    parse(&text.replace(change.0, change.1), &bytes)
}

#[test]
fn damaged_vectors_are_refused() {
    assert_eq!(made(("abs", "abs")).expect("it is whole").len(), 1);
    for (change, message) in [
        (("\"format\": 1", "\"format\": 2"), "format 2"),
        (("[2], \"off\": 8", "[3], \"off\": 8"), "8 bytes for 3 elements"),
        (("\"off\": 8", "\"off\": 12"), "its bytes are not there"),
        (("\"off\": 8", "\"off\": -1"), "its bytes are not there"),
        (("\"f32\"", "\"f31\""), "no type f31"),
        (("\"ULP\"", "\"ELL\""), "tolerance"),
        (("\"outputs\": \"y\"", "\"outputs\": 7"), "outputs 7"),
        (("[{\"input\": \"x\"}]", "7"), "arguments is 7"),
        (("[2]", "[-2]"), "a shape that is none"),
        (("}]}", "}"), "EOF"),
    ] {
        let error = made(change).err().unwrap_or_else(|| panic!("{change:?} was taken"));
        assert!(error.contains(message), "{change:?}: {error}");
    }
}

/// Runs the case on the CPU. Returns the counts and the failures.
fn judged(change: (&str, &str), exceptions: &[Exception]) -> (Counts, String) {
    let cases = made(change).expect("it is whole");
    let device = Place::Cpu.open().expect("the CPU is there");
    let mut report = block_on(conformance::run(&device, "cpu", &cases, exceptions, false));
    report.check(&cases, exceptions);
    (report.total(), report.failures.join(" "))
}

/// Tests that a wrong result, an unknown argument, a missing operator and an unneeded exception are reported.
#[test]
fn differences_are_seen() {
    let listed = [Exception { suite: "s", places: &["cpu"], why: "a reason", cases: &["n"] }];
    let same = ("abs", "abs");
    let wrong = ("\"abs\", \"arguments\"", "\"neg\", \"arguments\"");
    let odd = ("{\"input\": \"x\"}", "{\"input\": \"x\"}, {\"odd\": 1}");
    let counts = Counts::default();
    assert_eq!(judged(same, &[]), (Counts { passed: 1, ..counts }, String::new()));
    let (sum, failures) = judged(wrong, &[]);
    assert_eq!(sum, Counts { failed: 1, ..counts });
    assert!(failures.contains("1 of 2 differ, most at 1: got -2e0, want 2e0"), "{failures}");
    assert_eq!(judged(wrong, &listed), (Counts { excepted: 1, ..counts }, String::new()));
    let (sum, failures) = judged(same, &listed);
    assert_eq!(sum, Counts { failed: 1, ..counts });
    assert!(failures.contains("remove it"), "{failures}");
    let (sum, failures) = judged(odd, &[]);
    assert_eq!(sum, Counts { failed: 1, ..counts });
    assert!(failures.contains("argument odd is not understood"), "{failures}");
    let missing = ("\"abs\", \"arguments\"", "\"sba\", \"arguments\"");
    assert_eq!(judged(missing, &[]).0, Counts { missing: 1, ..counts });
    let (_, failures) = judged(missing, &listed);
    assert!(failures.contains("does not run"), "{failures}");
    let elsewhere = [Exception { suite: "s", places: &["cpu"], why: "a reason", cases: &["m"] }];
    let (_, failures) = judged(same, &elsewhere);
    assert!(failures.contains("s: m: is listed as an exception and is no case"), "{failures}");
}

#[test]
fn units_in_the_last_place() {
    let tiny = f64::from(f32::from_bits(1));
    assert_eq!(ulps(Kind::F32, 1.0, 1.0 + f64::from(f32::EPSILON)), 1.0);
    assert_eq!(ulps(Kind::F32, 0.0, -0.0), 0.0);
    assert_eq!(ulps(Kind::F32, tiny, -tiny), 2.0);
    assert_eq!(ulps(Kind::F32, f64::from(f32::MAX), f64::INFINITY), 1.0);
    assert_eq!(ulps(Kind::F16, 1.0, 1.0 + 1.0 / 1024.0), 1.0);
    assert_eq!(ulps(Kind::F16, -2.0, -1.0), 1024.0);
    assert_eq!(ulps(Kind::I32, -3.0, 4.0), 7.0);
}
