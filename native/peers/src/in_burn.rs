//! The models in burn, on any of its backends.

use crate::{Result, Training};
use burn::nn::activation::ActivationConfig;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig, PaddingConfig2d,
};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::activation::relu;
use burn::tensor::Distribution;

/// Where a peer computes, given what kind of adapter warpweft has.
// burn has deprecated its ndarray backend in favour of flex; both are compared with while it is there.
#[allow(deprecated)]
pub fn device(peer: &str, kind: &str) -> Result<Device> {
    Ok(match (peer, kind) {
        ("burn-flex", _) => Device::flex(),
        ("burn-ndarray", _) => Device::ndarray(),
        ("burn-wgpu", "software") => Device::wgpu(DeviceKind::Cpu),
        ("burn-wgpu", "discrete") => Device::wgpu(DeviceKind::DiscreteGpu(0)),
        ("burn-wgpu", "integrated") => Device::wgpu(DeviceKind::IntegratedGpu(0)),
        ("burn-wgpu", _) => Device::wgpu(DeviceKind::DefaultDevice),
        _ => return Err(format!("no such peer: {peer}").into()),
    }
    .autodiff())
}

#[derive(Module, Debug)]
struct Mlp {
    layers: [Linear; 3],
}

impl Mlp {
    fn new(device: &Device) -> Mlp {
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        Mlp { layers: [linear(784, 512), linear(512, 256), linear(256, 10)] }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let [first, second, third] = &self.layers;
        third.forward(relu(second.forward(relu(first.forward(x)))))
    }
}

#[derive(Module, Debug)]
struct Cnn {
    convolutions: [Conv2d; 2],
    pool: MaxPool2d,
    layers: [Linear; 2],
}

impl Cnn {
    fn new(device: &Device) -> Cnn {
        let convolution = |inputs, outputs| {
            let config = Conv2dConfig::new([inputs, outputs], [3, 3]);
            config.with_padding(PaddingConfig2d::Same).init(device)
        };
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        Cnn {
            convolutions: [convolution(1, 16), convolution(16, 32)],
            pool: MaxPool2dConfig::new([2, 2]).init(),
            layers: [linear(32 * 49, 128), linear(128, 10)],
        }
    }

    fn forward(&self, mut x: Tensor<4>) -> Tensor<2> {
        for convolution in &self.convolutions {
            x = self.pool.forward(relu(convolution.forward(x)));
        }
        let [first, second] = &self.layers;
        second.forward(relu(first.forward(x.flatten(1, 3))))
    }
}

#[derive(Module, Debug)]
struct Recurrent {
    lstm: Lstm,
    head: Linear,
}

impl Recurrent {
    fn new(device: &Device) -> Recurrent {
        let head = LinearConfig::new(128, 10).init(device);
        Recurrent { lstm: LstmConfig::new(64, 128, true).init(device), head }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        self.head.forward(self.lstm.forward(x, None).1.hidden)
    }
}

#[derive(Module, Debug)]
struct Transformer {
    embedding: Embedding,
    encoder: TransformerEncoder,
    head: Linear,
}

impl Transformer {
    fn new(device: &Device) -> Transformer {
        let encoder = TransformerEncoderConfig::new(256, 1024, 4, 4)
            .with_dropout(0.0)
            .with_activation(ActivationConfig::Relu);
        Transformer {
            embedding: EmbeddingConfig::new(256, 256).init(device),
            encoder: encoder.init(device),
            head: LinearConfig::new(256, 256).init(device),
        }
    }

    fn forward(&self, x: Tensor<2, Int>) -> Tensor<2> {
        let x = TransformerEncoderInput::new(self.embedding.forward(x));
        self.head.forward(self.encoder.forward(x)).flatten(0, 1)
    }
}

/// A model that is taken for a step, which gives it back changed.
struct Learner<M, F> {
    model: Option<M>,
    scores: F,
    classes: Tensor<1, Int>,
    loss: CrossEntropyLoss,
    optimizer: ModuleOptimizer,
}

impl<M: Module, F: Fn(&M) -> Tensor<2>> Training for Learner<M, F> {
    fn parameters(&self) -> usize {
        self.model.as_ref().map_or(0, Module::num_params)
    }

    fn step(&mut self) -> Result<f32> {
        let model = self.model.take().ok_or("an earlier step failed")?;
        let loss = self.loss.forward((self.scores)(&model), self.classes.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        self.model = Some(self.optimizer.step(1e-4, model, gradients));
        Ok(loss.try_into_scalar::<f32>()?)
    }
}

fn learner<M: Module + 'static>(
    model: M,
    scores: impl Fn(&M) -> Tensor<2> + 'static,
    classes: Tensor<1, Int>,
) -> Box<dyn Training> {
    let loss = CrossEntropyLossConfig::new().init(&classes.device());
    // As small as PyTorch's.
    let optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    Box::new(Learner { model: Some(model), scores, classes, loss, optimizer })
}

/// A model, and what it is to learn.
pub fn make(device: Device, kind: &str, batch: usize) -> Result<Box<dyn Training>> {
    let counted = |count: usize, step: i64, classes: i64| {
        let count = Tensor::<1, Int>::arange(0..count as i64, &device);
        count.mul_scalar(step).remainder_scalar(classes)
    };
    let noise = Distribution::Normal(0.0, 1.0);
    let classes = counted(batch, 1, 10);
    Ok(match kind {
        "mlp" => {
            let x = Tensor::random([batch, 784], noise, &device);
            learner(Mlp::new(&device), move |model| model.forward(x.clone()), classes)
        }
        "cnn" => {
            let x = Tensor::random([batch, 1, 28, 28], noise, &device);
            learner(Cnn::new(&device), move |model| model.forward(x.clone()), classes)
        }
        "lstm" => {
            let x = Tensor::random([batch, 100, 64], noise, &device);
            learner(Recurrent::new(&device), move |model| model.forward(x.clone()), classes)
        }
        "transformer" => {
            let text = counted(batch * 128, 7, 256);
            let next = text.clone().add_scalar(1).remainder_scalar(256);
            let x = text.reshape([batch, 128]);
            learner(Transformer::new(&device), move |model| model.forward(x.clone()), next)
        }
        _ => return Err(format!("no such model: {kind}").into()),
    })
}
