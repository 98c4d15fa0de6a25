//! Machines of tests that are another machine, but for what they do otherwise.

use std::sync::Arc;
use warpweft::backend::{
    Backend, BufferId, CacheLimits, Counters, Info, Listener, Pending, ReadRange,
};
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::kernel::{Kernel, KernelConfig, Limits, Plan};

/// The methods that a [`Wrapper`] has from the machine inside, each written once.
macro_rules! forwarded {
    ($(fn $method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// A machine that does by itself what it has methods for, and has the machine inside do the rest.
        pub trait Wrapper: Send + Sync {
            /// The machine inside.
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

// What a machine may do besides (take times, check users' shaders, defer, be shared) none of these does.
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
    fn sync() -> Pending<Result<()>>;
    fn forget(batch: &Arc<Plan>);
    fn set_cache_limits(limits: &CacheLimits);
    fn counters() -> Counters;
    fn source(kernel: &Kernel, config: KernelConfig) -> Option<String>;
}

/// A [`Wrapper`] as a backend.
pub struct Wrapped<T>(pub T);

/// A device of such a machine.
pub fn device(machine: impl Wrapper + 'static) -> Device {
    Device::from_backend(Box::new(Wrapped(machine)), None)
}
