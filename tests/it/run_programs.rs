//! Whole programs on every backend: their values, and what they cost; see `tests/programs`.

use crate::programs::{check, Report, Theme, SIZES, THEMES};
use crate::suite::{absent, say, Place};
use pollster::block_on;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Devices of a program's own, so that its counters are: one for it, one to run it eagerly.
fn run(place: Place, name: &str) {
    let theme: &Theme = THEMES.iter().find(|theme| theme.name == name).expect(name);
    let part = std::env::var("WARPWEFT_PROGRAM").unwrap_or_default();
    let mut all = Report::default();
    let mut ran = 0;
    for program in (theme.programs)().iter().filter(|program| program.name.contains(&part)) {
        let devices = place.open().and_then(|lazy| Ok((lazy, place.open()?)));
        let (lazy, eager) = match devices {
            Ok(devices) => devices,
            Err(error) => return absent(place, &format!("programs of {name}"), &error),
        };
        ran += 1;
        let run = || block_on(check(place.name(), program, [&lazy, &eager], (program.steps, SIZES.len())));
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

        #[test]
        fn every_theme_is_run() {
            let named = [$(stringify!($theme)),*];
            assert!(THEMES.iter().map(|theme| theme.name).eq(named), "{named:?}");
        }
    };
}

themes! { grids learning linear models sequences statistics training }

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
