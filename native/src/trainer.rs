//! The blocking calls of a trainer.

use crate::error::Result;
use crate::nn::Module;
use crate::train::{Batches, Epoch, Scores, Step, Trainer};
use pollster::block_on;
use std::ops::ControlFlow;

/// The blocking calls of a [`Trainer`].
///
/// ```
/// use warpweft_native::{nn::*, optim::*, prelude::*, train::*};
///
/// let device = Device::with_blocking(Preference::Cpu)?;
/// let x = device.linspace(-1.0, 1.0, 64)?.reshape(&[64, 1])?;
/// let data = Dataset::new(&x, &x.mul(3)?.add(1)?)?;
/// let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
/// let optimizer = Optimizer::new(Adam::new(0.1), &model.parameters())?;
/// let loader = DataLoader::new(&data, 16)?.shuffle(1);
/// let mut trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
///     model.forward(x)?.mse_loss(y, LossReduction::Mean)
/// })?
/// .epochs(50);
/// assert!(trainer.fit_blocking()?.last().is_some_and(|epoch| epoch.loss < 0.01));
/// # Ok::<(), Error>(())
/// ```
pub trait TrainerBlocking {
    /// Trains as [`Trainer::fit`] does, blocking.
    ///
    /// # Errors
    /// As [`Trainer::fit`].
    fn fit_blocking(&mut self) -> Result<&[Epoch]>;

    /// Trains as [`Trainer::fit_with`] does, blocking.
    ///
    /// # Errors
    /// As [`Trainer::fit_with`].
    fn fit_with_blocking(&mut self, each: impl FnMut(&Step) -> ControlFlow<()>)
        -> Result<&[Epoch]>;

    /// Runs a step as [`Trainer::next_step`] does, blocking.
    ///
    /// # Errors
    /// As [`Trainer::next_step`].
    fn next_step_blocking(&mut self) -> Result<Option<Step>>;

    /// Evaluates as [`Trainer::evaluate`] does, blocking.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    fn evaluate_blocking(&mut self, data: &dyn Batches) -> Result<Scores>;
}

impl<M: Module> TrainerBlocking for Trainer<M> {
    fn fit_blocking(&mut self) -> Result<&[Epoch]> {
        block_on(self.fit())
    }

    fn fit_with_blocking(
        &mut self,
        each: impl FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<&[Epoch]> {
        block_on(self.fit_with(each))
    }

    fn next_step_blocking(&mut self) -> Result<Option<Step>> {
        block_on(self.next_step())
    }

    fn evaluate_blocking(&mut self, data: &dyn Batches) -> Result<Scores> {
        block_on(self.evaluate(data))
    }
}
