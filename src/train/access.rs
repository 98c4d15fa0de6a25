//! Where a trainer has its optimiser.

use crate::error::{Error, Result};
use crate::optim::Optimizer;
use std::cell::RefCell;
use std::rc::Rc;

/// Where a trainer has its optimiser: it is the trainer's own, or shared with others, who may look at it between steps.
pub trait Access {
    /// Looks at it.
    ///
    /// # Errors
    /// Those of the work; `Data` if it is being changed.
    fn look<T>(&self, work: impl FnOnce(&Optimizer) -> Result<T>) -> Result<T>;

    /// Changes it.
    ///
    /// # Errors
    /// Those of the work; `Data` if it is looked at or being changed.
    fn change<T>(&mut self, work: impl FnOnce(&mut Optimizer) -> Result<T>) -> Result<T>;
}

impl Access for Optimizer {
    fn look<T>(&self, work: impl FnOnce(&Optimizer) -> Result<T>) -> Result<T> {
        work(self)
    }

    fn change<T>(&mut self, work: impl FnOnce(&mut Optimizer) -> Result<T>) -> Result<T> {
        work(self)
    }
}

/// Nothing that it calls comes back here; what does so all the same gets an error, and no panic.
fn busy() -> Error {
    Error::data(
        "optimizer: the optimizer must not be used inside its own callback, got such a call",
    )
}

impl Access for Rc<RefCell<Optimizer>> {
    fn look<T>(&self, work: impl FnOnce(&Optimizer) -> Result<T>) -> Result<T> {
        work(&*self.try_borrow().map_err(|_| busy())?)
    }

    fn change<T>(&mut self, work: impl FnOnce(&mut Optimizer) -> Result<T>) -> Result<T> {
        work(&mut *self.try_borrow_mut().map_err(|_| busy())?)
    }
}
