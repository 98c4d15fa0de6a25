//! The models in candle, on its CPU.

use crate::{Result, Training};
use candle_core::{DType, Device, Module, Result as Candle, Tensor, D};
use candle_nn::loss::cross_entropy;
use candle_nn::ops::{layer_norm_slow, softmax};
use candle_nn::rnn::{lstm, LSTMConfig, RNN};
use candle_nn::{
    conv2d, embedding, linear, seq, AdamW, Conv2dConfig, Init, Linear, Optimizer, ParamsAdamW,
    Sequential, VarBuilder, VarMap,
};

fn mlp(vb: &VarBuilder) -> Candle<Sequential> {
    Ok(seq()
        .add(linear(784, 512, vb.pp("first"))?)
        .add_fn(Tensor::relu)
        .add(linear(512, 256, vb.pp("second"))?)
        .add_fn(Tensor::relu)
        .add(linear(256, 10, vb.pp("third"))?))
}

fn cnn(vb: &VarBuilder) -> Candle<Sequential> {
    let same = Conv2dConfig { padding: 1, ..Conv2dConfig::default() };
    Ok(seq()
        .add(conv2d(1, 16, 3, same, vb.pp("conv1"))?)
        .add_fn(Tensor::relu)
        .add_fn(|x| x.max_pool2d(2))
        .add(conv2d(16, 32, 3, same, vb.pp("conv2"))?)
        .add_fn(Tensor::relu)
        .add_fn(|x| x.max_pool2d(2))
        .add_fn(|x| x.flatten_from(1))
        .add(linear(32 * 49, 128, vb.pp("first"))?)
        .add_fn(Tensor::relu)
        .add(linear(128, 10, vb.pp("second"))?))
}

fn recurrent(vb: &VarBuilder) -> Candle<Sequential> {
    let layer = lstm(64, 128, LSTMConfig::default(), vb.pp("lstm"))?;
    let last = move |x: &Tensor| {
        let states = layer.seq(x)?;
        states
            .last()
            .map(|state| state.h().clone())
            .ok_or_else(|| candle_core::Error::msg("no steps"))
    };
    Ok(seq().add_fn(last).add(linear(128, 10, vb.pp("head"))?))
}

/// The layer's own forward has no gradient: it is one operation that only infers.
struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
}

impl LayerNorm {
    fn new(width: usize, vb: VarBuilder) -> Candle<LayerNorm> {
        Ok(LayerNorm {
            weight: vb.get_with_hints(width, "weight", Init::Const(1.0))?,
            bias: vb.get_with_hints(width, "bias", Init::Const(0.0))?,
        })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Candle<Tensor> {
        layer_norm_slow(x, &self.weight, &self.bias, 1e-5)
    }
}

/// A layer of an encoder, which candle has none of: sums are normalized, as in PyTorch's `TransformerEncoderLayer`.
struct EncoderLayer {
    heads: usize,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    hidden: Linear,
    narrow: Linear,
    norms: [LayerNorm; 2],
}

impl EncoderLayer {
    fn new(width: usize, heads: usize, hidden: usize, vb: VarBuilder) -> Candle<EncoderLayer> {
        let square = |name| linear(width, width, vb.pp(name));
        Ok(EncoderLayer {
            heads,
            query: square("query")?,
            key: square("key")?,
            value: square("value")?,
            output: square("output")?,
            hidden: linear(width, hidden, vb.pp("hidden"))?,
            narrow: linear(hidden, width, vb.pp("narrow"))?,
            norms: [LayerNorm::new(width, vb.pp("norm1"))?, LayerNorm::new(width, vb.pp("norm2"))?],
        })
    }

    fn attention(&self, x: &Tensor) -> Candle<Tensor> {
        let (batch, tokens, width) = x.dims3()?;
        let depth = width / self.heads;
        let split = |layer: &Linear| {
            let parts = layer.forward(x)?.reshape((batch, tokens, self.heads, depth))?;
            parts.transpose(1, 2)?.contiguous()
        };
        let (query, key, value) = (split(&self.query)?, split(&self.key)?, split(&self.value)?);
        let scores = (query.matmul(&key.t()?)? * (1.0 / (depth as f64).sqrt()))?;
        let mixed = softmax(&scores, D::Minus1)?.matmul(&value)?;
        self.output.forward(&mixed.transpose(1, 2)?.reshape((batch, tokens, width))?)
    }
}

impl Module for EncoderLayer {
    fn forward(&self, x: &Tensor) -> Candle<Tensor> {
        let x = self.norms[0].forward(&(x + self.attention(x)?)?)?;
        let hidden = self.hidden.forward(&x)?.relu()?;
        self.norms[1].forward(&(&x + self.narrow.forward(&hidden)?)?)
    }
}

fn transformer(vb: &VarBuilder) -> Candle<Sequential> {
    let mut model = seq().add(embedding(256, 256, vb.pp("embedding"))?);
    for number in 0..4 {
        model = model.add(EncoderLayer::new(256, 4, 1024, vb.pp(format!("layer{number}")))?);
    }
    Ok(model.add(linear(256, 256, vb.pp("head"))?).add_fn(|x| x.flatten(0, 1)))
}

struct Learner {
    model: Sequential,
    x: Tensor,
    classes: Tensor,
    parameters: usize,
    optimizer: AdamW,
}

impl Training for Learner {
    fn parameters(&self) -> usize {
        self.parameters
    }

    fn step(&mut self) -> Result<f32> {
        let loss = cross_entropy(&self.model.forward(&self.x)?, &self.classes)?;
        self.optimizer.backward_step(&loss)?;
        Ok(loss.to_scalar()?)
    }
}

/// A model, and what it is to learn.
pub fn make(kind: &str, batch: usize) -> Result<Box<dyn Training>> {
    let device = Device::Cpu;
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, DType::F32, &device);
    let counted = |count: usize, step: u32, classes: u32| {
        let numbers: Vec<u32> = (0..count as u32).map(|n| n * step % classes).collect();
        Tensor::from_vec(numbers, count, &device)
    };
    let noise = |shape: &[usize]| Tensor::randn(0f32, 1.0, shape, &device);
    let (model, x, classes) = match kind {
        "mlp" => (mlp(&vb)?, noise(&[batch, 784])?, counted(batch, 1, 10)?),
        "cnn" => (cnn(&vb)?, noise(&[batch, 1, 28, 28])?, counted(batch, 1, 10)?),
        "lstm" => (recurrent(&vb)?, noise(&[batch, 100, 64])?, counted(batch, 1, 10)?),
        "transformer" => {
            let text = counted(batch * 128, 7, 256)?.reshape((batch, 128))?;
            let next = (0..batch as u32 * 128).map(|n| (n * 7 + 1) % 256).collect();
            (transformer(&vb)?, text, Tensor::from_vec(next, batch * 128, &device)?)
        }
        _ => return Err(format!("no such model: {kind}").into()),
    };
    let all = variables.all_vars();
    let parameters = all.iter().map(|variable| variable.elem_count()).sum();
    // Adam is AdamW whose values do not become smaller by themselves.
    let adam = ParamsAdamW { lr: 1e-4, weight_decay: 0.0, ..ParamsAdamW::default() };
    let optimizer = AdamW::new(all, adam)?;
    Ok(Box::new(Learner { model, x, classes, parameters, optimizer }))
}
