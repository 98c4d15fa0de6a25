//! Weights of a model as a file has them.

use super::config::ModelConfig;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::io::{Gguf, Source};
use crate::op::PackedArithmetic;
use crate::tensor::{PackedTensor, Tensor};

/// A file that weights are taken from.
pub struct Weights<'a, F> {
    pub head: &'a Gguf,
    pub file: F,
    pub device: &'a Device,
    /// How products with matrices treat the other operand.
    pub arithmetic: PackedArithmetic,
}

impl<F: Source> Weights<'_, F> {
    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.head.tensors.contains_key(name)
    }

    /// Numbers as they are, such as those of a norm: of so many elements.
    pub async fn vector(&mut self, name: &str, length: usize) -> Result<Tensor> {
        let vector = self.head.load_from(&mut self.file, self.device, name).await?;
        match vector.shape() == [length] {
            true => Ok(vector),
            false => Err(mismatch(name, &[length], vector.shape())),
        }
    }

    /// What the angles of the rotary embedding are divided by, one number for each pair, where the file says (Llama 3).
    pub async fn rope_factors(&mut self, pairs: usize) -> Result<Option<Vec<f64>>> {
        let name = "rope_freqs.weight";
        let Some(tensor) = self.head.tensors.get(name) else { return Ok(None) };
        let numbers = tensor.format.decode(&tensor.read_from(&mut self.file).await?)?;
        match numbers.len() == pairs {
            true => Ok(Some(numbers.into_iter().map(f64::from).collect())),
            false => Err(mismatch(name, &[pairs], &tensor.shape)),
        }
    }

    /// The rows of these matrices, one after the other.
    async fn packed(&mut self, names: &[&str]) -> Result<PackedTensor> {
        let matrix = self.head.load_packed_from(&mut self.file, self.device, names).await?;
        Ok(matrix.with_arithmetic(self.arithmetic))
    }

    /// A matrix of this shape, packed.
    pub async fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<PackedTensor> {
        let matrix = self.packed(&[name]).await?;
        match matrix.shape() == shape {
            true => Ok(matrix),
            false => Err(mismatch(name, &shape, &matrix.shape())),
        }
    }

    /// The layers that make queries, keys and values of a layer's input, as one product.
    pub async fn projections(&mut self, layer: usize, config: &ModelConfig) -> Result<Joint> {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let [queries, keys] = [config.heads, config.kv_heads].map(|n| n * config.head_size);
        let layers = [(name("attn_q"), queries), (name("attn_k"), keys), (name("attn_v"), keys)];
        self.joint(&layers, config.width).await
    }

    /// The first layers of the feed-forward network, as one product.
    pub async fn gate_and_up(&mut self, layer: usize, config: &ModelConfig) -> Result<Joint> {
        let layers = ["ffn_gate", "ffn_up"]
            .map(|part| (format!("blk.{layer}.{part}.weight"), config.feed_forward));
        self.joint(&layers, config.width).await
    }

    /// Linear layers without biases that have one input of `inputs` elements, by name and number of outputs.
    async fn joint(&mut self, layers: &[(String, usize)], inputs: usize) -> Result<Joint> {
        let mut parts: Vec<Part> = Vec::new();
        let format = |name: &str| self.head.tensors.get(name).map(|tensor| tensor.format);
        for (name, outputs) in layers {
            let shape = self.head.tensors.get(name).map(|tensor| &tensor.shape[..]);
            if shape.is_some_and(|shape| shape != [*outputs, inputs]) {
                return Err(mismatch(name, &[*outputs, inputs], shape.unwrap_or_default()));
            }
            match parts.last_mut() {
                Some(part) if format(part.names[0]) == format(name) => {
                    part.names.push(name);
                    part.outputs.push(*outputs);
                }
                _ => parts.push(Part { names: vec![name], outputs: vec![*outputs] }),
            }
        }
        let mut joint = Joint { parts: Vec::new() };
        for part in parts {
            let matrix = self.packed(&part.names).await?;
            joint.parts.push((matrix, part.outputs));
        }
        Ok(joint)
    }
}

/// Layers whose weights have one format.
struct Part<'a> {
    names: Vec<&'a str>,
    outputs: Vec<usize>,
}

fn mismatch(name: &str, want: &[usize], have: &[usize]) -> Error {
    Error::data(format!("model: {name:?} must have shape {want:?}, got {have:?}"))
}

/// Linear layers of one input: those whose weights have one format are one product.
pub struct Joint {
    /// Weights, and the outputs of each layer in them.
    parts: Vec<(PackedTensor, Vec<usize>)>,
}

impl Joint {
    /// The outputs of each layer.
    pub fn apply(&self, x: &Tensor) -> Result<Vec<Tensor>> {
        let mut all = Vec::new();
        for (weights, outputs) in &self.parts {
            let product = weights.linear(x)?;
            match outputs.len() {
                1 => all.push(product),
                _ => all.extend(product.split(&outputs[..], -1)?),
            }
        }
        Ok(all)
    }
}
