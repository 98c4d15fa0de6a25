//! Pooling, which turns the vectors of a text's tokens into one vector, as sentence-transformers configures it.

use super::bert::{Activation, Linear, Parameters};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Axes, Tensor};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A rule that turns the vectors of the tokens into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The vector of the first token.
    First,
    /// The maximum of each element.
    Max,
    /// The mean.
    Mean,
    /// The sum, divided by the square root of the number of tokens.
    MeanSqrtLength,
    /// The mean with weights 1, 2, 3 and so on.
    WeightedMean,
    /// The vector of the last token.
    Last,
}

/// A `1_Pooling/config.json`.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    pooling_mode: Option<Modes>,
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default)]
    pooling_mode_weightedmean_tokens: bool,
    #[serde(default)]
    pooling_mode_lasttoken: bool,
    #[serde(default = "yes")]
    include_prompt: bool,
}

fn yes() -> bool {
    true
}

/// The names of one mode or of several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Modes {
    One(String),
    Several(Vec<String>),
}

/// A module of sentence-transformers after the encoder.
enum Stage {
    /// The results of all modes, one after the other.
    Pooling(Vec<Mode>),
    Dense(Linear, Activation),
    /// Divides by the Euclidean norm.
    Normalize,
}

/// All modules after the encoder.
pub struct Head {
    stages: Vec<Stage>,
    /// The number of elements of the result.
    pub dimensions: usize,
}

/// A module that `modules.json` names.
#[derive(Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// A `2_Dense/config.json`.
#[derive(Deserialize)]
struct WrittenDense {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    activation_function: String,
}

fn parsed<'a, T: Deserialize<'a>>(name: &str, json: &'a [u8]) -> Result<T> {
    let wrong = |error| Error::format(format!("embedder: {name} must be valid, got {error}"));
    serde_json::from_slice(json).map_err(wrong)
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the folders of the dense layers in `modules.json`. Each folder has a file of weights.
pub fn dense_folders(modules: Option<&[u8]>) -> Result<Vec<String>> {
    let modules = modules.map(|json| parsed::<Vec<Module>>("modules.json", json)).transpose()?;
    let dense = |module: Module| module.kind.ends_with(".Dense").then_some(module.path);
    Ok(modules.unwrap_or_default().into_iter().filter_map(dense).collect())
}

impl Head {
    /// Reads `modules.json` and the configurations that it names, for vectors of `width` elements. Without the file, the head
    /// is the mean, as in sentence-transformers. `dense` has the weights of the dense layers, by folder.
    ///
    /// # Errors
    /// `Format` if a file is damaged or missing, `Unsupported` for unknown modules.
    pub fn read<'a>(
        width: usize,
        file: impl Fn(&str) -> Option<&'a [u8]>,
        mut dense: BTreeMap<String, Parameters>,
    ) -> Result<Head> {
        let Some(modules) = file("modules.json") else {
            return Ok(Head { stages: vec![Stage::Pooling(vec![Mode::Mean])], dimensions: width });
        };
        let modules: Vec<Module> = parsed("modules.json", modules)?;
        let mut head = Head { stages: Vec::new(), dimensions: width };
        for (n, module) in modules.iter().enumerate() {
            let name = format!("{}/config.json", module.path);
            let missing =
                || Error::format(format!("embedder: the file {name:?} must be given, got none"));
            let config = || file(&name).ok_or_else(missing);
            match module.kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" if n == 0 => {}
                "Pooling" if n == 1 => {
                    let modes = pooling_modes(&name, config()?)?;
                    head.dimensions = width * modes.len();
                    head.stages.push(Stage::Pooling(modes));
                }
                "Dense" if n > 1 => {
                    let missing = || {
                        let name = format!("{}/model.safetensors", module.path);
                        Error::format(format!(
                            "embedder: the file {name:?} must be given, got none"
                        ))
                    };
                    let weights = dense.get_mut(&module.path).ok_or_else(missing)?;
                    let stage = dense_layer(&name, config()?, weights, &mut head.dimensions)?;
                    head.stages.push(stage);
                }
                "Normalize" if n > 1 => head.stages.push(Stage::Normalize),
                _ => {
                    let must = "modules must be Transformer, Pooling, and then Dense or Normalize";
                    let message = format!("embedder: {must}, got {:?} at {n}", module.kind);
                    return Err(unsupported(message));
                }
            }
        }
        match head.stages.first() {
            Some(Stage::Pooling(_)) => Ok(head),
            _ => Err(unsupported("embedder: modules.json must have a Pooling, got none".into())),
        }
    }

    /// Computes `[texts, tokens, width] -> [texts, dimensions]`. `is_there [texts, tokens]` is false for padding.
    /// `lengths [texts]` has the number of tokens of each text.
    pub fn apply(&self, vectors: &Tensor, is_there: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        let mut x = vectors.clone();
        for stage in &self.stages {
            x = match stage {
                Stage::Pooling(modes) => {
                    let pooled = modes.iter().map(|mode| mode.apply(&x, is_there, lengths));
                    let pooled = pooled.collect::<Result<Vec<_>>>()?;
                    Tensor::concat(&pooled.iter().collect::<Vec<_>>(), -1)?
                }
                Stage::Dense(layer, activation) => activation.of(&layer.apply(&x)?),
                Stage::Normalize => {
                    let norm =
                        x.square().sum(Axes::from(-1).keepdim(true))?.sqrt().maximum(1e-12)?;
                    x.div(&norm)?
                }
            };
        }
        Ok(x)
    }
}

fn pooling_modes(name: &str, json: &[u8]) -> Result<Vec<Mode>> {
    let written: Written = parsed(name, json)?;
    if !written.include_prompt {
        let message = format!("embedder: {name}: include_prompt must be true, got false");
        return Err(unsupported(message));
    }
    let named = |mode: &String| match &mode[..] {
        "cls" => Ok(Mode::First),
        "max" => Ok(Mode::Max),
        "mean" => Ok(Mode::Mean),
        "mean_sqrt_len_tokens" => Ok(Mode::MeanSqrtLength),
        "weightedmean" => Ok(Mode::WeightedMean),
        "lasttoken" => Ok(Mode::Last),
        other => {
            let must =
                "the pooling_mode must be cls, max, mean, mean_sqrt_len_tokens, weightedmean \
                        or lasttoken";
            Err(unsupported(format!("embedder: {name}: {must}, got {other:?}")))
        }
    };
    let modes: Vec<Mode> = match &written.pooling_mode {
        Some(Modes::One(mode)) => vec![named(mode)?],
        Some(Modes::Several(modes)) => modes.iter().map(named).collect::<Result<_>>()?,
        None => [
            (written.pooling_mode_cls_token, Mode::First),
            (written.pooling_mode_max_tokens, Mode::Max),
            (written.pooling_mode_mean_tokens, Mode::Mean),
            (written.pooling_mode_mean_sqrt_len_tokens, Mode::MeanSqrtLength),
            (written.pooling_mode_weightedmean_tokens, Mode::WeightedMean),
            (written.pooling_mode_lasttoken, Mode::Last),
        ]
        .into_iter()
        .filter_map(|(is_on, mode)| is_on.then_some(mode))
        .collect(),
    };
    match modes.is_empty() {
        true => Err(Error::format(format!("embedder: {name}: a mode must be true, got none"))),
        false => Ok(modes),
    }
}

fn dense_layer(
    name: &str,
    json: &[u8],
    weights: &mut Parameters,
    dimensions: &mut usize,
) -> Result<Stage> {
    let written: WrittenDense = parsed(name, json)?;
    let (inputs, outputs) = (written.in_features, written.out_features);
    if inputs != *dimensions {
        let message = format!("embedder: {name}: in_features must be {dimensions}, got {inputs}");
        return Err(Error::format(message));
    }
    *dimensions = outputs;
    let layer = weights.linear("linear", [outputs, inputs], written.bias)?;
    Ok(Stage::Dense(layer, Activation::named(&written.activation_function)?))
}

impl Mode {
    /// Computes `[texts, tokens, width] -> [texts, width]`.
    fn apply(self, x: &Tensor, is_there: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        let &[texts, tokens, _] = x.shape() else { unreachable!("there are three axes") };
        let lengths = lengths.reshape(&[texts, 1])?;
        let count = lengths.cast(DType::F32)?;
        let there = is_there.reshape(&[texts, tokens, 1])?;
        // Padding is replaced by 0, not multiplied by 0, because its vectors may be NaN or infinite.
        let sum = || there.where_cond(x, 0.0)?.sum(1);
        let at = |place: &Tensor| {
            let place = place.reshape(&[texts, 1, 1])?.expand(&[texts, 1, x.shape()[2]])?;
            x.gather(1, &place)?.squeeze(1)
        };
        match self {
            Mode::First => x.select(1, 0),
            Mode::Max => there.where_cond(x, f64::NEG_INFINITY)?.max(1),
            Mode::Mean => sum()?.div(&count),
            Mode::MeanSqrtLength => sum()?.div(&count.sqrt()),
            Mode::WeightedMean => {
                let weights = x.device().arange_step(1.0, tokens as f64 + 1.0, 1.0)?;
                let weights = weights.reshape(&[1, tokens, 1])?;
                let all = count.mul(&count.add(1.0)?)?.mul(0.5)?;
                there.where_cond(&x.mul(&weights)?, 0.0)?.sum(1)?.div(&all)
            }
            Mode::Last => at(&lengths.sub(1.0)?),
        }
    }
}
