//! Tests random programs with a model, adapters that are trained, saved and loaded, contexts with and without them, and too
//! little memory. Every logit and loss must match plain `f64` code with the current weights.

use super::calls::{starved, Random};
use super::lora::{all_targets, change, loss, values};
use super::tiny::{close, devices, load};
use super::toy_reference::Toy;
use warpweft::error::{Error, ErrorKind};
use warpweft::model::{
    Context, Example, GenerateOptions, LanguageModel, LoraAdapter, LoraOptions, Projection,
};
use warpweft::nn::Module;
use warpweft::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;

/// The number of tokens that the contexts have room for.
const ROOM: usize = 32;

/// An adapter, its optimizer, and the reference with its changes.
struct Trained {
    adapter: LoraAdapter,
    optimizer: Optimizer,
    toy: Toy,
}

impl Trained {
    fn new(adapter: LoraAdapter, toy: Toy) -> Trained {
        let optimizer =
            Optimizer::new(Adam::new(1e-2), &adapter.parameters()).expect("an optimizer");
        let mut trained = Trained { adapter, optimizer, toy };
        trained.follow();
        trained
    }

    /// Copies the current values of the adapter to the reference.
    fn follow(&mut self) {
        change(&mut self.toy, &values(&self.adapter), self.adapter.scale());
    }
}

/// A context, the number of its adapter, and the tokens that it must contain.
struct Talk {
    context: Context,
    adapter: Option<usize>,
    tokens: Vec<u32>,
}

struct World {
    /// The reference without an adapter.
    toy: Toy,
    make: fn() -> Toy,
    model: LanguageModel,
    adapters: Vec<Trained>,
    talks: Vec<Talk>,
    random: Random,
    log: String,
}

fn expect_memory_error(error: &Error, log: &str) {
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}{log}");
}

impl World {
    fn new(model: LanguageModel, make: fn() -> Toy, seed: u64) -> World {
        let (adapters, talks, random) = (Vec::new(), Vec::new(), Random(seed));
        let mut world =
            World { toy: make(), make, model, adapters, talks, random, log: String::new() };
        for _ in 0..2 {
            let made = world.adapter();
            world.adapters.push(made);
            world.talk(0);
        }
        world.talk(0);
        world
    }

    /// Returns a new adapter for some of the projections.
    fn adapter(&mut self) -> Trained {
        let first = self.random.below(7);
        let count = 1 + self.random.below(3);
        let targets = Projection::ALL.iter().cycle().skip(first).take(count).copied().collect();
        let seed = self.random.below(1000) as u32;
        let options = LoraOptions { targets, seed, ..all_targets(1 + self.random.below(3)) };
        let adapter = LoraAdapter::new(&self.model, &options).expect("an adapter");
        Trained::new(adapter, (self.make)())
    }

    /// Creates a context, with or without an adapter, at this index or at the end.
    fn talk(&mut self, at: usize) {
        let adapter = Some(self.random.below(3)).filter(|&n| n < self.adapters.len());
        let tuned = adapter.map(|n| self.model.with_adapter(&self.adapters[n].adapter));
        let model = tuned.unwrap_or(Ok(self.model.clone())).expect("a model");
        let talk =
            Talk { context: model.context().expect("a context"), adapter, tokens: Vec::new() };
        match self.talks.len() < 3 {
            true => self.talks.push(talk),
            false => self.talks[at] = talk,
        }
    }

    fn toy(&self, talk: &Talk) -> &Toy {
        talk.adapter.map_or(&self.toy, |n| &self.adapters[n].toy)
    }

    /// Clears contexts that use an adapter, because they store keys and values from before its change.
    fn clear_contexts(&mut self, adapter: usize) {
        for talk in self.talks.iter_mut().filter(|talk| talk.adapter == Some(adapter)) {
            talk.tokens.clear();
            talk.context.truncate(0);
        }
    }

    fn act(&mut self) {
        let (call, at) = (self.random.below(12), self.random.below(3));
        let n = at.min(1);
        self.log += &format!("\n{call} {at}");
        match call {
            0..4 => self.read(at),
            4..6 => self.train(n),
            6 => {
                let files = self.adapters[n].adapter.save_blocking().expect("files");
                let loaded =
                    LoraAdapter::load(&self.model, files.config.as_bytes(), &files.weights);
                let loaded = loaded.expect("an adapter");
                assert_eq!(values(&loaded), values(&self.adapters[n].adapter), "{}", self.log);
                self.replace(n, |world| Trained::new(loaded, (world.make)()));
            }
            7 => self.replace(n, World::adapter),
            8 => self.talk(at),
            9 => {
                let length = self.random.below(self.talks[at].tokens.len() + 1);
                self.talks[at].tokens.truncate(length);
                self.talks[at].context.truncate(length);
            }
            10 => {
                // Evicts everything that can be evicted.
                let device = self.model.device();
                let refused = starved(&device, || device.zeros(&[1 << 22])?.run());
                assert_eq!(refused.expect_err("too large").kind(), ErrorKind::Memory);
            }
            _ => self.write(at),
        }
    }

    /// Replaces an adapter and removes its contexts.
    fn replace(&mut self, n: usize, make: impl FnOnce(&mut World) -> Trained) {
        let made = make(self);
        self.adapters[n] = made;
        for at in 0..self.talks.len() {
            if self.talks[at].adapter == Some(n) {
                self.talk(at);
            }
        }
    }

    /// Adds tokens to a context, sometimes with too little memory.
    fn read(&mut self, at: usize) {
        let count = 1 + self.random.below(6);
        let new = self.random.tokens(count);
        let is_short = self.random.below(4) == 0;
        let talk = &mut self.talks[at];
        if talk.tokens.len() + count > ROOM {
            talk.tokens.clear();
            talk.context.truncate(0);
        }
        let device = talk.context.model().device();
        let context = &mut talk.context;
        let mut add = || context.add(&new).and_then(|logits| logits.run().map(|()| logits));
        let logits = match is_short {
            true => starved(&device, &mut add),
            false => add(),
        };
        let logits = match logits {
            Ok(logits) => logits,
            Err(error) => {
                expect_memory_error(&error, if is_short { "" } else { &self.log });
                assert!(is_short, "{error}{}", self.log);
                // The context has the tokens if only the result found no memory.
                talk.tokens = talk.context.tokens().to_vec();
                return;
            }
        };
        talk.tokens.extend(&new);
        assert_eq!(talk.context.tokens(), talk.tokens, "{}", self.log);
        let talk = &self.talks[at];
        let want = self.toy(talk).logits(&talk.tokens);
        close(&logits, want.last().expect("logits"), &self.log);
    }

    /// Takes a training step and compares its loss.
    fn train(&mut self, n: usize) {
        let mut examples = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let count = 2 + self.random.below(8);
            let prompt = self.random.below(count);
            examples.push(Example { tokens: self.random.tokens(count), prompt });
        }
        let trained = &mut self.adapters[n];
        let got = trained.adapter.loss(&examples).expect("a loss");
        trained.optimizer.minimize(&got).expect("a step");
        let got = f64::from(got.item_blocking::<f32>().expect("a number"));
        let want = loss(&trained.toy, &examples);
        assert!((got - want).abs() < 1e-3, "{got}, not {want}{}", self.log);
        trained.follow();
        self.clear_contexts(n);
    }

    /// Generates tokens, each of which must be the most likely one.
    fn write(&mut self, at: usize) {
        let prompt = match self.talks[at].tokens.len() {
            0 | 25.. => self.random.tokens(3),
            _ => self.talks[at].tokens.clone(),
        };
        let options = GenerateOptions { ignore_end: true, ..GenerateOptions::default() };
        let talk = &mut self.talks[at];
        talk.tokens.clone_from(&prompt);
        let generation = talk.context.generate(&prompt, options).expect("a generation");
        let made: Vec<u32> =
            generation.tokens_blocking().take(3).map(|token| token.expect("a token").id).collect();
        for id in made {
            let all = self.toy(&self.talks[at]).logits(&self.talks[at].tokens);
            let last = all.last().expect("logits");
            let most = last.iter().copied().fold(f64::MIN, f64::max);
            assert!(most - last[id as usize] < 1e-3, "{}", self.log);
            self.talks[at].tokens.push(id);
        }
        let talk = &mut self.talks[at];
        assert_eq!(talk.context.tokens(), talk.tokens, "{}", self.log);
    }
}

#[test]
fn everything_is_right_in_any_order() {
    // `WARPWEFT_STEPS` sets a larger number of steps.
    let more = std::env::var("WARPWEFT_STEPS").ok().and_then(|steps| steps.parse().ok());
    for (device, steps) in devices().iter().zip([250, 25]) {
        let families: [(fn() -> Toy, u64); 4] = [
            (|| Toy::new(false, Some(5), true), 3),
            (|| Toy::new(true, Some(5), true), 8),
            (|| Toy { in_folder: true, ..Toy::new(false, Some(5), true) }, 5),
            (|| Toy { in_folder: true, ..Toy::new(true, Some(5), true) }, 6),
        ];
        for (make, seed) in families {
            let mut world = World::new(load(device, &make()), make, seed);
            let Toy { gemma, in_folder, .. } = world.toy;
            world.log = format!("{device:?}, gemma: {gemma}, in a folder: {in_folder}");
            for _ in 0..more.unwrap_or(steps) {
                world.act();
            }
        }
    }
}
