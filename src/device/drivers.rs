//! Backends from outside: what joins discovery, preference and fallback.

use crate::backend::{Backend, Info, Pending};
use crate::error::Result;
use crate::kernel::Limits;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A backend from outside this crate, as its machines are found and opened. See [`register`].
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The backend's word, as [`Info::backend`] of its machines has it. `WARPWEFT_DEVICE` and
    /// [`Preference::Name`](super::Preference::Name) know it by that.
    pub name: &'static str,
    /// Among machines of one [`kind`](Info::kind) those of a lower rank come first; this crate's own have 0.
    pub rank: i32,
    /// The machines that are there. A driver that cannot be loaded finds none.
    pub discover: fn() -> Pending<Vec<Machine>>,
    /// Opens the n-th machine that it finds.
    pub open: fn(usize) -> Opening,
}

/// A backend that is being opened.
pub type Opening = Pending<Result<Box<dyn Backend>>>;

/// A machine that a [`Driver`] finds.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What it is.
    pub info: Info,
    /// What it can do once it is open.
    pub limits: Limits,
    /// Bytes of the memory that its buffers lie in, where that is known.
    pub memory: Option<u64>,
}

static DRIVERS: Mutex<Vec<Driver>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Driver>> {
    // Nothing panics while it is locked.
    DRIVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a backend to those that [`Device::discover`](super::Device::discover) asks, [`Preference`](super::Preference) and
/// `WARPWEFT_DEVICE` choose from, and a device falls back to, from now on: call it before the first device is opened. One of
/// the same name is replaced. What a backend must do says [`Backend`]; how a kernel is best run,
/// [`schedule`](crate::schedule::schedule()).
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
///     discover: || Box::pin(async {
///         let info = Info { backend: "one-thread", ..one().info().clone() };
///         vec![Machine { info, limits: one().limits().clone(), memory: None }]
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

/// The drivers that were registered.
pub(super) fn registered() -> Vec<Driver> {
    lock().clone()
}
