//! Tests adapters in the files of Hugging Face's `peft`: files that `peft` wrote (`tests/golden/lora.py`), files that the
//! library wrote, and damaged files.

use super::lora::filled;
use super::tiny::{close_to, devices, load};
use super::toy_reference::Toy;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::Cursor;
use warpweft::device::{Device, Preference};
use warpweft::error::ErrorKind;
use warpweft::io::{load_safetensors, save_safetensors};
use warpweft::model::{LanguageModel, LoadOptions, LoraAdapter, LoraOptions, Projection};
use warpweft::nn::Module;
use warpweft_native::prelude::*;

/// A model, an adapter that `peft` wrote for it, and its logits.
struct Golden {
    model: &'static [u8],
    config: &'static [u8],
    weights: &'static [u8],
    logits: &'static str,
}

const LLAMA: Golden = Golden {
    model: include_bytes!("../../golden/lora-llama/model.gguf"),
    config: include_bytes!("../../golden/lora-llama/adapter_config.json"),
    weights: include_bytes!("../../golden/lora-llama/adapter_model.safetensors"),
    logits: include_str!("../../golden/lora-llama/logits.txt"),
};

/// An adapter that is rank-stabilized, with the targets "all-linear".
const GEMMA3: Golden = Golden {
    model: include_bytes!("../../golden/lora-gemma3/model.gguf"),
    config: include_bytes!("../../golden/lora-gemma3/adapter_config.json"),
    weights: include_bytes!("../../golden/lora-gemma3/adapter_model.safetensors"),
    logits: include_str!("../../golden/lora-gemma3/logits.txt"),
};

fn cpu() -> Device {
    Device::with_blocking(Preference::Cpu).expect("the CPU")
}

fn golden_model(device: &Device, golden: &Golden) -> LanguageModel {
    let options = LoadOptions { cache: Some(DType::F32), ..LoadOptions::default() };
    LanguageModel::load(device, Cursor::new(golden.model), options).expect("a model")
}

type Bits = BTreeMap<String, (Vec<usize>, Vec<u32>)>;

/// Returns the bits of the tensors of a file.
fn bits(device: &Device, file: &[u8]) -> Bits {
    let tensors = load_safetensors(device, file).expect("a file").tensors;
    let read = |(name, tensor): (String, Tensor)| {
        let numbers: Vec<f32> = tensor.read_blocking().expect("numbers");
        (name, (tensor.shape().to_vec(), numbers.into_iter().map(f32::to_bits).collect()))
    };
    tensors.into_iter().map(read).collect()
}

#[test]
fn adapters_of_peft_give_its_logits() {
    for device in devices() {
        for (golden, scale) in [(LLAMA, 2.0), (GEMMA3, 5.0 / 3f64.sqrt())] {
            let model = golden_model(&device, &golden);
            let adapter = LoraAdapter::load(&model, golden.config, golden.weights);
            let adapter = adapter.expect("an adapter");
            assert_eq!(adapter.scale(), scale);
            let mut lines = golden.logits.lines();
            let tokens: Vec<u32> = lines
                .next()
                .expect("tokens")
                .split(' ')
                .map(|id| id.parse().expect("an id"))
                .collect();
            let want: Vec<f64> = lines
                .flat_map(|line| line.split(' '))
                .map(|x| x.parse().expect("a number"))
                .collect();
            let logits = |model: &LanguageModel| {
                let mut context = model.context().expect("a context");
                context.add_all(&tokens).expect("logits")
            };
            let tuned = model.with_adapter(&adapter).expect("a model");
            let what = format!("{device:?}, {}", model.config().architecture);
            close_to(&logits(&tuned), &want, 1e-4, &what);
            let base: Vec<f32> = logits(&model).read_blocking().expect("numbers");
            let apart = base.iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs());
            assert!(apart.fold(0.0, f64::max) > 0.1, "{what}");

            let files = adapter.save_blocking().expect("files");
            assert_eq!(bits(&device, &files.weights), bits(&device, golden.weights), "{what}");
            let [ours, theirs]: [Value; 2] = [files.config.as_bytes(), golden.config]
                .map(|config| serde_json::from_slice(config).expect("JSON"));
            for (key, value) in ours.as_object().expect("an object") {
                // `target_modules` may list the same names in another order.
                if key != "target_modules" {
                    assert_eq!(theirs.get(key), Some(value), "{what}, {key}");
                }
            }
            let names: Vec<&str> = Projection::ALL.map(Projection::name).into();
            assert_eq!(ours["target_modules"], json!(names));
        }
    }
}

/// Returns the two files of a saved adapter.
fn saved(adapter: &LoraAdapter) -> (Value, BTreeMap<String, Tensor>) {
    let files = adapter.save_blocking().expect("files");
    let device = adapter.parameters()[0].value().device().clone();
    let tensors = load_safetensors(&device, &files.weights).expect("a file").tensors;
    (serde_json::from_str(&files.config).expect("JSON"), tensors)
}

fn loaded(
    model: &LanguageModel,
    config: &Value,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<LoraAdapter> {
    let weights = pollster::block_on(save_safetensors(tensors, &BTreeMap::new()))?;
    LoraAdapter::load(model, config.to_string().as_bytes(), &weights)
}

const PATH: &str = "base_model.model.model.layers";

#[test]
fn some_layers_and_other_types_come_back() {
    let device = cpu();
    let model = load(&device, &Toy::new(false, None, true));
    let targets = vec![Projection::Down, Projection::Key];
    let options = LoraOptions { rank: 2, alpha: 0.5, targets, ..LoraOptions::default() };
    let (config, tensors) = saved(&filled(&model, &options, 4));
    assert_eq!(config["target_modules"], json!(["k_proj", "down_proj"]));
    assert_eq!((&config["lora_alpha"], &config["r"]), (&json!(0.5), &json!(2)));
    assert_eq!(config["layers_to_transform"], Value::Null);

    // One layer of three.
    let second: BTreeMap<String, Tensor> =
        tensors.clone().into_iter().filter(|(name, _)| name.contains("layers.1.")).collect();
    let (config, back) = saved(&loaded(&model, &config, &second).expect("an adapter"));
    assert_eq!(config["target_modules"], json!(["k_proj", "down_proj"]));
    assert_eq!((back.len(), &config["layers_to_transform"]), (4, &json!([1])));

    // Different layers for the two projections. As BF16, whose numbers `f32` represents exactly.
    let mut mixed = second.clone();
    for matrix in ["A", "B"] {
        let name = format!("{PATH}.2.mlp.down_proj.lora_{matrix}.weight");
        mixed.insert(name.clone(), tensors[&name].cast(DType::F16).expect("halves"));
    }
    // The prefix of models that also read images.
    let mixed: BTreeMap<String, Tensor> = mixed
        .into_iter()
        .map(|(name, tensor)| (name.replace("model.layers", "model.language_model.layers"), tensor))
        .collect();
    let (config, back) = saved(&loaded(&model, &config, &mixed).expect("an adapter"));
    let paths = ["1.self_attn.k_proj", "1.mlp.down_proj", "2.mlp.down_proj"];
    assert_eq!(config["target_modules"], json!(paths.map(|path| format!("model.layers.{path}"))));
    assert_eq!((back.len(), &config["layers_to_transform"]), (6, &Value::Null));
    let name = format!("{PATH}.2.mlp.down_proj.lora_A.weight");
    assert_eq!(back[&name].dtype(), DType::F32);
}

fn message(result: Result<LoraAdapter>) -> String {
    result.map(drop).expect_err("refused").message().to_string()
}

#[test]
fn other_kinds_of_adapters_are_refused() {
    let device = cpu();
    let model = load(&device, &Toy::new(false, None, true));
    let (config, tensors) = saved(&filled(&model, &LoraOptions::default(), 4));
    assert!(loaded(&model, &config, &tensors).is_ok());
    let with = |key: &str, value: Value| {
        let mut config = config.clone();
        config[key] = value;
        loaded(&model, &config, &tensors)
    };
    let refused = |key: &str, value: Value| {
        let error = with(key, value).map(drop).expect_err("refused");
        (error.kind(), error.message().to_string())
    };
    let unsupported = |must: &str| (ErrorKind::Unsupported, format!("lora: {must}"));
    for (key, value, must) in [
        ("peft_type", json!("LOHA"), "`peft_type` of the config must be \"LORA\", got \"LOHA\""),
        ("use_dora", json!(true), "`use_dora` of the config must be off, got true"),
        ("bias", json!("all"), "`bias` of the config must be \"none\", got \"all\""),
        ("modules_to_save", json!(["lm_head"]), "`modules_to_save` of the config must be off, got [\"lm_head\"]"),
        ("rank_pattern", json!({"q_proj": 4}), "`rank_pattern` of the config must be off, got {\"q_proj\":4}"),
        (
            "init_lora_weights",
            json!("pissa"),
            "`init_lora_weights` of the config must be one that leaves the weights of the model as they are, got \"pissa\"",
        ),
    ] {
        assert_eq!(refused(key, value), unsupported(must));
    }
    for (key, value, must) in [
        ("r", json!(0), "`r` of the config must be an integer of at least 1, got 0"),
        ("r", json!(-8), "`r` of the config must be an integer of at least 1, got -8"),
        ("r", json!("8"), "`r` of the config must be an integer of at least 1, got \"8\""),
        ("r", Value::Null, "`r` of the config must be an integer of at least 1, got null"),
        ("lora_alpha", json!([]), "`lora_alpha` of the config must be a number, got []"),
        ("use_rslora", json!(1), "`use_rslora` of the config must be true or false, got 1"),
    ] {
        assert_eq!(refused(key, value), (ErrorKind::Format, format!("lora: {must}")));
    }
    let first = "layers.0.self_attn.q_proj";
    for rank in [u64::MAX, 1 << 40, 7] {
        let must = format!("lora: `{first}` must have rank `r` = {rank}, got 8");
        assert_eq!(refused("r", json!(rank)), (ErrorKind::Shape, must));
    }
    for (key, value) in [
        ("use_rslora", json!(true)),
        ("target_modules", json!(".*_proj")),
        ("init_lora_weights", json!("gaussian")),
        ("lora_dropout", json!(0.1)),
        ("something_new", json!({"of": "later"})),
    ] {
        assert!(with(key, value).is_ok(), "{key}");
    }
    let weights = pollster::block_on(save_safetensors(&tensors, &BTreeMap::new())).expect("a file");
    for text in ["", "[]", "{", "null", "{\"peft_type\": \"LORA\"", &"[".repeat(100_000)] {
        let found = message(LoraAdapter::load(&model, text.as_bytes(), &weights));
        assert!(found.starts_with("lora: the config must be an object of JSON, got "), "{found}");
    }
}

#[test]
fn damaged_weights_are_refused() {
    let device = cpu();
    let model = load(&device, &Toy::new(false, None, true));
    let (config, tensors) = saved(&filled(&model, &LoraOptions::default(), 4));
    let with = |change: &dyn Fn(&mut BTreeMap<String, Tensor>)| {
        let mut tensors = tensors.clone();
        change(&mut tensors);
        message(loaded(&model, &config, &tensors))
    };
    let name = |path: &str| format!("{PATH}.{path}.weight");
    let zeros = |shape: &[usize]| device.zeros(shape).expect("zeros");
    let found = with(&|all| all.clear());
    assert_eq!(found, "lora: the file must have tensors, got none");
    for (matrix, other) in [("A", "B"), ("B", "A")] {
        let found =
            with(&|all| drop(all.remove(&name(&format!("1.self_attn.v_proj.lora_{matrix}")))));
        let must = "of `layers.1.self_attn.v_proj`, got none";
        assert_eq!(found, format!("lora: the file must have `lora_{matrix}` {must}"), "{other}");
    }
    for (path, shape, must) in [
        (
            "2.self_attn.q_proj.lora_A",
            &[8, 31][..],
            "A of `layers.2.self_attn.q_proj` must have shape [8, 32]",
        ),
        (
            "2.self_attn.q_proj.lora_A",
            &[32, 8],
            "A of `layers.2.self_attn.q_proj` must have shape [32, 32]",
        ),
        ("2.self_attn.q_proj.lora_A", &[0, 32], "A of `layers.2.self_attn.q_proj` must have rows"),
        ("2.self_attn.q_proj.lora_A", &[], "A of `layers.2.self_attn.q_proj` must have rows"),
        (
            "2.self_attn.v_proj.lora_B",
            &[16, 4],
            "B of `layers.2.self_attn.v_proj` must have shape [16, 8]",
        ),
        (
            "2.self_attn.v_proj.lora_B",
            &[16, 8, 1],
            "B of `layers.2.self_attn.v_proj` must have shape [16, 8]",
        ),
    ] {
        let found = with(&|all| drop(all.insert(name(path), zeros(shape))));
        assert_eq!(found, format!("lora: {must}, got {shape:?}"));
    }
    let strange =
        "lora: tensors must be `lora_A.weight` or `lora_B.weight` of a projection of a layer, got";
    for path in [
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight",
        "base_model.model.model.layers.+0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers..self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.99999999999999999999999.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.mlp.q_proj.lora_A.weight",
        "base_model.model.model.vision_tower.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.lm_head.weight",
        "x",
        "",
    ] {
        let found = with(&|all| drop(all.insert(path.to_string(), zeros(&[8, 32]))));
        assert_eq!(found, format!("{strange} {path:?}"));
    }
    let found = with(&|all| drop(all.insert(name("3.self_attn.q_proj.lora_A"), zeros(&[8, 32]))));
    assert_eq!(found, "lora: the file must have `lora_B` of `layers.3.self_attn.q_proj`, got none");
    let found = with(&|all| {
        all.insert(name("3.self_attn.q_proj.lora_A"), zeros(&[8, 32]));
        all.insert(name("3.self_attn.q_proj.lora_B"), zeros(&[32, 8]));
    });
    assert_eq!(
        found,
        "lora: the model must have layer 3 of `layers.3.self_attn.q_proj`, got 3 layers"
    );
    let twice = name("0.self_attn.q_proj.lora_A");
    let found =
        with(&|all| {
            drop(all.insert(
                twice.replace("model.layers", "model.language_model.layers"),
                zeros(&[8, 32]),
            ))
        });
    assert_eq!(found, format!("lora: `{twice}` must be there once, got it under two names"));
    let found = with(&|all| {
        drop(all.insert(twice.clone(), zeros(&[8, 32]).cast(DType::I32).expect("integers")))
    });
    assert_eq!(found, format!("lora: `{twice}` must be of floats, got i32"));
}

#[test]
fn cut_and_changed_files_are_refused() {
    let device = cpu();
    let model = load(&device, &Toy::new(false, None, true));
    let (config, tensors) = saved(&filled(&model, &LoraOptions::default(), 4));
    let config = config.to_string();
    let weights = pollster::block_on(save_safetensors(&tensors, &BTreeMap::new())).expect("a file");
    let load = |weights: &[u8]| LoraAdapter::load(&model, config.as_bytes(), weights);
    assert!(load(&weights).is_ok());
    for length in [0, 7, 8, 100, weights.len() / 2, weights.len() - 1] {
        let found = message(load(&weights[..length]));
        assert!(found.starts_with("load_safetensors: "), "{length}: {found}");
    }
    let mut refused = 0;
    for at in 0..1500 {
        let mut changed = weights.clone();
        // Flips one bit.
        changed[at] ^= 1 << (at % 8);
        refused += usize::from(load(&changed).is_err());
    }
    assert!(refused > 1000, "{refused}");
}
