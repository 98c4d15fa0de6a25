//! The blocking calls of a generation.

use crate::error::Result;
use crate::model::{Generated, Generation};
use pollster::block_on;

/// The blocking calls of a [`Generation`].
///
/// ```no_run
/// use warpweft_native::model::{GenerateOptions, LanguageModel, LoadOptions};
/// use warpweft_native::prelude::*;
///
/// let file = std::io::BufReader::new(std::fs::File::open("model.gguf").expect("a file"));
/// let model = LanguageModel::load(&Device::new_blocking()?, file, LoadOptions::default())?;
/// let prompt = model.tokenizer().encode_with_ends("Once upon a time", true)?;
/// let mut context = model.context()?;
/// for token in context.generate(&prompt, GenerateOptions::default())?.tokens_blocking() {
///     print!("{}", token?.text);
/// }
/// # Ok::<(), Error>(())
/// ```
pub trait GenerationBlocking {
    /// Generates the next token, as [`Generation::next`] does, and blocks until it is there.
    ///
    /// # Errors
    /// As [`Generation::next`].
    fn next_blocking(&mut self) -> Result<Option<Generated>>;

    /// Returns an iterator over the following tokens. It ends after an error.
    fn tokens_blocking(self) -> impl Iterator<Item = Result<Generated>>;
}

impl GenerationBlocking for Generation<'_> {
    fn next_blocking(&mut self) -> Result<Option<Generated>> {
        block_on(self.next())
    }

    fn tokens_blocking(mut self) -> impl Iterator<Item = Result<Generated>> {
        let mut over = false;
        std::iter::from_fn(move || {
            if over {
                return None;
            }
            let token = self.next_blocking().transpose();
            over = !matches!(token, Some(Ok(_)));
            token
        })
    }
}
