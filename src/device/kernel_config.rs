//! The kernel configuration: which kernel variants a device runs.

use super::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{F16Matmul, KernelConfig, Plan, Rows};

impl Device {
    /// Returns the variants that run where several kernels do the same work.
    pub fn kernel_config(&self) -> KernelConfig {
        self.state().config.unwrap_or(self.limits().config)
    }

    /// Sets the kernel variants for everything that is planned from now on. Compiled programs keep their kernels. The CPU has
    /// one kernel of each kind, but also splits attention and long sums if the configuration asks for it.
    ///
    /// # Errors
    /// `Unsupported` if the configuration needs subgroups or cooperative matrices that the device does not have.
    pub fn set_kernel_config(&self, config: KernelConfig) -> Result<()> {
        if config.rows == Rows::Subgroups && !self.limits().subgroups {
            let message =
                format!("kernel config: the device must have subgroups, got {}", self.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if config.f16_matmul == F16Matmul::CooperativeMatrices && !self.limits().cooperative {
            let message = format!(
                "kernel config: the device must have cooperative matrices, got {}",
                self.info().name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut state = self.state();
        state.config = Some(config);
        state.clear_plans(&*self.inner.backend);
        Ok(())
    }

    /// Returns the source that a kernel of a plan is compiled from. `None` on the CPU.
    pub fn kernel_source(&self, batch: &Plan, kernel: usize) -> Option<String> {
        self.inner.backend.source(&batch.dispatches.get(kernel)?.kernel, batch.config)
    }
}
