//! Tests what a device caches and for how long (plans, pipelines, bind groups, buffers), and the cost of a read.

use crate::shared::array::integers;
use crate::suite::{absent, Place};
use pollster::block_on;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warpweft::device::{CacheLimits, Device, Stats};
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// Opens a separate device. Reports its absence.
fn open(place: Place, test: &str) -> Option<Device> {
    let backend = place.backend().map_err(|error| absent(place, test, &error)).ok()?;
    Some(Device::from_backend(backend, None))
}

/// Returns the numbers of plans, pipelines and bind groups that are held, were created and were evicted.
fn held(stats: Stats) -> [[u64; 3]; 3] {
    [
        [stats.plans_held, stats.plans, stats.plans_evicted],
        [stats.pipelines_held, stats.pipelines, stats.pipelines_evicted],
        [stats.bind_groups_held, stats.bind_groups, stats.bind_groups_evicted],
    ]
}

/// Returns twice the sum of `n` numbers, and the expected value.
fn of_length(device: &Device, n: usize) -> (Tensor, f64) {
    let x = integers(&[n], -9, 9, n as u32);
    let sum = x.f32(device).and_then(|a| a.mul(2.0)?.sum(&[])).expect("it is recorded");
    (sum, x.data.iter().map(|x| 2.0 * x).sum())
}

#[test]
fn lengths_that_come_once_leave_nothing() {
    for place in [Place::Cpu, Place::Wgpu] {
        let Some(device) = open(place, "lengths that come once") else { continue };
        let (plans, pipelines, bind_groups) = (20, 8, 12);
        device.set_cache_limits(CacheLimits {
            plans,
            pipelines,
            bind_groups,
            ..Default::default()
        });
        for n in 1..=300 {
            let (sum, want) = of_length(&device, 40 * n);
            let got = block_on(sum.item::<f32>()).expect("it can be read");
            assert_eq!(f64::from(got), want, "{place:?}: {n}");
            let all = held(device.stats());
            let most = [plans, pipelines, bind_groups];
            assert!(all.iter().zip(most).all(|(all, most)| all[0] <= most as u64), "{all:?}");
        }
        let all = held(device.stats());
        assert_eq!((all[0], all[1][0]), ([20, 300, 280], 8), "{place:?}");
        // On a GPU, one kernel serves many lengths.
        let [_, made, evicted] = all[1];
        let few = if place == Place::Cpu { evicted >= 280 } else { made <= 60 && evicted >= 8 };
        assert!(few, "{place:?}: {all:?}");
        // Lengths that fit in the same buffer share a bind group. The CPU has no bind groups.
        assert!(all[2][2] >= 20 || place == Place::Cpu, "{place:?}: {all:?}");
        for [held, made, evicted] in &all[..2] {
            assert_eq!(held + evicted, *made, "{place:?}: {all:?}");
        }
        device.set_cache_limits(CacheLimits {
            plans: 2,
            pipelines: 1,
            bind_groups: 1,
            ..Default::default()
        });
        let all = held(device.stats());
        assert!(all[0][0] == 2 && all[1][0] <= 1 && all[2][0] <= 1, "{place:?}: {all:?}");
    }
}

#[test]
fn plans_are_limited_by_bytes() {
    let device = open(Place::Cpu, "plans by bytes").expect("the CPU is there");
    let plan_bytes = 20_000;
    device.set_cache_limits(CacheLimits { plan_bytes, ..Default::default() });
    for n in 1..=100 {
        of_length(&device, n).0.run().expect("it runs");
        assert!(device.stats().plan_bytes <= plan_bytes, "{:?}", device.stats());
    }
    let stats = device.stats();
    assert!(stats.plan_bytes > plan_bytes / 2 && stats.plans_held > 2, "{stats:?}");
    assert_eq!(stats.plans_held + stats.plans_evicted, 100);
}

#[test]
fn alternating_lengths_are_planned_once() {
    for place in [Place::Cpu, Place::Wgpu] {
        let Some(device) = open(place, "alternating lengths") else { continue };
        let round = || {
            for n in 1..=520 {
                of_length(&device, n).0.run().expect("it runs");
            }
            block_on(device.synchronize()).expect("it ran");
            let stats = device.stats();
            (stats.plans, stats.pipelines, stats.plans_evicted, stats.pipelines_evicted)
        };
        let first = round();
        assert_eq!((first.0, first.2, first.3), (520, 0, 0), "{place:?}");
        assert_eq!(round(), first, "{place:?}");
    }
}

/// Tests that an evicted plan is created again, and that a program needs only its plan.
#[test]
fn programs_outlive_their_plans() {
    for place in [Place::Reference, Place::Cpu, Place::Wgpu, Place::Plain] {
        let Some(device) = open(place, "programs") else { continue };
        let (plans, pipelines, bind_groups) = (1, 1, 1);
        device.set_cache_limits(CacheLimits {
            plans,
            pipelines,
            bind_groups,
            ..Default::default()
        });
        let program = device.compile(&[(&[6, 6], DType::F32)], |x| {
            Ok(vec![x[0].matmul(&x[0])?.softmax(-1)?.sum(&[])?, x[0].sum(&[0])?])
        });
        let program = program.expect("it compiles");
        for n in 1..=20 {
            block_on(of_length(&device, n).0.item::<f32>()).expect("it can be read");
            let x = device.full(&[6, 6], n as f64, DType::F32).expect("it is recorded");
            let results = program.run(&[&x]).expect("it runs");
            let both = block_on(device.read::<f32>(&[&results[0], &results[1]])).expect("read");
            assert!((both[0][0] - 6.0).abs() < 1e-4, "{place:?}: {both:?}");
            assert_eq!(both[1], [6.0 * n as f32; 6], "{place:?}");
        }
        assert!(device.stats().plans_evicted >= 19, "{place:?}");
    }
}

fn layer(x: &Tensor) -> Result<Tensor> {
    x.matmul(x)?.softmax(-1)
}

/// Tests that equal kernels in several plans are prepared once, and that a plan has each of its kernels once.
#[test]
fn equal_kernels_are_shared() {
    for place in [Place::Cpu, Place::Wgpu] {
        let Some(device) = open(place, "equal kernels") else { continue };
        let x = device.tensor(&[0.5f32; 64], &[8, 8]).expect("there is room");
        layer(&x).expect("recorded").run().expect("it runs");
        let first = device.stats();
        let last = (0..4).try_fold(x.clone(), |x, _| layer(&x)).expect("recorded");
        last.run().expect("it runs");
        let second = device.stats();
        assert_eq!(second.plans, first.plans + 1, "{place:?}");
        assert_eq!(second.pipelines, first.pipelines, "{place:?}");
        let plan = device.last_plan().expect("something ran");
        let mut kernels: Vec<_> = plan.dispatches.iter().map(|d| Arc::as_ptr(&d.kernel)).collect();
        let dispatches = kernels.len();
        kernels.sort();
        kernels.dedup();
        assert_eq!(kernels.len() * 4, dispatches, "{place:?}: {plan}");
    }
}

/// Measures the time to free `count` small buffers and to allocate them again.
fn from_the_pool(device: &Device, count: usize) -> Duration {
    let take = || -> Vec<Tensor> {
        (0..count).map(|n| device.tensor(&[n as f32], &[1]).expect("there is room")).collect()
    };
    drop(take());
    let buffers = device.stats().buffers;
    let start = Instant::now();
    drop(take());
    let time = start.elapsed();
    assert_eq!(device.stats().buffers, buffers, "they do not come from the pool");
    time
}

#[test]
fn the_pool_takes_as_long_for_each_of_many() {
    let device = open(Place::Cpu, "the pool").expect("the CPU is there");
    let fastest = |count| (0..3).map(|_| from_the_pool(&device, count)).min().expect("three");
    let (few, many) = (fastest(4_000), fastest(40_000));
    // Ten times as many buffers. A search in a list took three hundred times as long.
    assert!(many < few * 100, "{few:?} for 4,000 and {many:?} for 40,000");
}

#[test]
fn the_pool_holds_no_more_than_was_used_lately() {
    let device = open(Place::Cpu, "the pool").expect("the CPU is there");
    let used: u64 = 160 << 20;
    let mut peak = 0;
    // Each round uses the same number of bytes in other sizes.
    for round in 1..=6u64 {
        let count = 4 + round;
        let elements = (used / count / 4) as usize;
        let fill = |n| device.full(&[elements], n as f64, DType::F32).expect("it is recorded");
        let all: Vec<Tensor> = (0..count).map(fill).collect();
        all.iter().try_for_each(Tensor::run).expect("it runs");
        peak = device.stats().peak_bytes;
        let stats = device.stats();
        assert!(stats.bytes <= peak + peak / 4, "round {round}: {stats:?}");
    }
    assert!(device.stats().buffers_evicted > 0, "{:?}", device.stats());
    assert!(device.stats().pooled_bytes > peak / 2, "it is kept as long as it may be used");
    for n in 0..150 {
        device.full(&[100], n as f64, DType::F32).and_then(|x| x.run()).expect("it runs");
    }
    let stats = device.stats();
    assert!(stats.pooled_bytes <= 32 << 20 && stats.bytes <= 33 << 20, "{stats:?}");
    device.set_cache_limits(CacheLimits { pooled_bytes: 0, ..Default::default() });
    assert_eq!(device.stats().pooled_bytes, 0);
}

#[test]
fn memory_is_limited() {
    let limit = 8 << 20;
    for place in [Place::Cpu, Place::Wgpu] {
        let Some(device) = open(place, "the memory limit") else { continue };
        device.set_memory_limit(Some(limit));
        // Holds more and more tensors until memory runs out.
        let mut held = vec![device.ones(&[1 << 18]).expect("it is recorded")];
        let refused = loop {
            let next = held[held.len() - 1].add(1.0).expect("it is recorded");
            if let Err(error) = next.run() {
                break error;
            }
            held.push(next);
            assert!(held.len() < 100, "{:?}", device.stats());
        };
        let message = refused.to_string();
        assert_eq!(refused.kind(), warpweft::error::ErrorKind::Memory, "{message}");
        assert!(
            message.contains("got 1048576 in addition to ") && message.contains("8388608"),
            "{message}"
        );
        assert!(held.len() >= 6 && device.stats().bytes <= limit, "{:?}", device.stats());
        // Computed tensors stay valid, and dropped tensors free memory.
        let last = held.pop().expect("some fit");
        let wanted = held.len() as f32 + 1.0;
        held.clear();
        let mean: f32 =
            pollster::block_on(last.mean(()).expect("a mean").item()).expect("there is room");
        assert_eq!(mean, wanted);
        // Unused memory is freed before an allocation is rejected.
        for elements in [1 << 18, 3 << 18, 1 << 19, 1 << 20] {
            device.ones(&[elements]).and_then(|x| x.run()).expect("there is room");
            assert!(device.stats().bytes <= limit, "{:?}", device.stats());
        }
        device.set_memory_limit(None);
        device.ones(&[1 << 22]).and_then(|x| x.run()).expect("nothing limits it");
    }
}

/// Tests that a loop with different steps keeps the buffers that each step needs.
#[test]
fn a_loop_keeps_its_buffers() {
    let device = open(Place::Cpu, "a loop").expect("the CPU is there");
    let step = |n: usize| {
        let elements = if n.is_multiple_of(20) { 12 << 20 } else { 1 << 20 };
        let x = device.full(&[elements], 1.0, DType::F32).expect("it is recorded");
        x.run().expect("it runs");
    };
    (0..40).for_each(step);
    let buffers = device.stats().buffers;
    (40..200).for_each(step);
    assert_eq!(device.stats().buffers, buffers);
}

/// Tests that run in a separate process.
#[cfg(target_os = "linux")]
mod alone {
    use super::*;
    use std::process::Command;
    use warpweft::backend::cpu::CpuBackend;
    use warpweft::device::Preference;
    use warpweft::error::ErrorKind;

    const CHILD: &str = "WARPWEFT_TEST_ALONE";

    /// Runs `work` in a process that runs only the test of this name, with a limit of memory.
    fn alone(test: &str, megabytes: Option<u64>, work: impl FnOnce()) {
        let test = format!("caches::alone::{test}");
        if std::env::var(CHILD).is_ok_and(|child| child == test) {
            return work();
        }
        let limit = megabytes.map(|most| format!("ulimit -v {}; ", most << 10)).unwrap_or_default();
        let script = format!("{limit}exec \"$0\" --exact {test} --nocapture --test-threads=1");
        let program = std::env::current_exe().expect("it runs");
        let child =
            Command::new("sh").args(["-c", &script]).arg(program).env(CHILD, &test).output();
        let child = child.expect("there is a shell");
        let stdout = String::from_utf8_lossy(&child.stdout);
        let passed = child.status.success() && stdout.contains("1 passed");
        assert!(passed, "{stdout}{}", String::from_utf8_lossy(&child.stderr));
    }

    /// Returns a computed tensor of 1 GiB.
    fn large() -> (Device, Tensor) {
        let device = Device::from_backend(Box::new(CpuBackend::with_threads(1)), None);
        let x = device.full(&[1 << 28], 7.0, DType::F32).expect("it is recorded");
        x.run().expect("there is room for one");
        (device, x)
    }

    #[test]
    fn what_can_not_be_read_is_an_error() {
        alone("what_can_not_be_read_is_an_error", Some(1900), || {
            let (device, x) = large();
            let kind =
                |error: warpweft::error::Error| (error.kind(), error.message()[..5].to_string());
            let memory = Err((ErrorKind::Memory, "read:".to_string()));
            assert_eq!(block_on(x.read::<f32>()).map(|_| ()).map_err(kind), memory);
            assert_eq!(block_on(x.read_bytes()).map(|_| ()).map_err(kind), memory);
            assert_eq!(block_on(device.read::<f32>(&[&x, &x])).map(|_| ()).map_err(kind), memory);
            let more = x.add(1.0).expect("it is recorded");
            assert_eq!(more.run().map_err(|e| e.kind()), Err(ErrorKind::Memory));
            let last = (1 << 28) - 3;
            assert_eq!(block_on(x.read_range::<f32>(last, 3)), Ok(vec![7.0; 3]));
            assert_eq!(
                block_on(more.max(&[]).map(|m| m.item::<f32>()).expect("recorded")),
                Ok(8.0)
            );
        });
    }

    /// Tests that a read needs memory only for the tensor and the copy.
    #[test]
    fn a_read_copies_once() {
        alone("a_read_copies_once", Some(2700), || {
            let (_device, x) = large();
            let read = block_on(x.read::<f32>()).expect("there is room for two");
            assert!(read.len() == 1 << 28 && read[0] == 7.0 && read[(1 << 28) - 1] == 7.0);
            drop(read);
            let bytes = block_on(x.read_bytes()).expect("there is room for two");
            assert!(bytes.len() == 1 << 30 && bytes.ends_with(&7.0f32.to_le_bytes()));
        });
    }

    /// Returns the resident memory of this process in megabytes.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
        let kilobytes = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
        kilobytes.expect("it is a number") >> 10
    }

    /// Tests that evicted plans and kernels free their memory.
    #[test]
    fn lengths_do_not_add_up() {
        alone("lengths_do_not_add_up", None, || {
            let Some(device) = open(Place::Wgpu, "memory of pipelines") else { return };
            let (plans, pipelines) = (16, 16);
            device.set_cache_limits(CacheLimits { plans, pipelines, ..Default::default() });
            let mut settled = 0;
            for n in 1..=120 {
                let x = device.full(&[n, 8], 0.5, DType::F32).expect("it is recorded");
                let score = x.transpose(0, 1).and_then(|t| x.matmul(&t)?.softmax(-1));
                let read = score.and_then(|score| Ok(score.matmul(&x)?.read::<f32>()));
                let read = block_on(read.expect("it is recorded")).expect("it can be read");
                assert!(read.iter().all(|value| (value - 0.5).abs() < 1e-4), "{n}: {read:?}");
                if n == 60 {
                    settled = resident();
                }
            }
            // Without eviction, sixty lengths take more than a hundred megabytes.
            let now = resident();
            assert!(now < settled + 30, "{settled} MiB after 60 lengths, {now} after 120");
        });
    }

    /// Tests that a dropped device frees its memory, its kernels and the driver's threads.
    #[test]
    fn a_dropped_device_goes() {
        alone("a_dropped_device_goes", None, || {
            let threads = || std::fs::read_dir("/proc/self/task").expect("Linux tells").count();
            let mut settled = 0;
            for n in 1..=30 {
                let Some(device) = open(Place::Wgpu, "dropped devices") else { return };
                let x = device.full(&[300], 0.5, DType::F32).expect("it is recorded");
                assert_eq!(block_on(x.add(1.0).expect("recorded").read()), Ok(vec![1.5f32; 300]));
                if n == 5 {
                    settled = threads();
                }
            }
            // The last threads may still be ending.
            assert!(threads() < settled + 10, "{settled} threads, then {}", threads());
        });
    }

    /// Returns the libraries that this process has loaded.
    fn libraries() -> String {
        std::fs::read_to_string("/proc/self/maps").expect("Linux tells")
    }

    #[test]
    fn the_cpu_loads_no_driver() {
        alone("the_cpu_loads_no_driver", None, || {
            let device = block_on(Device::with(Preference::Cpu)).expect("the CPU is there");
            let sum = device.ones(&[5]).and_then(|x| x.sum(&[])).expect("it is recorded");
            assert_eq!(block_on(sum.item::<f32>()), Ok(5.0));
            assert!(!libraries().contains("libvulkan"), "{}", libraries());
            let found = block_on(Device::discover());
            // If a Vulkan driver is installed, discovery loads its library.
            let vulkan = found.iter().any(|found| found.info.backend == "vulkan");
            assert_eq!(libraries().contains("libvulkan"), vulkan);
        });
    }
}
