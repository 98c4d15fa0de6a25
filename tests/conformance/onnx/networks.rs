//! Matmuls, normalizations and quantized numbers.

use super::super::args::{Operand, Stop};
use super::super::vectors::Kind;
use super::super::webnn::networks::blockwise;
use super::{one, Call, Results};
use warpweft::dtype::DType;
use warpweft::tensor::{Axes, DequantizeOptions, NormOptions, RmsNormOptions, Tensor};

pub fn call(name: &str, call: &Call) -> Results {
    let x = call.input(0)?;
    let t = &x.tensor;
    let spatial: Vec<isize> = (2..t.rank() as isize).collect();
    let result = match name {
        "MatMul" => t.matmul(&call.input(1)?.tensor)?,
        "Gemm" => gemm(call)?,
        "GlobalAveragePool" => t.mean(Axes::from(&spatial).keepdim(true))?,
        "GlobalMaxPool" => t.max(Axes::from(&spatial).keepdim(true))?,
        "LRN" => local_response(call)?,
        "Softmax" => t.softmax(call.axis(-1, t.rank())? as isize)?,
        "LogSoftmax" => t.log_softmax(call.axis(-1, t.rank())? as isize)?,
        "Hardmax" => {
            let axis = call.axis(-1, t.rank())? as isize;
            let best = t.argmax(axis)?.unsqueeze(axis)?;
            call.device.iota(t.shape(), axis)?.eq(&best)?.cast(t.dtype())?
        }
        "LayerNormalization" => return layer_norm(call),
        "RMSNormalization" => {
            let weight = call.input(1)?;
            let from = call.axis(-1, t.rank())?;
            let axes: Vec<isize> = (from as isize..t.rank() as isize).collect();
            call.args.integer("stash_type", 1)?;
            t.rms_norm(
                &axes,
                RmsNormOptions {
                    weight: Some(&weight.tensor),
                    eps: call.args.number("epsilon", 1e-5)?,
                },
            )?
        }
        "BatchNormalization" => return batch_norm(call),
        "GroupNormalization" | "InstanceNormalization" => {
            let (scale, bias) = (&call.input(1)?.tensor, &call.input(2)?.tensor);
            let eps = call.args.number("epsilon", 1e-5)?;
            if name == "InstanceNormalization" {
                t.instance_norm(NormOptions { weight: Some(scale), bias: Some(bias), eps })?
            } else {
                call.args.integer("stash_type", 1)?;
                let groups = call.args.integer("num_groups", 1)? as usize;
                t.group_norm(groups, NormOptions { weight: Some(scale), bias: Some(bias), eps })?
            }
        }
        "LpNormalization" => {
            let axis = call.axis(-1, t.rank())? as isize;
            let norm = match call.args.integer("p", 2)? {
                1 => t.norm_l1(&[axis])?,
                _ => t.norm_l2(&[axis])?,
            };
            let norm = norm.unsqueeze(axis)?;
            norm.eq(0.0)?.where_cond(0.0, &t.div(&norm)?)?
        }
        "MeanVarianceNormalization" => {
            let axes = call.args.maybe_list("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
            let distance = t.sub(&t.mean(Axes::from(&axes).keepdim(true))?)?;
            distance.div(&t.var(Axes::from(&axes).keepdim(true), 0.0)?.sqrt().add(1e-9)?)?
        }
        "QuantizeLinear" => return quantize(call),
        "DequantizeLinear" => return dequantize(call),
        _ => return Err(Stop::Missing(name.into())),
    };
    one(result, x.kind)
}

/// Computes `alpha * a * b + beta * c`.
fn gemm(call: &Call) -> Result<Tensor, Stop> {
    let turned = |n: usize, name: &str| -> Result<Tensor, Stop> {
        let x = &call.input(n)?.tensor;
        Ok(if call.flag(name, false)? { x.transpose(0, 1)? } else { x.clone() })
    };
    let (alpha, beta) = (call.args.number("alpha", 1.0)?, call.args.number("beta", 1.0)?);
    let product = turned(0, "transA")?.matmul(&turned(1, "transB")?)?.mul(alpha)?;
    match call.maybe(2) {
        Some(c) => Ok(product.add(&c.tensor.mul(beta)?)?),
        None => Ok(product),
    }
}

/// Computes `x / (bias + alpha / size * sum of squares over channels nearby) ^ beta`.
fn local_response(call: &Call) -> Result<Tensor, Stop> {
    let x = &call.input(0)?.tensor;
    let size = call.args.integer("size", 1)? as usize;
    let number = |name: &str, usual: f64| call.args.number(name, usual);
    let (alpha, beta, bias) = (number("alpha", 1e-4)?, number("beta", 0.75)?, number("bias", 1.0)?);
    let mut pads = vec![(0, 0); x.rank()];
    pads[1] = ((size - 1) / 2, size / 2);
    let squares = x.square().pad(&pads, 0.0)?;
    let channels = x.shape()[1] as isize;
    let mut sum = squares.slice(1, ..channels)?;
    for n in 1..size as isize {
        sum = sum.add(&squares.slice(1, n..n + channels)?)?;
    }
    Ok(x.div(&sum.mul(alpha / size as f64)?.add(bias)?.pow(beta)?)?)
}

/// Returns the normalized tensor, the mean and the inverse of the standard deviation.
fn layer_norm(call: &Call) -> Results {
    let x = call.input(0)?;
    let t = &x.tensor;
    let axes: Vec<isize> = (call.axis(-1, t.rank())? as isize..t.rank() as isize).collect();
    let eps = call.args.number("epsilon", 1e-5)?;
    call.args.integer("stash_type", 1)?;
    let bias = call.maybe(2).map(|bias| &bias.tensor);
    let normal =
        t.layer_norm(&axes, NormOptions { weight: Some(&call.input(1)?.tensor), bias, eps })?;
    let deviation = t.var(Axes::from(&axes).keepdim(true), 0.0)?.add(eps)?.rsqrt();
    let results = [normal, t.mean(Axes::from(&axes).keepdim(true))?, deviation];
    Ok(results.into_iter().map(|tensor| Operand::new(tensor, x.kind)).collect())
}

/// Returns the result and the new running mean and variance: the given ones, or in training mixed with those of the batch.
fn batch_norm(call: &Call) -> Results {
    let x = call.input(0)?;
    let t = &x.tensor;
    let (scale, bias) = (&call.input(1)?.tensor, &call.input(2)?.tensor);
    let (mean, variance) = (&call.input(3)?.tensor, &call.input(4)?.tensor);
    let (eps, keep) = (call.args.number("epsilon", 1e-5)?, call.args.number("momentum", 0.9)?);
    let norm = |mean: &Tensor, variance: &Tensor| {
        t.batch_norm(mean, variance, NormOptions { weight: Some(scale), bias: Some(bias), eps })
    };
    let results = match call.flag("training_mode", false)? {
        false => [norm(mean, variance)?, mean.clone(), variance.clone()],
        true => {
            let axes: Vec<isize> = (0..t.rank() as isize).filter(|&axis| axis != 1).collect();
            let (m, v) = (t.mean(&axes)?, t.var(&axes, 0.0)?);
            let mix = |old: &Tensor, new: &Tensor| old.mul(keep)?.add(&new.mul(1.0 - keep)?);
            [norm(&m, &v)?, mix(mean, &m)?, mix(variance, &v)?]
        }
    };
    Ok(results.map(|tensor| Operand::new(tensor, x.kind)).into())
}

/// Returns a scale or zero point in a shape that broadcasts: one per row along the axis, or one per block.
fn placed(call: &Call, given: &Tensor, like: &Tensor) -> Result<Tensor, Stop> {
    call.args.integer("block_size", 0)?;
    let axis = call.axis(1, like.rank())?;
    if given.rank() != 1 || like.rank() <= 1 || given.numel() == 1 {
        return Ok(if given.numel() == 1 { given.reshape(())? } else { given.clone() });
    }
    let mut shape = vec![1; like.rank()];
    shape[axis] = given.numel();
    Ok(given.reshape(&shape)?)
}

/// Computes `clamp(round(x / scale) + zero point)`, with halves rounded to even.
fn quantize(call: &Call) -> Results {
    let (x, scale) = (&call.input(0)?.tensor, &call.input(1)?.tensor);
    let kind = call.maybe(2).map_or(Kind::U8, |zero| zero.kind);
    let spread = |given: &Tensor| blockwise(&placed(call, given, x)?, x.shape());
    let mut whole = x.div(&spread(scale)?)?.round().cast(DType::I32)?;
    if let Some(zero) = call.maybe(2) {
        whole = whole.add(&spread(&zero.tensor)?)?;
    }
    let (low, high) = kind.range();
    one(whole.clamp(low as f64, high as f64)?, kind)
}

/// Computes `(x - zero point) * scale`.
fn dequantize(call: &Call) -> Results {
    let (x, scale) = (&call.input(0)?.tensor, call.input(1)?);
    let zero = call.maybe(2).map(|zero| placed(call, &zero.tensor.cast(DType::I32)?, x));
    let placed = placed(call, &scale.tensor, x)?;
    one(
        x.cast(DType::I32)?
            .dequantize(&placed, DequantizeOptions { zero_point: zero.transpose()?.as_ref() })?,
        scale.kind,
    )
}
