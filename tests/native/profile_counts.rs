//! Tests profiles: compares their counts with counts by hand, and parses their JSON with `serde_json`.

use crate::suite::{absent, required_name, say, Place};
use crate::wrapper::{self, Wrapper};
use pollster::block_on;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::wgpu::WgpuBackend;
use warpweft::backend::{Backend, Clock};
use warpweft::device::Device;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::kernel::{Kernel, KernelConfig};
use warpweft::profile::json::Json;
use warpweft::profile::{KernelProfile, Phase, Profile};
use warpweft::tensor::Tensor;

const PLACES: [Place; 3] = [Place::Cpu, Place::Wgpu, Place::Plain];

/// Opens the devices of this machine. Reports the others as absent.
fn devices(test: &str) -> Vec<(Place, Device)> {
    let mut found = Vec::new();
    for place in PLACES {
        match place.open() {
            Ok(device) => found.push((place, device)),
            Err(error) => absent(place, test, &error),
        }
    }
    found
}

/// Profiles the operations that `work` records.
fn profiled<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> (T, Profile) {
    block_on(device.profile(async { work() })).expect("it is profiled")
}

/// Whether the profile uses the expected clock. A GPU without timestamps is reported, and is a failure if `WARPWEFT_REQUIRE`
/// names `timestamps`.
fn has_its_clock(place: Place, profile: &Profile) -> bool {
    match (place, profile.clock()) {
        (Place::Cpu, Clock::Host) | (Place::Wgpu | Place::Plain, Clock::Timestamps) => true,
        (Place::Cpu, other) => panic!("the CPU's clock is {other:?}"),
        (place, other) => {
            assert!(!required_name("timestamps"), "{}: the clock is {other:?}", place.name());
            say(&format!("{}: no timestamps ({other:?}), kernels have no times", place.name()));
            false
        }
    }
}

/// Returns data that is uploaded before the profile begins.
fn data(device: &Device, shape: &[usize]) -> Tensor {
    let x = device.uniform(shape, -1.0, 1.0, 7).expect("data");
    x.run().expect("it is computed");
    x
}

#[test]
fn kernels_are_counted_and_timed() {
    for (place, device) in devices("profile/kernels") {
        let (x, w) = (data(&device, &[24, 40]), data(&device, &[40, 8]));
        let step = || x.matmul(&w)?.relu().sum(&[1]);
        let (_, profile) = profiled(&device, || {
            for _ in 0..5 {
                step()?.run()?;
            }
            Ok(())
        });
        let timed = has_its_clock(place, &profile);
        let plan = device.last_plan().expect("something was run");
        let names = |kernel: &KernelProfile| format!("{} {}", kernel.kind, kernel.label);
        let mut found: Vec<String> = profile.kernels().iter().map(names).collect();
        let mut planned: Vec<String> =
            plan.dispatches.iter().map(|d| format!("{} {}", d.kernel.kind(), d.label)).collect();
        found.sort();
        planned.sort();
        assert_eq!(found, planned);
        assert_eq!((profile.submissions(), profile.operations()), (5, 5 * plan.operations as u64));
        let mut all = Duration::ZERO;
        for kernel in profile.kernels() {
            assert_eq!(kernel.runs, 5);
            if timed {
                assert_eq!(kernel.timed, 5);
                assert!(kernel.time > Duration::ZERO, "{kernel:?}");
                assert!(kernel.bytes_per_second().expect("it has a time") > 0.0);
            }
            all += kernel.time;
        }
        assert_eq!(all, profile.device_time());
        let host: Duration = Phase::ALL.iter().map(|&phase| profile.host_time(phase)).sum();
        // A span is as long as its contents, and spans do not overlap.
        let busy = if place == Place::Cpu { host + all } else { host };
        assert!(busy <= profile.total(), "{busy:?} of {:?}", profile.total());
        assert!(profile.host_time(Phase::Record) > Duration::ZERO);
    }
}

/// The kernels of some work: flops, bytes read, bytes written, and whether these are exact.
type Counted = (u64, u64, u64, bool);

fn counted(device: &Device, work: impl FnOnce() -> Result<Tensor>) -> Counted {
    let (_, profile) = profiled(device, work);
    let mut sum = (0, 0, 0, true);
    for kernel in profile.kernels() {
        sum.0 += kernel.work.flops;
        sum.1 += kernel.work.read;
        sum.2 += kernel.work.written;
        sum.3 &= kernel.work.exact;
    }
    sum
}

#[test]
fn bytes_and_operations_are_those_counted_by_hand() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let (x, row) = (data(&device, &[8, 12]), data(&device, &[12]));
    // One addition per element. The row is read once.
    assert_eq!(counted(&device, || x.add(&row)), (96, 4 * (96 + 12), 4 * 96, true));
    // Only movement.
    assert_eq!(counted(&device, || x.transpose(0, 1)?.mul(1.0)), (96, 384, 384, true));
    // A part of a larger operand.
    assert_eq!(counted(&device, || Ok(x.slice(0, 2..5)?.neg())), (36, 144, 144, true));
    // A sum of each row.
    assert_eq!(counted(&device, || x.sum(&[1])), (96, 384, 32, true));
    // Ten rows of a table of a thousand: counts the rows and the indices, not the whole table.
    let (table, index) =
        (data(&device, &[1000, 16]), device.tensor(&[5i32; 10], &[10]).expect("data"));
    let (_, read, written, exact) = counted(&device, || table.index_select(0, &index));
    assert!((written, exact) == (640, false) && (640..=1000).contains(&read), "{read} {exact}");
    // Two operations per multiply-add, one for the bias, one for relu.
    let (a, b, bias) = (data(&device, &[6, 32]), data(&device, &[32, 20]), data(&device, &[20]));
    let product = counted(&device, || Ok(a.matmul(&b)?.add(&bias)?.relu()));
    assert_eq!(product, (2 * 6 * 32 * 20 + 2 * 120, 4 * (192 + 640 + 20), 480, true));
    // Each of 2 x 4 x 6 x 6 results is a window of 3 x 3 x 3.
    let (image, filter) = (data(&device, &[2, 3, 8, 8]), data(&device, &[4, 3, 3, 3]));
    let conv = counted(&device, || image.conv2d(&filter, None, Default::default()));
    assert_eq!(conv, (2 * 288 * 27, 4 * (384 + 108), 4 * 288, true));
    // No work.
    assert_eq!(counted(&device, || Ok(x.clone())), (0, 0, 0, true));
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn json_says_what_the_profile_says() {
    for (_, device) in devices("profile/json") {
        block_on(device.measure_ceilings()).expect("it is measured");
        let x = data(&device, &[64, 64]);
        let (_, profile) = profiled(&device, || x.matmul(&x)?.softmax(-1));
        let json = parse(&profile.to_json());
        assert_eq!(json["device"]["name"], profile.info().name.as_str());
        assert_eq!(json["clock"], profile.clock().name());
        let near = |value: &Value, wanted: f64| {
            let value = value.as_f64().expect("a number");
            assert!((value - wanted).abs() <= 1e-9 * wanted.abs(), "{value} instead of {wanted}");
        };
        near(&json["total"], profile.total().as_secs_f64() * 1e3);
        near(&json["deviceTime"], profile.device_time().as_secs_f64() * 1e3);
        near(&json["host"]["planning"], profile.host_time(Phase::Plan).as_secs_f64() * 1e3);
        let kernels = json["kernels"].as_array().expect("a list");
        assert_eq!(kernels.len(), profile.kernels().len());
        for (json, kernel) in kernels.iter().zip(profile.kernels()) {
            assert_eq!(json["label"], kernel.label.as_str());
            assert_eq!(json["flops"], kernel.work.flops as f64);
            near(&json["time"], kernel.time.as_secs_f64() * 1e3);
            let rate = kernel.flops_per_second().expect("it has a time");
            near(&json["flopsPerSecond"], rate);
            let most = profile.ceilings().expect("they were measured");
            near(&json["productShare"], rate / most.flops_per_second);
        }
        assert!(profile.to_string().contains("of product"), "{profile}");
    }
}

/// Checks the fields that the trace format requires of each event.
fn check_event(event: &Value) {
    for field in ["name", "ph"] {
        assert!(event[field].is_string(), "{event}");
    }
    assert!(event["pid"].is_number() && event["tid"].is_number(), "{event}");
    match event["ph"].as_str() {
        Some("M") => assert!(event["args"]["name"].is_string(), "{event}"),
        Some("X") => {
            assert!(event["cat"].is_string() && event["ts"].as_f64() >= Some(0.0), "{event}");
            assert!(event["dur"].as_f64() >= Some(0.0), "{event}");
        }
        _ => panic!("{event}"),
    }
}

#[test]
fn traces_have_what_viewers_need() {
    for (place, device) in devices("profile/trace") {
        let x = data(&device, &[32, 32]);
        let work = async {
            let mut y = x.clone();
            for _ in 0..3 {
                y = y.matmul(&x)?.softmax(-1)?;
                y.read::<f32>().await?;
            }
            Ok(())
        };
        let ((), profile) = block_on(device.profile(work)).expect("it is profiled");
        let trace = parse(&profile.to_chrome_trace());
        let events = trace["traceEvents"].as_array().expect("a list");
        events.iter().for_each(check_event);
        let of = |category: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["cat"] == category).collect()
        };
        let (submitted, ran, kernels) = (of("submitting"), of("submission"), of("kernel"));
        assert_eq!((submitted.len(), of("waiting").len() >= 3), (3, true));
        assert!(of("waiting").iter().any(|event| event["name"] == "read 4096 bytes"));
        if !has_its_clock(place, &profile) {
            continue;
        }
        assert_eq!((ran.len(), kernels.len()), (3, 6));
        let time = |event: &Value| {
            let begin = event["ts"].as_f64().expect("a number");
            (begin, begin + event["dur"].as_f64().expect("a number"))
        };
        // Kernels run one after the other, and not before their submission.
        let mut before = 0.0;
        for kernel in &kernels {
            let (begin, end) = time(kernel);
            assert!(begin >= before - 1e-6 && end <= profile.total().as_secs_f64() * 1e6 + 1e-6);
            before = end;
            let number = kernel["args"]["submission"].as_f64().expect("a number") as usize;
            assert!(begin >= time(submitted[number]).0 - 1e-6, "{kernel} {}", submitted[number]);
        }
        let rows: HashMap<u64, &str> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| {
                (event["tid"].as_u64().unwrap_or(0), event["args"]["name"].as_str().unwrap_or(""))
            })
            .collect();
        assert!(events
            .iter()
            .all(|event| event["ph"] == "M" || rows.contains_key(&event["tid"].as_u64().unwrap())));
    }
}

/// Tests that results do not change, and that a batch may have more kernels than a query set has timestamps.
#[test]
fn many_kernels_of_one_batch() {
    for (place, device) in devices("profile/many") {
        let x = data(&device, &[2, 2]);
        let chain = || {
            let mut y = x.clone();
            for _ in 0..4200 {
                y = y.matmul(&x)?.tanh();
            }
            Ok(y)
        };
        let expected = block_on(chain().expect("recorded").read::<f32>()).expect("read");
        let (y, profile) = profiled(&device, chain);
        assert_eq!(block_on(y.read::<f32>()).expect("read"), expected);
        let runs: u64 = profile.kernels().iter().map(|kernel| kernel.runs).sum();
        assert!((profile.submissions(), runs) == (1, 4200), "{profile}");
        if has_its_clock(place, &profile) {
            assert_eq!(profile.untimed(), 0);
        }
    }
}

#[test]
fn gpus_without_timestamps_say_so() {
    for place in [Place::Wgpu, Place::Plain] {
        let Ok(backend) = crate::suite::gpu(place.config()) else {
            absent(place, "profile/submissions", "no adapter");
            continue;
        };
        WgpuBackend::without_timestamps(&backend);
        let device = Device::from_backend(Box::new(backend), None);
        let x = data(&device, &[64, 64]);
        let (_, profile) = profiled(&device, || {
            x.matmul(&x)?.run()?;
            x.exp().run()
        });
        assert_eq!((profile.clock(), profile.submissions()), (Clock::Submissions, 2));
        assert!(profile.device_time() > Duration::ZERO && profile.device_time() <= profile.total());
        assert!(profile.kernels().iter().all(|kernel| kernel.timed == 0 && kernel.runs == 1));
        assert!(profile.to_string().contains("the device has no timestamps"), "{profile}");
        let trace = parse(&profile.to_chrome_trace());
        let events = trace["traceEvents"].as_array().expect("a list");
        assert_eq!(events.iter().filter(|event| event["cat"] == "submission").count(), 2);
    }
}

/// A backend with only the required methods.
struct Silent(CpuBackend);

impl Wrapper for Silent {
    fn inner(&self) -> &dyn Backend {
        &self.0
    }
    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

#[test]
fn machines_without_a_clock_are_counted() {
    let device = wrapper::device(Silent(CpuBackend::new()));
    let x = data(&device, &[16]);
    let (_, profile) = profiled(&device, || x.exp().run());
    assert_eq!((profile.clock(), profile.kernels().len(), profile.untimed()), (Clock::None, 1, 1));
    assert_eq!(profile.kernels()[0].work.flops, 16);
    assert!(profile.to_string().contains("the device tells no times"), "{profile}");
    let most = block_on(device.measure_ceilings()).expect("by the clock on the wall");
    assert!(most.bytes_per_second > 1e6 && most.flops_per_second > 1e6, "{most:?}");
}

#[test]
fn one_profile_at_a_time_and_none_is_left() {
    for (_, device) in devices("profile/nested") {
        let nested = block_on(device.profile(async {
            let error = device.profile(async { Ok(()) }).await.expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::InvalidState);
            Err::<(), Error>(error)
        }));
        assert!(nested
            .expect_err("the work's error")
            .message()
            .contains("must not be profiled twice"));
        // Canceled halfway.
        let mut begun = Box::pin(device.profile(std::future::pending::<Result<()>>()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while device.stats().submits == 0 {
            // Awaiting the profile needs the device to work.
            assert!(std::future::Future::poll(begun.as_mut(), &mut context).is_pending());
            device.ones(&[2]).and_then(|x| x.run()).expect("it runs");
        }
        drop(begun);
        let x = data(&device, &[4]);
        let (_, profile) = profiled(&device, || x.exp().run());
        assert_eq!(profile.kernels().len(), 1);
    }
}

/// Tests that a profile excludes earlier recorded work, and includes pending work that `work` returns.
#[test]
fn a_profile_begins_and_ends_where_its_work_does() {
    for (_, device) in devices("profile/ends") {
        let x = device.ones(&[4]).expect("data").exp();
        let (y, profile) = profiled(&device, || x.add(1.0));
        assert_eq!(profile.kernels().len(), 1, "{profile}");
        assert!(profile.kernels()[0].label.contains("add"), "{profile}");
        let y = block_on(y.read::<f32>()).expect("it is read");
        assert!((y[0] - 1.0 - std::f32::consts::E).abs() < 1e-5, "{y:?}");
    }
}

/// Tests that the memory for timestamps is freed with the profile.
#[test]
fn a_profile_leaves_nothing() {
    for (_, device) in devices("profile/leftovers") {
        let x = data(&device, &[256]);
        let run = || profiled(&device, || x.exp().run()).1;
        run();
        device.trim();
        let before = device.stats();
        for _ in 0..20 {
            run();
        }
        device.trim();
        let after = device.stats();
        assert_eq!(
            (before.bytes, before.plans, before.nodes),
            (after.bytes, after.plans, after.nodes)
        );
    }
}

#[test]
fn a_share_of_a_ceiling_is_a_share() {
    for (_, device) in devices("profile/ceilings") {
        let most = block_on(device.measure_ceilings()).expect("it is measured");
        let again = block_on(device.measure_ceilings()).expect("it is known");
        assert_eq!(most, again);
        assert_eq!(device.stats().pooled_bytes, 0);
        let x = data(&device, &[512, 512]);
        let (_, profile) = profiled(&device, || x.matmul(&x)?.run());
        let rate = profile.kernels()[0].flops_per_second();
        say(&format!(
            "profile/ceilings: {}: copy {:.1} GB/s, product {:.1} GFLOP/s, one of 512 {:.1} GFLOP/s",
            device.info().name,
            most.bytes_per_second / 1e9,
            most.flops_per_second / 1e9,
            rate.unwrap_or_default() / 1e9
        ));
        assert!((1e8..1e15).contains(&most.bytes_per_second), "{most:?}");
        assert!((1e8..1e17).contains(&most.flops_per_second), "{most:?}");
    }
}

#[test]
fn json_has_commas_quotes_and_nothing_for_what_is_no_number() {
    let mut json = Json::default();
    json.list(|json| {
        json.number(1.5).string("a\"\\\n").number(f64::NAN).flag(true);
        json.object(|json| {
            json.key("x").list(|_| {});
            json.key("y").number(1e21);
        });
    });
    let expected = "[1.5,\"a\\\"\\\\\\u000a\",null,true,{\"x\":[],\"y\":1000000000000000000000}]";
    assert_eq!(json.text, expected);
    assert_eq!(parse(&json.text)[1], "a\"\\\n");
}
