//! Tests failing backends: memory, submissions, shaders and the whole device may fail at any point. The error must have the
//! right kind, nothing may hang, and later work must give the same bits.

use crate::shaders::source;
use crate::shared::leftovers;
use crate::suite::{absent, gpu, Place};
use crate::wrapper::{self, Wrapper};
use pollster::block_on;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpweft::backend::wgpu::WgpuBackend;
use warpweft::backend::{Backend, BufferId, Pending, ReadRange};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::kernel::Plan;
use warpweft::tensor::{Tensor, Variable};

const PLACES: [Place; 4] = [Place::Reference, Place::Cpu, Place::Wgpu, Place::Plain];
const GPUS: [Place; 2] = [Place::Wgpu, Place::Plain];

/// The calls that fail, and the counts of calls so far. 0 means that no call fails.
#[derive(Default)]
struct Faults {
    calls: AtomicU64,
    allocations: AtomicU64,
    runs: AtomicU64,
    reads: AtomicU64,
    /// Every n-th allocation fails.
    every_allocation: AtomicU64,
    /// The number of the submission that fails, counted from the moment it was set.
    run: AtomicU64,
    /// The number of the read that fails.
    read: AtomicU64,
    /// The number of the submission whose first shader does not compile.
    shader: AtomicU64,
    /// The number of the call at which the device is lost for good.
    lose: AtomicU64,
    /// The next submission sends a message when it begins, and waits for permission to continue.
    pause: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Faults {
    /// Sets one fault, and resets all counts.
    fn set(&self, fault: &AtomicU64, to: u64) {
        for count in [&self.calls, &self.allocations, &self.runs, &self.reads] {
            count.store(0, SeqCst);
        }
        fault.store(to, SeqCst);
    }

    /// Whether the call that is counted is the one that fails.
    fn strikes(count: &AtomicU64, fault: &AtomicU64) -> bool {
        count.fetch_add(1, SeqCst) + 1 == fault.load(SeqCst)
    }
}

enum Machine {
    Any(Box<dyn Backend>),
    /// A GPU, which can really be lost and can compile shaders.
    Gpu(Box<WgpuBackend>),
}

/// A backend with faults.
struct Faulty {
    machine: Machine,
    faults: Arc<Faults>,
}

/// Opens a device with faults. Reports its absence.
fn faulty(place: Place, test: &str) -> Option<(Device, Arc<Faults>)> {
    let machine = match place {
        Place::Reference | Place::Cpu => place.backend().map(Machine::Any),
        place => gpu(place.config()).map(|gpu| Machine::Gpu(Box::new(gpu))),
    };
    let machine = machine.map_err(|error| absent(place, test, &error)).ok()?;
    let faults = Arc::new(Faults::default());
    let faulty = Faulty { machine, faults: faults.clone() };
    Some((wrapper::device(faulty), faults))
}

fn error(kind: ErrorKind, operation: &str) -> Error {
    Error::new(kind, format!("{operation}: made to fail"))
}

impl Faulty {
    /// Counts a call. After a loss, backends that cannot be lost return the same error.
    fn call(&self, operation: &str) -> Result<()> {
        let (now, lose) =
            (self.faults.calls.fetch_add(1, SeqCst) + 1, self.faults.lose.load(SeqCst));
        if lose == 0 || now < lose {
            return Ok(());
        }
        match &self.machine {
            Machine::Gpu(backend) if now == lose => {
                backend.destroy();
                Ok(())
            }
            Machine::Gpu(_) => Ok(()),
            Machine::Any(_) => Err(error(ErrorKind::DeviceLost, operation)),
        }
    }
}

impl Wrapper for Faulty {
    fn inner(&self) -> &dyn Backend {
        match &self.machine {
            Machine::Any(backend) => &**backend,
            Machine::Gpu(backend) => &**backend,
        }
    }
    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.call("allocate")?;
        let count = self.faults.allocations.fetch_add(1, SeqCst) + 1;
        let every = self.faults.every_allocation.load(SeqCst);
        if every > 0 && count.is_multiple_of(every) {
            return Err(error(ErrorKind::Memory, "allocate"));
        }
        self.inner().allocate(bytes)
    }
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.call("write")?;
        self.inner().write(buffer, offset, data)
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.call("run")?;
        let faults = &self.faults;
        let pause = faults.pause.lock().expect("no panic").take();
        if let Some((begins, may)) = pause {
            begins.send(()).and_then(|()| may.recv().map_err(|_| SendError(()))).expect("a test");
        }
        let breaks = faults.runs.load(SeqCst) + 1 == faults.shader.load(SeqCst);
        if Faults::strikes(&faults.runs, &faults.run) {
            return Err(error(ErrorKind::Memory, "run"));
        }
        let (true, Machine::Gpu(backend)) = (breaks, &self.machine) else {
            return self.inner().run(batch, buffers, scalars);
        };
        let kernels = batch.dispatches.iter().map(|dispatch| &*dispatch.kernel);
        let config = backend.limits().config;
        let mut sources: Vec<_> = kernels.map(|kernel| source(kernel, config)).collect();
        sources[0].text.push_str("\nfn broken() -> f32 { return no_such_thing; }\n");
        backend.run_sources(batch, &sources, buffers, scalars)
    }
    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        let failed = match self.call("read") {
            Ok(()) if Faults::strikes(&self.faults.reads, &self.faults.read) => {
                error(ErrorKind::Memory, "read")
            }
            Ok(()) => return self.inner().read_parts(parts),
            Err(lost) => lost,
        };
        Box::pin(std::future::ready(Err(failed)))
    }
    fn synchronize(&self) -> Pending<Result<()>> {
        match self.call("sync") {
            Ok(()) => self.inner().synchronize(),
            Err(lost) => Box::pin(std::future::ready(Err(lost))),
        }
    }
}

/// Work hangs if it takes this much longer than four times the usual duration.
const WATCH: Duration = Duration::from_secs(2);

thread_local! {
    /// The time limit of this test. `usual` measures it, because the machine may be busy.
    static LIMIT: Cell<Duration> = const { Cell::new(Duration::from_secs(30)) };
}

/// Returns the result of `work`. Panics if it hangs.
fn watched<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    watched_for(LIMIT.get(), what, work)
}

/// Returns the result of the work without a fault, and sets the time limit: [`WATCH`] longer than four times the measured
/// duration.
fn usual(device: &Device, size: usize) -> Vec<Vec<u8>> {
    LIMIT.set(Duration::from_secs(30));
    let start = Instant::now();
    let want = watched_work("without a fault", device, size).expect("nothing fails");
    LIMIT.set(WATCH + 4 * start.elapsed());
    want
}

fn watched_for<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (send, receive) = channel();
    let thread = std::thread::spawn(move || send.send(work()).is_ok());
    match receive.recv_timeout(limit) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: it hangs"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(_) => unreachable!("it has sent before"),
        },
    }
}

#[test]
#[should_panic(expected = "a long sleep: it hangs")]
fn what_hangs_is_seen() {
    watched_for(Duration::from_millis(50), "a long sleep", || std::thread::sleep(WATCH));
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 37 + seed * 11) % 64) as f32 / 32.0 - 1.0).collect()
}

/// Runs a program of several submissions with a gradient, temporaries and several results. Each `size` is a different program.
fn work(device: &Device, size: usize) -> Result<Vec<Vec<u8>>> {
    let x = device.tensor(&numbers(size * 9, 1), &[size, 9])?;
    let w = device.tensor(&numbers(9 * (size - 7), 2), &[9, size - 7])?;
    let loss = x.matmul(&w)?.add(0.5)?.tanh().square().sum(&[])?;
    let gradient = loss.grad(&[&w])?.remove(0);
    let first = block_on(gradient.read_bytes())?;
    let stepped = w.sub(&gradient.mul(0.1)?)?;
    stepped.run()?;
    let weights = x.matmul(&stepped)?.softmax(1)?;
    let sums = Tensor::concat(&[&weights.cumsum(0)?, &weights], 1)?;
    let mut batch = device.batch();
    batch.add(&weights)?.add(&sums)?;
    batch.run()?;
    block_on(device.synchronize())?;
    Ok(vec![first, block_on(weights.read_bytes())?, block_on(sums.read_bytes())?])
}

fn watched_work(what: &str, device: &Device, size: usize) -> Result<Vec<Vec<u8>>> {
    let device = device.clone();
    watched(what, move || work(&device, size))
}

const SIZE: usize = 12;

#[test]
fn memory_that_runs_out_at_every_so_manieth_buffer() {
    for place in PLACES {
        let Some((device, faults)) = faulty(place, "memory that runs out") else { continue };
        let want = usual(&device, SIZE);
        let mut failed = 0;
        for every in 1..=12 {
            let what = format!("{place:?}, every {every}th allocation");
            device.trim();
            faults.set(&faults.every_allocation, every);
            match watched_work(&what, &device, SIZE) {
                Ok(bits) => assert_eq!(bits, want, "{what}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Memory, "{what}: {error}");
                    failed += 1;
                }
            }
            faults.set(&faults.every_allocation, 0);
            assert_eq!(watched_work(&what, &device, SIZE).as_ref(), Ok(&want), "{what}, after");
            assert_eq!(leftovers(&device), None, "{what}");
        }
        assert!(failed >= 2, "{place:?}: only {failed} were noticed");
    }
}

#[test]
fn submissions_and_reads_that_fail() {
    for place in PLACES {
        let Some((device, faults)) = faulty(place, "submissions that fail") else { continue };
        let want = usual(&device, SIZE);
        let counts = [(&faults.run, &faults.runs), (&faults.read, &faults.reads)];
        for (fault, count) in counts {
            faults.set(fault, 0);
            watched_work("counting", &device, SIZE).expect("nothing fails");
            let many = count.load(SeqCst);
            assert!(many >= 3, "{place:?}: {many}");
            for at in 1..=many {
                let what = format!("{place:?}, number {at} of {many}");
                faults.set(fault, at);
                let error = watched_work(&what, &device, SIZE).expect_err(&what);
                assert_eq!(error.kind(), ErrorKind::Memory, "{what}: {error}");
                assert_eq!(leftovers(&device), None, "{what}");
                faults.set(fault, 0);
                assert_eq!(watched_work(&what, &device, SIZE).as_ref(), Ok(&want), "{what}, after");
            }
        }
    }
}

#[test]
fn shaders_that_do_not_compile() {
    for place in GPUS {
        let Some((good, faults)) = faulty(place, "shaders that do not compile") else { continue };
        faults.set(&faults.run, 0);
        let want = usual(&good, SIZE);
        let other = usual(&good, SIZE + 1);
        let many = faults.runs.load(SeqCst) / 2;
        for at in 1..=many {
            let what = format!("{place:?}, submission {at} of {many}");
            let Some((device, faults)) = faulty(place, &what) else { continue };
            faults.set(&faults.shader, at);
            let error = watched_work(&what, &device, SIZE).expect_err(&what);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
            assert!(error.message().contains("no_such_thing"), "{what}: {error}");
            faults.set(&faults.shader, 0);
            // A program with another plan works, and so does the same program on another device.
            assert_eq!(watched_work(&what, &device, SIZE + 1).as_ref(), Ok(&other), "{what}");
            assert_eq!(leftovers(&device), None, "{what}");
        }
        assert_eq!(watched_work("after", &good, SIZE).as_ref(), Ok(&want));
    }
}

#[test]
fn devices_lost_at_ten_points() {
    for place in PLACES {
        let Some((device, faults)) = faulty(place, "lost devices") else { continue };
        let want = usual(&device, SIZE);
        let calls = faults.calls.load(SeqCst);
        assert!(calls >= 10, "{place:?}: only {calls} calls");
        for point in 0..10 {
            let at = 1 + point * (calls - 1) / 9;
            let what = format!("{place:?}, lost at call {at} of {calls}");
            let Some((device, faults)) = faulty(place, &what) else { continue };
            let kept = device.tensor(&[1.0f32], &[1]).expect("it is not lost yet");
            faults.set(&faults.lose, at);
            let error = watched_work(&what, &device, SIZE).expect_err(&what);
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
            let lost = watched(&what, move || {
                let later = [
                    device.tensor(&[1.0f32], &[1]).and_then(|x| x.run()).err(),
                    block_on(kept.read::<f32>()).err(),
                    kept.exp().run().err(),
                    block_on(device.synchronize()).err(),
                ];
                later.map(|error| error.map(|error| error.kind()))
            });
            assert_eq!(lost, [Some(ErrorKind::DeviceLost); 4], "{what}");
        }
        let Some((next, _)) = faulty(place, "the next device") else { continue };
        assert_eq!(watched_work("the next device", &next, SIZE).as_ref(), Ok(&want));
    }
}

/// Tests that a read outlives its tensor and its device, and that a dropped read does not affect others.
#[test]
fn tensors_dropped_in_flight() {
    for place in PLACES {
        let Some((device, _)) = faulty(place, "tensors in flight") else { continue };
        watched("in flight", move || {
            let x = device.tensor(&numbers(5000, 1), &[50, 100]).expect("data");
            let reads: Vec<_> = (0..30)
                .map(|n| {
                    let y = x.mul(f64::from(n)).and_then(|y| y.matmul(&x.transpose(0, 1)?));
                    let read = y.expect("recorded").sum(&[1]).expect("recorded").read::<f32>();
                    (n % 3 > 0).then_some((n, read))
                })
                .collect();
            drop(x);
            assert_eq!(leftovers(&device), None, "{place:?}");
            drop(device);
            let mut first: Option<Vec<f32>> = None;
            for (n, read) in reads.into_iter().flatten() {
                let got = block_on(read).unwrap_or_else(|error| panic!("{place:?}: {error}"));
                let one = first.get_or_insert_with(|| got.clone());
                for (got, one) in got.iter().zip(one) {
                    let want = *one * n as f32;
                    assert!((got - want).abs() <= 1e-3 * want.abs() + 1e-2, "{place:?}, {n}");
                }
            }
        });
    }
}

#[test]
fn two_devices_do_not_mix() {
    for (one, other) in [
        (Place::Cpu, Place::Cpu),
        (Place::Cpu, Place::Reference),
        (Place::Cpu, Place::Wgpu),
        (Place::Wgpu, Place::Plain),
    ] {
        let opened =
            |place: Place| place.open().map_err(|error| absent(place, "two devices", &error)).ok();
        let (Some(one), Some(other)) = (opened(one), opened(other)) else { continue };
        let mixed = mixtures(&one, &other).expect("each device's own is fine");
        for (what, error) in mixed {
            let error = error.unwrap_or_else(|| panic!("{what}: nothing was said"));
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
            assert!(error.message().contains("device"), "{what}: {error}");
        }
        for device in [&one, &other] {
            assert_eq!(leftovers(device), None);
            watched_work("after a mixture", device, SIZE).expect("it works");
        }
    }
}

type Mixtures = Vec<(&'static str, Option<Error>)>;

fn mixtures(one: &Device, other: &Device) -> Result<Mixtures> {
    let make = |device: &Device| device.tensor(&numbers(16, 3), &[1, 1, 4, 4]);
    let (x, y) = (make(one)?, make(other)?);
    let (index, mask) = (other.tensor(&[0i32; 16], &[1, 1, 4, 4])?, y.gt(0.0)?);
    let program = one.compile(&[(x.shape(), DType::F32)], |x| Ok(vec![x[0].exp()]))?;
    let variable = Variable::new(&x);
    let loss = x.sum(&[])?;
    let line = other.tensor(&[0i32], &[1])?;
    let all: Mixtures = vec![
        ("add", x.add(&y).err()),
        ("where_cond", mask.where_cond(&x, &x).err()),
        ("matmul", x.matmul(&y).err()),
        ("concat", Tensor::concat(&[&x, &x, &y], 0).err()),
        ("conv2d", x.conv2d(&y, None, Default::default()).err()),
        ("index_select", x.index_select(0, &line).err()),
        ("take_along", x.gather(3, &index).err()),
        ("scatter_add", x.scatter_add(3, &index, &x).err()),
        ("index_add", x.index_add(0, &line, &x).err()),
        ("attention", x.attention(&x, &y, Default::default()).err()),
        ("grad", loss.grad(&[&y]).err()),
        ("vjp", x.vjp(&y, &[&x]).err()),
        ("batch", one.batch().add(&y).err()),
        ("program", program.run(&[&y]).err()),
        ("compile", one.compile(&[], |_| Ok(vec![y.exp()])).err()),
        ("compile, within", one.compile(&[], |_| Ok(vec![x.add(&y)?])).err()),
        ("assign", variable.assign(&y).err()),
    ];
    let moved: Tensor = block_on(y.to(one))?;
    assert_eq!(block_on(moved.sub(&x)?.abs().sum(&[])?.item::<f32>())?, 0.0);
    Ok(all)
}

/// Tests eight threads at once, also while memory is short at times.
#[test]
fn eight_threads_on_one_device() {
    for place in PLACES {
        let Some((device, faults)) = faulty(place, "eight threads") else { continue };
        let want = usual(&device, SIZE);
        for every in [0, 7] {
            faults.set(&faults.every_allocation, every);
            let (shared, want) = (device.clone(), want.clone());
            let failed = watched("eight threads", move || {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        let (device, want) = (shared.clone(), want.clone());
                        std::thread::spawn(move || {
                            let mut failed = 0;
                            for _ in 0..5 {
                                match work(&device, SIZE) {
                                    Ok(bits) => assert_eq!(bits, want),
                                    Err(error) => {
                                        assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
                                        failed += 1;
                                    }
                                }
                            }
                            failed
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u32>()
            });
            assert!(every > 0 || failed == 0, "{place:?}: {failed} failed without a fault");
            assert_eq!(leftovers(&device), None, "{place:?}");
        }
        faults.set(&faults.every_allocation, 0);
        assert_eq!(watched_work("after", &device, SIZE).as_ref(), Ok(&want), "{place:?}");
    }
}

/// Starts `work` on a thread, runs `meanwhile` while its submission waits, and then continues it.
fn during_a_run<T: Send + 'static, M: Send + 'static>(
    faults: &Faults,
    work: impl FnOnce() -> T + Send + 'static,
    meanwhile: impl FnOnce() -> M + Send + 'static,
) -> (T, M) {
    let (begins, begun) = channel();
    let (go, may) = channel();
    *faults.pause.lock().expect("no panic") = Some((begins, may));
    let thread = std::thread::spawn(work);
    begun.recv_timeout(LIMIT.get()).expect("it is submitted");
    let made = watched("what is done while another thread runs", meanwhile);
    go.send(()).expect("it waits");
    (thread.join().expect("no panic"), made)
}

#[test]
fn recording_does_not_wait_for_what_runs() {
    for place in [Place::Cpu, Place::Wgpu, Place::Plain] {
        let Some((device, faults)) = faulty(place, "recording while another runs") else {
            continue;
        };
        let x = device.tensor(&numbers(600, 1), &[600]).expect("data");
        let square = x.mul(&x).expect("recorded");
        let recording = device.clone();
        let (read, made) = during_a_run(
            &faults,
            move || block_on(square.read::<f32>()),
            move || {
                drop(x);
                let other = recording.tensor(&numbers(600, 2), &[600])?;
                let sum = other.mul(&other)?.sum(&[])?;
                let slope = sum.grad(&[&other])?.remove(0);
                assert!(recording.stats().nodes > 3);
                Ok::<_, Error>((sum, slope))
            },
        );
        let squares: Vec<f32> = numbers(600, 1).iter().map(|x| x * x).collect();
        assert_eq!(read, Ok(squares), "{place:?}");
        let (sum, slope) = made.expect("recorded");
        let want: f32 = numbers(600, 2).iter().map(|x| x * x).sum();
        assert!((block_on(sum.item::<f32>()).expect("read") - want).abs() < 0.01, "{place:?}");
        let twice: Vec<f32> = numbers(600, 2).iter().map(|x| x + x).collect();
        assert_eq!(block_on(slope.read::<f32>()), Ok(twice), "{place:?}");
        drop((sum, slope));

        // A pending tensor may be dropped meanwhile. The memory that the batch reads stays allocated.
        let y = device.tensor(&numbers(600, 3), &[600]).and_then(|y| y.add(1.0)).expect("recorded");
        let (flushing, trimming) = (device.clone(), device.clone());
        let (flushed, ()) = during_a_run(
            &faults,
            move || flushing.submit(),
            move || {
                drop(y);
                trimming.trim();
            },
        );
        assert_eq!(flushed, Ok(()), "{place:?}");
        assert_eq!(leftovers(&device), None, "{place:?}");
    }
}
