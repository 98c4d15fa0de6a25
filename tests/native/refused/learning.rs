//! Rejected calls of losses, layers, optimizers, schedules, data and metrics.

use super::Refusal;
use crate::shared::refusals::{of, t, TYPE};
use pollster::block_on;
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType::{Bool, I32};
use warpweft::error::ErrorKind::{InvalidArgument, InvalidState, Limit, Shape};
use warpweft::error::Result;
use warpweft::nn::LossReduction::Mean;
use warpweft::nn::{
    init, BatchNorm, Bilinear, BinaryCrossEntropyOptions, BinaryCrossEntropyWithLogitsOptions,
    CrossEntropyOptions, Dropout, Embedding, GaussianNllOptions, Generator, GroupNorm, Gru,
    NllOptions,
};
use warpweft::nn::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
use warpweft::nn::{InstanceNorm, Layer, LayerNorm, Linear, Lora, Lstm, MultiheadAttention};
use warpweft::nn::{RecurrentOptions, RmsNorm, Rnn, TransformerEncoderLayer};
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};
use warpweft::train::metrics::{Accuracy, ConfusionMatrix, MeanSquaredError, Metric, R2};
use warpweft::train::{DataLoader, Dataset};

/// Converts a result that is not a tensor.
fn none<T>(device: &Device, result: Result<T>) -> Result<Tensor> {
    result.and_then(|_| device.zeros(&[1]))
}

fn g(device: &Device) -> Generator {
    Generator::new(device, 0)
}

fn parameter(device: &Device) -> Result<Variable> {
    Ok(Variable::new(&t(device, &[2])?))
}

/// Creates an optimizer with a rule.
fn by(device: &Device, rule: impl Rule + 'static) -> Result<Tensor> {
    none(device, Optimizer::new(rule, &[parameter(device)?]))
}

/// Updates a metric with ones.
fn score(d: &Device, mut metric: impl Metric, x: &[usize], y: Result<Tensor>) -> Result<Tensor> {
    none(d, metric.update(&t(d, x)?, &y?))
}

pub const LOSSES: &[Refusal] = &[
    ("mse_loss", Shape, |d| t(d, &[2])?.mse_loss(&t(d, &[3])?, Mean)),
    ("mse_loss", TYPE, |d| t(d, &[2])?.mse_loss(&of(d, I32, &[2])?, Mean)),
    ("l1_loss", Shape, |d| t(d, &[2])?.l1_loss(&t(d, &[3])?, Mean)),
    ("l1_loss", TYPE, |d| of(d, I32, &[2])?.l1_loss(&of(d, I32, &[2])?, Mean)),
    ("smooth_l1_loss", Shape, |d| t(d, &[2])?.smooth_l1_loss(&t(d, &[3])?, 1.0, Mean)),
    ("smooth_l1_loss", InvalidArgument, |d| t(d, &[2])?.smooth_l1_loss(&t(d, &[2])?, -1.0, Mean)),
    ("smooth_l1_loss", TYPE, |d| of(d, I32, &[2])?.smooth_l1_loss(&t(d, &[2])?, 1.0, Mean)),
    ("huber_loss", Shape, |d| t(d, &[2])?.huber_loss(&t(d, &[3])?, 1.0, Mean)),
    ("huber_loss", TYPE, |d| of(d, I32, &[2])?.huber_loss(&t(d, &[2])?, 1.0, Mean)),
    ("huber_loss", InvalidArgument, |d| t(d, &[2])?.huber_loss(&t(d, &[2])?, 0.0, Mean)),
    ("gaussian_nll_loss", Shape, |d| {
        t(d, &[2])?.gaussian_nll_loss(
            &t(d, &[2])?,
            &t(d, &[3])?,
            GaussianNllOptions { reduction: Mean, ..Default::default() },
        )
    }),
    ("gaussian_nll_loss", TYPE, |d| {
        t(d, &[2])?.gaussian_nll_loss(
            &t(d, &[2])?,
            &of(d, I32, &[2])?,
            GaussianNllOptions { reduction: Mean, ..Default::default() },
        )
    }),
    ("gaussian_nll_loss", InvalidArgument, |d| {
        t(d, &[2])?.gaussian_nll_loss(
            &t(d, &[2])?,
            &t(d, &[2])?,
            GaussianNllOptions { eps: 0.0, reduction: Mean, ..Default::default() },
        )
    }),
    ("poisson_nll_loss", Shape, |d| t(d, &[2])?.poisson_nll_loss(&t(d, &[3])?, Default::default())),
    ("poisson_nll_loss", TYPE, |d| {
        t(d, &[2])?.poisson_nll_loss(&of(d, I32, &[2])?, Default::default())
    }),
    ("binary_cross_entropy", Shape, |d| {
        t(d, &[2])?.binary_cross_entropy(
            &t(d, &[3])?,
            BinaryCrossEntropyOptions { reduction: Mean, ..Default::default() },
        )
    }),
    ("binary_cross_entropy", TYPE, |d| {
        t(d, &[2])?.binary_cross_entropy(
            &of(d, Bool, &[2])?,
            BinaryCrossEntropyOptions { reduction: Mean, ..Default::default() },
        )
    }),
    ("binary_cross_entropy_with_logits", Shape, |d| {
        t(d, &[2])?.binary_cross_entropy_with_logits(
            &t(d, &[2])?,
            BinaryCrossEntropyWithLogitsOptions {
                weight: Some(&t(d, &[3])?),
                reduction: Mean,
                ..Default::default()
            },
        )
    }),
    ("binary_cross_entropy_with_logits", TYPE, |d| {
        t(d, &[2])?.binary_cross_entropy_with_logits(
            &of(d, I32, &[2])?,
            BinaryCrossEntropyWithLogitsOptions { reduction: Mean, ..Default::default() },
        )
    }),
    ("soft_margin_loss", Shape, |d| t(d, &[2])?.soft_margin_loss(&t(d, &[3])?, Mean)),
    ("soft_margin_loss", TYPE, |d| t(d, &[2])?.soft_margin_loss(&of(d, I32, &[2])?, Mean)),
    ("hinge_embedding_loss", Shape, |d| t(d, &[2])?.hinge_embedding_loss(&t(d, &[3])?, 1.0, Mean)),
    ("hinge_embedding_loss", TYPE, |d| {
        t(d, &[2])?.hinge_embedding_loss(&of(d, I32, &[2])?, 1.0, Mean)
    }),
    ("kl_div", Shape, |d| t(d, &[2])?.kl_div(&t(d, &[3])?, false, Mean)),
    ("kl_div", TYPE, |d| t(d, &[2])?.kl_div(&of(d, I32, &[2])?, false, Mean)),
    ("margin_ranking_loss", Shape, |d| {
        t(d, &[2])?.margin_ranking_loss(&t(d, &[3])?, &t(d, &[2])?, 0.0, Mean)
    }),
    ("margin_ranking_loss", TYPE, |d| {
        t(d, &[2])?.margin_ranking_loss(&t(d, &[2])?, &of(d, I32, &[2])?, 0.0, Mean)
    }),
    ("cosine_embedding_loss", Shape, |d| {
        t(d, &[2, 3])?.cosine_embedding_loss(&t(d, &[2, 3])?, &t(d, &[3])?, 0.0, Mean)
    }),
    ("cosine_embedding_loss", TYPE, |d| {
        t(d, &[2, 3])?.cosine_embedding_loss(&of(d, I32, &[2, 3])?, &t(d, &[2])?, 0.0, Mean)
    }),
    ("triplet_margin_loss", Shape, |d| {
        t(d, &[2, 3])?.triplet_margin_loss(&t(d, &[2, 3])?, &t(d, &[2, 4])?, Default::default())
    }),
    ("triplet_margin_loss", Shape, |d| {
        t(d, &[])?.triplet_margin_loss(&t(d, &[])?, &t(d, &[])?, Default::default())
    }),
    ("triplet_margin_loss", TYPE, |d| {
        t(d, &[2])?.triplet_margin_loss(&t(d, &[2])?, &of(d, I32, &[2])?, Default::default())
    }),
    ("triplet_margin_loss", InvalidArgument, |d| {
        let options = warpweft::nn::TripletMarginOptions { p: f64::NAN, ..Default::default() };
        t(d, &[2])?.triplet_margin_loss(&t(d, &[2])?, &t(d, &[2])?, options)
    }),
    ("cross_entropy", Shape, |d| {
        t(d, &[4, 3])?.cross_entropy(&of(d, I32, &[3])?, Default::default())
    }),
    ("cross_entropy", Shape, |d| t(d, &[])?.cross_entropy(&of(d, I32, &[])?, Default::default())),
    ("cross_entropy", Shape, |d| {
        let weight = t(d, &[4])?;
        t(d, &[4, 3])?.cross_entropy(
            &of(d, I32, &[4])?,
            CrossEntropyOptions { weight: Some(&weight), ..Default::default() },
        )
    }),
    ("cross_entropy", TYPE, |d| t(d, &[4, 3])?.cross_entropy(&t(d, &[4])?, Default::default())),
    ("cross_entropy", InvalidArgument, |d| {
        let options =
            warpweft::nn::CrossEntropyOptions { label_smoothing: 2.0, ..Default::default() };
        t(d, &[4, 3])?.cross_entropy(&of(d, I32, &[4])?, options)
    }),
    ("nll_loss", Shape, |d| {
        t(d, &[4, 3])?
            .nll_loss(&of(d, I32, &[3])?, NllOptions { reduction: Mean, ..Default::default() })
    }),
    ("nll_loss", TYPE, |d| {
        t(d, &[4, 3])?.nll_loss(&t(d, &[4])?, NllOptions { reduction: Mean, ..Default::default() })
    }),
];

pub const LAYERS: &[Refusal] = &[
    ("linear", Shape, |d| Linear::new(&g(d), 3, 2)?.forward(&t(d, &[4, 2])?)),
    ("linear", TYPE, |d| Linear::new(&g(d), 3, 2)?.forward(&of(d, I32, &[4, 3])?)),
    ("bilinear", Shape, |d| Bilinear::new(&g(d), 3, 2, 2)?.run(&t(d, &[4, 3])?, &t(d, &[4, 3])?)),
    ("embedding", TYPE, |d| Embedding::new(&g(d), 3, 2)?.forward(&t(d, &[4])?)),
    ("lora", InvalidArgument, |d| none(d, Lora::new(&g(d), Linear::new(&g(d), 3, 2)?, 0, 1.0))),
    ("dropout", InvalidArgument, |d| none(d, Dropout::new(&g(d), 1.5))),
    ("dropout", TYPE, |d| Dropout::new(&g(d), 0.5)?.forward(&of(d, I32, &[4])?)),
    ("batch_norm", Shape, |d| BatchNorm::new(&g(d), 2)?.forward(&t(d, &[1, 2])?)),
    ("batch_norm", Shape, |d| BatchNorm::new(&g(d), 2)?.forward(&t(d, &[4, 3])?)),
    ("batch_norm", TYPE, |d| BatchNorm::new(&g(d), 2)?.forward(&of(d, I32, &[4, 2])?)),
    ("layer_norm", Shape, |d| LayerNorm::new(&g(d), &[2])?.forward(&t(d, &[4, 3])?)),
    ("layer_norm", TYPE, |d| LayerNorm::new(&g(d), &[2])?.forward(&of(d, I32, &[4, 2])?)),
    ("rms_norm", Shape, |d| RmsNorm::new(&g(d), &[2])?.forward(&t(d, &[4, 3])?)),
    ("group_norm", Shape, |d| GroupNorm::new(&g(d), 2, 4)?.forward(&t(d, &[4, 3])?)),
    ("group_norm", TYPE, |d| GroupNorm::new(&g(d), 2, 4)?.forward(&of(d, I32, &[4, 4])?)),
    ("instance_norm", Shape, |d| InstanceNorm::default().forward(&t(d, &[4])?)),
    ("conv1d", Shape, |d| {
        Conv1d::new(&g(d), 2, 3, [3], Default::default())?.forward(&t(d, &[1, 3, 5])?)
    }),
    ("conv2d", Shape, |d| {
        Conv2d::new(&g(d), 2, 3, [3; 2], Default::default())?.forward(&t(d, &[2, 5])?)
    }),
    ("conv2d", TYPE, |d| {
        Conv2d::new(&g(d), 2, 3, [3; 2], Default::default())?.forward(&of(d, I32, &[1, 2, 5, 5])?)
    }),
    ("conv2d", Shape, |d| {
        let options = warpweft::tensor::ConvOptions { groups: 2, ..Default::default() };
        none(d, Conv2d::new(&g(d), 3, 4, [3; 2], options))
    }),
    ("conv3d", Shape, |d| {
        Conv3d::new(&g(d), 2, 3, [3; 3], Default::default())?.forward(&t(d, &[1, 2, 2, 5, 5])?)
    }),
    ("conv_transpose1d", Shape, |d| {
        ConvTranspose1d::new(&g(d), 2, 3, [3], Default::default())?.forward(&t(d, &[1, 3, 5])?)
    }),
    ("conv_transpose2d", Shape, |d| {
        ConvTranspose2d::new(&g(d), 2, 3, [3; 2], Default::default())?.forward(&t(d, &[2, 5])?)
    }),
    ("conv_transpose3d", Shape, |d| {
        ConvTranspose3d::new(&g(d), 2, 3, [3; 3], Default::default())?.forward(&t(d, &[2, 5])?)
    }),
    ("rnn", Shape, |d| Rnn::new(&g(d), 3, 2, plain())?.forward(&t(d, &[1, 2, 4])?)),
    ("rnn", Shape, |d| Rnn::new(&g(d), 3, 2, plain())?.forward(&t(d, &[2, 3])?)),
    ("rnn", InvalidArgument, |d| none(d, Rnn::new(&g(d), 3, 0, plain()))),
    ("rnn", InvalidArgument, |d| {
        none(d, Rnn::new(&g(d), 3, 2, RecurrentOptions { proj_size: 1, ..plain() }))
    }),
    ("lstm", Shape, |d| Lstm::new(&g(d), 3, 2, plain())?.forward(&t(d, &[1, 2, 4])?)),
    ("lstm", Shape, |d| Lstm::new(&g(d), 3, 2, plain())?.forward(&t(d, &[1, 0, 3])?)),
    ("lstm", Shape, |d| {
        let (x, state) = (t(d, &[1, 2, 3])?, t(d, &[1, 1, 3])?);
        Ok(Lstm::new(&g(d), 3, 2, plain())?.run(&x, Some((&state, &state)))?.0)
    }),
    ("lstm", InvalidArgument, |d| {
        none(d, Lstm::new(&g(d), 3, 2, RecurrentOptions { num_layers: 0, ..plain() }))
    }),
    ("gru", Shape, |d| Gru::new(&g(d), 3, 2, plain())?.forward(&t(d, &[1, 2, 4])?)),
    ("gru", InvalidArgument, |d| {
        none(
            d,
            Gru::new(
                &g(d),
                3,
                2,
                RecurrentOptions { nonlinearity: warpweft::nn::Nonlinearity::Relu, ..plain() },
            ),
        )
    }),
    ("attention", Shape, |d| none(d, MultiheadAttention::new(&g(d), 5, 2, 0.0))),
    ("attention", Shape, |d| MultiheadAttention::new(&g(d), 4, 2, 0.0)?.forward(&t(d, &[2, 4])?)),
    ("attention", Shape, |d| {
        TransformerEncoderLayer::new(&g(d), 4, 2, Default::default())?.forward(&t(d, &[2, 4])?)
    }),
    ("init", Shape, |d| init::xavier_uniform(&g(d), &[3], init::Gain::Linear)),
    // Sizes whose sums and products overflow.
    ("init", Limit, |d| none(d, init::fans(&[2, usize::MAX, 3]))),
    ("init", Limit, |d| none(d, init::fans(&[0, 2, usize::MAX, usize::MAX]))),
    ("init", Limit, |d| init::xavier_uniform(&g(d), &[usize::MAX; 2], init::Gain::Linear)),
    ("init", Limit, |d| init::xavier_normal(&g(d), &[usize::MAX, 1], init::Gain::Linear)),
    ("init", Limit, |d| init::kaiming_uniform(&g(d), &[2, 3, usize::MAX], init::Gain::Linear)),
    ("init", Limit, |d| init::orthogonal(&g(d), &[2, usize::MAX, usize::MAX], 1.0)),
    ("init", Limit, |d| none(d, Conv1d::new(&g(d), 2, 3, [usize::MAX], Default::default()))),
    ("rnn", Limit, |d| none(d, Rnn::new(&g(d), 3, usize::MAX, plain()))),
    ("rnn", Limit, |d| none(d, Rnn::new(&g(d), usize::MAX, 2, plain()))),
    ("lstm", Limit, |d| none(d, Lstm::new(&g(d), 3, usize::MAX / 3, plain()))),
    ("lstm", Limit, |d| {
        let options = RecurrentOptions { num_layers: 2, bidirectional: true, ..plain() };
        none(d, Lstm::new(&g(d), 3, usize::MAX / 2 + 1, options))
    }),
    ("gru", Limit, |d| {
        none(d, Gru::new(&g(d), 3, 2, RecurrentOptions { num_layers: usize::MAX, ..plain() }))
    }),
    ("attention", Limit, |d| none(d, MultiheadAttention::new(&g(d), usize::MAX, 1, 0.0))),
    ("trunc_normal", InvalidArgument, |d| init::trunc_normal(&g(d), &[3], (0.0, 0.0), (-1.0, 1.0))),
];

fn plain() -> RecurrentOptions {
    RecurrentOptions::default()
}

pub const TRAINING: &[Refusal] = &[
    ("optimizer", InvalidArgument, |d| none(d, Optimizer::new(Sgd::new(0.1), &[]))),
    ("optimizer", InvalidArgument, |d| {
        let one = parameter(d)?;
        none(d, Optimizer::new(Sgd::new(0.1), &[one.clone(), one]))
    }),
    ("optimizer", TYPE, |d| {
        none(d, Optimizer::new(Sgd::new(0.1), &[Variable::new(&of(d, I32, &[2])?)]))
    }),
    ("optimizer", InvalidArgument, |d| {
        let one = parameter(d)?;
        let mut optimizer = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&one))?;
        none(d, optimizer.add_group(Sgd::new(0.1), &[one]))
    }),
    ("optimizer", InvalidArgument, |d| {
        let mut optimizer = Optimizer::new(Sgd::new(0.1), &[parameter(d)?])?;
        none(d, optimizer.set_group_lr(1, 0.1))
    }),
    ("optimizer", InvalidArgument, |d| by(d, Sgd::new(-1.0))),
    ("optimizer", InvalidArgument, |d| by(d, Sgd { nesterov: true, ..Sgd::new(0.1) })),
    ("optimizer", InvalidArgument, |d| by(d, Adam { betas: (1.0, 0.9), ..Adam::new(0.1) })),
    ("optimizer", InvalidArgument, |d| by(d, AdamW { betas: (0.9, 2.0), ..AdamW::new(0.1) })),
    ("optimizer", InvalidArgument, |d| by(d, Rprop { etas: (1.5, 1.2), ..Rprop::new(0.1) })),
    ("optimizer", InvalidArgument, |d| by(d, RmsProp::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Adagrad::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Adadelta::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Adamax::new(f64::NAN))),
    ("optimizer", InvalidArgument, |d| by(d, NAdam::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, RAdam::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, AdaBelief::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Yogi::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Asgd::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Lion::new(-0.1))),
    ("optimizer", InvalidArgument, |d| by(d, Lamb::new(-0.1))),
    ("muon", Shape, |d| by(d, Muon::new(0.1))),
    ("minimize", Shape, |d| {
        let one = parameter(d)?;
        let mut optimizer = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&one))?;
        none(d, optimizer.minimize(&one.value()))
    }),
    ("minimize", InvalidArgument, |d| {
        let mut optimizer = Optimizer::new(Sgd::new(0.1), &[parameter(d)?])?;
        none(d, optimizer.minimize(&t(d, &[1])?))
    }),
    ("step", InvalidState, |d| none(d, Optimizer::new(Sgd::new(0.1), &[parameter(d)?])?.step())),
    ("average", InvalidArgument, |d| {
        none(d, WeightAverage::new(&Optimizer::new(Sgd::new(0.1), &[parameter(d)?])?, 2.0))
    }),
    ("StepLr", InvalidArgument, |d| none(d, StepLr::new(0.1, 0, 0.5))),
    ("CosineAnnealingLr", InvalidArgument, |d| none(d, CosineAnnealingLr::new(0.1, 0, 0.0))),
    ("OneCycleLr", InvalidArgument, |d| {
        none(d, OneCycleLr::new(0.1, 9, OneCycleOptions { pct_start: 2.0, ..Default::default() }))
    }),
    ("ExponentialLr", InvalidArgument, |d| none(d, ExponentialLr::new(-0.1, 0.5))),
    ("SequentialLr", InvalidArgument, |d| none(d, SequentialLr::new(vec![], vec![3]))),
    ("ReduceLrOnPlateau", InvalidArgument, |d| {
        none(d, ReduceLrOnPlateau::new(0.1, PlateauOptions { factor: 1.5, ..Default::default() }))
    }),
    ("dataset", Shape, |d| none(d, Dataset::new(&t(d, &[3, 2])?, &t(d, &[2])?))),
    ("split", InvalidArgument, |d| {
        none(d, Dataset::new(&t(d, &[3, 2])?, &t(d, &[3])?)?.split(2.0, 0))
    }),
    ("loader", InvalidArgument, |d| {
        none(d, DataLoader::new(&Dataset::new(&t(d, &[3])?, &t(d, &[3])?)?, 0))
    }),
    ("accuracy", TYPE, |d| score(d, Accuracy::new(), &[4, 3], t(d, &[4]))),
    ("accuracy", Shape, |d| score(d, Accuracy::new(), &[4, 3], of(d, I32, &[3]))),
    ("mean_squared_error", Shape, |d| score(d, MeanSquaredError::new(), &[4], t(d, &[3]))),
    ("mean_squared_error", TYPE, |d| score(d, MeanSquaredError::new(), &[4], of(d, I32, &[4]))),
    ("r2_score", Shape, |d| score(d, R2::new(), &[4], t(d, &[3]))),
    ("confusion_matrix", InvalidState, |d| none(d, ConfusionMatrix::new(2).matrix())),
    ("confusion_matrix", Limit, |d| {
        let classes = of(d, I32, &[2])?;
        none(d, ConfusionMatrix::new(usize::MAX).update(&classes, &classes))
    }),
];

/// Returns an element function of one operand.
fn element(device: &Device, source: &str) -> Result<warpweft::tensor::ElementFunction> {
    block_on(device.element_function(source))
}

const SQUARE: &str = "fn square(x: f32) -> f32 { return x * x; }";
const SHADER: &str = "
    @group(0) @binding(1) var<storage> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { y[id.x] = x[id.x]; }";

pub const READING: &[Refusal] = &[
    ("read", TYPE, |d| none(d, block_on(t(d, &[2])?.read::<i32>()))),
    ("read", Shape, |d| none(d, block_on(t(d, &[2])?.read_range::<f32>(1, 2)))),
    ("masked_select", Shape, |d| block_on(t(d, &[2])?.masked_select(&of(d, Bool, &[3])?))),
    ("masked_select", TYPE, |d| block_on(t(d, &[2])?.masked_select(&of(d, I32, &[2])?))),
    ("to_image", Shape, |d| none(d, block_on(t(d, &[2, 2])?.to_image::<image::Rgb<u8>>()))),
    ("to_image", TYPE, |d| none(d, block_on(of(d, I32, &[2, 2, 3])?.to_image::<image::Rgb<u8>>()))),
    ("item", Shape, |d| none(d, block_on(t(d, &[2])?.item::<f32>()))),
    ("element function", InvalidArgument, |d| {
        none(d, element(d, "fn f(x: vec2f) -> f32 { return 1; }"))
    }),
    ("element function", InvalidArgument, |d| none(d, element(d, "var x: f32;"))),
    ("square", InvalidArgument, |d| element(d, SQUARE)?.call(&[&t(d, &[2])?, &t(d, &[2])?])),
    ("sum_of", Shape, |d| {
        let sum = element(d, "fn sum_of(x: f32, y: f32) -> f32 { return x + y; }")?;
        sum.call(&[&t(d, &[2])?, &t(d, &[3])?])
    }),
    ("square", TYPE, |d| element(d, SQUARE)?.call(&[&of(d, I32, &[2])?])),
    ("square", InvalidArgument, |d| none(d, element(d, SQUARE)?.with_gradients(&[]))),
    ("shader", InvalidArgument, |d| none(d, block_on(d.shader("fn main() {}")))),
    ("shader", InvalidArgument, |d| {
        let shader = block_on(d.shader(SHADER))?;
        none(d, shader.run(&[], &[("y", &[2])], [1, 1, 1], &[]))
    }),
    ("shader", TYPE, |d| {
        let shader = block_on(d.shader(SHADER))?;
        none(d, shader.run(&[("x", &of(d, I32, &[2])?)], &[("y", &[2])], [1, 1, 1], &[]))
    }),
];

/// Returns a tensor of another device.
fn elsewhere(shape: &[usize]) -> Result<Tensor> {
    block_on(Device::with(Preference::Cpu))?.ones(shape)
}

pub const DEVICES: &[Refusal] = &[
    ("add", InvalidArgument, |d| t(d, &[2])?.add(&elsewhere(&[2])?)),
    ("matmul", InvalidArgument, |d| t(d, &[2, 2])?.matmul(&elsewhere(&[2, 2])?)),
    ("concat", InvalidArgument, |d| Tensor::concat(&[&t(d, &[2])?, &elsewhere(&[2])?], 0)),
    ("stack", InvalidArgument, |d| Tensor::stack(&[&t(d, &[2])?, &elsewhere(&[2])?], 0)),
    ("einsum", InvalidArgument, |d| Tensor::einsum("i,i", &[&t(d, &[2])?, &elsewhere(&[2])?])),
    ("grad", InvalidArgument, |d| none(d, t(d, &[])?.grad(&[&elsewhere(&[2])?]))),
    ("vjp", InvalidArgument, |d| none(d, t(d, &[2])?.vjp(&elsewhere(&[2])?, &[]))),
    ("checkpoint", InvalidArgument, |d| t(d, &[2])?.checkpoint(|_| elsewhere(&[2]))),
    ("read", InvalidArgument, |d| {
        none(d, block_on(d.read::<f32>(&[&t(d, &[2])?, &elsewhere(&[2])?])))
    }),
    ("square", InvalidArgument, |d| element(d, SQUARE)?.call(&[&elsewhere(&[2])?])),
    ("batch", InvalidArgument, |d| none(d, d.batch().add(&elsewhere(&[2])?))),
    ("assign", InvalidArgument, |d| none(d, parameter(d)?.assign(&elsewhere(&[2])?))),
    ("assign_slice", InvalidArgument, |d| {
        none(d, parameter(d)?.assign_slice(0, 0, &elsewhere(&[1])?))
    }),
    ("backward", InvalidArgument, |d| none(d, elsewhere(&[1])?.backward(&[&parameter(d)?]))),
    ("grad", InvalidState, |d| {
        let x = t(d, &[2])?;
        let square = x.square();
        block_on(square.read::<f32>())?;
        let loss = square.sum(())?;
        block_on(loss.read::<f32>())?;
        drop(square);
        d.trim();
        none(d, loss.grad(&[&x]))
    }),
    ("backward", InvalidState, |d| {
        let one = Variable::new(&t(d, &[1])?);
        let loss = one.value().mul(2.0)?;
        one.assign(&t(d, &[1])?)?;
        none(d, loss.backward(&[&one]))
    }),
    ("backward", TYPE, |d| none(d, of(d, I32, &[1])?.backward(&[&parameter(d)?]))),
    ("dataset", InvalidArgument, |d| none(d, Dataset::new(&t(d, &[2])?, &elsewhere(&[2])?))),
];
