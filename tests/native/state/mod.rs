//! Tests the contract of `docs/state.md` with random programs.
//!
//! A program is a list of actions on tensors, variables, optimizers, programs and trainers (`actions`, made by `generator`). It
//! runs with the library (`machine`) and in an eager float64 interpreter of the contract (`model`, which uses `reference`).
//! Both must agree after every action (`run`). A program that finds a fault is shrunk (`shrink`) and printed.
//!
//! `WARPWEFT_FUZZ_SECONDS` sets the time for each backend, and `WARPWEFT_FUZZ_SEED` runs one program alone. A run ends after
//! `WARPWEFT_FUZZ_FINDINGS` kinds of findings (3 by default).

mod actions;
mod assigning;
mod checks;
mod drawing;
mod found;
mod generator;
mod loading;
mod machine;
mod model;
mod nested;
mod ranks;
mod reference;
mod run;
mod shrink;

use crate::suite::{absent, say, Place};
use actions::{text, Action};
use machine::Equipment;
use model::Setting;
use run::{run, Count, Finding};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The default time for each backend, in seconds.
const SECONDS: u64 = 20;

/// The default number of kinds of findings after which a run ends.
const FINDINGS: u64 = 3;

/// The number of seeds from 0 on that always run. The others are fresh.
const FIXED: u64 = 100;

/// The open objects of a backend, or of each rank on it.
struct Bench {
    place: Place,
    equipment: Arc<Equipment>,
    setting: Setting,
}

impl Bench {
    fn open(place: Place, ranks: usize) -> Result<Bench, String> {
        let (device, other) = (place.open()?, Place::Cpu.open()?);
        let f16 = device.limits().f16;
        let setting = Setting { f16, others: ranks - 1, ..Setting::default() };
        Ok(Bench { place, equipment: Arc::new(Equipment::new(device, other)), setting })
    }

    /// Runs a program. After a finding, opens a new device.
    fn run(&mut self, program: &[Action], count: &mut Count) -> Option<Finding> {
        if self.setting.others > 0 {
            return ranks::run(self.place, self.setting, program, count);
        }
        let found = run(&self.equipment, self.setting, program, count);
        if found.is_some() || self.place == Place::Cpu {
            let setting = self.setting;
            *self = Bench::open(self.place, 1).expect("it was there before");
            self.setting = setting;
        } else {
            self.equipment.device.run_eagerly(false);
        }
        found
    }

    /// Returns the smallest program that has the same finding.
    fn shrunk(&mut self, program: &[Action], found: &Finding) -> Vec<Action> {
        shrink::shrink(program, |program| {
            let again = self.run(program, &mut Count::default());
            again.is_some_and(|again| again.kind == found.kind)
        })
    }
}

/// The time after which one program, or one that shrinking tries, counts as hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ends the tests if a program hangs, and prints its seed. No other code could.
struct Watch {
    /// The seed of the running program, and its start.
    running: Arc<Mutex<Option<(u64, Instant)>>>,
}

impl Watch {
    fn new(name: String) -> Watch {
        let running: Arc<Mutex<Option<(u64, Instant)>>> = Arc::default();
        let watched = Arc::downgrade(&running);
        std::thread::spawn(move || {
            while let Some(running) = watched.upgrade() {
                let running = *running.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((seed, _)) = running.filter(|(_, since)| since.elapsed() > PATIENCE) {
                    say(&format!("fuzz of state on {name}: the program of seed {seed} hangs"));
                    std::process::exit(101);
                }
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Watch { running }
    }

    fn set(&self, seed: u64) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some((seed, Instant::now()));
    }
}

/// Returns a number from the environment.
fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}; it is a whole number")))
}

/// Runs programs until the time is over.
fn fuzz(place: Place, ranks: usize) {
    let mut bench = match Bench::open(place, ranks) {
        Ok(bench) => bench,
        Err(error) => return absent(place, "the fuzz test of state", &error),
    };
    let name = match ranks {
        1 => place.name().to_string(),
        _ => format!("{ranks} ranks of {}", place.name()),
    };
    let alone = asked("WARPWEFT_FUZZ_SEED");
    let seconds = Duration::from_secs(asked("WARPWEFT_FUZZ_SECONDS").unwrap_or(SECONDS));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let base = now << 20;
    let (begun, mut count, mut ran) = (Instant::now(), Count::default(), 0);
    let seeds = (0..FIXED).chain(base..);
    let seeds: Box<dyn Iterator<Item = u64>> = match alone {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(seeds),
    };
    say(&format!("fuzz of state on {name}: seeds 0 to {FIXED}, then from {base} on"));
    let watch = Watch::new(name.clone());
    let (mut findings, mut kinds) = (Vec::new(), Vec::new());
    let most = asked("WARPWEFT_FUZZ_FINDINGS").unwrap_or(FINDINGS);
    for seed in seeds {
        let is_over = begun.elapsed() > seconds && alone.is_none() && ran >= FIXED;
        if is_over || kinds.len() as u64 >= most {
            break;
        }
        watch.set(seed);
        let program = generator::program(seed, bench.setting);
        ran += 1;
        let Some(found) = bench.run(&program, &mut count) else { continue };
        if kinds.contains(&found.kind) {
            continue;
        }
        let (since, small) = (begun.elapsed(), bench.shrunk(&program, &found));
        let again = bench.run(&small, &mut Count::default()).unwrap_or(found.clone());
        findings.push(format!(
            "seed {seed} on {name}, after {} s, {} actions of {}: {}\n{}",
            since.as_secs(),
            small.len(),
            program.len(),
            again.what,
            text(&small)
        ));
        say(&findings[findings.len() - 1]);
        kinds.push(found.kind);
    }
    let seconds = begun.elapsed().as_secs();
    say(&format!("fuzz of state on {name}: {ran} programs in {seconds} s, {count:?}"));
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn programs_on_cpu() {
    fuzz(Place::Cpu, 1);
}

#[test]
fn programs_on_wgpu() {
    fuzz(Place::Wgpu, 1);
}

#[test]
fn programs_on_two_ranks() {
    fuzz(Place::Cpu, 2);
}

#[test]
fn programs_on_three_ranks() {
    fuzz(Place::Cpu, 3);
}
