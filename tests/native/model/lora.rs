//! Tests LoRA adapters of small models: logits, losses and gradients, compared with plain `f64` code, and training.

use super::tiny::{close, devices, load, load_with, TOKENS};
use super::toy_reference::{random, Matrix, Toy};
use std::collections::BTreeMap;
use warpweft::device::{Device, Preference};
use warpweft::model::{Example, LanguageModel, LoraAdapter, LoraOptions, Projection};
use warpweft::nn::Module;
use warpweft::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;

/// The values of an adapter, by name.
pub type Values = BTreeMap<String, Vec<f64>>;

/// The names of matrices in a GGUF file, by their names in Hugging Face's libraries.
const NAMES: [(&str, &str); 7] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// Returns an adapter with random values in A and B.
pub fn filled(model: &LanguageModel, options: &LoraOptions, seed: u64) -> LoraAdapter {
    let adapter = LoraAdapter::new(model, options).expect("an adapter");
    let mut at = seed << 32;
    let mut value = |shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        at += count as u64;
        let scale = 1.0 / (shape[1] as f64).sqrt();
        let numbers: Vec<f32> =
            (0..count as u64).map(|n| (random(at + n) * scale) as f32).collect();
        model.device().tensor(&numbers, shape).expect("a matrix")
    };
    for (_, variable) in adapter.named_parameters() {
        variable.assign(&value(&variable.shape())).expect("assigned");
    }
    adapter
}

pub fn values(adapter: &LoraAdapter) -> Values {
    let read = |(name, variable): (String, Variable)| {
        let numbers: Vec<f32> = variable.value().read_blocking().expect("numbers");
        (name, numbers.into_iter().map(f64::from).collect())
    };
    adapter.named_parameters().into_iter().map(read).collect()
}

/// Applies the changes of an adapter with these values to a reference.
pub fn change(toy: &mut Toy, values: &Values, scale: f64) {
    toy.changes.clear();
    for layer in 0..toy.layers {
        for (module, name) in NAMES {
            let path = format!("base_model.model.model.layers.{layer}.{module}");
            let Some(a) = values.get(&format!("{path}.lora_A.weight")) else { continue };
            let b = &values[&format!("{path}.lora_B.weight")];
            let name = format!("blk.{layer}.{name}");
            let Matrix(rows, columns, _) = toy.weights[&format!("{name}.weight")];
            let rank = a.len() / columns;
            assert_eq!((a.len(), b.len()), (rank * columns, rows * rank), "{path}");
            let half = toy.head / 2;
            let mut dense = Vec::new();
            for row in 0..rows {
                // GGUF files of Llama order the rows of queries and keys so that pairs are neighbors.
                let (head, within) = (row / toy.head * toy.head, row % toy.head);
                let there =
                    match !toy.gemma && ["attn_q", "attn_k"].iter().any(|n| name.ends_with(n)) {
                        true => head + within % 2 * half + within / 2,
                        false => row,
                    };
                for column in 0..columns {
                    let product = |n: usize| b[there * rank + n] * a[n * columns + column];
                    dense.push(scale * (0..rank).map(product).sum::<f64>());
                }
            }
            toy.changes.insert(name, dense);
        }
    }
}

/// Returns the mean cross-entropy of the trained tokens.
pub fn loss(toy: &Toy, examples: &[Example]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for Example { tokens, prompt } in examples {
        let logits = toy.logits(&tokens[..tokens.len() - 1]);
        for (at, logits) in logits.iter().enumerate().skip((*prompt).max(1) - 1) {
            let total: f64 = logits.iter().map(|x| x.exp()).sum();
            sum += total.ln() - logits[tokens[at + 1] as usize];
            count += 1;
        }
    }
    sum / f64::from(count)
}

fn families() -> [Toy; 3] {
    [(false, None, false), (false, Some(5), true), (true, Some(5), true)]
        .map(|(gemma, window, tied)| Toy::new(gemma, window, tied))
}

pub fn all_targets(rank: usize) -> LoraOptions {
    let targets = Projection::ALL.to_vec();
    LoraOptions { rank, alpha: 6.0, targets, ..LoraOptions::default() }
}

fn examples() -> Vec<Example> {
    vec![
        Example::text(&TOKENS[..19]),
        Example::completion(&TOKENS[5..9], &TOKENS[9..14]),
        Example { tokens: TOKENS[20..22].to_vec(), prompt: 1 },
    ]
}

/// Returns all logits of the tokens in a new context.
fn logits(model: &LanguageModel) -> Tensor {
    model.context().expect("a context").add_all(&TOKENS).expect("logits")
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.read_blocking().expect("numbers")
}

#[test]
fn an_adapter_begins_as_the_model() {
    for device in devices() {
        for toy in families() {
            let model = load(&device, &toy);
            let adapter = LoraAdapter::new(&model, &all_targets(4)).expect("an adapter");
            let tuned = model.with_adapter(&adapter).expect("a model");
            assert_eq!(numbers(&logits(&tuned)), numbers(&logits(&model)), "{device:?}");
            let all = values(&adapter);
            assert_eq!(all.len(), toy.layers * 14);
            let first = "base_model.model.model.layers.0.mlp.down_proj.lora_";
            // Kaiming uniform with a slope of sqrt(5).
            let (a, bound) = (&all[&format!("{first}A.weight")], 1.0 / (toy.hidden as f64).sqrt());
            let largest = a.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!(largest > 0.9 * bound && largest <= bound, "{largest}, {bound}");
            assert!(all[&format!("{first}B.weight")].iter().all(|&x| x == 0.0));
            let other = LoraAdapter::new(&model, &LoraOptions { seed: 1, ..all_targets(4) });
            assert_ne!(values(&other.expect("an adapter")), all);
        }
    }
}

#[test]
fn logits_are_those_of_changed_weights() {
    for device in devices() {
        for mut toy in families() {
            let model = load(&device, &toy);
            for options in [all_targets(3), LoraOptions { rank_stabilized: true, ..all_targets(4) }]
            {
                let adapter = filled(&model, &options, 5);
                let scale = if options.rank_stabilized { 3.0 } else { 2.0 };
                assert_eq!((adapter.rank(), adapter.scale()), (options.rank, scale));
                change(&mut toy, &values(&adapter), scale);
                let want = toy.logits(&TOKENS);
                let tuned = model.with_adapter(&adapter).expect("a model");
                let what = format!("{device:?}, gemma: {}", toy.gemma);
                close(&logits(&tuned), &want.concat(), &what);
                // Single tokens run another program.
                let mut context = tuned.context().expect("a context");
                context.add(&TOKENS[..7]).expect("logits");
                for at in 7..10 {
                    let logits = context.add(&TOKENS[at..at + 1]).expect("logits");
                    close(&logits, &want[at], &format!("{what}, one token at {at}"));
                }
            }
        }
    }
}

#[test]
fn each_target_changes_the_logits() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    for mut toy in families() {
        let model = load(&device, &toy);
        let base = toy.logits(&TOKENS).concat();
        for target in Projection::ALL {
            let options = LoraOptions { targets: vec![target], ..all_targets(3) };
            let adapter = filled(&model, &options, 9);
            assert_eq!(adapter.parameters().len(), 2 * toy.layers);
            change(&mut toy, &values(&adapter), 2.0);
            let want = toy.logits(&TOKENS).concat();
            close(&logits(&model.with_adapter(&adapter).expect("a model")), &want, target.name());
            let apart = want.iter().zip(&base).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart > 0.05, "{}: {apart}", target.name());
        }
    }
}

/// Returns an adapter, its loss on a device, and the gradients by its matrices.
fn gradients(device: &Device, toy: &Toy) -> (LoraAdapter, f64, Vec<Vec<f32>>) {
    let adapter = filled(&load(device, toy), &all_targets(3), 3);
    let loss = adapter.loss(&examples()).expect("a loss");
    let variables = adapter.parameters();
    loss.backward(&variables.iter().collect::<Vec<_>>()).expect("gradients");
    let gradient = |variable: &Variable| numbers(&variable.gradient().expect("a gradient"));
    let gradients = variables.iter().map(gradient).collect();
    (adapter, f64::from(numbers(&loss)[0]), gradients)
}

#[test]
fn losses_and_gradients_are_those_of_plain_loops() {
    for mut toy in families() {
        let found: Vec<_> = devices().iter().map(|device| gradients(device, &toy)).collect();
        let adapter = &found[0].0;
        let mut values = values(adapter);
        change(&mut toy, &values, 2.0);
        let want = loss(&toy, &examples());
        for (_, found, _) in &found {
            assert!((found - want).abs() < 1e-4, "gemma: {}: {found}, not {want}", toy.gemma);
        }
        // The slope along a random direction, for each matrix.
        for (n, (name, _)) in adapter.named_parameters().into_iter().enumerate() {
            let before = values[&name].clone();
            let along: Vec<f64> =
                (0..before.len() as u64).map(|at| random(((n as u64) << 20) + at)).collect();
            let mut at = |step: f64| {
                let moved = before.iter().zip(&along).map(|(x, d)| x + step * d).collect();
                values.insert(name.clone(), moved);
                change(&mut toy, &values, 2.0);
                loss(&toy, &examples())
            };
            let want = (at(1e-4) - at(-1e-4)) / 2e-4;
            values.insert(name.clone(), before.clone());
            for (device, (_, _, gradients)) in found.iter().enumerate() {
                let gradient = &gradients[n];
                let got: f64 = gradient.iter().zip(&along).map(|(g, d)| f64::from(*g) * d).sum();
                let size = gradient.iter().map(|g| f64::from(g * g)).sum::<f64>().sqrt();
                let what = format!("device {device}, gemma: {}, {name}", toy.gemma);
                let close = 1e-3 * size + 1e-6;
                assert!((got - want).abs() < close, "{what}: {got}, not {want}, {size}");
                assert!(size > 1e-4, "{what}: {size}");
            }
        }
    }
}

/// Tests more rows than the logits in memory at a time, and many lists.
#[test]
fn large_batches_are_computed_in_parts() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let mut toy = Toy::new(false, None, false);
    let model = load_with(&device, &toy, 150, DType::F32);
    let examples: Vec<Example> = [150, 31, 2, 133, 17]
        .map(|length| (0..length).map(|n| n * n * (length + n) % 40).collect())
        .map(|tokens| Example { tokens, prompt: 9 })
        .map(|example| Example { prompt: if example.tokens.len() > 9 { 9 } else { 0 }, ..example })
        .into();
    let adapter = filled(&model, &all_targets(2), 8);
    let found = adapter.loss(&examples).expect("a loss");
    let (name, variable) = adapter.named_parameters().remove(0);
    found.backward(&[&variable]).expect("gradients");
    let gradient = numbers(&variable.gradient().expect("a gradient"));
    let mut values = values(&adapter);
    let before = values[&name].clone();
    let mut at = |n: usize, step: f64| {
        let mut moved = before.clone();
        moved[n] += step;
        values.insert(name.clone(), moved);
        change(&mut toy, &values, 3.0);
        loss(&toy, &examples)
    };
    let (found, want) = (f64::from(numbers(&found)[0]), at(0, 0.0));
    assert!((found - want).abs() < 1e-4, "{found}, not {want}");
    for n in [0, 21, 63] {
        let (got, want) = (f64::from(gradient[n]), (at(n, 1e-4) - at(n, -1e-4)) / 2e-4);
        assert!((got - want).abs() < 1e-5, "element {n}: {got}, not {want}");
    }
}

#[test]
fn training_lowers_the_loss_and_models_follow() {
    for device in devices() {
        for mut toy in families() {
            let model = load(&device, &toy);
            let base = numbers(&logits(&model));
            let mut untouched = model.context().expect("a context");
            untouched.add(&TOKENS[..10]).expect("logits");
            let adapter = LoraAdapter::new(&model, &all_targets(4)).expect("an adapter");
            let tuned = model.with_adapter(&adapter).expect("a model");
            let mut context = tuned.context().expect("a context");
            assert_eq!(numbers(&context.add_all(&TOKENS).expect("logits")), base);
            let mut optimizer =
                Optimizer::new(Adam::new(0.02), &adapter.parameters()).expect("an optimizer");
            let mut losses = Vec::new();
            for _ in 0..8 {
                let loss = adapter.loss(&examples()).expect("a loss");
                optimizer.minimize(&loss).expect("a step");
                losses.push(numbers(&loss)[0]);
            }
            let (first, last) = (losses[0], losses[7]);
            let what = format!("{device:?}, gemma: {}, {losses:?}", toy.gemma);
            assert!(last < 0.8 * first, "{what}");
            // A context from before the training, and a new one.
            change(&mut toy, &values(&adapter), 1.5);
            let want = toy.logits(&TOKENS).concat();
            context.truncate(0);
            let followed = context.add_all(&TOKENS).expect("logits");
            close(&followed, &want, &what);
            assert_eq!(numbers(&logits(&tuned)), numbers(&followed), "{what}");
            // The model without the adapter.
            assert_eq!(numbers(&logits(&model)), base, "{what}");
            let rest = untouched.add_all(&TOKENS[10..]).expect("logits");
            toy.changes.clear();
            close(&rest, &toy.logits(&TOKENS)[10..].concat(), &what);
            // Saved and loaded.
            let files = adapter.save_blocking().expect("files");
            let again = LoraAdapter::load(&model, files.config.as_bytes(), &files.weights);
            let again = again.expect("an adapter");
            assert_eq!(values(&again), values(&adapter));
            let again = model.with_adapter(&again).expect("a model");
            assert_eq!(numbers(&logits(&again)), numbers(&followed), "{what}");
        }
    }
}

#[test]
fn steps_of_the_same_lengths_plan_nothing() {
    for device in devices() {
        let model = load(&device, &Toy::new(true, Some(5), true));
        let adapter = LoraAdapter::new(&model, &all_targets(4)).expect("an adapter");
        let mut optimizer =
            Optimizer::new(Adam::new(0.01), &adapter.parameters()).expect("an optimizer");
        let mut plans = Vec::new();
        for n in 0..6 {
            // Reads between 9 and 16 tokens.
            let example = Example::completion(&TOKENS[..3], &TOKENS[3..10 + n]);
            let loss = adapter.loss(&[example]).expect("a loss");
            optimizer.minimize(&loss).expect("a step");
            plans.push(device.stats().plans);
        }
        assert_eq!(plans[2..], [plans[2]; 4], "{device:?}: {plans:?}");
    }
}

#[test]
fn wrong_examples_and_options_are_refused() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let model = load(&device, &Toy::new(false, None, true));
    let adapter = LoraAdapter::new(&model, &LoraOptions::default()).expect("an adapter");
    assert_eq!(adapter.parameters().len(), 3 * 2 * 2);
    let refused = |examples: &[Example]| {
        adapter.loss(examples).map(drop).expect_err("refused").message().to_string()
    };
    assert_eq!(refused(&[]), "lora: the loss must have at least one example, got none");
    let good = Example::text(&TOKENS[..4]);
    let short = "lora: example 1 must have tokens after the first";
    for (tokens, prompt, first) in [(0, 0, 1), (1, 0, 1), (1, 1, 1), (4, 4, 4), (2, 9, 9)] {
        let wrong = Example { tokens: TOKENS[..tokens].to_vec(), prompt };
        let message = refused(&[good.clone(), wrong]);
        assert_eq!(message, format!("{short} {first}, got {tokens} tokens"));
    }
    let message = refused(&[Example::text(&[1, 40])]);
    assert_eq!(message, "lora: tokens of example 0 must be below 40, got 40");
    assert!(adapter.loss(&[Example::text(&[1; 32])]).is_ok());
    let message = refused(&[Example::text(&[1; 33])]);
    assert_eq!(message, "lora: example 0 must have at most the 32 tokens of a context, got 33");

    let refused = |options: LoraOptions| {
        LoraAdapter::new(&model, &options).map(drop).expect_err("refused").message().to_string()
    };
    for rank in [0, 33, usize::MAX] {
        let message = refused(LoraOptions { rank, ..LoraOptions::default() });
        assert_eq!(
            message,
            format!("lora: rank must be from 1 to 32, the width of the model, got {rank}")
        );
    }
    let message = refused(LoraOptions { alpha: f64::NAN, ..LoraOptions::default() });
    assert_eq!(message, "lora: rank must be at least 1 and alpha finite, got rank 8 and alpha NaN");
    let message = refused(LoraOptions { targets: Vec::new(), ..LoraOptions::default() });
    assert_eq!(message, "lora: there must be at least one target, got none");

    let other = load(&device, &Toy::new(true, None, true));
    let refused = other.with_adapter(&adapter).map(drop).expect_err("another model");
    assert_eq!(
        refused.message(),
        "lora: the adapter must be for a model of the same family and extents, got another"
    );
    // The same model, loaded again.
    let again = load(&device, &Toy::new(false, None, true));
    assert!(again.with_adapter(&adapter).is_ok());
    let elsewhere = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let elsewhere = load(&elsewhere, &Toy::new(false, None, true));
    assert!(elsewhere.with_adapter(&adapter).is_err());
}
