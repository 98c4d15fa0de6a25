//! Tests folders as Hugging Face's `transformers` saves them: small models with every feature of their family
//! (`tests/golden/decoders.py`), changed settings, and damaged files.

use super::tiny::{close_to, devices};
use pollster::block_on;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use warpweft::device::{Device, Preference};
use warpweft::error::{ErrorKind, Result};
use warpweft::io::{load_safetensors, save_safetensors};
use warpweft::model::{LanguageModel, LoadOptions, LoraAdapter, ModelFiles};
use warpweft::text::{ChatOptions, Message};
use warpweft_native::files;
use warpweft_native::prelude::*;

/// The files in a folder, by name.
type Folder = BTreeMap<String, Vec<u8>>;

const F32_CACHE: LoadOptions = LoadOptions {
    context: None,
    cache: Some(DType::F32),
    arithmetic: warpweft::op::PackedArithmetic::Exact,
};

fn path(family: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/decoder-{family}"))
}

fn folder(family: &str) -> Folder {
    let mut files = Folder::new();
    for entry in std::fs::read_dir(path(family)).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        files.insert(name, std::fs::read(path).expect("the file"));
    }
    files
}

/// Returns the tokens, and the logits after each.
fn golden(family: &str) -> (Vec<u32>, Vec<f64>) {
    let text = std::fs::read_to_string(path(family).join("logits.txt")).expect("the file");
    let (tokens, logits) = text.split_once('\n').expect("two lines or more");
    let tokens = tokens.split(' ').map(|id| id.parse().expect("an id")).collect();
    (tokens, logits.split_whitespace().map(|x| x.parse().expect("a number")).collect())
}

fn cpu() -> Device {
    Device::with_blocking(Preference::Cpu).expect("the CPU")
}

fn sources(folder: &Folder) -> Vec<(String, Cursor<Vec<u8>>)> {
    folder.iter().map(|(name, bytes)| (name.clone(), Cursor::new(bytes.clone()))).collect()
}

fn load(device: &Device, folder: &Folder) -> Result<LanguageModel> {
    let files = block_on(ModelFiles::folder(sources(folder)))?;
    block_on(LanguageModel::load_files(device, files, F32_CACHE))
}

fn refused(folder: &Folder) -> (ErrorKind, String) {
    let error = load(&cpu(), folder).map(drop).expect_err("a damaged folder");
    (error.kind(), error.message().to_string())
}

fn logits(model: &LanguageModel, tokens: &[u32]) -> Tensor {
    model.context().expect("a context").add_all(tokens).expect("logits")
}

/// Changes `config.json`.
fn configure(folder: &mut Folder, change: impl FnOnce(&mut Value)) {
    let mut config: Value = serde_json::from_slice(&folder["config.json"]).expect("JSON");
    change(&mut config);
    folder.insert("config.json".into(), config.to_string().into_bytes());
}

#[test]
fn logits_are_those_of_transformers() {
    for device in devices() {
        for family in ["llama", "gemma3"] {
            let (tokens, want) = golden(family);
            let what = format!("{family}, {device:?}");
            let model = files::load_language_model(&device, path(family), F32_CACHE);
            let model = model.expect("a model");
            close_to(&logits(&model, &tokens), &want, 1e-4, &what);
            // One by one, from a cache.
            let mut context = model.context().expect("a context");
            context.add(&tokens[..20]).expect("logits");
            let last = context.add(&tokens[20..21]).expect("logits");
            close_to(&last, &want[20 * 40..21 * 40], 1e-4, &what);
        }
    }
}

#[test]
fn each_setting_matters() {
    let device = cpu();
    let parameters = |path: &'static str, value: Value| {
        move |config: &mut Value| *config.pointer_mut(path).expect("the setting") = value
    };
    type Change = Box<dyn FnOnce(&mut Value)>;
    let changes: [(&str, Change); 10] = [
        ("llama", Box::new(parameters("/rms_norm_eps", json!(1e-6)))),
        ("llama", Box::new(parameters("/rope_parameters/rope_theta", json!(10_000)))),
        ("llama", Box::new(parameters("/rope_parameters/factor", json!(2)))),
        ("llama", Box::new(parameters("/rope_parameters/low_freq_factor", json!(3)))),
        (
            "llama",
            Box::new(parameters("/rope_parameters/original_max_position_embeddings", json!(64))),
        ),
        ("gemma3", Box::new(parameters("/sliding_window", json!(6)))),
        ("gemma3", Box::new(parameters("/layer_types/1", json!("sliding_attention")))),
        ("gemma3", Box::new(parameters("/rope_parameters/full_attention/factor", json!(1)))),
        ("gemma3", Box::new(parameters("/rope_parameters/full_attention/rope_theta", json!(50)))),
        (
            "gemma3",
            Box::new(parameters("/rope_parameters/sliding_attention/rope_theta", json!(60))),
        ),
    ];
    for (n, (family, change)) in changes.into_iter().enumerate() {
        let (tokens, want) = golden(family);
        let mut folder = folder(family);
        configure(&mut folder, change);
        let model = load(&device, &folder).expect("a model");
        let got: Vec<f32> = logits(&model, &tokens).read_blocking().expect("numbers");
        let apart = got.iter().zip(&want).map(|(got, want)| (f64::from(*got) - want).abs());
        assert!(apart.fold(0.0, f64::max) > 1e-3, "change {n} of {family}");
    }
}

#[test]
fn earlier_versions_name_settings_otherwise() {
    let device = cpu();
    for family in ["llama", "gemma3"] {
        let (tokens, want) = golden(family);
        let mut folder = folder(family);
        configure(&mut folder, |config| {
            let settings = config.as_object_mut().expect("an object");
            let rope = settings.remove("rope_parameters").expect("the angles");
            if family == "llama" {
                settings.insert("rope_theta".into(), rope["rope_theta"].clone());
                settings.insert("rope_scaling".into(), rope);
                return;
            }
            settings.remove("layer_types");
            settings.insert("sliding_window_pattern".into(), json!(2));
            settings.insert("rope_theta".into(), rope["full_attention"]["rope_theta"].clone());
            let local = rope["sliding_attention"]["rope_theta"].clone();
            settings.insert("rope_local_base_freq".into(), local);
            settings.insert("rope_scaling".into(), json!({ "type": "linear", "factor": 4.0 }));
            // The config of a model that also reads images contains the settings of its decoder in an inner object.
            *config = json!({ "model_type": "gemma3", "text_config": config });
        });
        let model = load(&device, &folder).expect("a model");
        close_to(&logits(&model, &tokens), &want, 1e-4, family);
    }
}

#[test]
fn tokens_and_templates_come_with_the_folder() {
    let device = cpu();
    let mut folder = folder("llama");
    let model = load(&device, &folder).expect("a model");
    let tokenizer = model.tokenizer();
    assert_eq!(tokenizer.encode_with_ends("DA", false).expect("tokens"), [38, 3, 0]);
    assert!(tokenizer.is_end_of_generation(39)); // From `generation_config.json`, which takes precedence over `config.json`.
    assert!(!tokenizer.is_end_of_generation(2));
    let messages = [Message::new("user", "DB")];
    let prompt = |model: &LanguageModel| model.chat_prompt(&messages, &ChatOptions::default());
    assert_eq!(prompt(&model).expect("a prompt"), [38, 3, 1, 2]);
    folder.insert(
        "chat_template.jinja".into(),
        b"{{ bos_token }}C{{ messages[0].content }}".to_vec(),
    );
    let model = load(&device, &folder).expect("a model");
    assert_eq!(prompt(&model).expect("a prompt"), [38, 2, 3, 1]);
    folder.remove("generation_config.json");
    assert!(load(&device, &folder).expect("a model").tokenizer().is_end_of_generation(2));
}

/// Tests that an adapter changes the outputs like a change of the weights.
#[test]
fn adapters_are_in_the_order_of_the_folder() {
    let device = cpu();
    let mut folder = folder("llama");
    let (tokens, _) = golden("llama");
    let model = load(&device, &folder).expect("a model");
    let module = "model.layers.1.self_attn.q_proj";
    let shard = folder.iter().find(|(name, bytes)| {
        name.ends_with(".safetensors")
            && bytes.windows(module.len()).any(|part| part == module.as_bytes())
    });
    let shard = shard.expect("the weights").0.clone();
    let mut tensors = load_safetensors(&device, &folder[&shard]).expect("tensors").tensors;
    let numbers = |count: usize, seed: usize| -> Vec<f32> {
        (0..count).map(|n| ((n * 7 + seed) % 11) as f32 / 11.0 - 0.4).collect()
    };
    let (a, b) = (numbers(24, 1), numbers(32, 5));
    let tensor =
        |numbers: &[f32], shape: &[usize]| device.tensor(numbers, shape).expect("a tensor");
    let pair = BTreeMap::from([
        (format!("base_model.model.{module}.lora_A.weight"), tensor(&a, &[1, 24])),
        (format!("base_model.model.{module}.lora_B.weight"), tensor(&b, &[32, 1])),
    ]);
    let saved = |tensors| block_on(save_safetensors(tensors, &BTreeMap::new()));
    let config = br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}"#;
    let adapter = LoraAdapter::load(&model, config, &saved(&pair).expect("a file"));
    let adapted = model.with_adapter(&adapter.expect("an adapter")).expect("a model");
    let name = format!("{module}.weight");
    let mut weights: Vec<f32> = tensors[&name].read_blocking().expect("numbers");
    for (n, weight) in weights.iter_mut().enumerate() {
        *weight += b[n / 24] * a[n % 24];
    }
    tensors.insert(name, tensor(&weights, &[32, 24]));
    folder.insert(shard, saved(&tensors).expect("a file"));
    let merged = load(&device, &folder).expect("a model");
    let [adapted, merged, plain]: [Vec<f32>; 3] = [&adapted, &merged, &model]
        .map(|model| logits(model, &tokens).read_blocking().expect("numbers"));
    let want: Vec<f64> = merged.iter().map(|&x| f64::from(x)).collect();
    close_to(&tensor(&adapted, &[adapted.len()]), &want, 1e-4, "adapted");
    assert!(plain.iter().zip(&merged).any(|(a, b)| (a - b).abs() > 1e-2));
}

#[test]
fn wrong_folders_are_refused() {
    let without = |name: &str| {
        let mut folder = folder("llama");
        folder.remove(name).expect("the file");
        refused(&folder)
    };
    for name in ["config.json", "tokenizer.json", "model-00002-of-00004.safetensors"] {
        assert_eq!(
            without(name),
            (ErrorKind::Format, format!("model: the file {name:?} must be given, got none"))
        );
    }
    let configured = |family: &str, name: &str, value: Value| {
        let mut folder = folder(family);
        configure(&mut folder, |config| config[name] = value);
        refused(&folder)
    };
    let (kind, message) = configured("llama", "model_type", json!("qwen2"));
    let must =
        "model: config.json: `model_type` must be `llama`, `mistral` or `gemma3_text`, got \"qwen2\"";
    assert_eq!((kind, &message[..]), (ErrorKind::Unsupported, must));
    for (family, name, value) in [
        ("llama", "attention_bias", json!(true)),
        ("llama", "hidden_act", json!("gelu")),
        ("llama", "rope_parameters", json!({ "rope_type": "yarn", "factor": 4 })),
        ("gemma3", "query_pre_attn_scalar", json!(9)),
        ("gemma3", "final_logit_softcapping", json!(30.0)),
        (
            "gemma3",
            "layer_types",
            json!(["full_attention", "sliding_attention", "sliding_attention"]),
        ),
    ] {
        let (kind, message) = configured(family, name, value);
        assert_eq!(kind, ErrorKind::Unsupported, "{message}");
        assert!(message.starts_with("model: config.json: `"), "{message}");
    }
    for (family, name, value) in [
        ("llama", "hidden_size", json!(null)),
        ("llama", "hidden_size", json!(-24)),
        ("llama", "hidden_size", json!(u64::MAX)),
        ("llama", "head_dim", json!(1u64 << 40)),
        ("llama", "num_hidden_layers", json!(4)),
        ("llama", "rms_norm_eps", json!("small")),
        (
            "llama",
            "rope_parameters",
            json!({
                "rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4,
                "original_max_position_embeddings": 16,
            }),
        ),
        ("gemma3", "sliding_window", json!(0)),
        ("gemma3", "hidden_size", json!(25)),
    ] {
        let shown = format!("{name}: {value}");
        let (kind, message) = configured(family, name, value);
        assert_eq!(kind, ErrorKind::Format, "{shown}: {message}");
    }
    // Without its output matrix, a model with an untied embedding is incomplete.
    let mut untied = folder("gemma3");
    configure(&mut untied, |config| {
        *config = json!({
            "model_type": "llama", "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 40, "max_position_embeddings": 64,
        });
    });
    let (kind, message) = refused(&untied);
    assert!(kind == ErrorKind::Format && message.contains("`lm_head.weight` must be"), "{message}");
}

/// Tests that errors name the damaged file, also where JavaScript replaces the first word by its name of the operation.
#[test]
fn errors_name_the_file() {
    let changed = |name: &str, bytes: &[u8]| {
        let mut folder = folder("llama");
        folder.insert(name.to_string(), bytes.to_vec());
        refused(&folder).1
    };
    let index = "model.safetensors.index.json";
    for name in
        ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", index]
    {
        let message = changed(name, b"[");
        assert!(message.starts_with(&format!("model: {name}: ")), "{message}");
    }
    let message = changed("chat_template.jinja", b"{% if %}");
    assert!(message.starts_with("model: chat_template.jinja: "), "{message}");
    let shard = "model-00002-of-00004.safetensors";
    let message = changed(shard, &[0; 9]);
    assert!(message.starts_with(&format!("model: {shard}: ")), "{message}");
    let header = br#"{"model.norm.weight":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    let message = changed(shard, &bytes);
    let want = format!("model: {shard}: tensor \"model.norm.weight\": its elements must be F32, F16 or BF16, got I32");
    assert_eq!(message, want);
    let mut folder = folder("llama");
    configure(&mut folder, |config| config["hidden_size"] = json!(u64::MAX));
    let (_, message) = refused(&folder);
    assert!(
        message.starts_with("model: config.json: `llama.embedding_length` must be"),
        "{message}"
    );
}

/// Tests that the window is used as `transformers` uses it: `LlamaConfig` has none, and `MistralConfig` has a default.
#[test]
fn only_some_families_have_a_window() {
    let device = cpu();
    let loaded = |family: &str, kind: &str, window: Option<Value>| {
        let mut folder = folder(family);
        configure(&mut folder, |config| {
            config["model_type"] = json!(kind);
            let settings = config.as_object_mut().expect("an object");
            settings.remove("sliding_window");
            window.map(|window| settings.insert("sliding_window".into(), window));
        });
        load(&device, &folder).expect("a model")
    };
    for (family, kind, window, want) in [
        ("llama", "llama", Some(json!(5)), None),
        ("llama", "llama", Some(json!("any")), None),
        ("llama", "mistral", Some(json!(5)), Some(5)),
        ("llama", "mistral", Some(json!(null)), None),
        ("llama", "mistral", None, Some(4096)),
        ("gemma3", "gemma3_text", None, Some(4096)),
    ] {
        let shown = format!("{kind}, {window:?}");
        let model = loaded(family, kind, window);
        assert_eq!(model.config().window, want, "{shown}");
        if kind == "llama" {
            let (tokens, logits_of_transformers) = golden(family);
            close_to(&logits(&model, &tokens), &logits_of_transformers, 1e-4, &shown);
        }
    }
}

#[test]
fn a_context_has_room_for_a_token() {
    let (device, folder) = (cpu(), folder("llama"));
    let options = LoadOptions { context: Some(0), ..LoadOptions::default() };
    let files = || block_on(ModelFiles::folder(sources(&folder))).expect("the files");
    let want = "model: context must be at least 1, got 0";
    let error = block_on(LanguageModel::load_files(&device, files(), options));
    assert_eq!(error.map(drop).expect_err("no room").message(), want);
    let error = options.estimate(&device, files().head());
    assert_eq!(error.map(drop).expect_err("no room").message(), want);
}

#[test]
fn damaged_folders_do_no_harm() {
    let device = cpu();
    let mut seed = 9u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for family in ["llama", "gemma3"] {
        let whole = folder(family);
        let names: Vec<&String> = whole.keys().filter(|name| *name != "logits.txt").collect();
        let mut refused = 0;
        for _ in 0..400 {
            let mut folder = whole.clone();
            let file = folder.get_mut(names[random(names.len())]).expect("the file");
            // Most of a file of weights is numbers, where any change is valid.
            let end = file.len().min(1500);
            match random(4) {
                0 => file.truncate(random(file.len())),
                1 => drop(file.splice(random(end)..random(end).max(end), [b'9'; 9])),
                _ => file[random(end)] = random(256) as u8,
            }
            refused += usize::from(load(&device, &folder).is_err());
        }
        assert!(refused > 100, "only {refused} of 400 damaged folders were refused");
    }
}
