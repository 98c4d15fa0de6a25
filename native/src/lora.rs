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
/// let files = adapter.save_sync()?;
/// # Ok(()) }
/// ```
pub trait LoraAdapterSync {
    /// Saves an adapter as [`LoraAdapter::save`] does, blocking.
    ///
    /// # Errors
    /// As [`LoraAdapter::save`].
    fn save_sync(&self) -> Result<PeftFiles>;
}

impl LoraAdapterSync for LoraAdapter {
    fn save_sync(&self) -> Result<PeftFiles> {
        block_on(self.save())
    }
}
