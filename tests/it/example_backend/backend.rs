//! The backend itself: it has each kernel and its schedule, as a driver of a real machine has, and runs what is scheduled on
//! the plainest machine.

use crate::wrapper::{Wrapped, Wrapper};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::{Backend, BufferId, Compiling, DeviceKind, Info, Listener, Pending};
use warpweft::device::{Driver, Machine};
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::kernel::{Kernel, KernelConfig, Plan};
use warpweft::schedule::{schedule, Strategy};

/// Kernels that were lowered to loops, and all kernels, of all machines.
pub static LOWERED: AtomicU64 = AtomicU64::new(0);
pub static SCHEDULED: AtomicU64 = AtomicU64::new(0);

/// The machine: memory and arithmetic are the plain machine's, what is run is what the schedules say.
struct Toy {
    info: Info,
    plain: ReferenceBackend,
    /// Batches by address, which is theirs while they are held, and as they are scheduled.
    scheduled: Mutex<HashMap<usize, [Arc<Plan>; 2]>>,
    listener: Mutex<Option<Listener>>,
}

fn info(name: &str, kind: DeviceKind) -> Info {
    let (name, vendor, driver) = (name.to_string(), "nobody".to_string(), String::new());
    Info { backend: "toy", name, vendor, kind, driver }
}

impl Toy {
    fn scheduled(&self, batch: &Arc<Plan>) -> Arc<Plan> {
        let mut known = self.scheduled.lock().expect("nothing panics here");
        let lowered = || {
            let mut lowered = Plan::clone(batch);
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
            [batch.clone(), Arc::new(lowered)]
        };
        known.entry(Arc::as_ptr(batch) as usize).or_insert_with(lowered)[1].clone()
    }
}

impl Wrapper for Toy {
    fn inner(&self) -> &dyn Backend {
        &self.plain
    }
    fn info(&self) -> &Info {
        &self.info
    }
    fn compile(&self, batch: &Arc<Plan>) -> Pending<Result<()>> {
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
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.plain.run(&self.scheduled(batch), buffers, scalars)
    }
    fn forget(&self, batch: &Arc<Plan>) {
        let forgotten = self.scheduled.lock().expect("nothing panics here");
        let forgotten = { forgotten }.remove(&(Arc::as_ptr(batch) as usize));
        if let Some([_, batch]) = forgotten {
            self.plain.forget(&batch);
        }
    }
    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

/// What the driver finds where its machines are of this kind: one that does not open, and one that runs.
fn machines(kind: DeviceKind) -> Vec<Machine> {
    let machine =
        |name| Machine { info: info(name, kind), limits: ReferenceBackend::LIMITS, memory: None };
    ["Toy that breaks", "Toy that runs"].map(machine).into()
}

async fn open(number: usize, kind: DeviceKind) -> Result<Box<dyn Backend>> {
    match machines(kind).into_iter().nth(number) {
        Some(Machine { info, limits, .. }) if number == 1 => {
            let (plain, scheduled, listener) =
                (ReferenceBackend::new(limits), Mutex::default(), Mutex::default());
            Ok(Box::new(Wrapped(Toy { info, plain, scheduled, listener })))
        }
        _ => Err(Error::new(ErrorKind::NoDevice, "open: this toy is broken")),
    }
}

/// A faster way to the same GPUs than this crate's own.
pub const FAST: Driver = Driver {
    name: "toy",
    rank: -1,
    discover: || Box::pin(async { machines(DeviceKind::DiscreteGpu) }),
    open: |number| Box::pin(open(number, DeviceKind::DiscreteGpu)),
};

/// One that nobody takes unasked.
pub const SLOW: Driver = Driver {
    name: "toy",
    rank: 1,
    discover: || Box::pin(async { machines(DeviceKind::Software) }),
    open: |number| Box::pin(open(number, DeviceKind::Software)),
};

/// Only what does not open.
pub const BROKEN: Driver = Driver {
    discover: || Box::pin(async { machines(DeviceKind::DiscreteGpu).drain(..1).collect() }),
    ..FAST
};
