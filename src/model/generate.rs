//! Generation: token after token, until the model ends, a text is found, or there is no more room.

use super::sampling::{Choice, Sampler};
use super::{Context, SamplingOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;
use crate::text::{ChatOptions, Incomplete, Message};
use futures_core::Stream;
use futures_util::stream::try_unfold;

/// What may be chosen for a generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateOptions {
    /// The most tokens to generate. The default is as many as the context has room for.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: SamplingOptions,
    /// Texts that end the generation; they are not part of it.
    pub stop: Vec<String>,
    /// How many of the likeliest tokens are reported for each token, with their probabilities.
    pub likeliest: usize,
    /// Go on after a token that ends what the model has to say.
    pub ignore_end: bool,
}

/// A token that was generated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Generated {
    /// Its number.
    pub id: u32,
    /// The text that is known now: whole characters, which may come with a later token, and nothing of which could still be the
    /// beginning of a text that ends the generation.
    pub text: String,
    /// The natural logarithm of its probability, by the model alone.
    pub logprob: f32,
    /// The likeliest tokens and the logarithms of their probabilities.
    pub likeliest: Vec<(u32, f32)>,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model ended its text.
    End,
    /// A text of [`GenerateOptions::stop`] was found.
    Stop,
    /// As many tokens were generated as were asked for.
    MaxTokens,
    /// The context is full.
    ContextFull,
}

/// A generation that is under way. It may be dropped at any token; the context has then seen all tokens before.
pub struct Generation<'c> {
    context: &'c mut Context,
    text: Continuation,
}

/// How a text goes on, apart from the context that it belongs to.
pub(crate) struct Continuation {
    sampler: Sampler,
    options: GenerateOptions,
    decoder: Incomplete,
    /// The logits of the next token, once they are asked for.
    logits: Option<Tensor>,
    /// Text that could still become one that ends the generation.
    held: String,
    count: usize,
    finish: Option<Finish>,
}

impl Context {
    /// Begins to generate: what follows these tokens. They are the whole context, as of [`Context::resume`].
    ///
    /// # Errors
    /// As [`Context::add`]; `Data` if options mean nothing.
    pub fn generate(&mut self, tokens: &[u32], options: GenerateOptions) -> Result<Generation<'_>> {
        let text = Continuation::new(self, tokens, options)?;
        Ok(Generation { context: self, text })
    }

    /// Begins to generate the answer to the last message of a conversation. What the context has seen of the conversation
    /// already is not computed again.
    ///
    /// # Errors
    /// As [`Context::generate`]; `Unsupported` if the model has no chat template.
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
    /// The next token; `None` at the end. A token that ends what the model has to say comes, too, with the text that was held
    /// back; [`finish`](Generation::finish) is [`Finish::End`] then.
    ///
    /// After the device was lost it goes on with a new one, if the model can be loaded again
    /// ([`LanguageModel::reloadable`](super::LanguageModel::reloadable)) and has no adapter.
    ///
    /// # Errors
    /// Those of the device. Nothing has changed then, and the next call tries again.
    pub async fn next(&mut self) -> Result<Option<Generated>> {
        self.text.next(self.context).await
    }

    /// All tokens that follow, as a stream. It ends after an error.
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

    /// Why it ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.text.finish()
    }
}

impl Continuation {
    /// Of these tokens, which become the context.
    pub fn new(
        context: &mut Context,
        tokens: &[u32],
        options: GenerateOptions,
    ) -> Result<Continuation> {
        if options.stop.iter().any(String::is_empty) {
            return Err(Error::data("generate: texts that end it must have characters, got none"));
        }
        let vocabulary = context.model().config().vocabulary;
        let sampler = Sampler::new(vocabulary, options.sampling.clone(), tokens)?;
        context.set_tokens(tokens)?;
        let (decoder, held) = (Incomplete::default(), String::new());
        Ok(Continuation { sampler, options, decoder, logits: None, held, count: 0, finish: None })
    }

    /// [`Generation::next`] in its context.
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
                // It runs while the text is looked at. If it fails, the next call tries again.
                self.logits = context.next_logits().ok().filter(|logits| logits.run().is_ok());
                self.certain()
            }
        };
        Ok(Some(Generated { id, text, logprob, likeliest }))
    }

    /// Chooses the next token, on another device if the first one is lost.
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

    /// [`Generation::finish`].
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// The text before one that ends the generation, if there is one now.
    fn stopped(&mut self) -> Option<String> {
        let at = self.options.stop.iter().filter_map(|stop| self.held.find(&stop[..])).min()?;
        self.held.truncate(at);
        Some(std::mem::take(&mut self.held))
    }

    /// All that is held back, and what the decoder still has.
    fn rest(&mut self) -> String {
        self.held += &self.decoder.finish();
        self.stopped().unwrap_or_else(|| std::mem::take(&mut self.held))
    }

    /// The text that nothing can change any more: all but the longest end of it that one of the texts begins with.
    fn certain(&mut self) -> String {
        let begins =
            |at: usize| self.options.stop.iter().any(|stop| stop.starts_with(&self.held[at..]));
        let places = self.held.char_indices().map(|(at, _)| at);
        let end = places.filter(|&at| begins(at)).min().unwrap_or(self.held.len());
        let later = self.held.split_off(end);
        std::mem::replace(&mut self.held, later)
    }
}
