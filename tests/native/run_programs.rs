//! Runs whole programs on every backend, and checks their values and their costs. See `tests/programs`.

use crate::programs::counts::{exceeded, Counts, KNOWN, SHORTER};
use crate::programs::{self, check, program, Reads, Report, Theme, SIZES, THEMES};
use crate::suite::{absent, say, Place};
use pollster::block_on;
use std::panic::{catch_unwind, AssertUnwindSafe};
use warpweft::device::Device;
use warpweft::error::Result;

/// Returns the part of program names that selects programs, and the number of steps.
fn asked() -> (String, Option<usize>) {
    let asked = std::env::var("WARPWEFT_PROGRAM").unwrap_or_default();
    match asked.split_once(',') {
        Some((part, steps)) => {
            (part.into(), Some(steps.parse().expect("WARPWEFT_PROGRAM=part[,steps]")))
        }
        None => (asked, None),
    }
}

/// Runs each program of a theme on two new devices, so that their counters start at 0: one for the program, and one for eager
/// execution.
fn run(place: Place, name: &str) {
    let theme: &Theme = THEMES.iter().find(|theme| theme.name == name).expect(name);
    let (part, steps) = asked();
    let mut all = Report::default();
    let mut ran = 0;
    for program in (theme.programs)().iter().filter(|program| program.name.contains(&part)) {
        let sizes = (steps.unwrap_or(program.steps), SIZES.len());
        let devices = place.open().and_then(|lazy| Ok((lazy, place.open()?)));
        let (lazy, eager) = match devices {
            Ok(devices) => devices,
            Err(error) => return absent(place, &format!("programs of {name}"), &error),
        };
        ran += 1;
        let run = || block_on(check(place.name(), program, [&lazy, &eager], sizes));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(report) => {
                all.failures.extend(report.failures);
                all.table.extend(report.table);
            }
            Err(_) => all.failures.push(format!("{}: panicked", program.name)),
        }
    }
    let Report { failures, table } = all;
    say(&format!("programs: {ran} of {name} on {}\n  {}", place.name(), table.join("\n  ")));
    let (failed, place) = (failures.len(), place.name());
    assert!(failed == 0, "{place}: {failed} wrong in {ran}:\n  {}", failures.join("\n  "));
}

macro_rules! themes {
    ($($theme:ident)*) => {
        mod on_cpu { $( #[test] fn $theme() { super::run(super::Place::Cpu, stringify!($theme)); } )* }
        mod on_wgpu { $( #[test] fn $theme() { super::run(super::Place::Wgpu, stringify!($theme)); } )* }
    };
}

programs::with_themes!(themes);

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = Vec::new();
    for theme in THEMES {
        names.extend((theme.programs)().iter().map(|program| program.name));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == count && count >= 30, "{} names of {count} programs", names.len());
}

/// Tests the bounds with the counts of a good program. Slightly worse counts must exceed exactly one bound.
#[test]
fn the_bounds_see() {
    let run = |steps: u64| Counts {
        kernels: 20 * steps,
        submits: steps,
        plans: 2,
        pipelines: 6,
        left: 0,
        peak: 100_000 * steps,
        text: 2000,
    };
    let (ours, theirs) = ([run(5), run(10), run(40)], [run(5), run(10)]);
    let seen = |change: &dyn Fn(&mut [Counts; 3])| {
        let mut ours = ours;
        change(&mut ours);
        let found = exceeded(&ours, &theirs);
        found.iter().map(|(quantity, _)| *quantity).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(seen(&|_| ()), "");
    assert_eq!(seen(&|ours| ours[0].kernels = 209), "kernels");
    assert_eq!(seen(&|ours| ours[2].kernels = 917), "growing kernels");
    assert_eq!(seen(&|ours| ours[2].kernels = 1609), "kernels, growing kernels");
    assert_eq!(seen(&|ours| ours[1].submits = 11), "submits");
    assert_eq!(seen(&|ours| ours[2].submits = 45), "submits, growing submits");
    assert_eq!(seen(&|ours| ours[2].plans = 7), "plans");
    assert_eq!(seen(&|ours| ours[1].pipelines = 11), "pipelines");
    assert_eq!(seen(&|ours| ours[1].left = 1), "left");
    assert_eq!(seen(&|ours| ours[1].peak = 2_065_537), "peak");
    assert_eq!(seen(&|ours| ours[2].peak = 4_065_537), "growing peak");
    assert_eq!(seen(&|ours| ours[2].text = 30_001), "text");
}

/// Tests that wrong numbers and additional numbers are reported.
#[test]
fn a_wrong_number_is_told() {
    async fn doubled(device: Device, steps: usize) -> Result<Vec<f64>> {
        let mut reads = Reads::default();
        reads.take(&device.ones(&[2])?.mul(2 * steps)?);
        reads.all().await
    }
    let failures = |want: fn(usize) -> Vec<f64>| {
        let devices = [(); 2].map(|()| Place::Cpu.open().expect("the CPU is there"));
        let program = program("doubled", 4, 1e-6, doubled, want);
        block_on(check("cpu", &program, [&devices[0], &devices[1]], (4, 3))).failures
    };
    assert_eq!(failures(|steps| vec![2.0 * steps as f64; 2]), [""; 0]);
    let near = failures(|steps| vec![2.0 * steps as f64, 2.0 * steps as f64 + 1e-3]);
    assert!(near.len() == 1 && near[0].contains("number 1: got 4e0, want 4.001e0"), "{near:?}");
    let count = failures(|_| vec![4.0]);
    assert!(count.len() == 1 && count[0].contains("2 numbers instead of 1"), "{count:?}");
}

/// Tests that the known exceptions name existing programs.
#[test]
fn what_is_known_is_there() {
    let mut names: Vec<&str> = Vec::new();
    for theme in THEMES {
        names.extend((theme.programs)().iter().map(|program| program.name));
    }
    let known = KNOWN.iter().flat_map(|known| known.programs);
    let shorter = SHORTER.iter().map(|(name, _)| name);
    for name in known.chain(shorter) {
        assert!(names.contains(name), "there is no program {name}");
    }
}
