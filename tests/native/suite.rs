//! Runs every case on every backend: on the reference, on the CPU, and on wgpu (a GPU, or a software GPU).

use crate::poison;
use crate::shaders::kernels;
use crate::shared::{self, leftovers, Case, Group, Report, GROUPS};
use pollster::block_on;
use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::wgpu::{adapters, PowerPreference, WgpuBackend};
use warpweft::backend::{Backend, DeviceKind};
use warpweft::device::{Device, F16Matmul, KernelConfig};
use warpweft::op::pointwise::TABLE;

/// A backend and its kernels, on which cases run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    Reference,
    Cpu,
    /// With the kernels that GPUs use before tuning.
    Wgpu,
    /// With kernels whose threads work alone, as on software GPUs.
    Plain,
    /// With subgroups, and the largest tiles for every size.
    Large,
    /// With medium tiles for every size, and unfused attention.
    Middle,
    /// Like `Middle`, with kernels that read all their sizes.
    Dynamic,
    /// With cooperative matrices for `f16`, on the first GPU that has them.
    Matrices,
    /// The CUDA backend on an interpreter of PTX, with subgroups.
    Interpreter,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Reference => "reference",
            Place::Cpu => "cpu",
            Place::Wgpu => "wgpu",
            Place::Plain => "wgpu without barriers",
            Place::Large => "wgpu with large tiles",
            Place::Middle => "wgpu with middle tiles",
            Place::Dynamic => "wgpu with dynamic shapes",
            Place::Matrices => "wgpu with matrices",
            Place::Interpreter => "cuda on an interpreter",
        }
    }

    /// Opens a separate device for a group, so that its counters start at 0.
    pub fn open(self) -> Result<Device, String> {
        Ok(Device::from_backend(poison::as_asked(self.backend()?), None))
    }

    /// Returns the backend: a GPU if there is one, otherwise a software GPU.
    pub fn backend(self) -> Result<Box<dyn Backend>, String> {
        match self {
            Place::Reference => Ok(Box::new(ReferenceBackend::default())),
            Place::Cpu => Ok(Box::new(CpuBackend::new())),
            Place::Matrices => Ok(Box::new(gpu_with_matrices()?)),
            Place::Interpreter => Ok(crate::cuda::interpreter(self.config())),
            place => {
                let backend = gpu(place.config())?;
                if place == Place::Dynamic {
                    backend.read_sizes();
                }
                Ok(Box::new(backend))
            }
        }
    }

    /// Returns the kernel configuration of a GPU.
    pub fn config(self) -> KernelConfig {
        let [together, alone, large, middle] = kernels::configs();
        match self {
            Place::Plain => alone,
            Place::Large => large,
            Place::Interpreter => {
                KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..large }
            }
            Place::Middle | Place::Dynamic => middle,
            _ => together,
        }
    }

    /// Returns the first case of a sample, so that different kernels run different cases.
    pub fn first(self) -> usize {
        match self {
            Place::Plain => 1,
            Place::Large => 2,
            Place::Middle | Place::Dynamic => 3,
            _ => 0,
        }
    }

    /// Whether the place is fast enough for big cases.
    fn takes_big(self) -> bool {
        !matches!(self, Place::Reference | Place::Interpreter)
    }

    /// Returns how many times fewer cases run here than in other places, because they take long.
    fn sparsity(self) -> usize {
        if self == Place::Interpreter {
            8
        } else {
            1
        }
    }
}

/// Opens the first GPU, or a software GPU, with these kernels.
pub fn gpu(config: KernelConfig) -> Result<WgpuBackend, String> {
    let mut first =
        block_on(adapters(PowerPreference::High)).into_iter().next().ok_or("there is no GPU")?;
    first.limits.config = config;
    block_on(first.open()).map_err(|error| error.to_string())
}

/// Opens the first GPU with cooperative matrices, or a software GPU, with the kernels that use them.
fn gpu_with_matrices() -> Result<WgpuBackend, String> {
    let mut all = block_on(adapters(PowerPreference::High)).into_iter();
    let first = all.find(|adapter| adapter.limits.cooperative);
    let mut first = first.ok_or("no GPU has cooperative matrices for halves")?;
    first.limits.config.f16_matmul = F16Matmul::CooperativeMatrices;
    let backend = block_on(first.open()).map_err(|error| error.to_string())?;
    let kept = backend.limits().config.f16_matmul == F16Matmul::CooperativeMatrices;
    kept.then_some(backend).ok_or_else(|| "it opens only without its matrices".to_string())
}

/// Prints to standard error directly, because the test harness would capture the output.
pub fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// The results so far of all groups.
struct Tally {
    groups: usize,
    reports: Vec<(Place, String, Report)>,
}

static TALLY: Mutex<Tally> = Mutex::new(Tally { groups: 0, reports: Vec::new() });

fn tally(place: Place, device: String, report: &Report) {
    let mut tally = TALLY.lock().unwrap_or_else(PoisonError::into_inner);
    tally.groups += 1;
    match tally.reports.iter_mut().find(|(p, ..)| *p == place) {
        Some((.., all)) => all.join(report.clone()),
        None => tally.reports.push((place, device, report.clone())),
    }
    if tally.groups == 7 * GROUPS.len() + WITH_MATRICES {
        let each = tally.reports.iter().map(|(place, device, report)| {
            format!("{} on {} {device}", report.count(), place.name())
        });
        say(&format!("cases: {}", each.collect::<Vec<_>>().join(", ")));
    }
}

/// Whether the absence of a place is a failure: `WARPWEFT_REQUIRE=cpu,wgpu`.
fn required(place: Place) -> bool {
    required_name(place.name())
}

/// Whether `WARPWEFT_REQUIRE` contains a name.
pub fn required_name(name: &str) -> bool {
    let named = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
    named.split(',').any(|one| one.trim() == name)
}

/// Reports that `what` did not run because a backend is missing. Fails if the backend is required.
pub fn absent(place: Place, what: &str, error: &str) {
    assert!(!required(place), "WARPWEFT_REQUIRE names {}, but {error}", place.name());
    say(&format!("{}: {what} NOT RUN: {error}", place.name()));
}

/// Whether `WARPWEFT_CASE` selects a case. It is a part of the name.
fn chosen(case: &Case) -> bool {
    static PART: OnceLock<String> = OnceLock::new();
    let part = PART.get_or_init(|| std::env::var("WARPWEFT_CASE").unwrap_or_default());
    case.name.contains(part.as_str())
}

/// Returns n of `WARPWEFT_EVERY=n`. One case in n runs where the same cases are repeated: on the reference backend, on GPUs
/// with four sets of kernels (each case has one of them if n is four), on poisoned memory, within limits, and in batches.
pub fn every() -> usize {
    static EVERY: OnceLock<usize> = OnceLock::new();
    *EVERY.get_or_init(|| {
        let Ok(asked) = std::env::var("WARPWEFT_EVERY") else { return 1 };
        let every = asked.parse().ok().filter(|every| *every > 0);
        let every = every.unwrap_or_else(|| panic!("WARPWEFT_EVERY={asked}; it is 1 or more"));
        say(&format!("cases: where they come again, one in {every}"));
        every
    })
}

/// Returns a sample of repeated cases. It begins with one of the first n.
pub fn sampled(cases: Vec<Case>, first: usize) -> Vec<Case> {
    cases.into_iter().skip(first % every()).step_by(every()).collect()
}

/// Runs a group's cases on a device.
pub fn run_cases(place: Place, device: &Device, cases: &[Case], name: &str) -> Report {
    let mut report = Report::default();
    for case in cases.iter().filter(|case| chosen(case)) {
        let mut one = Report::default();
        let run = || block_on(shared::run(device, case, place.takes_big(), &mut one));
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            one.failures.push(format!("{}: panicked", case.name));
        }
        report.join(one);
    }
    report.failures.extend(leftovers(device).map(|left| format!("{name}: {left}")));
    report
}

fn run(place: Place, name: &str) {
    let group: &Group = GROUPS.iter().find(|group| group.name == name).expect(name);
    let mut cases = (group.cases)().cases;
    // Most products of `f16` are in this group. They have a separate kernel on CUDA.
    let with_tensor_cores = place == Place::Interpreter && name == "half";
    if place != Place::Cpu {
        let sparsity = if with_tensor_cores { 2 } else { place.sparsity() };
        cases = sampled(cases, place.first()).into_iter().step_by(sparsity).collect();
    }
    let device = match place.open() {
        Ok(device) => device,
        Err(error) => {
            absent(place, &format!("{} cases of {name}", cases.len()), &error);
            return tally(place, "(absent)".into(), &Report::default());
        }
    };
    let mut report = run_cases(place, &device, &cases, name);
    let used = crate::cuda::TENSOR_CORE_KERNELS.load(Ordering::Relaxed);
    if with_tensor_cores && cases.iter().all(chosen) && used == 0 {
        report.failures.push("no kernel used tensor cores".to_string());
    }
    let kind = match device.info().kind {
        DeviceKind::Cpu => String::new(),
        _ => format!("({})", device.info().name),
    };
    tally(place, kind, &report);
    let (failed, ran) = (report.failures.len(), report.ran);
    let place = place.name();
    assert!(failed == 0, "{place}: {failed} of {ran}:\n  {}", report.failures.join("\n  "));
}

/// Runs cases with medium tiles. The kernels read their sizes, except where that takes minutes to compile.
fn run_middle(name: &str) {
    let heavy = ["fuzz", "grad"].contains(&name);
    run(if heavy { Place::Middle } else { Place::Dynamic }, name);
}

/// The number of groups with `f16` matmuls.
const WITH_MATRICES: usize = 5;
mod on_wgpu_with_matrices {
    use super::{run, Place};

    #[test]
    fn matmul() {
        run(Place::Matrices, "matmul");
    }
    #[test]
    fn half() {
        run(Place::Matrices, "half");
    }
    #[test]
    fn linalg() {
        run(Place::Matrices, "linalg");
    }
    #[test]
    fn grad() {
        run(Place::Matrices, "grad");
    }
    #[test]
    fn fuzz() {
        run(Place::Matrices, "fuzz");
    }
}

macro_rules! groups {
    ($($group:ident)*) => {
        mod on_reference { $( #[test] fn $group() { super::run(super::Place::Reference, stringify!($group)); } )* }
        mod on_cpu { $( #[test] fn $group() { super::run(super::Place::Cpu, stringify!($group)); } )* }
        mod on_wgpu_without_barriers {
            $( #[test] fn $group() { super::run(super::Place::Plain, stringify!($group)); } )*
        }
        mod on_wgpu_with_large_tiles {
            $( #[test] fn $group() { super::run(super::Place::Large, stringify!($group)); } )*
        }
        mod on_wgpu_with_middle_tiles {
            $( #[test] fn $group() { super::run_middle(stringify!($group)); } )*
        }
        mod on_cuda_interpreter {
            $( #[test] fn $group() { super::run(super::Place::Interpreter, stringify!($group)); } )*
        }
        mod on_wgpu { $( #[test] fn $group() { super::run(super::Place::Wgpu, stringify!($group)); } )* }
    };
}

shared::with_groups!(groups);

#[test]
fn names_are_unique_and_every_row_has_a_case() {
    let names: Vec<String> = shared::all().into_iter().map(|case| case.name).collect();
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "two cases have one name");
    for row in TABLE {
        let begin = format!("pointwise/{} ", row.name);
        assert!(names.iter().any(|name| name.starts_with(&begin)), "{} has no case", row.name);
    }
}

/// Tests that the tensors of a case can be computed in one batch, with any other operations in it.
#[test]
fn every_case_is_a_batch_too() {
    shared::check::together(true);
    let device = Place::Cpu.open().expect("the CPU is there");
    let mut report = Report::default();
    for group in GROUPS {
        let cases = sampled((group.cases)().cases, 0);
        report.join(run_cases(Place::Reference, &device, &cases, group.name));
    }
    shared::check::together(false);
    assert!(report.ran * every() > 1500, "{}", report.count());
    assert!(report.failures.is_empty(), "in one batch:\n  {}", report.failures.join("\n  "));
}
