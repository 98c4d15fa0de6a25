//! Tests edge cases: devices with fewer buffers, memory that runs out, threads, executors, long loops.

use crate::shared::{self, fuzz, Report};
use crate::suite::{self, Place};
use crate::wrapper::{self, Wrapper};
use pollster::block_on;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::wgpu::{adapters, PowerPreference};
use warpweft::backend::{Backend, BufferId, Pending, ReadRange};
use warpweft::device::{Device, Preference};
use warpweft::error::{ErrorKind, Result};
use warpweft::kernel::{KernelConfig, Limits};
use warpweft::op::PackedFormat;
use warpweft::tensor::Tensor;

/// Tests that the words of the longest row are counted without overflow. Words of shorter rows give the same number.
#[test]
fn rows_of_any_length_have_a_number_of_words() {
    for format in PackedFormat::ALL {
        let block = format.block_len().max(256);
        let words = |blocks: usize| format.row_words(blocks * block) as u128;
        let most = usize::MAX / block;
        // 32 blocks have a whole number of words in each plane.
        let (each, rest) = ((most / 32) as u128, most % 32);
        assert_eq!(words(most), each * words(32) + words(rest), "{format}");
    }
    assert_eq!(PackedFormat::F32.row_words(usize::MAX), usize::MAX);
}

/// Returns a reference device with changed limits.
fn limited(change: impl FnOnce(&mut Limits)) -> Device {
    let mut limits = ReferenceBackend::LIMITS;
    change(&mut limits);
    Device::from_backend(Box::new(ReferenceBackend::new(limits)), None)
}

#[test]
fn computations_by_chance_fit_any_number_of_buffers() {
    for buffers in [4, 5, 6, 8, 16] {
        let device = limited(|limits| limits.buffers_per_kernel = buffers);
        for seed in 1000..1100 {
            let outcome = block_on(fuzz::run(&device, seed));
            assert_eq!(outcome, Ok(()), "{buffers} buffers, computation {seed}");
        }
        assert_eq!(shared::leftovers(&device), None);
    }
}

/// Attention needs five buffers: three operands, the mask and the result.
#[test]
fn all_cases_pass_with_five_buffers_and_without_f16() {
    let device = limited(|limits| {
        limits.buffers_per_kernel = 5;
        limits.f16 = false;
    });
    let mut report = Report::default();
    for case in suite::sampled(shared::all(), 0) {
        block_on(shared::run(&device, &case, false, &mut report));
    }
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    assert!(report.ran * suite::every() > 500 && report.without_half > 2, "{}", report.count());
}

/// A backend with little memory.
struct Small {
    reference: ReferenceBackend,
    bytes: u64,
    /// Whether errors are reported only at the next read.
    late: bool,
}

impl Small {
    fn device(bytes: u64, late: bool) -> Device {
        let small =
            Small { reference: ReferenceBackend::new(ReferenceBackend::LIMITS), bytes, late };
        wrapper::device(small)
    }

    fn check(&self, bytes: u64) -> Result<()> {
        if self.counters().bytes + bytes > self.bytes {
            let message = format!("allocate: {bytes} bytes, and the memory is full");
            return Err(warpweft::error::Error::new(ErrorKind::Memory, message));
        }
        Ok(())
    }
}

impl Wrapper for Small {
    fn inner(&self) -> &dyn Backend {
        &self.reference
    }
    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        if !self.late {
            self.check(bytes)?;
        }
        self.reference.allocate(bytes)
    }
    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        match self.check(0) {
            Ok(()) => self.reference.read_parts(parts),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

#[test]
fn a_device_goes_on_when_its_memory_was_full() {
    let device = Small::device(10_000, false);
    let x = device.ones(&[500]).expect("it is only recorded");
    x.run().expect("it fits");
    let held: Vec<Tensor> = (0..6).map(|n| x.add(n).expect("recorded")).collect();
    let refused = held.iter().filter_map(|t| t.run().err()).map(|e| e.kind());
    let refused: Vec<ErrorKind> = refused.collect();
    assert!(!refused.is_empty() && refused.iter().all(|k| *k == ErrorKind::Memory), "{refused:?}");
    let large = device.tensor(&vec![1.0f32; 5000], &[5000]).map(|_| ());
    assert_eq!(large.expect_err("it does not fit").kind(), ErrorKind::Memory);
    drop(held);
    let sum = x.sum(&[]).expect("recorded").item::<f32>();
    assert_eq!(block_on(sum), Ok(500.0));
    drop(x);
    assert_eq!(shared::leftovers(&device), None);
}

#[test]
fn memory_that_lies_unused_is_given_back_before_it_runs_out() {
    let device = Small::device(10_000, false);
    for size in [100, 300, 700, 1500, 2000, 50, 1800] {
        let x = device.ones(&[size]).and_then(|x| x.add(1.0)).expect("recorded");
        let sum = x.sum(&[]).expect("recorded").item::<f32>();
        assert_eq!(block_on(sum), Ok(2.0 * size as f32));
    }
}

#[test]
fn buffers_that_never_came_to_be_are_not_kept() {
    let device = Small::device(10_000, true);
    let large = device.ones(&[5000]).expect("recorded");
    let read = block_on(large.read::<f32>()).expect_err("it does not fit");
    assert_eq!(read.kind(), ErrorKind::Memory);
    drop(large);
    let again = device.ones(&[500]).expect("recorded");
    assert_eq!(block_on(again.read::<f32>()).expect("it fits").len(), 500);
}

#[test]
fn no_buffer_is_larger_than_the_largest_one() {
    let bytes = 4 * 1_049_000;
    let device = limited(|limits| limits.binding_bytes = bytes);
    let x = device.ones(&[1_049_000]).expect("recorded");
    x.run().expect("it fits");
    assert_eq!(device.stats().bytes, bytes);
}

/// Whether a case failed because of the limit: the message names the operation and both numbers.
fn is_limit(what: &str, limit: u64) -> bool {
    let most = format!("at most {limit} bytes on this device");
    let Some((name, after)) = what.split_once(&most) else { return false };
    let bytes = after.trim_start_matches(", got ").split(' ').next().map(str::parse::<u64>);
    bytes.is_some_and(|bytes| bytes.is_ok_and(|bytes| bytes > limit)) && name.contains(": ")
}

/// Checks that every case passes or reports that something is too large. The limit decides which.
fn cases_within(device: &Device, groups: &[&str]) -> (usize, usize) {
    let limit = device.limits().binding_bytes;
    let (mut passed, mut refused) = (0, 0);
    for case in suite::sampled(shared::all(), 0) {
        let group = case.name.split('/').next().unwrap_or_default();
        // The messages of the fuzz test also contain the program. A separate test covers it.
        if group == "fuzz" || !groups.is_empty() && !groups.contains(&group) {
            continue;
        }
        let mut report = Report::default();
        block_on(shared::run(device, &case, false, &mut report));
        match report.failures.first() {
            None => passed += report.ran,
            Some(what) => {
                assert!(is_limit(what, limit), "with {limit} bytes: {what}");
                refused += 1;
            }
        }
        assert_eq!(shared::leftovers(device), None, "with {limit} bytes: {}", case.name);
    }
    let x = device.ones(&[3]).and_then(|x| x.sum(&[])).expect("recorded");
    assert_eq!(block_on(x.item::<f32>()), Ok(3.0), "it does not go on");
    (passed, refused)
}

#[test]
fn all_cases_fit_or_say_that_they_do_not() {
    let mut before = 0;
    for bytes in [16, 256, 4096] {
        let device = limited(|limits| limits.binding_bytes = bytes);
        let (passed, refused) = cases_within(&device, &[]);
        assert!(
            refused > 0 && passed > before,
            "{bytes} bytes: {passed} pass, {refused} do not fit"
        );
        before = passed;
    }
    assert!(before * suite::every() > 500, "{before}");
}

#[test]
fn a_gpu_goes_on_after_what_does_not_fit() {
    for config in [KernelConfig::GPU, KernelConfig::EMULATED] {
        let mut first = match block_on(adapters(PowerPreference::High)).into_iter().next() {
            Some(first) => first,
            None => return suite::absent(Place::Wgpu, "what does not fit", "there is no GPU"),
        };
        first.limits.config = config;
        first.limits.binding_bytes = 1024;
        let backend = block_on(first.open()).expect("it opens");
        let device = Device::from_backend(Box::new(backend), None);
        let groups = ["movement", "reduce", "matmul", "conv2d", "scatter", "sort", "norm"];
        let (passed, refused) = cases_within(&device, &groups);
        let many = |count: usize| count * suite::every() > 100;
        assert!(many(passed) && many(refused), "{passed} pass, {refused} do not fit");
    }
}

/// Returns the devices of this machine.
fn devices() -> Vec<Device> {
    let open = |preference| block_on(Device::with(preference));
    let gpu = open(Preference::Gpu).or_else(|_| open(Preference::Software));
    [open(Preference::Cpu), gpu].into_iter().filter_map(Result::ok).collect()
}

#[test]
fn threads_share_a_device_and_its_tensors() {
    for device in devices() {
        let shared = device.tensor(&[1.0f32, 2.0, 3.0], &[3]).expect("data");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (device, shared) = (&device, &shared);
                scope.spawn(move || {
                    for n in 0..25 {
                        let own = device.full(&[3], f64::from(n), warpweft::dtype::DType::F32);
                        let y = shared.mul(&own.expect("recorded")).and_then(|y| y.add(thread));
                        let got: Vec<f32> = block_on(y.expect("recorded").read()).expect("read");
                        let want = |x: f32| x * n as f32 + thread as f32;
                        assert_eq!(got, [want(1.0), want(2.0), want(3.0)]);
                    }
                });
            }
        });
    }
}

#[test]
fn any_executor_will_do() {
    let work = |device: Device| async move {
        let x = device.tensor(&[1.0f32, 2.0], &[2])?;
        let (sum, top) = (x.sum(&[])?.item::<f32>(), x.max(&[])?.item::<f32>());
        Ok::<_, warpweft::error::Error>((sum.await?, top.await?))
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let tokio = tokio.expect("tokio starts");
    for device in devices() {
        assert_eq!(block_on(work(device.clone())), Ok((3.0, 2.0)));
        let many = (0..8).map(|_| tokio.spawn(work(device.clone())));
        for task in many.collect::<Vec<_>>() {
            assert_eq!(tokio.block_on(task).expect("no panic"), Ok((3.0, 2.0)));
        }
    }
}

#[test]
fn a_future_that_is_dropped_leaves_nothing() {
    for device in devices() {
        let x = device.ones(&[1000]).expect("recorded");
        for _ in 0..20 {
            drop(x.exp().read::<f32>());
        }
        let sum = x.sum(&[]).expect("recorded").item::<f32>();
        assert_eq!(block_on(sum), Ok(1000.0));
        drop(x);
        block_on(device.synchronize()).expect("all is done");
        assert_eq!(shared::leftovers(&device), None);
    }
}

#[test]
fn ten_thousand_steps_hold_their_memory() {
    let device = block_on(Device::with(Preference::Cpu)).expect("the CPU is there");
    let step = |weight: &Tensor, rate: f64| -> Result<Tensor> {
        let x = device.uniform(&[4, 8], -1.0, 1.0, 7)?;
        let error = x.matmul(weight)?.tanh().sub(0.1)?;
        let slope = x.transpose(0, 1)?.matmul(&error)?;
        weight.sub(&slope.mul(rate)?)
    };
    let mut weight = device.normal(&[8, 3], 0.0, 1.0, 1).expect("recorded");
    let mut settled = device.stats();
    for n in 0..10_000 {
        weight = step(&weight, 1e-3 / (1.0 + f64::from(n))).expect("recorded");
        weight.run().expect("it runs");
        if n == 10 {
            settled = device.stats();
        }
    }
    let after = device.stats();
    let made = |s: warpweft::device::Stats| {
        (s.plans, s.pipelines, s.buffers, s.bind_groups, s.bytes, s.used_bytes, s.nodes)
    };
    assert_eq!(made(settled), made(after));
    let sum = weight.sum(&[]).expect("recorded").item::<f32>();
    assert!(block_on(sum).expect("read").is_finite());
}
