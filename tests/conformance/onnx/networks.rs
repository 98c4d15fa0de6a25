//! Products, convolutions, normalisations and quantised numbers.

use super::super::args::{Operand, Stop};
use super::super::vectors::Kind;
use super::super::webnn::networks::blockwise;
use super::{one, Call, Results};
use warpweft::dtype::DType;
use warpweft::tensor::{Conv2dOptions, Padding, Tensor};

pub fn call(name: &str, call: &Call) -> Results {
    let x = call.input(0)?;
    let t = &x.tensor;
    let spatial: Vec<isize> = (2..t.rank() as isize).collect();
    let result = match name {
        "MatMul" => t.matmul(&call.input(1)?.tensor)?,
        "Gemm" => gemm(call)?,
        "Conv" => conv(call)?,
        "GlobalAveragePool" => t.mean_keepdim(&spatial)?,
        "GlobalMaxPool" => t.max_keepdim(&spatial)?,
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
            t.rms_norm(&axes, Some(&weight.tensor), call.args.number("epsilon", 1e-5)?)?
        }
        "GroupNormalization" => group_norm(call)?,
        "LpNormalization" => {
            let axis = call.axis(-1, t.rank())? as isize;
            let norm = match call.args.integer("p", 2)? {
                1 => t.norm_l1(&[axis])?,
                _ => t.norm_l2(&[axis])?,
            };
            let norm = norm.unsqueeze(axis)?;
            norm.eq(0.0)?.select(0.0, &t.div(&norm)?)?
        }
        "MeanVarianceNormalization" => {
            let axes = call.args.maybe_list("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
            let distance = t.sub(&t.mean_keepdim(&axes)?)?;
            distance.div(&t.var_keepdim(&axes, 0.0)?.sqrt().add(1e-9)?)?
        }
        "QuantizeLinear" => return quantize(call),
        "DequantizeLinear" => return dequantize(call),
        _ => return Err(Stop::Missing(name.into())),
    };
    one(result, x.kind)
}

/// `alpha * a * b + beta * c`.
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

fn conv(call: &Call) -> Result<Tensor, Stop> {
    let (x, weight) = (&call.input(0)?.tensor, &call.input(1)?.tensor);
    if x.rank() != 4 {
        return Err(Stop::Missing(format!("Conv of rank {}", x.rank())));
    }
    call.args.maybe_sizes("kernel_shape")?;
    let (stride, dilation) = (call.args.pair("strides", 1)?, call.args.pair("dilations", 1)?);
    let given = call.args.maybe_sizes("pads")?.unwrap_or_else(|| vec![0; 4]);
    let pads = [(given[0], given[2]), (given[1], given[3])];
    // As many zeros as give ceil(input / stride) outputs; SAME_LOWER puts an odd one first.
    let same = |lower: bool| {
        [0, 1].map(|i| {
            let reach = (weight.shape()[2 + i] - 1) * dilation[i] + 1;
            let extent = x.shape()[2 + i];
            let all = ((extent.div_ceil(stride[i]) - 1) * stride[i] + reach).saturating_sub(extent);
            if lower {
                (all - all / 2, all / 2)
            } else {
                (all / 2, all - all / 2)
            }
        })
    };
    let padding = match call.args.word("auto_pad", "NOTSET")? {
        "SAME_LOWER" => Padding::Explicit(same(true)),
        "SAME_UPPER" => Padding::Explicit(same(false)),
        _ => Padding::Explicit(pads),
    };
    let groups = call.args.integer("group", 1)? as usize;
    let options = Conv2dOptions { stride, padding, dilation, groups };
    Ok(x.conv2d(weight, call.maybe(2).map(|bias| &bias.tensor), options)?)
}

/// `x / (bias + alpha / size * sum of squares over channels nearby) ^ beta`.
fn local_response(call: &Call) -> Result<Tensor, Stop> {
    let x = &call.input(0)?.tensor;
    let size = call.args.integer("size", 1)? as usize;
    let number = |name: &str, usual: f64| call.args.number(name, usual);
    let (alpha, beta, bias) = (number("alpha", 1e-4)?, number("beta", 0.75)?, number("bias", 1.0)?);
    let mut pads = vec![(0, 0); x.rank()];
    pads[1] = ((size - 1) / 2, size / 2);
    let squares = x.square().pad(&pads, 0.0)?;
    let channels = x.shape()[1] as isize;
    let mut sum = squares.slice(1, 0, channels)?;
    for n in 1..size as isize {
        sum = sum.add(&squares.slice(1, n, n + channels)?)?;
    }
    Ok(x.div(&sum.mul(alpha / size as f64)?.add(bias)?.pow(beta)?)?)
}

/// The normalised, the mean and the inverse of the standard deviation.
fn layer_norm(call: &Call) -> Results {
    let x = call.input(0)?;
    let t = &x.tensor;
    let axes: Vec<isize> = (call.axis(-1, t.rank())? as isize..t.rank() as isize).collect();
    let epsilon = call.args.number("epsilon", 1e-5)?;
    call.args.integer("stash_type", 1)?;
    let bias = call.maybe(2).map(|bias| &bias.tensor);
    let normal = t.layer_norm(&axes, Some(&call.input(1)?.tensor), bias, epsilon)?;
    let deviation = t.var_keepdim(&axes, 0.0)?.add(epsilon)?.rsqrt();
    let results = [normal, t.mean_keepdim(&axes)?, deviation];
    Ok(results.into_iter().map(|tensor| Operand::new(tensor, x.kind)).collect())
}

fn group_norm(call: &Call) -> Result<Tensor, Stop> {
    let x = &call.input(0)?.tensor;
    let groups = call.args.integer("num_groups", 1)? as usize;
    call.args.integer("stash_type", 1)?;
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    let rows = x.reshape(&[batch, groups, x.numel() / (batch * groups)])?;
    let normal = rows.layer_norm(&[-1], None, None, call.args.number("epsilon", 1e-5)?)?;
    let mut shape = vec![1; x.rank()];
    shape[1] = channels;
    let (scale, bias) =
        (call.input(1)?.tensor.reshape(&shape)?, call.input(2)?.tensor.reshape(&shape)?);
    Ok(normal.reshape(x.shape())?.mul(&scale)?.add(&bias)?)
}

/// A scale or zero point for each element: of a row along the axis, or of a block.
fn spread(call: &Call, given: &Tensor, like: &Tensor) -> Result<Tensor, Stop> {
    call.args.integer("block_size", 0)?;
    let axis = call.axis(1, like.rank())?;
    if given.rank() != 1 || like.rank() <= 1 || given.numel() == 1 {
        let whole = if given.numel() == 1 { given.reshape(&[])? } else { given.clone() };
        return blockwise(&whole, like.shape());
    }
    let mut shape = vec![1; like.rank()];
    shape[axis] = given.numel();
    blockwise(&given.reshape(&shape)?, like.shape())
}

/// `clamp(round(x / scale) + zero point)`, halves to even.
fn quantize(call: &Call) -> Results {
    let (x, scale) = (&call.input(0)?.tensor, &call.input(1)?.tensor);
    let kind = call.maybe(2).map_or(Kind::U8, |zero| zero.kind);
    let mut whole = x.div(&spread(call, scale, x)?)?.round().cast(DType::I32)?;
    if let Some(zero) = call.maybe(2) {
        whole = whole.add(&spread(call, &zero.tensor, x)?)?;
    }
    let (low, high) = kind.range();
    one(whole.clamp(low as f64, high as f64)?, kind)
}

/// `(x - zero point) * scale`.
fn dequantize(call: &Call) -> Results {
    let (x, scale) = (&call.input(0)?.tensor, call.input(1)?);
    let mut whole = x.clone();
    if let Some(zero) = call.maybe(2) {
        whole = whole.sub(&spread(call, &zero.tensor, x)?)?;
    }
    let float = whole.cast(scale.kind.held())?;
    one(float.mul(&spread(call, &scale.tensor, x)?)?, scale.kind)
}
