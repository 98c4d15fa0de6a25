//! A transformer that predicts the next character of a text.

use super::{Options, Work};
use serde_json::json;
use warpweft_native::distributed::World;
use warpweft_native::nn::*;
use warpweft_native::optim::{AdamW, Optimizer};
use warpweft_native::prelude::*;
use warpweft_native::train::metrics::Accuracy;
use warpweft_native::train::{Batches, DataLoader, Dataset, Trainer};

/// The default text, which is prose of this project (`native/data/README.md`).
const TEXT: &str = include_str!("../../../data/text.txt");
const WIDTH: usize = 64;
const HEADS: usize = 4;
const LAYERS: usize = 2;
const BATCH: usize = 32;
/// The number of characters that the model sees.
const LENGTH: usize = 64;
/// The distance between the beginnings of neighboring examples.
const STRIDE: usize = 32;

/// Embeddings of characters and positions, layers of a transformer, and scores of the next character.
struct Chars {
    token: Embedding,
    position: Embedding,
    layers: Vec<TransformerEncoderLayer>,
    norm: LayerNorm,
    head: Linear,
}

impl Chars {
    fn new(generator: &Generator, count: usize) -> Result<Chars> {
        let options = TransformerOptions {
            dim_feedforward: 4 * WIDTH,
            activation: Activation::Gelu,
            norm_first: true,
            ..TransformerOptions::default()
        };
        let layer = |_| TransformerEncoderLayer::new(generator, WIDTH, HEADS, options);
        Ok(Chars {
            token: Embedding::new(generator, count, WIDTH)?,
            position: Embedding::new(generator, LENGTH, WIDTH)?,
            layers: (0..LAYERS).map(layer).collect::<Result<_>>()?,
            norm: LayerNorm::new(generator, &[WIDTH])?,
            head: Linear::new(generator, WIDTH, count)?,
        })
    }
}

impl Module for Chars {
    fn members(&self, members: &mut Members) {
        members.child("token", &self.token).child("position", &self.position);
        members
            .children("layers", &self.layers)
            .child("norm", &self.norm)
            .child("head", &self.head);
    }
}

impl Layer for Chars {
    /// Computes the scores of the next character at each position, `[batch, length, characters]`, for characters
    /// `[batch, length]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let causal = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
        let mut x = self.token.forward(x)?.add(&self.position.weight.value())?;
        for layer in &self.layers {
            x = layer.run(&x, causal)?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}

/// Creates the examples of a text. The targets are the next characters.
fn examples(device: &Device, text: &[i32]) -> Result<Dataset> {
    let starts = (0..text.len().saturating_sub(LENGTH)).step_by(STRIDE);
    let (mut x, mut y) = (Vec::<i32>::new(), Vec::<i32>::new());
    for start in starts {
        x.extend(&text[start..start + LENGTH]);
        y.extend(&text[start + 1..start + LENGTH + 1]);
    }
    let shape = [x.len() / LENGTH, LENGTH];
    Dataset::new(&device.tensor(&x, &shape)?, &device.tensor(&y, &shape)?)
}

/// Trains the model.
pub fn run(device: &Device, options: &Options, world: &World) -> Result<()> {
    let text = match &options.data {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            Error::argument(format!("train: {} must be readable, got {error}", file.display()))
        })?,
        None => TEXT.to_string(),
    };
    let mut known: Vec<char> = text.chars().collect();
    known.sort_unstable();
    known.dedup();
    let number = |c: char| known.binary_search(&c).unwrap_or(0) as i32;
    let numbers: Vec<i32> = text.chars().map(number).collect();
    let least = 20 * LENGTH;
    if numbers.len() < least {
        let message =
            format!("train: the text must have at least {least} characters, got {}", numbers.len());
        return Err(Error::argument(message));
    }
    let (train, validation) = numbers.split_at(numbers.len() / 10 * 9);

    let generator = Generator::new(device, options.seed);
    let model = Chars::new(&generator, known.len())?;
    let optimizer = Optimizer::new(AdamW::new(options.lr.unwrap_or(2e-3)), &model.parameters())?;
    let optimizer = optimizer.clip_norm(1.0);
    let loader = DataLoader::new(&examples(device, train)?, BATCH)?.shuffle(options.seed);
    let steps = loader.steps().unwrap_or(0);
    let trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
        let scores = model.forward(x)?.permute(&[0, 2, 1])?;
        Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
    })?
    .validate_on(DataLoader::new(&examples(device, validation)?, BATCH)?)
    .metric(Accuracy::new());
    let architecture = json!({
        "net": "chars",
        "characters": known.iter().collect::<String>(),
        "length": LENGTH,
        "width": WIDTH,
        "heads": HEADS,
        "layers": LAYERS,
        "dim_feedforward": 4 * WIDTH,
        "activation": "gelu",
        "norm_first": true,
        "output": "scores of the next character at each place",
    });
    let work = Work { trainer, options, world, architecture, epochs: 10, steps, batch: BATCH };
    let model = work.run()?;
    if world.rank() > 0 {
        return Ok(());
    }
    let written = write(device, &model, &numbers[..LENGTH / 2], options.seed)?;
    println!("sample:\n{}", written.iter().map(|&n| known[n as usize]).collect::<String>());
    Ok(())
}

/// Continues a text. Each character is drawn with the model's probabilities.
fn write(device: &Device, model: &Chars, begin: &[i32], seed: u32) -> Result<Vec<i32>> {
    model.eval();
    let mut text = begin.to_vec();
    let draws = device.uniform(&[160], 0.0, 1.0, seed)?.read_blocking::<f32>()?;
    for draw in draws {
        let seen = &text[text.len().saturating_sub(LENGTH)..];
        // Positions attend only to earlier ones, so padding behind the text has no effect, and all rounds share one plan.
        let mut padded = seen.to_vec();
        padded.resize(LENGTH, 0);
        let scores = model.forward(&device.tensor(&padded, &[1, LENGTH])?)?;
        let shares = scores.softmax(-1)?;
        let count = shares.shape()[2];
        let shares = shares.read_range_blocking::<f32>((seen.len() - 1) * count, count)?;
        let mut left = draw;
        let next = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        text.push(next.unwrap_or(count - 1) as i32);
    }
    Ok(text)
}
