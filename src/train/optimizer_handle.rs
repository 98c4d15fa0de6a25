//! A trainer's handle to its optimizer.

use crate::error::{Error, Result};
use crate::optim::Optimizer;
use std::cell::RefCell;
use std::rc::Rc;

mod sealed {
    use super::{Optimizer, Rc, RefCell};

    pub trait Sealed {}
    impl Sealed for Optimizer {}
    impl Sealed for Rc<RefCell<Optimizer>> {}
}

/// A trainer's handle to its optimizer: the optimizer itself, or a shared one that the program may also use between steps.
/// Only this crate implements the trait.
pub trait OptimizerHandle: sealed::Sealed {
    /// Calls `work` with the optimizer.
    ///
    /// # Errors
    /// The errors of `work`. `InvalidState` while another call changes the optimizer.
    fn with<T>(&self, work: impl FnOnce(&Optimizer) -> Result<T>) -> Result<T>;

    /// Calls `work` with mutable access to the optimizer.
    ///
    /// # Errors
    /// The errors of `work`. `InvalidState` while another call uses the optimizer.
    fn with_mut<T>(&mut self, work: impl FnOnce(&mut Optimizer) -> Result<T>) -> Result<T>;
}

impl OptimizerHandle for Optimizer {
    fn with<T>(&self, work: impl FnOnce(&Optimizer) -> Result<T>) -> Result<T> {
        work(self)
    }

    fn with_mut<T>(&mut self, work: impl FnOnce(&mut Optimizer) -> Result<T>) -> Result<T> {
        work(self)
    }
}

/// The error for a callback that uses the optimizer which called it.
fn busy() -> Error {
    Error::state(
        "optimizer: the optimizer must not be used inside its own callback, got such a call",
    )
}

impl OptimizerHandle for Rc<RefCell<Optimizer>> {
    fn with<T>(&self, work: impl FnOnce(&Optimizer) -> Result<T>) -> Result<T> {
        work(&*self.try_borrow().map_err(|_| busy())?)
    }

    fn with_mut<T>(&mut self, work: impl FnOnce(&mut Optimizer) -> Result<T>) -> Result<T> {
        work(&mut *self.try_borrow_mut().map_err(|_| busy())?)
    }
}
