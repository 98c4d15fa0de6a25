//! Outside conformance vectors on every native backend.
//!
//! They lie in the folder that `WARPWEFT_CONFORMANCE` names, else in `../shared/conformance` beside the repository.
//! Without them nothing runs, and says so; `WARPWEFT_REQUIRE=conformance` makes that a failure.

use crate::conformance::exceptions::EXCEPTIONS;
use crate::conformance::vectors::{parse, Case};
use crate::conformance::{self, FILES};
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

/// All cases; none where the folder is not there. Files that are there must be whole.
fn cases() -> Option<Vec<Case>> {
    let folder = folder();
    if !folder.is_dir() {
        return None;
    }
    let mut cases = Vec::new();
    for name in FILES {
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        let shown = file("json").display().to_string();
        let json = fs::read_to_string(file("json")).unwrap_or_else(|e| panic!("{shown}: {e}"));
        let bytes = fs::read(file("bin")).unwrap_or_else(|e| panic!("{shown}'s bytes: {e}"));
        cases.extend(parse(&json, &bytes).unwrap_or_else(|e| panic!("{shown}: {e}")));
    }
    Some(cases)
}

fn run(place: Place) {
    let Some(cases) = cases() else {
        let what = format!("conformance: NOT RUN on {}: no folder of vectors", place.name());
        assert!(!required_name("conformance"), "{what}");
        return say(&what);
    };
    let device = match place.open() {
        Ok(device) => device,
        Err(error) => {
            assert!(!required_name(place.name()), "{}: {error}", place.name());
            return say(&format!("conformance: NOT RUN on {}: {error}", place.name()));
        }
    };
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
