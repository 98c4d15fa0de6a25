//! Drivers: backends from other crates that join discovery, preference and fallback.

use crate::backend::{Backend, Info, Pending};
use crate::error::Result;
use crate::kernel::Limits;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A backend from another crate, with functions that find and open its machines. See [`register`].
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The name of the backend, as in [`Info::backend`] of its machines. `WARPWEFT_DEVICE` and
    /// [`Preference::Name`](super::Preference::Name) select the backend by this name.
    pub name: &'static str,
    /// The order among machines of one [`kind`](Info::kind), lowest first. Backends of this crate have rank 0.
    pub rank: i32,
    /// Whether all machines are GPUs. [`Preference::Cpu`](super::Preference::Cpu) then does not call the driver.
    pub has_only_gpus: bool,
    /// Finds the available machines. The message of an error is the reason why there is none, which
    /// [`Found::reason`](super::Found::reason) then has.
    pub discover: fn() -> Pending<Result<Vec<Machine>>>,
    /// Opens the n-th machine that `discover` found.
    pub open: fn(usize) -> Opening,
}

/// A backend that is being opened.
pub type Opening = Pending<Result<Box<dyn Backend>>>;

/// A machine that a [`Driver`] finds.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The name, kind and driver of the machine.
    pub info: Info,
    /// The limits and features of the machine once it is open.
    pub limits: Limits,
    /// The bytes of memory for buffers, if known.
    pub memory: Option<u64>,
}

static DRIVERS: Mutex<Vec<Driver>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Driver>> {
    // No code panics while holding this lock.
    DRIVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a backend from another crate. [`Device::discover`](super::Device::discover) then lists its machines,
/// [`Preference`](super::Preference) and `WARPWEFT_DEVICE` can select them, and a device may fall back to them. Call it before
/// the first device is opened. A driver of the same name is replaced. [`Backend`] documents what a backend must do, and
/// [`schedule`](crate::schedule::schedule()) plans how a kernel runs on a machine.
///
/// ```
/// use warpweft::backend::{Backend, DeviceKind, Info, cpu::CpuBackend};
/// use warpweft::device::{register, Device, Driver, Machine, Preference};
///
/// // The CPU with one thread, known by a word of its own, after the one with all threads.
/// fn one() -> CpuBackend {
///     CpuBackend::with_threads(1)
/// }
/// register(Driver {
///     name: "one-thread",
///     rank: 1,
///     has_only_gpus: false,
///     discover: || Box::pin(async {
///         let info = Info { backend: "one-thread", ..one().info().clone() };
///         Ok(vec![Machine { info, limits: one().limits().clone(), memory: None }])
///     }),
///     open: |_| Box::pin(async { Ok(Box::new(one()) as Box<dyn Backend>) }),
/// });
/// # pollster::block_on(async {
/// assert!(Device::discover().await.iter().any(|found| found.info.backend == "one-thread"));
/// let device = Device::with(Preference::parse("one-thread")).await?;
/// assert_eq!(device.tensor(&[1.0f32, 2.0], &[2])?.sum(&[])?.read::<f32>().await?, [3.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub fn register(driver: Driver) {
    let mut drivers = lock();
    drivers.retain(|known| known.name != driver.name);
    drivers.push(driver);
}

/// Returns the registered drivers.
pub(super) fn registered() -> Vec<Driver> {
    lock().clone()
}
