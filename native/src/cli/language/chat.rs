//! `warpweft chat`: a conversation in a terminal.

use super::generate::Sampling;
use super::{print, Model};
use clap::Args;
use std::io::{BufRead, IsTerminal};
use warpweft_native::model::{Context, Finish, GenerateOptions};
use warpweft_native::prelude::*;
use warpweft_native::text::Message;

/// The options of the command.
#[derive(Args)]
pub struct Chat {
    #[command(flatten)]
    model: Model,
    /// The system message at the beginning of the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most tokens of an answer [default: as many as the context has room for]
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    #[command(flatten)]
    sampling: Sampling,
}

impl Chat {
    /// Answers messages until the input ends.
    ///
    /// # Errors
    /// If the model cannot be loaded, or has no chat template.
    pub fn run(&self) -> Result<()> {
        let (model, _) = self.model.load()?;
        let terminal = std::io::stdin().is_terminal();
        let mut messages: Vec<Message> = Vec::new();
        messages.extend(self.system.as_ref().map(|text| Message::new("system", text)));
        let mut context = model.context()?;
        if terminal {
            print("An empty line or Ctrl-D ends the conversation.\n")?;
        }
        let mut lines = std::io::stdin().lock().lines();
        loop {
            if terminal && !print("\n> ")? {
                return Ok(());
            }
            let Some(line) = lines.next() else { return Ok(()) };
            let line = line.map_err(|error| {
                Error::argument(format!("chat: the input must be readable text, got: {error}"))
            })?;
            if line.trim().is_empty() {
                return Ok(());
            }
            messages.push(Message::new("user", line));
            let Some(answer) = self.answer(&mut context, &messages)? else { return Ok(()) };
            messages.push(Message::new("assistant", answer));
        }
    }

    /// Prints the answer to the last message while it is generated. Returns `None` if the output was closed.
    fn answer(&self, context: &mut Context, messages: &[Message]) -> Result<Option<String>> {
        let options = GenerateOptions {
            max_tokens: self.max_tokens,
            sampling: self.sampling.options(),
            ..GenerateOptions::default()
        };
        let mut generation = context.chat(messages, options)?;
        let mut answer = String::new();
        while let Some(token) = generation.next_blocking()? {
            if !print(&token.text)? {
                return Ok(None);
            }
            answer += &token.text;
        }
        let why = match generation.finish() {
            Some(Finish::ContextFull) => "\n(the context is full)\n",
            Some(Finish::MaxTokens) => " ...\n",
            _ => "\n",
        };
        Ok(print(why)?.then_some(answer))
    }
}
