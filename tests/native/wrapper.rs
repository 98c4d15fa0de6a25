//! Backends of tests that wrap another backend and change some of its behavior.

use std::sync::Arc;
use warpweft::backend::{
    Backend, BufferId, CacheLimits, Counters, Info, Listener, Pending, ReadRange,
};
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::kernel::{Kernel, KernelConfig, Limits, Plan};

/// Defines the methods that a [`Wrapper`] forwards to the inner backend, each once.
macro_rules! forwarded {
    ($(fn $method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// A backend that implements some methods and forwards the rest to the inner backend.
        pub trait Wrapper: Send + Sync {
            /// Returns the inner backend.
            fn inner(&self) -> &dyn Backend;
            $(fn $method(&self, $($argument: $type),*) $(-> $result)? {
                self.inner().$method($($argument),*)
            })*
        }

        impl<T: Wrapper> Backend for Wrapped<T> {
            $(fn $method(&self, $($argument: $type),*) $(-> $result)? {
                self.0.$method($($argument),*)
            })*
        }
    };
}

// No wrapper implements the optional methods: timestamps, checks of users' shaders, deferred results, sharing.
forwarded! {
    fn info() -> &Info;
    fn limits() -> &Limits;
    fn allocate(bytes: u64) -> Result<BufferId>;
    fn free(buffer: BufferId);
    fn write(buffer: BufferId, offset: u64, data: &[u8]) -> Result<()>;
    fn compile(batch: &Arc<Plan>) -> Pending<Result<()>>;
    fn on_compile(listener: Option<Listener>);
    fn run(batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()>;
    fn read_parts(parts: Vec<ReadRange>) -> Pending<Result<()>>;
    fn synchronize() -> Pending<Result<()>>;
    fn release(batch: &Arc<Plan>);
    fn set_cache_limits(limits: &CacheLimits);
    fn counters() -> Counters;
    fn source(kernel: &Kernel, config: KernelConfig) -> Option<String>;
}

/// A [`Wrapper`] as a backend.
pub struct Wrapped<T>(pub T);

/// Returns a device on such a backend.
pub fn device(machine: impl Wrapper + 'static) -> Device {
    Device::from_backend(Box::new(Wrapped(machine)), None)
}
