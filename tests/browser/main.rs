//! Runs every case in a browser: on WebGPU (also on a software GPU), and on the CPU compiled to WebAssembly.
#![cfg(target_arch = "wasm32")]

#[path = "../conformance/mod.rs"]
mod conformance;
#[cfg(feature = "gpu")]
mod gpu;
#[path = "../programs/mod.rs"]
mod programs;
mod run_conformance;
#[cfg(feature = "gpu")]
mod shaders;
#[path = "../shared/mod.rs"]
mod shared;

use shared::{leftovers, Report, GROUPS};
use std::cell::RefCell;
use warpweft::backend::wgpu::{adapters, PowerPreference};
use warpweft::device::{Device, KernelConfig, Preference, Rows};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_browser);

/// Opens WebGPU on any adapter, with the kernels that GPUs use.
async fn webgpu() -> Option<Device> {
    let mut adapter = adapters(PowerPreference::High).await.into_iter().next()?;
    adapter.limits.config = KernelConfig::GPU;
    let backend = adapter.open().await.ok()?;
    Some(Device::from_backend(Box::new(backend), None))
}

/// Whether the browser is Firefox, in which naga compiles the shaders, and lavapipe runs them if there is no GPU.
fn in_firefox() -> bool {
    user_agent().contains("Firefox/")
}

fn user_agent() -> String {
    let agent = web_sys::window().and_then(|window| window.navigator().user_agent().ok());
    agent.unwrap_or_default()
}

thread_local! {
    /// The results so far of all groups.
    static TALLY: RefCell<Vec<(&'static str, Report)>> = const { RefCell::new(Vec::new()) };
}

/// Prints how many cases ran, after all groups have.
fn tally(place: &'static str, report: &Report) {
    TALLY.with_borrow_mut(|tally| {
        tally.push((place, report.clone()));
        if tally.len() < 2 * GROUPS.len() {
            return;
        }
        let sum = |place: &str| {
            let mut sum = Report::default();
            tally.iter().filter(|t| t.0 == place).for_each(|t| sum.join(t.1.clone()));
            format!("{} on {place}", sum.count())
        };
        let all = shared::all().len();
        console_log!("cases: of {all}, {}, {}", sum("webgpu"), sum("cpu"));
        console_log!("cases: in {}", user_agent());
    });
}

async fn run(device: &Device, name: &str, place: &'static str) {
    let report = group(device, name, place).await;
    tally(place, &report);
    console_log!("cases: {name}: {} on {place} ({})", report.count(), device.info().name);
}

/// Runs a group's cases. Fails with all their failures.
async fn group(device: &Device, name: &str, place: &str) -> Report {
    let group = GROUPS.iter().find(|group| group.name == name).expect(name);
    let mut report = Report::default();
    let every = run_conformance::every().await;
    for (n, case) in (group.cases)().cases.into_iter().enumerate() {
        if n % every == 0 || case.half {
            shared::run(device, &case, false, &mut report).await;
        }
    }
    report.failures.extend(leftovers(device).map(|left| format!("{name}: {left}")));
    let failures = report.failures.join("\n  ");
    assert!(report.failures.is_empty(), "{place}: {} failed:\n  {failures}", report.failures.len());
    report
}

/// Tests rows with subgroups, if the browser supports them.
#[wasm_bindgen_test]
async fn rows_by_subgroups() {
    let device = webgpu().await.expect("this browser has no WebGPU: is it started with it?");
    if !device.limits().subgroups {
        return console_log!("cases: rows by subgroups NOT RUN: {} has none", device.info().name);
    }
    let config = KernelConfig { rows: Rows::Subgroups, ..KernelConfig::GPU };
    device.set_kernel_config(config).expect("it has subgroups");
    shared::check::together(false);
    for name in ["norm", "reduce", "scan"] {
        let report = group(&device, name, "webgpu by subgroups").await;
        console_log!("cases: {name}: {} on webgpu by subgroups", report.count());
    }
}

macro_rules! groups {
    ($($group:ident)*) => {
        mod on_webgpu { $(
            #[super::wasm_bindgen_test]
            async fn $group() {
                let device = super::webgpu().await.expect("this browser has no WebGPU: is it started with it?");
                super::shared::check::together(false);
                super::run(&device, stringify!($group), "webgpu").await;
            }
        )* }
        mod on_cpu { $(
            #[super::wasm_bindgen_test]
            async fn $group() {
                let device = super::Device::with(super::Preference::Cpu).await.expect("the CPU is there");
                // Here, the tensors of a case are computed in one batch. On WebGPU, each tensor is computed alone.
                super::shared::check::together(true);
                super::run(&device, stringify!($group), "cpu").await;
            }
        )* }
    };
}

shared::with_groups!(groups);

/// The most steps of a program in a browser, because its GPU may be a CPU.
const STEPS: usize = 100;

/// Runs whole programs for half of their steps and for all. They do not wait between steps.
async fn run_programs(name: &str, place: &'static str) {
    let theme = programs::THEMES.iter().find(|theme| theme.name == name).expect(name);
    let (every, mut all, mut ran) =
        (run_conformance::every().await, programs::Report::default(), 0);
    for program in (theme.programs)().iter().step_by(every) {
        let mut devices = Vec::new();
        for _ in 0..2 {
            devices.push(match place {
                "webgpu" => {
                    webgpu().await.expect("this browser has no WebGPU: is it started with it?")
                }
                _ => Device::with(Preference::Cpu).await.expect("the CPU is there"),
            });
        }
        let steps = program.steps.min(STEPS);
        let report = programs::check(place, program, [&devices[0], &devices[1]], (steps, 2)).await;
        all.failures.extend(report.failures);
        all.table.extend(report.table);
        ran += 1;
    }
    console_log!("programs: {ran} of {name} on {place}\n  {}", all.table.join("\n  "));
    let failures = all.failures.join("\n  ");
    assert!(all.failures.is_empty(), "{place}: {} wrong:\n  {failures}", all.failures.len());
}

macro_rules! themes {
    ($($theme:ident)*) => {
        mod programs_on_webgpu { $(
            #[super::wasm_bindgen_test]
            async fn $theme() {
                super::run_programs(stringify!($theme), "webgpu").await;
            }
        )* }
        mod programs_on_cpu { $(
            #[super::wasm_bindgen_test]
            async fn $theme() {
                super::run_programs(stringify!($theme), "cpu").await;
            }
        )* }
    };
}

programs::with_themes!(themes);
