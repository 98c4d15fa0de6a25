//! Generation: one token after the other, until the model ends, a stop text is found, or the context is full.

use super::sampling::{Choice, Sampler};
use super::{Context, SamplingOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;
use crate::text::{ChatOptions, Incomplete, Message};
use futures_core::Stream;
use futures_util::stream::try_unfold;

/// Options of a generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateOptions {
    /// The most tokens to generate. By default the context is filled.
    pub max_tokens: Option<usize>,
    /// The choice of tokens.
    pub sampling: SamplingOptions,
    /// Texts that end the generation. They are not part of the result.
    pub stop: Vec<String>,
    /// The number of likeliest tokens that are reported for each token, with their probabilities.
    pub likeliest: usize,
    /// Whether to continue after a token that ends the model's answer.
    pub ignore_end: bool,
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Generated {
    /// The id of the token.
    pub id: u32,
    /// The text that is final now. It has whole characters, so a character may come with a later token. Text that may be the
    /// beginning of a stop text is held back.
    pub text: String,
    /// The natural logarithm of the token's probability, before the options change it.
    pub logprob: f32,
    /// The likeliest tokens with the natural logarithms of their probabilities.
    pub likeliest: Vec<(u32, f32)>,
}

/// The reason why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model ended its text.
    End,
    /// A text of [`GenerateOptions::stop`] was found.
    Stop,
    /// The largest number of tokens was generated.
    MaxTokens,
    /// The context is full.
    ContextFull,
}

/// A generation in progress. It may be dropped after any token. The context has then seen all tokens up to that one.
pub struct Generation<'c> {
    context: &'c mut Context,
    text: Continuation,
}

/// The state of a generation, without its context.
pub(crate) struct Continuation {
    sampler: Sampler,
    options: GenerateOptions,
    decoder: Incomplete,
    /// The logits of the next token, if they were requested.
    logits: Option<Tensor>,
    /// Text that may be the beginning of a stop text.
    held: String,
    count: usize,
    finish: Option<Finish>,
}

impl Context {
    /// Begins to generate the text after these tokens. They replace the tokens of the context, as in [`Context::resume`].
    ///
    /// # Errors
    /// The errors of [`Context::add`]. `InvalidArgument` if options are invalid.
    pub fn generate(&mut self, tokens: &[u32], options: GenerateOptions) -> Result<Generation<'_>> {
        let text = Continuation::new(self, tokens, options)?;
        Ok(Generation { context: self, text })
    }

    /// Begins to generate the answer to the last message of a conversation. The part of the conversation that the context has
    /// seen is not computed again.
    ///
    /// # Errors
    /// The errors of [`Context::generate`]. `Unsupported` if the model has no chat template.
    pub fn chat(
        &mut self,
        messages: &[Message],
        options: GenerateOptions,
    ) -> Result<Generation<'_>> {
        let prompt = self.model().chat_prompt(messages, &ChatOptions::default())?;
        self.generate(&prompt, options)
    }
}

impl Generation<'_> {
    /// Generates the next token. Returns `None` at the end. A token that ends the model's answer is returned, too, with the
    /// text that was held back. [`finish`](Generation::finish) is then [`Finish::End`].
    ///
    /// If the device is lost, the generation continues on a new one. The model must be reloadable
    /// ([`LanguageModel::reloadable`](super::LanguageModel::reloadable)) and have no adapter.
    ///
    /// # Errors
    /// The errors of the device. The generation has not changed then, and the next call tries again.
    pub async fn next(&mut self) -> Result<Option<Generated>> {
        self.text.next(self.context).await
    }

    /// Returns the following tokens as a stream. The stream ends after an error.
    ///
    /// ```no_run
    /// # async fn run(mut context: warpweft::model::Context) -> warpweft::error::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use warpweft::{model::GenerateOptions, text::Message};
    ///
    /// let question = [Message::new("user", "What is the capital of France?")];
    /// let mut answer = std::pin::pin!(context.chat(&question, GenerateOptions::default())?.tokens());
    /// while let Some(token) = answer.try_next().await? {
    ///     print!("{}", token.text);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn tokens(self) -> impl Stream<Item = Result<Generated>> {
        try_unfold(self, |mut generation| async move {
            Ok(generation.next().await?.map(|token| (token, generation)))
        })
    }

    /// Returns the reason why the generation ended, or `None` before its end.
    pub fn finish(&self) -> Option<Finish> {
        self.text.finish()
    }
}

impl Continuation {
    /// Starts from these tokens, which become the context.
    pub fn new(
        context: &mut Context,
        tokens: &[u32],
        options: GenerateOptions,
    ) -> Result<Continuation> {
        if options.stop.iter().any(String::is_empty) {
            return Err(Error::argument(
                "generate: `stop` texts must not be empty, got an empty one",
            ));
        }
        let vocabulary = context.model().config().vocabulary;
        let sampler = Sampler::new(vocabulary, options.sampling.clone(), tokens)?;
        context.set_tokens(tokens)?;
        let (decoder, held) = (Incomplete::default(), String::new());
        Ok(Continuation { sampler, options, decoder, logits: None, held, count: 0, finish: None })
    }

    /// Does [`Generation::next`] in `context`.
    pub async fn next(&mut self, context: &mut Context) -> Result<Option<Generated>> {
        if self.finish.is_some() {
            return Ok(None);
        }
        if self.options.max_tokens == Some(self.count) {
            self.finish = Some(Finish::MaxTokens);
            return Ok(None);
        }
        let Choice { id, logprob, likeliest } = self.choose(context).await?;
        self.logits = None;
        let model = context.model();
        if !self.options.ignore_end && model.tokenizer().is_end_of_generation(id) {
            self.finish = Some(Finish::End);
            let text = self.rest();
            return Ok(Some(Generated { id, text, logprob, likeliest }));
        }
        self.count += 1;
        self.held += &self.decoder.push(model.tokenizer(), id);
        let text = match self.stopped() {
            Some(text) => {
                self.finish = Some(Finish::Stop);
                text
            }
            None if context.len() == model.context_length() => {
                self.finish = Some(Finish::ContextFull);
                self.rest()
            }
            None if self.options.max_tokens == Some(self.count) => {
                self.finish = Some(Finish::MaxTokens);
                self.rest()
            }
            None => {
                context.push(id);
                // The step runs while the text is examined. If it fails, the next call tries again.
                self.logits = context.next_logits().ok().filter(|logits| logits.run().is_ok());
                self.certain()
            }
        };
        Ok(Some(Generated { id, text, logprob, likeliest }))
    }

    /// Chooses the next token. If the device is lost, tries once more on another one.
    async fn choose(&mut self, context: &mut Context) -> Result<Choice> {
        let mut has_moved = false;
        loop {
            let error = match self.try_to_choose(context).await {
                Ok(choice) => return Ok(choice),
                Err(error) => error,
            };
            self.logits = None;
            let is_lost = error.kind() == ErrorKind::DeviceLost;
            if is_lost && has_moved || !context.recover(&error).await? {
                return Err(error);
            }
            has_moved |= is_lost;
        }
    }

    async fn try_to_choose(&mut self, context: &mut Context) -> Result<Choice> {
        let logits = match &self.logits {
            Some(logits) => logits.clone(),
            None => {
                context.model().ready().await?;
                self.logits.insert(context.next_logits()?).clone()
            }
        };
        self.sampler.choose(&logits, self.options.likeliest).await
    }

    /// Returns [`Generation::finish`].
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Returns the text before the first stop text, if the held text has one.
    fn stopped(&mut self) -> Option<String> {
        let at = self.options.stop.iter().filter_map(|stop| self.held.find(&stop[..])).min()?;
        self.held.truncate(at);
        Some(std::mem::take(&mut self.held))
    }

    /// Returns all text that is held back, including the rest of the decoder.
    fn rest(&mut self) -> String {
        self.held += &self.decoder.finish();
        self.stopped().unwrap_or_else(|| std::mem::take(&mut self.held))
    }

    /// Returns the text that is final, which is all but the longest end that may begin a stop text.
    fn certain(&mut self) -> String {
        let begins =
            |at: usize| self.options.stop.iter().any(|stop| stop.starts_with(&self.held[at..]));
        let places = self.held.char_indices().map(|(at, _)| at);
        let end = places.filter(|&at| begins(at)).min().unwrap_or(self.held.len());
        let later = self.held.split_off(end);
        std::mem::replace(&mut self.held, later)
    }
}
