//! Reads the weights of a model from a file.

use super::adapter::{Projection, Site};
use super::config::{ModelConfig, WeightLayout};
use super::pass::Pass;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{BlockFormat, Gguf, GgufArray, GgufValue, Source};
use crate::op::PackedArithmetic;
use crate::tensor::{PackedTensor, Tensor};

/// The metadata key of the rotary embedding's factors, for heads that describe Hugging Face's files. GGUF files have a tensor
/// instead.
pub(super) const ROPE_FACTORS: &str = "warpweft.rope_factors";

/// A file that weights are taken from.
pub struct Weights<'a, F> {
    pub head: &'a Gguf,
    pub config: &'a ModelConfig,
    pub file: F,
    pub device: &'a Device,
    /// The treatment of the other operand in products with matrices.
    pub arithmetic: PackedArithmetic,
}

impl<F: Source> Weights<'_, F> {
    /// Whether the file has a tensor with this name.
    pub fn has(&self, name: &str) -> bool {
        self.head.tensors.contains_key(name)
    }

    /// Loads the factors of a root-mean-square norm of `length` elements.
    pub async fn norm(&mut self, name: &str, length: usize) -> Result<Tensor> {
        let weights = self.head.load_from(&mut self.file, self.device, name).await?;
        if weights.shape() != [length] {
            return Err(mismatch(name, &[length], weights.shape()));
        }
        match (&self.config.architecture[..], self.config.layout) {
            ("gemma3", WeightLayout::HuggingFace) => weights.add(1.0),
            _ => Ok(weights),
        }
    }

    /// Returns the divisors of the rotary embedding's angles, one for each pair, if the file has them (Llama 3).
    pub async fn rope_factors(&mut self, pairs: usize) -> Result<Option<Vec<f64>>> {
        if let Some(GgufValue::Array(GgufArray::F64(factors))) =
            self.head.metadata.get(ROPE_FACTORS)
        {
            return match factors.len() == pairs {
                true => Ok(Some(factors.clone())),
                false => Err(mismatch(ROPE_FACTORS, &[pairs], &[factors.len()])),
            };
        }
        let name = "rope_freqs.weight";
        let Some(tensor) = self.head.tensors.get(name) else { return Ok(None) };
        let numbers = tensor.format.decode(&tensor.read_from(&mut self.file).await?)?;
        match numbers.len() == pairs {
            true => Ok(Some(numbers.into_iter().map(f64::from).collect())),
            false => Err(mismatch(name, &[pairs], &tensor.shape)),
        }
    }

    /// Loads several matrices as one. Its rows are theirs, one after the other.
    async fn packed(&mut self, names: &[&str]) -> Result<PackedTensor> {
        let matrix = self.head.load_packed_from(&mut self.file, self.device, names).await?;
        Ok(matrix.with_arithmetic(self.arithmetic))
    }

    /// Loads a packed matrix, which must have this shape.
    pub async fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<PackedTensor> {
        let matrix = self.packed(&[name]).await?;
        match matrix.shape() == shape {
            true => Ok(matrix),
            false => Err(mismatch(name, &shape, &matrix.shape())),
        }
    }

    /// Loads projections of one input in a layer of the model, as few products as possible.
    pub async fn joint<const N: usize>(
        &mut self,
        layer: usize,
        projections: [Projection; N],
        config: &ModelConfig,
    ) -> Result<Joint<N>> {
        let mut parts: Vec<Part> = Vec::new();
        for projection in projections {
            let (site, shape) = (Site { layer, projection }, projection.shape(config));
            let name = site.in_gguf();
            let bias = name.replace(".weight", ".bias");
            if self.head.tensors.contains_key(&bias) {
                let message = format!("model: the layers must have no biases, got {bias:?}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let tensor = self.head.tensors.get(&name);
            if let Some(wrong) = tensor.filter(|tensor| tensor.shape != shape) {
                return Err(mismatch(&name, &shape, &wrong.shape));
            }
            let format = tensor.map(|tensor| tensor.format);
            match parts.last_mut() {
                Some(part) if part.format == format => part.names.push(name),
                _ => parts.push(Part { format, names: vec![name], sites: Vec::new() }),
            }
            parts.last_mut().expect("one was added").sites.push((site, shape[0]));
        }
        let mut joint = Joint { parts: Vec::new() };
        for Part { names, sites, .. } in parts {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            joint.parts.push((self.packed(&names).await?, sites));
        }
        Ok(joint)
    }
}

/// Projections whose weights have one format.
struct Part {
    format: Option<BlockFormat>,
    names: Vec<String>,
    sites: Vec<(Site, usize)>,
}

fn mismatch(name: &str, want: &[usize], have: &[usize]) -> Error {
    Error::format(format!("model: {name:?} must have shape {want:?}, got {have:?}"))
}

/// Projections of one input, without biases. Projections with one weight format are computed as one product.
pub struct Joint<const N: usize> {
    /// The matrices, with the site and the number of outputs of each of their projections.
    parts: Vec<(PackedTensor, Vec<(Site, usize)>)>,
}

impl<const N: usize> Joint<N> {
    /// Computes the outputs of each projection, including the change of the pass's adapter.
    pub fn apply(&self, x: &Tensor, pass: &Pass) -> Result<[Tensor; N]> {
        let mut all = Vec::with_capacity(N);
        for (weights, sites) in &self.parts {
            let product = weights.linear(x)?;
            match sites.len() {
                1 => all.push(product),
                _ => {
                    let outputs: Vec<usize> = sites.iter().map(|&(_, outputs)| outputs).collect();
                    all.extend(product.split(&outputs[..], -1)?);
                }
            }
        }
        if let Some(adapter) = pass.adapter {
            let sites = self.parts.iter().flat_map(|(_, sites)| sites);
            for (outputs, &(site, _)) in all.iter_mut().zip(sites) {
                if let Some(change) = adapter.change(site, x)? {
                    *outputs = outputs.add(&change)?;
                }
            }
        }
        Ok(all.try_into().unwrap_or_else(|_| unreachable!("each projection has outputs")))
    }
}
