//! Tests a backend from outside the library. After registration, discovery, preferences, fallback and the suite use it.

mod backend;

use crate::shared::GROUPS;
use crate::suite::{run_cases, Place};
use backend::{BROKEN, FAST, LOWERED, SCHEDULED, SLOW};
use pollster::block_on;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use warpweft::backend::DeviceKind;
use warpweft::device::{register, Device, Preference};

fn opened(preference: &str) -> Device {
    block_on(Device::with(Preference::parse(preference))).expect(preference)
}

/// Runs in a separate process, because other tests open devices, too.
#[test]
fn a_registered_backend_is_discovered_preferred_and_fallen_back_from() {
    const ALONE: &str = "WARPWEFT_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().expect("this is a program");
        let name =
            "example_backend::a_registered_backend_is_discovered_preferred_and_fallen_back_from";
        let mut alone = Command::new(this);
        alone.args([name, "--exact"]).env(ALONE, "1").env("WARPWEFT_DEVICE", "toy");
        let alone = alone.output().expect("it runs");
        let stdout = String::from_utf8_lossy(&alone.stdout);
        return assert!(alone.status.success() && stdout.contains("1 passed"), "{stdout}");
    }
    register(FAST);
    let found = block_on(Device::discover());
    let toys = [&found[0].info, &found[1].info].map(|info| &*info.name);
    assert_eq!(toys, ["Toy that breaks", "Toy that runs"], "{found:?}");
    // By number, by name, by the backend's word, and as the best device. A device that does not open is skipped.
    for preference in ["1", "Toy That Runs", "toy", "gpu", "low-power", "auto"] {
        let device = opened(preference);
        assert_eq!(device.info().name, "Toy that runs", "{preference}");
        assert_eq!(device.fallback(), None, "{preference}");
    }
    assert_eq!(block_on(Device::new()).expect("it is there").info().backend, "toy");
    let error = block_on(Device::with(Preference::Index(0))).expect_err("it is broken");
    assert!(error.to_string().contains("this toy is broken"), "{error}");
    // After other software GPUs, and only on request.
    register(SLOW);
    let found = block_on(Device::discover());
    let at = found.iter().position(|found| found.info.backend == "toy").expect("it is found");
    let before = found[..at].iter().filter(|found| found.info.kind == DeviceKind::Cpu);
    assert_eq!((before.count(), found[at].recommended), (1, false), "{found:?}");
    assert_ne!(opened("auto").info().backend, "toy");
    // If none of its devices open, the next best is chosen. If that is the CPU, the device reports the reason.
    register(BROKEN);
    let device = opened("auto");
    assert_ne!(device.info().backend, "toy");
    if device.info().kind == DeviceKind::Cpu {
        let why = device.fallback().unwrap_or_default();
        assert!(why.contains("this toy is broken"), "{why}");
    }
}

#[test]
fn the_suite_runs_on_a_registered_backend() {
    register(SLOW);
    let device = opened("toy that runs");
    let mut ran = 0;
    // This backend does not support WGSL from users.
    for group in GROUPS.iter().filter(|group| !group.name.starts_with("custom")) {
        // Every third case. Gradients and random programs take longest, so fewer run.
        let step = if ["grad", "fuzz"].contains(&group.name) { 12 } else { 3 };
        let cases: Vec<_> = (group.cases)().cases.into_iter().step_by(step).collect();
        let report = run_cases(Place::Reference, &device, &cases, group.name);
        assert!(report.failures.is_empty(), "{}:\n  {}", group.name, report.failures.join("\n  "));
        ran += report.ran;
    }
    assert!(ran > 500, "{ran} cases");
    let (lowered, scheduled) = (LOWERED.load(Relaxed), SCHEDULED.load(Relaxed));
    assert!(lowered > 20 && scheduled > lowered, "{lowered} of {scheduled} kernels were lowered");
}
