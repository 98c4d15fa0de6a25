//! Tests embedders against sentence-transformers: small models with every feature of the family, and all-MiniLM-L6-v2.
//! (`tests/golden/encoders.py` and `minilm.py` computed the vectors in 64 bits.)

use super::calls::Random;
use super::path;
use super::residency::{losing, Losing};
use super::tiny::devices;
use crate::suite::every;
use pollster::block_on;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::future::ready;
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use warpweft::backend::{DeviceKind, Pending};
use warpweft::error::ErrorKind;
use warpweft::model::{EmbedOptions, Embedder};
use warpweft_native::files;
use warpweft_native::prelude::*;

#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Clone, Deserialize)]
struct Case {
    name: String,
    /// JSON, or the name of a file of weights.
    files: BTreeMap<String, String>,
    /// The expected vectors, by the name of the prompt.
    vectors: BTreeMap<String, Vec<Vec<f64>>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../golden/encoders.json")).expect("valid JSON")
}

fn weights(name: &str) -> &'static [u8] {
    match name {
        "encoder-bert.safetensors" => include_bytes!("../../golden/encoder-bert.safetensors"),
        "encoder-dense.safetensors" => include_bytes!("../../golden/encoder-dense.safetensors"),
        _ => include_bytes!("../../golden/encoder-xlm-roberta.safetensors"),
    }
}

impl Case {
    fn files(&self) -> Vec<(String, Cursor<Vec<u8>>)> {
        let bytes = |name: &str, text: &str| match name.ends_with(".json") {
            true => text.as_bytes().to_vec(),
            false => weights(text).to_vec(),
        };
        let file =
            |(name, text): (&String, &String)| (name.clone(), Cursor::new(bytes(name, text)));
        self.files.iter().map(file).collect()
    }

    /// Returns the case with a part of a file replaced.
    fn with(&self, file: &str, from: &str, to: &str) -> Case {
        let mut case = self.clone();
        let text = case.files.get_mut(file).expect("the file");
        assert!(text.contains(from), "{from} in {text}");
        *text = text.replace(from, to);
        case
    }

    fn load(&self, device: &Device) -> Result<Embedder> {
        Embedder::load(device, self.files())
    }
}

/// Returns the largest difference.
fn distance(got: &Tensor, want: &[Vec<f64>]) -> f64 {
    assert_eq!(got.shape(), [want.len(), want[0].len()]);
    let got: Vec<f32> = got.read_blocking().expect("numbers");
    let pairs = got.iter().zip(want.iter().flatten());
    pairs.map(|(&got, want)| (f64::from(got) - want).abs()).fold(0.0, f64::max)
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    let golden = golden();
    for device in devices() {
        for case in &golden.cases {
            let embedder = case.load(&device).expect("an embedder");
            for (prompt, want) in &case.vectors {
                let prompt_name = (!prompt.is_empty()).then_some(&prompt[..]);
                let options = EmbedOptions { prompt_name, ..EmbedOptions::default() };
                let got = embedder.embed(&golden.texts, &options).expect("vectors");
                let distance = distance(&got, want);
                assert!(
                    distance < 2e-5,
                    "{}, prompt {prompt:?}, {device:?}: {distance}",
                    case.name
                );
                assert_eq!(embedder.dimensions(), want[0].len());
            }
        }
    }
}

/// Tests that each feature matters: without it, a case has other vectors.
#[test]
fn no_feature_is_idle() {
    let golden = golden();
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let [mean, first, other, relu, dense, two, roberta] = &golden.cases[..] else {
        panic!("seven cases, got {}", golden.cases.len())
    };
    let pooling = "1_Pooling/config.json";
    let normalize = "sentence_transformers.base.modules.normalize.Normalize";
    let without = |case: &Case, kind: &str| {
        let modules: Vec<serde_json::Value> =
            serde_json::from_str(&case.files["modules.json"]).expect("modules");
        let kept: Vec<_> = modules.into_iter().filter(|module| module["type"] != kind).collect();
        let mut case = case.clone();
        case.files.insert("modules.json".into(), serde_json::json!(kept).to_string());
        case
    };
    let changed = [
        ("mean", mean.with(pooling, "\"mean\"", "\"cls\"")),
        ("normalize", without(mean, normalize)),
        ("first token", first.with(pooling, "\"cls\"", "\"mean\"")),
        ("activation", other.with("config.json", "\"gelu_new\"", "\"gelu\"")),
        ("epsilon", other.with("config.json", "0.1,\n  \"max_pos", "0.2,\n  \"max_pos")),
        ("relu", relu.with("config.json", "\"relu\"", "\"gelu\"")),
        ("maximum", relu.with(pooling, "\"max\"", "\"mean\"")),
        (
            "cut off",
            relu.with(
                "tokenizer_config.json",
                "\"model_max_length\": 9",
                "\"model_max_length\": 12",
            ),
        ),
        ("silu", dense.with("config.json", "\"silu\"", "\"gelu\"")),
        ("tanh", dense.with("2_Dense/config.json", "activation.Tanh", "linear.Identity")),
        ("square root", dense.with(pooling, "\"mean_sqrt_len_tokens\"", "\"max\"")),
        ("weighted", two.with(pooling, "\"weightedmean\"", "\"mean\"")),
        ("last token", two.with(pooling, "\"lasttoken\"", "\"cls\"")),
        ("positions", roberta.with("config.json", "\"pad_token_id\": 1", "\"pad_token_id\": 0")),
        (
            "heads",
            mean.with("config.json", "\"num_attention_heads\": 4", "\"num_attention_heads\": 2"),
        ),
    ];
    for (what, case) in changed {
        let embedder = case.load(&device).expect("an embedder");
        let got = embedder.embed(&golden.texts, &EmbedOptions::default()).expect("vectors");
        let distance = distance(&got, &case.vectors[""]);
        assert!(distance > 1e-4, "{what} makes no difference: {distance}");
    }
    let query = EmbedOptions { prompt: Some("query: "), ..EmbedOptions::default() };
    let got = first.load(&device).and_then(|embedder| embedder.embed(&golden.texts, &query));
    let got = got.expect("vectors");
    assert!(distance(&got, &first.vectors["query"]) < 2e-5);
    assert!(distance(&got, &first.vectors[""]) > 1e-3);
    assert!(
        distance(
            &first
                .load(&device)
                .expect("an embedder")
                .embed(&golden.texts, &query)
                .expect("vectors"),
            &first.vectors[""]
        ) > 1e-3
    );
}

/// Loads a model that can be loaded again. Returns the number of its loads, too.
fn reloadable(case: &Case, device: &Device) -> (Embedder, Arc<AtomicUsize>) {
    let (case, loads) = (case.clone(), Arc::new(AtomicUsize::new(0)));
    let count = loads.clone();
    let load = move |device: Device| {
        count.fetch_add(1, SeqCst);
        Box::pin(ready(case.load(&device))) as Pending<_>
    };
    (block_on(Embedder::reloadable(device, load)).expect("an embedder"), loads)
}

/// Evicts all that can be evicted.
fn evict_all(device: &Device) {
    device.set_memory_limit(Some(device.stats().used_bytes));
    let refused = device.zeros(&[1 << 22]).and_then(|zeros| zeros.run());
    assert_eq!(refused.expect_err("too large").kind(), ErrorKind::Memory);
    device.set_memory_limit(None);
}

/// Tests random programs of two embedders that share a device with too little memory: texts in any number, vectors that are
/// read much later, evictions, copies, failing calls, and models that are dropped and loaded.
#[test]
fn random_programs_with_too_little_memory() {
    let golden = golden();
    for device in devices() {
        let is_cpu = device.info().kind == DeviceKind::Cpu;
        let steps = if is_cpu { 3000 / every() } else { 60 };
        let (mut random, mut loads_before) = (Random(7), 0);
        let mut models = [0, 4].map(|case| (case, reloadable(&golden.cases[case], &device)));
        let mut held: Vec<(Tensor, Vec<Vec<f64>>)> = Vec::new();
        for step in 0..steps {
            let turn = random.below(2);
            let (case, (model, loads)) = &mut models[turn];
            let case = &golden.cases[*case];
            match random.below(10) {
                0 => evict_all(&device),
                1 => {
                    loads_before += loads.load(SeqCst);
                    models[turn].1 = reloadable(case, &device);
                }
                2 => *model = model.clone(),
                3 => block_on(model.ready()).expect("weights"),
                4 => {
                    let error = model.embed_tokens(&[vec![9999u32]]).expect_err("no such token");
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                }
                5 if !held.is_empty() => {
                    let (vectors, want) = held.swap_remove(random.below(held.len()));
                    let distance = distance(&vectors, &want);
                    assert!(distance < 2e-5, "{device:?}, step {step}: {distance}");
                }
                _ => {
                    let texts: Vec<usize> =
                        (0..1 + random.below(5)).map(|_| random.below(6)).collect();
                    let text = texts.iter().map(|&n| &golden.texts[n]).collect::<Vec<_>>();
                    let vectors = model.embed(&text, &EmbedOptions::default()).expect("vectors");
                    let want = texts.iter().map(|&n| case.vectors[""][n].clone()).collect();
                    held.push((vectors, want));
                    if held.len() > 4 {
                        held.remove(random.below(5));
                    }
                }
            }
        }
        let loads =
            loads_before + models.iter().map(|model| model.1 .1.load(SeqCst)).sum::<usize>();
        assert!(loads > steps / 10, "{device:?}: weights were loaded only {loads} times");
    }
}

#[test]
fn weights_of_an_embedder_are_evicted_unless_nothing_can_load_them() {
    let golden = golden();
    let case = &golden.cases[0];
    for device in devices() {
        let used = || {
            device.trim();
            device.stats().used_bytes
        };
        let begin = used();
        let (model, loads) = reloadable(case, &device);
        let fixed = case.load(&device).expect("an embedder");
        let all = used();
        evict_all(&device);
        // One of both is left.
        assert!(
            begin < used() && used() <= begin + (all - begin) * 3 / 4,
            "{begin} {} {all}",
            used()
        );
        for model in [&model, &fixed] {
            let got = model.embed(&golden.texts, &EmbedOptions::default()).expect("vectors");
            assert!(distance(&got, &case.vectors[""]) < 2e-5);
        }
        assert_eq!(loads.load(SeqCst), 2);
    }
}

#[test]
fn an_embedder_moves_to_a_new_device_after_a_loss() {
    let golden = golden();
    let case = &golden.cases[0];
    let embed = |model: &Embedder| {
        let vectors = model.embed(&golden.texts, &EmbedOptions::default())?;
        vectors.read_blocking::<f32>().map(|_| vectors)
    };
    for is_gpu in (0..devices().len()).map(|n| n == 1) {
        let Losing { device: counting, calls, .. } = losing(is_gpu, Vec::new());
        let (model, _) = reloadable(case, &counting);
        let before = calls.load(SeqCst);
        embed(&model).expect("vectors");
        for last in [before, (before + calls.load(SeqCst)) / 2] {
            let Losing { device, opened, .. } = losing(is_gpu, vec![last]);
            let (model, loads) = reloadable(case, &device);
            let fixed = case.load(&device);
            let lost = embed(&model).expect_err("the device was lost");
            assert_eq!(lost.kind(), ErrorKind::DeviceLost, "{lost}");
            block_on(model.ready()).expect("another device");
            let got = embed(&model).expect("vectors");
            assert!(distance(&got, &case.vectors[""]) < 2e-5);
            assert_eq!((opened.load(SeqCst), loads.load(SeqCst)), (2, 2));
            assert!(!model.device().is_same(&device));
            // A model that cannot be loaded again stays lost.
            if let Ok(fixed) = fixed {
                let lost = block_on(fixed.ready()).expect_err("the device is lost");
                assert_eq!(lost.kind(), ErrorKind::DeviceLost, "{lost}");
            }
        }
    }
}

/// Tests that the vector of a text does not depend on the number and contents of the other texts.
#[test]
fn texts_do_not_see_each_other() {
    let golden = golden();
    for device in devices() {
        let embedder = golden.cases[0].load(&device).expect("an embedder");
        let texts: Vec<&String> = (0..100).map(|n| &golden.texts[n * 5 % 6]).collect();
        let together = embedder.embed(&texts, &EmbedOptions::default()).expect("vectors");
        let want: Vec<Vec<f64>> =
            (0..100).map(|n| golden.cases[0].vectors[""][n * 5 % 6].clone()).collect();
        let distance = distance(&together, &want);
        assert!(distance < 2e-5, "{device:?}: {distance}");
        let none: [&str; 0] = [];
        let none = embedder.embed(&none, &EmbedOptions::default()).expect("no vectors");
        assert_eq!(none.shape(), [0, 16]);
    }
}

#[test]
fn damaged_files_are_refused() {
    let golden = golden();
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let (mean, dense) = (&golden.cases[0], &golden.cases[4]);
    let (config, pooling) = ("config.json", "1_Pooling/config.json");
    let without = |case: &Case, name: &str| {
        let mut case = case.clone();
        case.files.remove(name);
        case
    };
    let cases = [
        (without(mean, config), "\"config.json\" must be given"),
        (without(mean, "tokenizer.json"), "\"tokenizer.json\" must be given"),
        (without(mean, "model.safetensors"), "\"model.safetensors\" must be given"),
        (without(mean, pooling), "\"1_Pooling/config.json\" must be given"),
        (without(dense, "2_Dense/config.json"), "\"2_Dense/config.json\" must be given"),
        (
            without(dense, "2_Dense/model.safetensors"),
            "\"2_Dense/model.safetensors\" must be given",
        ),
        (
            mean.with(config, "\"model_type\": \"bert\"", "\"model_type\": \"llama\""),
            "embedder: config.json: the model_type must be",
        ),
        (mean.with(config, "\"gelu\"", "\"geglu\""), "activation must be"),
        (
            mean.with(config, "\"hidden_size\": 16", "\"hidden_size\": 18"),
            "multiple of the 4 heads",
        ),
        (mean.with(config, "\"hidden_size\": 16", "\"hidden_size\": 12"), "must have shape"),
        (
            mean.with(config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 99999999999"),
            "must be in the file",
        ),
        (
            mean.with(config, "\"max_position_embeddings\": 20", "\"max_position_embeddings\": 0"),
            "1 to 16777215",
        ),
        (
            mean.with(config, "\"vocab_size\": 24", "\"vocab_size\": 23"),
            "at most 23 tokens, got 24",
        ),
        (mean.with(config, "\"is_decoder\": false", "\"is_decoder\": true"), "must be an encoder"),
        (mean.with(config, "{", "["), "embedder: config.json: the file must be valid"),
        (mean.with(pooling, "\"mean\"", "\"median\""), "pooling_mode must be"),
        (mean.with(pooling, "true", "false"), "include_prompt must be true"),
        (mean.with("modules.json", "normalize.Normalize", "CNN"), "modules must be"),
        (mean.with("modules.json", "pooling.Pooling", "LSTM"), "modules must be"),
        (
            dense.with("2_Dense/config.json", "\"in_features\": 16", "\"in_features\": 8"),
            "in_features must be 16",
        ),
    ];
    for (case, says) in cases {
        let error = case.load(&device).err().unwrap_or_else(|| panic!("no error: {says}"));
        assert!(error.message().contains(says), "{error}, not {says}");
    }
    let embedder = mean.load(&device).expect("an embedder");
    let options = EmbedOptions { prompt_name: Some("poem"), ..EmbedOptions::default() };
    let error = embedder.embed(&["a"], &options).expect_err("no such prompt");
    assert!(error.message().contains("[\"document\", \"query\"], got \"poem\""), "{error}");
    let error = embedder.embed_tokens(&[vec![]]).expect_err("no token");
    assert!(error.message().contains("at least one token"), "{error}");
    let error = embedder.embed_tokens(&[vec![24u32]]).expect_err("no such token");
    assert!(error.message().contains("below 24, got 24"), "{error}");
    let error = embedder.embed_tokens(&[vec![1u32; 21]]).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.message().contains("at most 20 tokens, got 21"), "{error}");
}

#[derive(Deserialize)]
struct Real {
    texts: Vec<String>,
    vectors: Vec<Vec<f64>>,
}

#[test]
fn minilm_is_that_of_its_package() {
    let Some(folder) = path("all-MiniLM-L6-v2") else { return };
    let real: Real = serde_json::from_str(include_str!("../../golden/minilm.json")).expect("JSON");
    for device in devices() {
        let embedder = files::load_embedder(&device, &folder).expect("an embedder");
        assert_eq!((embedder.dimensions(), embedder.max_tokens()), (384, 256));
        // The last text has the maximal number of tokens, which takes a software GPU most of a minute.
        let is_short = every() > 1 && device.info().kind == DeviceKind::Software;
        let count = real.texts.len() - usize::from(is_short);
        let got = embedder.embed(&real.texts[..count], &EmbedOptions::default()).expect("vectors");
        let distance = distance(&got, &real.vectors[..count]);
        assert!(distance < 1e-5, "{device:?}: {distance}");
        let got: Vec<f32> = got.read_blocking().expect("numbers");
        for (text, (got, want)) in got.chunks_exact(384).zip(&real.vectors).enumerate() {
            let cosine: f64 = got.iter().zip(want).map(|(&a, b)| f64::from(a) * b).sum();
            assert!(cosine > 0.999_99, "{device:?}, text {text}: {cosine}");
        }
    }
}
