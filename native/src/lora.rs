//! The blocking calls of an adapter.

use crate::error::Result;
use crate::model::{LoraAdapter, PeftFiles};
use pollster::block_on;

/// The blocking calls of a [`LoraAdapter`].
///
/// ```no_run
/// use warpweft_native::model::{LoraAdapter, LoraOptions};
/// use warpweft_native::prelude::*;
///
/// # fn run(model: warpweft_native::model::LanguageModel) -> Result<()> {
/// let adapter = LoraAdapter::new(&model, &LoraOptions::default())?;
/// let files = adapter.save_blocking()?;
/// # Ok(()) }
/// ```
pub trait LoraAdapterBlocking {
    /// Saves an adapter as [`LoraAdapter::save`] does, blocking.
    ///
    /// # Errors
    /// As [`LoraAdapter::save`].
    fn save_blocking(&self) -> Result<PeftFiles>;
}

impl LoraAdapterBlocking for LoraAdapter {
    fn save_blocking(&self) -> Result<PeftFiles> {
        block_on(self.save())
    }
}
