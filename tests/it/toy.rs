//! A backend from outside: it joins by registering, and then discovery, preference, fallback and the suite know it. It has
//! each kernel and its schedule, as a driver of a real machine has, and runs what is scheduled on the plainest machine.

use crate::cases::GROUPS;
use crate::suite::{run_cases, Place};
use pollster::block_on;
use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::{
    Backend, BufferId, Compiling, Counters, DeviceKind, Info, Listener, Part, Pending,
};
use warpweft::device::{register, Device, Driver, Machine, Preference};
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::kernel::{Batch, Kernel, KernelConfig, Limits};
use warpweft::schedule::{schedule, Strategy};

/// Kernels that were lowered to loops, and all kernels, of all machines.
static LOWERED: AtomicU64 = AtomicU64::new(0);
static SCHEDULED: AtomicU64 = AtomicU64::new(0);

/// The machine: memory and arithmetic are the plain machine's, what is run is what the schedules say.
struct Toy {
    info: Info,
    plain: ReferenceBackend,
    /// Batches as they are scheduled, by address.
    scheduled: Mutex<HashMap<usize, Arc<Batch>>>,
    listener: Mutex<Option<Listener>>,
}

fn info(name: &str, kind: DeviceKind) -> Info {
    let (name, vendor, driver) = (name.to_string(), "nobody".to_string(), String::new());
    Info { backend: "toy", name, vendor, kind, driver }
}

impl Toy {
    fn scheduled(&self, batch: &Arc<Batch>) -> Arc<Batch> {
        let mut known = self.scheduled.lock().expect("nothing panics here");
        let lowered = || {
            let mut lowered = Batch::clone(batch);
            for dispatch in &mut lowered.dispatches {
                let plan = schedule(&dispatch.kernel, self.limits(), batch.config);
                let threads = plan.workgroups * plan.workgroup_size as u64;
                if let (Strategy::Map(_), Kernel::Loop { space, .. }) =
                    (&plan.strategy, &*dispatch.kernel)
                {
                    assert!(4 * threads >= space.rows() as u64, "{plan:?} leaves something out");
                }
                SCHEDULED.fetch_add(1, Relaxed);
                LOWERED.fetch_add(u64::from(plan.lowered.is_some()), Relaxed);
                dispatch.kernel = Arc::new(plan.kernel(&dispatch.kernel).clone());
            }
            Arc::new(lowered)
        };
        known.entry(Arc::as_ptr(batch) as usize).or_insert_with(lowered).clone()
    }
}

impl Backend for Toy {
    fn info(&self) -> &Info {
        &self.info
    }
    fn limits(&self) -> &Limits {
        self.plain.limits()
    }
    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.plain.allocate(bytes)
    }
    fn free(&self, buffer: BufferId) {
        self.plain.free(buffer);
    }
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.plain.write(buffer, offset, data)
    }
    fn compile(&self, batch: &Arc<Batch>) -> Pending<Result<()>> {
        let before = self.counters().pipelines;
        let compiled = self.plain.compile(&self.scheduled(batch));
        let total = (self.counters().pipelines - before) as usize;
        if let Some(tell) = &*self.listener.lock().expect("nothing panics here") {
            (1..=total).for_each(|done| tell(Compiling { done, total }));
        }
        compiled
    }
    fn on_compile(&self, listener: Option<Listener>) {
        *self.listener.lock().expect("nothing panics here") = listener;
    }
    fn run(&self, batch: &Arc<Batch>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.plain.run(&self.scheduled(batch), buffers, scalars)
    }
    fn read_parts(&self, parts: Vec<Part>) -> Pending<Result<()>> {
        self.plain.read_parts(parts)
    }
    fn sync(&self) -> Pending<Result<()>> {
        self.plain.sync()
    }
    fn forget(&self, batch: &Arc<Batch>) {
        let forgotten = self.scheduled.lock().expect("nothing panics here");
        let forgotten = { forgotten }.remove(&(Arc::as_ptr(batch) as usize));
        if let Some(batch) = forgotten {
            self.plain.forget(&batch);
        }
    }
    fn counters(&self) -> Counters {
        self.plain.counters()
    }
    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

/// What the driver finds where its machines are of this kind: one that does not open, and one that runs.
fn machines(kind: DeviceKind) -> Vec<Machine> {
    let machine = |name| Machine { info: info(name, kind), limits: ReferenceBackend::LIMITS, memory: None };
    ["Toy that breaks", "Toy that runs"].map(machine).into()
}

async fn open(number: usize, kind: DeviceKind) -> Result<Box<dyn Backend>> {
    match machines(kind).into_iter().nth(number) {
        Some(Machine { info, limits, .. }) if number == 1 => {
            let (plain, scheduled, listener) =
                (ReferenceBackend::new(limits), Mutex::default(), Mutex::default());
            Ok(Box::new(Toy { info, plain, scheduled, listener }))
        }
        _ => Err(Error::new(ErrorKind::NoDevice, "open: this toy is broken")),
    }
}

/// A faster way to the same GPUs than this crate's own.
const FAST: Driver = Driver {
    name: "toy",
    rank: -1,
    discover: || Box::pin(async { machines(DeviceKind::DiscreteGpu) }),
    open: |number| Box::pin(open(number, DeviceKind::DiscreteGpu)),
};

/// One that nobody takes unasked.
const SLOW: Driver = Driver {
    name: "toy",
    rank: 1,
    discover: || Box::pin(async { machines(DeviceKind::Software) }),
    open: |number| Box::pin(open(number, DeviceKind::Software)),
};

/// Only what does not open.
const BROKEN: Driver = Driver {
    discover: || Box::pin(async { machines(DeviceKind::DiscreteGpu).drain(..1).collect() }),
    ..FAST
};

fn opened(preference: &str) -> Device {
    block_on(Device::with(Preference::parse(preference))).expect(preference)
}

/// In a process of its own: other tests open devices, too.
#[test]
fn a_registered_backend_is_discovered_preferred_and_fallen_back_from() {
    const ALONE: &str = "WARPWEFT_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().expect("this is a program");
        let name = "toy::a_registered_backend_is_discovered_preferred_and_fallen_back_from";
        let alone = Command::new(this).args([name, "--exact"]).env(ALONE, "1").output();
        let alone = alone.expect("it runs");
        let said = String::from_utf8_lossy(&alone.stdout);
        return assert!(alone.status.success() && said.contains("1 passed"), "{said}");
    }
    register(FAST);
    let found = block_on(Device::discover());
    let toys = [&found[0].info, &found[1].info].map(|info| &*info.name);
    assert_eq!(toys, ["Toy that breaks", "Toy that runs"], "{found:?}");
    // By number, by name, by the backend's word, as the best; what does not open is passed over.
    for preference in ["1", "Toy That Runs", "toy", "gpu", "low-power", "auto"] {
        let device = opened(preference);
        assert_eq!(device.info().name, "Toy that runs", "{preference}");
        assert_eq!(device.fallback(), None, "{preference}");
    }
    std::env::set_var("WARPWEFT_DEVICE", "toy");
    assert_eq!(block_on(Device::new()).expect("it is there").info().backend, "toy");
    let error = block_on(Device::with(Preference::Index(0))).expect_err("it is broken");
    assert!(error.to_string().contains("this toy is broken"), "{error}");
    // After other software GPUs, and not unasked.
    register(SLOW);
    let found = block_on(Device::discover());
    let at = found.iter().position(|found| found.info.backend == "toy").expect("it is found");
    let before = found[..at].iter().filter(|found| found.info.kind == DeviceKind::Cpu);
    assert_eq!((before.count(), found[at].recommended), (1, false), "{found:?}");
    assert_ne!(opened("auto").info().backend, "toy");
    // Where nothing of it opens, the next best is taken, and says why if that is the CPU.
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
    // The machine takes no WGSL of users.
    for group in GROUPS.iter().filter(|group| !group.name.starts_with("custom")) {
        // Every third case; gradients and random programs take longest.
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
