//! Tests small models with random weights against plain `f64` code, on every device, and tests generation.

use super::toy_reference::{Matrix, Toy};
use std::io::{Cursor, Write as _};
use warpweft::backend::Pending;
use warpweft::device::{Device, Preference};
use warpweft::error::ErrorKind;
use warpweft::model::{
    Finish, GenerateOptions, Generated, LanguageModel, LoadOptions, ModelFiles, SamplingOptions,
};
use warpweft::text::Message;
use warpweft_native::files;
use warpweft_native::prelude::*;

pub fn load(device: &Device, toy: &Toy) -> LanguageModel {
    load_with(device, toy, 32, DType::F32)
}

pub fn load_with(device: &Device, toy: &Toy, context: usize, cache: DType) -> LanguageModel {
    let options =
        LoadOptions { context: Some(context), cache: Some(cache), ..LoadOptions::default() };
    let (file, folder) = (toy.file(), toy.in_folder.then(|| toy.folder()));
    // The weights and caches may be evicted at any time.
    let load = move |device: Device| {
        let model = match &folder {
            None => LanguageModel::load(&device, Cursor::new(file.clone()), options),
            Some(folder) => pollster::block_on(async {
                let files = ModelFiles::folder(folder.clone()).await?;
                LanguageModel::load_files(&device, files, options).await
            }),
        };
        Box::pin(std::future::ready(model)) as Pending<_>
    };
    pollster::block_on(LanguageModel::reloadable(device, load)).expect("a model")
}

/// Returns the CPU, and a GPU or a software GPU.
pub fn devices() -> Vec<Device> {
    let cpu = Device::with_blocking(Preference::Cpu).expect("the CPU");
    match Device::with_blocking(Preference::Software) {
        Ok(gpu) => vec![cpu, gpu],
        Err(error) => {
            let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
            assert!(!required.contains("wgpu"), "WARPWEFT_REQUIRE={required}, but {error}");
            let _ = writeln!(std::io::stderr(), "wgpu: no adapter, models not run ({error})");
            vec![cpu]
        }
    }
}

pub fn close(got: &Tensor, want: &[f64], what: &str) {
    close_to(got, want, 2e-4, what);
}

pub fn close_to(got: &Tensor, want: &[f64], error: f64, what: &str) {
    let got: Vec<f32> = got.read_blocking().expect("numbers");
    assert_eq!(got.len(), want.len(), "{what}");
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() < error, "{what}, token {n}: {got}, not {want}");
    }
}

pub const TOKENS: [u32; 25] =
    [3, 14, 15, 39, 2, 6, 5, 35, 8, 9, 7, 9, 3, 23, 0, 38, 4, 6, 26, 4, 33, 8, 32, 7, 9];

#[test]
fn logits_are_those_of_plain_loops() {
    for device in devices() {
        for (gemma, window, tied) in [
            (false, None, false),
            (false, Some(5), true),
            (true, Some(5), true),
            (true, Some(1), true),
        ] {
            let toy = Toy::new(gemma, window, tied);
            let (model, want) = (load(&device, &toy), toy.logits(&TOKENS));
            let what = |how: &str| format!("{device:?}, gemma: {gemma}, window: {window:?}, {how}");
            let mut context = model.context().expect("a context");
            let all = context.add_all(&TOKENS).expect("logits");
            close(&all, &want.concat(), &what("together"));
            // In pieces, the last of which are single tokens.
            let mut context = model.context().expect("a context");
            let mut at = 0;
            for count in [4, 1, 1, 7, 2, 1, 1] {
                let logits = context.add(&TOKENS[at..at + count]).expect("logits");
                at += count;
                close(&logits, &want[at - 1], &what(&format!("{at} tokens in pieces")));
            }
            // Back to an earlier position, followed by other tokens.
            let other = [&TOKENS[..9], &[1, 2, 3]].concat();
            let logits = context.resume(&other).expect("logits");
            close(&logits, toy.logits(&other).last().expect("logits"), &what("another end"));
            assert_eq!(context.tokens(), other);
            let logits = context.resume(&TOKENS[..20]).expect("logits");
            close(&logits, &want[19], &what("back again"));
            let logits = context.resume(&TOKENS[..20]).expect("logits");
            close(&logits, &want[19], &what("the very same"));
        }
    }
}

#[test]
fn keys_and_values_may_be_halves() {
    for device in devices() {
        let toy = Toy::new(true, Some(5), true);
        let (model, want) =
            (load_with(&device, &toy, 32, DType::F16), toy.logits(&TOKENS).concat());
        let mut context = model.context().expect("a context");
        let all = context.add_all(&TOKENS).expect("logits");
        close_to(&all, &want, 0.05, "halves");
        let exact = context.add_all(&[1]).is_ok();
        assert!(exact, "a single token");
    }
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let options = LoadOptions { cache: Some(DType::I32), ..LoadOptions::default() };
    let file = Cursor::new(Toy::new(false, None, true).file());
    let refused = LanguageModel::load(&device, file, options).map(drop).expect_err("integers");
    assert_eq!(refused.message(), "model: the cache must be f16 or f32, got i32");
}

#[test]
fn windows_move_on_and_are_computed_again() {
    let tokens: Vec<u32> = (0..1500).map(|n| n * n % 39).collect();
    // A window as long as a part of a prompt, and a much shorter one.
    for (gemma, window) in [(true, 512), (false, 3)] {
        let toy = Toy { layers: if gemma { 6 } else { 2 }, ..Toy::new(gemma, Some(window), true) };
        let want = toy.logits(&tokens);
        // The large model would take a software GPU a minute.
        for device in devices().iter().take(if gemma { 1 } else { 2 }) {
            let model = load_with(device, &toy, 1600, DType::F32);
            let what = |how: &str, at| format!("{device:?}, {gemma}, window {window}, {how} {at}");
            // A part of a prompt and the window before it fit in the cache. One more token does not.
            let room = 512 + window - 1;
            for length in [511, 512, 513, room, room + 1, 1500] {
                let mut context = model.context().expect("a context");
                context.add(&tokens[..length - 1]).expect("logits");
                let logits = context.add(&tokens[length - 1..length]).expect("logits");
                close(&logits, &want[length - 1], &what("a token at", length));
            }
            // No part ends where the window moves. Also truncates a little, far, and beyond the window.
            let mut context = model.context().expect("a context");
            let mut at = 0;
            for part in [300, 212, 1, 400, 1, 1, 500] {
                let logits = context.add_all(&tokens[at..at + part]).expect("logits");
                close(&logits, &want[at..at + part].concat(), &what("a part from", at));
                at += part;
            }
            for back in [1410, 1000, 2] {
                context.truncate(back);
                assert_eq!(context.len(), back);
                let logits = context.add(&tokens[back..back + 7]).expect("logits");
                close(&logits, &want[back + 6], &what("back to", back));
                let logits = context.resume(&tokens[..1450]).expect("logits");
                close(&logits, &want[1449], &what("again from", back));
            }
            context.truncate(3);
            let logits = context.add_all(&tokens[3..5]).expect("logits");
            close(&logits, &want[3..5].concat(), &what("all from", 3));
        }
    }
}

#[test]
fn a_context_refuses_what_it_has_no_room_for_and_stays_as_it_was() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let toy = Toy::new(false, None, true);
    let model = load(&device, &toy);
    let mut context = model.context().expect("a context");
    context.add(&TOKENS[..20]).expect("logits");
    let refused = context.add(&TOKENS[..13]).expect_err("too long");
    assert_eq!(refused.kind(), ErrorKind::Limit);
    assert_eq!(
        refused.message(),
        "model: the context must have at most 32 tokens, got 20 and 13 more"
    );
    let refused = context.add(&[1, 40]).expect_err("no token");
    assert_eq!(refused.message(), "model: tokens must be below 40, got 40");
    let refused = context.add(&[]).expect_err("nothing");
    assert_eq!(refused.message(), "model: at least one token must be added, got none");
    let refused = context.resume(&[&TOKENS[..9], &[40]].concat()).expect_err("no token");
    assert_eq!(refused.message(), "model: tokens must be below 40, got 40");
    let long: Vec<u32> = TOKENS[..9].iter().chain(&TOKENS).copied().collect();
    assert_eq!(context.resume(&long).expect_err("too long").kind(), ErrorKind::Limit);
    assert_eq!(context.tokens(), &TOKENS[..20]);
    let want = toy.logits(&TOKENS[..21]);
    close(&context.add(&TOKENS[20..21]).expect("logits"), &want[20], "after that");
}

#[test]
fn models_come_in_parts() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let toy = Toy::new(false, None, false);
    let parts = toy.files(3);
    let folder = std::env::temp_dir().join(format!("warpweft-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |n: usize| folder.join(format!("toy-{n:05}-of-00003.gguf"));
    for (n, part) in parts.iter().enumerate() {
        std::fs::write(path(n + 1), part).expect("a file");
    }
    let files = files::open_gguf(path(1)).expect("all parts");
    assert_eq!(files.len(), 3);
    let options = LoadOptions { cache: Some(DType::F32), ..LoadOptions::default() };
    let model = LanguageModel::load_parts(&device, files, options).expect("a model");
    let logits = model.context().expect("a context").add_all(&TOKENS).expect("logits");
    close(&logits, &toy.logits(&TOKENS).concat(), "in parts");
    std::fs::remove_file(path(2)).expect("it was there");
    let missing = files::open_gguf(path(1)).map(drop).expect_err("a part is missing");
    assert!(missing.message().contains("toy-00002-of-00003.gguf"), "{missing}");
    std::fs::remove_dir_all(&folder).expect("the folder goes");

    let refused = |parts: &[&[u8]]| {
        let parts = parts.iter().map(|part| Cursor::new(part.to_vec())).collect();
        let loaded = LanguageModel::load_parts(&device, parts, LoadOptions::default());
        loaded.map(drop).expect_err("wrong parts").message().to_string()
    };
    let [first, second, third] = [0, 1, 2].map(|n| &parts[n][..]);
    let must = "the files must be all parts of one model, in order, got part";
    assert_eq!(refused(&[first]), format!("gguf: {must} 1 of 3 as part 1 of 1"));
    assert_eq!(
        refused(&[first, third, second]),
        format!("gguf, part 2 of 3: {must} 3 of 3 as part 2 of 3")
    );
    let cut = refused(&[first, &second[..second.len() - 40], third]);
    assert!(cut.starts_with("gguf, part 2 of 3: at byte ") && cut.contains("incomplete"), "{cut}");
    let strange = refused(&[first, &b"<html>"[..], third]);
    assert_eq!(
        strange,
        "gguf, part 2 of 3: at byte 0: the file must begin with `GGUF`, got an HTML page; check the URL of the download"
    );
    assert_eq!(refused(&[]), "gguf: there must be at least one part, got none");
}

#[test]
fn damaged_models_are_refused() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let refused = |change: &dyn Fn(&mut Toy)| {
        let mut toy = Toy::new(false, None, false);
        change(&mut toy);
        let loaded = LanguageModel::load(&device, Cursor::new(toy.file()), LoadOptions::default());
        loaded.map(drop).expect_err("a damaged model").message().to_string()
    };
    let message = refused(&|toy| drop(toy.weights.remove("blk.1.ffn_down.weight")));
    assert_eq!(
        message,
        "gguf: the file must have a tensor \"blk.1.ffn_down.weight\", got none of that name"
    );
    let message = refused(&|toy| drop(toy.weights.remove("token_embd.weight")));
    assert_eq!(message, "model: `token_embd.weight` must be in the file and a matrix, got another");
    let message = refused(&|toy| toy.heads = 3);
    assert_eq!(message, "model: `llama.attention.head_count_kv` must divide the 3 heads, got 2");
    let bias = |toy: &mut Toy| {
        toy.weights.insert("blk.1.attn_q.bias".into(), Matrix(1, 32, vec![0.0; 32]));
    };
    let message = refused(&bias);
    assert_eq!(message, "model: the layers must have no biases, got \"blk.1.attn_q.bias\"");
    let message = refused(&|toy| toy.hidden = 47);
    assert!(
        message.contains("\"blk.0.ffn_gate.weight\" must have shape [47, 32], got [48, 32]"),
        "{message}"
    );
}

fn generated(model: &LanguageModel, options: GenerateOptions) -> (Vec<Generated>, Option<Finish>) {
    let mut context = model.context().expect("a context");
    let mut generation = context.generate(&TOKENS[..3], options).expect("a generation");
    let mut all = Vec::new();
    while let Some(token) = generation.next_blocking().expect("a token") {
        all.push(token);
    }
    (all, generation.finish())
}

fn ids(tokens: &[Generated]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

fn text(tokens: &[Generated]) -> String {
    tokens.iter().map(|token| &token.text[..]).collect()
}

#[test]
fn the_likeliest_tokens_follow_until_there_is_no_room() {
    for device in devices() {
        let toy = Toy::new(false, None, true);
        let model = load(&device, &toy);
        let (tokens, finish) =
            generated(&model, GenerateOptions { likeliest: 3, ..Default::default() });
        assert_eq!(finish, Some(Finish::ContextFull));
        let mut seen = TOKENS[..3].to_vec();
        for token in &tokens {
            let logits = toy.logits(&seen).pop().expect("logits");
            let mut order: Vec<usize> = (0..logits.len()).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            let sum: f64 = logits.iter().map(|x| x.exp()).sum();
            assert_eq!(token.id as usize, order[0]);
            assert!((f64::from(token.logprob) - (logits[order[0]] - sum.ln())).abs() < 1e-3);
            for (&(id, logprob), &want) in token.likeliest.iter().zip(&order) {
                assert_eq!(id as usize, want);
                assert!((f64::from(logprob) - (logits[want] - sum.ln())).abs() < 1e-3);
            }
            seen.push(token.id);
        }
        // The last token has no successor, so it is not in the context.
        assert_eq!(tokens.len(), 30);
        assert_eq!(
            text(&tokens),
            tokens.iter().map(|t| char::from(b'A' + t.id as u8)).collect::<String>()
        );
    }
}

#[test]
fn tokens_come_as_a_stream_and_as_an_iterator() {
    use futures_util::TryStreamExt;
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let model = load(&device, &Toy::new(false, None, true));
    let options = GenerateOptions { max_tokens: Some(9), ..Default::default() };
    let (want, _) = generated(&model, options.clone());
    let mut context = model.context().expect("a context");
    let stream = context.generate(&TOKENS[..3], options.clone()).expect("a generation").tokens();
    let streamed: Vec<Generated> = pollster::block_on(stream.try_collect()).expect("tokens");
    assert_eq!((streamed.len(), &streamed), (9, &want));
    let listed = context.generate(&TOKENS[..3], options).expect("a generation").tokens_blocking();
    assert_eq!(listed.collect::<Result<Vec<_>>>().expect("tokens"), want);
    let refused = context.chat(&[Message::new("user", "A")], GenerateOptions::default());
    assert_eq!(refused.map(drop).expect_err("no template").kind(), ErrorKind::Unsupported);
}

#[test]
fn texts_end_a_generation_before_they_are_seen() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let model = load(&device, &Toy::new(false, None, true));
    let (all, _) = generated(&model, GenerateOptions::default());
    let whole = text(&all);
    for (from, to) in [(4, 7), (0, 2), (9, 10)] {
        let stop = vec!["no such text".to_string(), whole[from..to].to_string()];
        let (tokens, finish) = generated(&model, GenerateOptions { stop, ..Default::default() });
        let first = whole.find(&whole[from..to]).expect("it is there");
        assert_eq!((text(&tokens), finish), (whole[..first].to_string(), Some(Finish::Stop)));
    }
    let options = GenerateOptions { max_tokens: Some(4), ..Default::default() };
    let (tokens, finish) = generated(&model, options);
    assert_eq!((text(&tokens), finish), (whole[..4].to_string(), Some(Finish::MaxTokens)));
    // Text that could be the beginning of a stop text is emitted at the end.
    let stop = vec![format!("{}!", &whole[2..4])];
    let options = GenerateOptions { max_tokens: Some(4), stop, ..Default::default() };
    assert_eq!(text(&generated(&model, options).0), whole[..4]);
}

#[test]
fn draws_follow_the_probabilities() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let toy = Toy::new(false, None, true);
    let model = load(&device, &toy);
    let logits = toy.logits(&TOKENS[..3]).pop().expect("logits");
    let draw = |seed, sampling: SamplingOptions| {
        let sampling = SamplingOptions { seed, ..sampling };
        let options = GenerateOptions { max_tokens: Some(1), sampling, ..Default::default() };
        generated(&model, options).0[0].id as usize
    };
    let plain = SamplingOptions { temperature: 0.7, ..Default::default() };
    let narrow = SamplingOptions { temperature: 0.7, top_k: 6, top_p: 0.8, ..Default::default() };
    let likely = SamplingOptions { temperature: 0.7, min_p: 0.3, ..Default::default() };
    for (sampling, name) in [(plain, "all"), (narrow, "top"), (likely, "likely")] {
        // The expected probabilities.
        let weights: Vec<f64> = logits.iter().map(|x| (x / 0.7).exp()).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
        if sampling.top_k > 0 {
            order.truncate(sampling.top_k);
        }
        let sum: f64 = order.iter().map(|&id| weights[id]).sum();
        let mut before = 0.0;
        let kept: Vec<usize> = order
            .iter()
            .copied()
            .filter(|&id| {
                let keep =
                    before < sampling.top_p && weights[id] >= sampling.min_p * weights[order[0]];
                before += weights[id] / sum;
                keep
            })
            .collect();
        let sum: f64 = kept.iter().map(|&id| weights[id]).sum();
        let (count, mut found) = (300, vec![0usize; weights.len()]);
        for seed in 0..count {
            found[draw(seed, sampling.clone())] += 1;
        }
        let outside: usize =
            (0..weights.len()).filter(|id| !kept.contains(id)).map(|id| found[id]).sum();
        assert_eq!(outside, 0, "{name}");
        for &id in &kept {
            let want = weights[id] / sum * f64::from(count);
            let far = (found[id] as f64 - want).abs();
            assert!(
                far < 5.0 * want.sqrt() + 1.0,
                "{name}: token {id} came {} times, not {want}",
                found[id]
            );
        }
        assert_eq!(draw(7, sampling.clone()), draw(7, sampling));
    }
}

#[test]
fn a_tiny_temperature_takes_the_likeliest_token() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let model = load(&device, &Toy::new(false, None, true));
    let say = |sampling: SamplingOptions| {
        ids(&generated(
            &model,
            GenerateOptions { max_tokens: Some(6), sampling, ..Default::default() },
        )
        .0)
    };
    let want = say(SamplingOptions::default());
    for temperature in [f64::MIN_POSITIVE, 1e-45, 1e-39, 1e-38, 1e-20, 9e-7] {
        for top_k in [0, 3] {
            let sampling = SamplingOptions { temperature, top_k, seed: 5, ..Default::default() };
            assert_eq!(say(sampling), want, "temperature {temperature}, top_k {top_k}");
        }
    }
}

#[test]
fn biases_are_numbers_below_infinity() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let model = load(&device, &Toy::new(false, None, true));
    let begin = |more: f32| {
        let sampling =
            SamplingOptions { logit_bias: vec![(3, 1.0), (4, more)], ..Default::default() };
        let options = GenerateOptions { max_tokens: Some(1), sampling, ..Default::default() };
        model.context().expect("a context").generate(&TOKENS[..3], options).map(drop)
    };
    for more in [f32::NAN, f32::INFINITY] {
        let refused = begin(more).expect_err("no bias");
        let want = format!(
            "sampling: logit_bias must have numbers below infinity, got {more} for token 4"
        );
        assert_eq!(refused.message(), want);
    }
    begin(f32::NEG_INFINITY).expect("an excluded token");
}

#[test]
fn penalties_and_biases_change_what_is_likeliest() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let toy = Toy::new(false, None, true);
    let model = load(&device, &toy);
    let sampling = SamplingOptions {
        repetition_penalty: 1.3,
        frequency_penalty: 0.2,
        presence_penalty: 0.4,
        logit_bias: vec![(4, 0.5), (9, -0.5)],
        ..Default::default()
    };
    let options = GenerateOptions { max_tokens: Some(12), sampling, ..Default::default() };
    let mut seen = TOKENS[..3].to_vec();
    for id in ids(&generated(&model, options).0) {
        let mut logits = toy.logits(&seen).pop().expect("logits");
        for (id, logit) in logits.iter_mut().enumerate() {
            let count = seen.iter().filter(|&&other| other as usize == id).count() as f64;
            if count > 0.0 {
                *logit = if *logit > 0.0 { *logit / 1.3 } else { *logit * 1.3 };
                *logit -= 0.2 * count + 0.4;
            }
        }
        logits[4] += 0.5;
        logits[9] -= 0.5;
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        assert_eq!(Some(id as usize), best);
        seen.push(id);
    }
    let sampling = SamplingOptions { top_p: 1.5, ..Default::default() };
    let mut context = model.context().expect("a context");
    let options = GenerateOptions { sampling, ..Default::default() };
    let refused = context.generate(&TOKENS[..3], options).map(drop).expect_err("no probability");
    assert_eq!(refused.message(), "sampling: top_p must be from 0 to 1, got 1.5");
}

#[test]
fn a_token_plans_nothing_and_allocates_nothing() {
    for device in devices() {
        let model = load(&device, &Toy::new(true, Some(5), true));
        let mut context = model.context().expect("a context");
        let mut generation =
            context.generate(&TOKENS[..3], GenerateOptions::default()).expect("a generation");
        for _ in 0..3 {
            generation.next_blocking().expect("a token");
        }
        let before = device.stats();
        for _ in 0..5 {
            generation.next_blocking().expect("a token");
        }
        let after = device.stats();
        assert_eq!(
            (after.plans, after.pipelines, after.buffers),
            (before.plans, before.pipelines, before.buffers),
            "{device:?}"
        );
    }
}
