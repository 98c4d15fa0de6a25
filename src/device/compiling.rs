//! Hearing of kernels that are compiled.

use super::Device;
use crate::backend::{Listener, Pending};
use crate::error::Result;

impl Device {
    /// Has a listener called whenever one of the kernels that a batch or a program needs is compiled, with how many are
    /// done and how many there are: a page can show that. `None` ends it. Kernels that are known need not be compiled,
    /// and the CPU compiles none. The listener may be called from several threads, and must not wait for the device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use std::sync::Arc;
    /// # use warpweft::backend::Compiling;
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Auto).await?;
    /// device.on_compile(Some(Arc::new(|Compiling { done, total }| println!("{done} of {total}"))));
    /// device.tensor(&[1.0f32, 2.0], &[2])?.exp().read::<f32>().await?;
    /// device.on_compile(None);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn on_compile(&self, listener: Option<Listener>) {
        self.inner.backend.on_compile(listener);
    }

    /// Whether the device compiles a module of WGSL; none where it takes no WGSL.
    pub(crate) fn check_source(&self, text: &str) -> Option<Pending<Result<()>>> {
        self.inner.backend.check(text)
    }
}
