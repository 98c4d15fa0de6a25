//! Outside conformance vectors on every native backend.
//!
//! Some are part of the repository; the others lie in the folder that `WARPWEFT_CONFORMANCE` names, else in `../shared/conformance` beside the repository.
//! Without that these do not run, and it is said so; `WARPWEFT_REQUIRE=conformance` makes that a failure.

use crate::conformance::exceptions::EXCEPTIONS;
use crate::conformance::vectors::{parse, Case};
use crate::conformance::{self, FILES, OWN};
use crate::suite::{required_name, say, Place};
use pollster::block_on;
use std::fs;
use std::path::{Path, PathBuf};
use warpweft::backend::DeviceKind;

/// The folder of the vectors.
fn folder() -> PathBuf {
    match std::env::var_os("WARPWEFT_CONFORMANCE") {
        Some(named) => named.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"),
    }
}

/// A set's cases. What is there must be whole.
fn read(name: &str, json: &str, bytes: &[u8]) -> Vec<Case> {
    parse(json, bytes).unwrap_or_else(|what| panic!("{name}: {what}"))
}

/// The cases in the repository, and those of the folder, if that is there.
fn cases(place: Place) -> Vec<Case> {
    let mut cases = read("onnx", OWN.0, OWN.1);
    let folder = folder();
    if !folder.is_dir() {
        let what = format!("conformance: {FILES:?} NOT RUN on {}: no folder of vectors", place.name());
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

fn run(place: Place) {
    let device = match place.open() {
        Ok(device) => device,
        Err(error) => {
            assert!(!required_name(place.name()), "{}: {error}", place.name());
            return say(&format!("conformance: NOT RUN on {}: {error}", place.name()));
        }
    };
    let cases = cases(place);
    let lenient = device.info().kind != DeviceKind::Cpu;
    let report = block_on(conformance::run(&device, place.name(), &cases, EXCEPTIONS, lenient));
    say(&report.summary());
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
