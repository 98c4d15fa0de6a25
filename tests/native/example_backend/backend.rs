//! The example backend. It prepares each kernel and its schedule as a driver of real hardware does, and runs the scheduled
//! kernels on the reference backend.

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

/// The numbers of kernels that were lowered to loops, and of all kernels, for all devices.
pub static LOWERED: AtomicU64 = AtomicU64::new(0);
pub static SCHEDULED: AtomicU64 = AtomicU64::new(0);

/// The backend. The reference backend provides memory and arithmetic, and the schedules decide what runs.
struct Toy {
    info: Info,
    plain: ReferenceBackend,
    /// Scheduled batches, by address. Each batch is held, so its address stays unique.
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
        if let Some(listener) = &*self.listener.lock().expect("nothing panics here") {
            (1..=total).for_each(|done| listener(Compiling { done, total }));
        }
        compiled
    }
    fn on_compile(&self, listener: Option<Listener>) {
        *self.listener.lock().expect("nothing panics here") = listener;
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.plain.run(&self.scheduled(batch), buffers, scalars)
    }
    fn release(&self, batch: &Arc<Plan>) {
        let scheduled = self.scheduled.lock().expect("nothing panics here");
        let released = { scheduled }.remove(&(Arc::as_ptr(batch) as usize));
        if let Some([_, batch]) = released {
            self.plain.release(&batch);
        }
    }
    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

/// Returns the devices that the driver discovers, with this kind: one that fails to open, and one that works.
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

/// A driver with a faster API to the same GPUs than this crate's.
pub const FAST: Driver = Driver {
    name: "toy",
    rank: -1,
    has_only_gpus: false,
    discover: || Box::pin(async { Ok(machines(DeviceKind::DiscreteGpu)) }),
    open: |number| Box::pin(open(number, DeviceKind::DiscreteGpu)),
};

/// A driver for software devices, which are chosen only on request.
pub const SLOW: Driver = Driver {
    name: "toy",
    rank: 1,
    has_only_gpus: false,
    discover: || Box::pin(async { Ok(machines(DeviceKind::Software)) }),
    open: |number| Box::pin(open(number, DeviceKind::Software)),
};

/// A driver whose only device fails to open.
pub const BROKEN: Driver = Driver {
    discover: || Box::pin(async { Ok(machines(DeviceKind::DiscreteGpu).drain(..1).collect()) }),
    ..FAST
};
