//! Tests gradients against JAX in 64 bits. `tests/golden/grad.py` writes the numbers.

use super::super::array::Array;
use super::super::check::{near, Suite};
use super::super::golden::arrays;
use super::super::tolerance::Tolerance;
use std::collections::HashMap;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{AttentionOptions, Conv2dOptions, NormOptions, Padding, Tensor};

const FILE: &str = include_str!("../../golden/grad.txt");

/// The tolerance of values that are rounded to `f32` at every step. A GPU's exponential is off by a few units.
const NEAR: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-5 };

type Inputs = HashMap<String, Tensor>;

fn golden(suite: &mut Suite, case: &'static str, loss: fn(&Inputs) -> Result<Tensor>) {
    suite.add(format!("like JAX: {case}"), move |device| {
        let arrays = arrays(FILE, case);
        let mut inputs = Inputs::new();
        for (name, array) in &arrays {
            let whole = matches!(name.as_str(), "label" | "index");
            let dtype = if whole { DType::I32 } else { DType::F32 };
            inputs.insert(name.clone(), array.on(device, dtype)?);
        }
        let loss = loss(&inputs)?;
        let wanted =
            arrays.iter().filter_map(|(name, want)| Some((name.strip_prefix("d ")?, want)));
        let wanted: Vec<(&str, &Array<f64>)> = wanted.collect();
        let wrt: Vec<&Tensor> = wanted.iter().map(|(name, _)| &inputs[*name]).collect();
        let gradients = loss.grad(&wrt)?;
        let mut checks = vec![near("loss", loss, arrays["loss"].clone(), NEAR)];
        for ((name, want), gradient) in wanted.into_iter().zip(gradients) {
            checks.push(near(format!("by {name}"), gradient, want.clone(), NEAR));
        }
        Ok(checks)
    });
}

pub fn cases(suite: &mut Suite) {
    golden(suite, "mlp", |p| {
        let hidden = p["x"].matmul(&p["w1"])?.add(&p["b1"])?.gelu();
        let scores = hidden.tanh().matmul(&p["w2"])?.add(&p["b2"])?.log_softmax(-1)?;
        Ok(scores.mul(&p["label"].one_hot(4)?)?.sum(&[1])?.mean(&[])?.neg())
    });
    golden(suite, "conv", |p| conv(p, Conv2dOptions::default()));
    golden(suite, "conv stride", |p| {
        let padding = Padding::Explicit([(1, 1), (0, 2)]);
        conv(p, Conv2dOptions { stride: [2, 3], padding, ..Conv2dOptions::default() })
    });
    golden(suite, "conv groups", |p| {
        let padding = Padding::Explicit([(1, 1), (1, 1)]);
        conv(p, Conv2dOptions { padding, groups: 2, ..Conv2dOptions::default() })
    });
    golden(suite, "conv dilation", |p| {
        let padding = Padding::Explicit([(2, 1), (0, 3)]);
        conv(p, Conv2dOptions { stride: [2, 1], padding, dilation: [2, 3], groups: 2 })
    });
    golden(suite, "layer norm", |p| {
        let (weight, bias) = (Some(&p["weight"]), Some(&p["bias"]));
        p["x"].layer_norm(&[-1], NormOptions { weight, bias, ..Default::default() })?.exp().sum(&[])
    });
    golden(suite, "softmax", |p| p["x"].mul(5)?.softmax(-1)?.mul(&p["weight"])?.sum(&[]));
    golden(suite, "attention", |p| {
        let options = AttentionOptions { is_causal: true, ..Default::default() };
        p["q"].attention(&p["k"], &p["v"], options)?.cos().sum(&[])
    });
    golden(suite, "embedding", |p| p["table"].index_select(0, &p["index"])?.exp().sum(&[]));
    golden(suite, "max", |p| p["x"].max(&[1])?.exp().sum(&[]));
    golden(suite, "min", |p| p["x"].min(&[1])?.exp().sum(&[]));
    golden(suite, "maximum", |p| p["x"].maximum(&p["x"].flip(&[1])?)?.square().sum(&[]));
    golden(suite, "prod", |p| p["x"].prod(&[1])?.sin().sum(&[]));
}

fn conv(p: &Inputs, options: Conv2dOptions) -> Result<Tensor> {
    p["x"].conv2d(&p["w"], None, options)?.sin().sum(&[])
}
