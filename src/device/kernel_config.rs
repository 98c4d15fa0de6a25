//! Which kernels a device runs.

use super::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{F16Matmul, KernelConfig, Plan, Rows};

impl Device {
    /// The kernels that are run where there are several for the same work.
    pub fn kernel_config(&self) -> KernelConfig {
        self.state().config.unwrap_or(self.limits().config)
    }

    /// Runs these kernels from now on. Compiled programs keep theirs. The CPU has one of each
    /// kind, but also takes attention apart and cuts long sums where it is asked to.
    ///
    /// # Errors
    /// `Unsupported` where the device has no subgroups or no such matrices and these are asked for.
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
        state.forget_plans(&*self.inner.backend);
        Ok(())
    }

    /// The text a kernel of a plan is compiled from; `None` on the CPU.
    pub fn kernel_source(&self, batch: &Plan, kernel: usize) -> Option<String> {
        self.inner.backend.source(&batch.dispatches.get(kernel)?.kernel, batch.config)
    }
}
