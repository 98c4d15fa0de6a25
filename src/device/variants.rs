//! Which kernels a device runs.

use super::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Halves, Rows, Variants};

impl Device {
    /// The kernels that are run where there are several for the same work.
    pub fn variants(&self) -> Variants {
        self.state().variants.unwrap_or(self.limits().variants)
    }

    /// Runs these kernels from now on. Compiled programs keep theirs. The CPU has one of each
    /// kind, but also takes attention apart and cuts long sums where it is asked to.
    ///
    /// # Errors
    /// `Unsupported` where the device has no subgroups or no such matrices and these are asked for.
    pub fn set_variants(&self, variants: Variants) -> Result<()> {
        if variants.rows == Rows::Subgroups && !self.limits().subgroups {
            let message = format!("variants: {} has no subgroups", self.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if variants.halves == Halves::Matrices && !self.limits().cooperative {
            let message = format!("variants: {} has no such matrices", self.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut state = self.state();
        state.variants = Some(variants);
        state.forget_plans(&*self.inner.backend);
        Ok(())
    }
}
