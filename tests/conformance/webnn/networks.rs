//! Products, convolutions, normalisations and quantised numbers.

use super::super::args::{Args, Operand, Stop};
use super::{one, Results};
use warpweft::dtype::DType;
use warpweft::tensor::{Conv2dOptions, Padding, Tensor};

pub fn call(name: &str, args: &Args) -> Results {
    match name {
        "conv2d" => conv2d(args),
        "gemm" => gemm(args),
        "matmul" => {
            let (a, b) = (args.get("a")?, args.tensor("b")?);
            one(a.tensor.matmul(&b)?, a.kind)
        }
        "layerNormalization" => layer_norm(args),
        "softmax" => {
            let x = args.get("input")?;
            // Without an axis it is the older softmax, of matrices' rows.
            one(x.tensor.softmax(args.integer("axis", 1)? as isize)?, x.kind)
        }
        "quantizeLinear" => quantize(args),
        _ => dequantize(args),
    }
}

/// The limits in units in the last place that web-platform-tests works out from shapes (`utils.js` and the subgraph
/// tests, whose limit is the sum over their operators); none for operators that never need it.
pub fn limit(name: &str, args: &Args) -> Result<Option<f64>, Stop> {
    Ok(match name {
        "reshape" | "relu" | "clamp" => Some(0.0),
        "quantizeLinear" | "dequantizeLinear" => Some(1.0),
        // A product and a sum per element that an output sums: 2 (kernel height * width * channels per group).
        "conv2d" => {
            let filter = args.tensor("filter")?;
            let outputs = match args.word("filterLayout", "oihw")? {
                "hwio" | "ihwo" => filter.shape()[3],
                _ => filter.shape()[0],
            };
            Some(2.0 * (filter.numel() / outputs) as f64)
        }
        // 2 K for the product, one more for each of alpha, beta and c.
        "gemm" => {
            let (a, transposed) = (args.tensor("a")?, args.flag("aTranspose", false)?);
            let width = a.shape()[if transposed { 0 } else { 1 }] as f64;
            let more = [args.number("alpha", 1.0)? != 1.0, args.number("beta", 1.0)? != 1.0];
            let more = more.iter().filter(|m| **m).count() + args.raw("c").iter().count();
            Some(2.0 * width + more as f64)
        }
        // 3 per element of the axis and 3.
        "softmax" => {
            let x = args.tensor("input")?;
            let axis = args.integer("axis", 1)? as usize;
            Some(3.0 * x.shape()[axis] as f64 + 3.0)
        }
        _ => None,
    })
}

/// Moves the axes from `layout` to `to`, both named by letters.
fn arranged(x: &Tensor, layout: &str, to: &str) -> Result<Tensor, Stop> {
    let order: Option<Vec<isize>> =
        to.chars().map(|axis| Some(layout.find(axis)? as isize)).collect();
    let order = order.ok_or_else(|| Stop::Wrong(format!("layout {layout}")))?;
    Ok(x.permute(&order)?)
}

fn conv2d(args: &Args) -> Results {
    let (x, filter) = (args.get("input")?, args.tensor("filter")?);
    let layout = args.word("inputLayout", "nchw")?;
    let padding = match args.maybe_sizes("padding")?.as_deref() {
        None => Padding::Valid,
        Some(&[top, bottom, left, right]) => Padding::Explicit([(top, bottom), (left, right)]),
        Some(_) => return Err(Stop::Wrong("conv2d: padding".into())),
    };
    let options = Conv2dOptions {
        stride: args.pair("strides", 1)?,
        padding,
        dilation: args.pair("dilations", 1)?,
        groups: args.integer("groups", 1)? as usize,
    };
    let filter = arranged(&filter, args.word("filterLayout", "oihw")?, "oihw")?;
    let bias = args.maybe_tensor("bias")?;
    let result = arranged(&x.tensor, layout, "nchw")?.conv2d(&filter, bias.as_ref(), options)?;
    one(arranged(&result, "nchw", layout)?, x.kind)
}

/// `alpha * a * b + beta * c`.
fn gemm(args: &Args) -> Results {
    let (a, b) = (args.get("a")?, args.tensor("b")?);
    let turned = |x: &Tensor, key: &str| -> Result<Tensor, Stop> {
        Ok(if args.flag(key, false)? { x.transpose(0, 1)? } else { x.clone() })
    };
    let (alpha, beta) = (args.number("alpha", 1.0)?, args.number("beta", 1.0)?);
    let mut result = turned(&a.tensor, "aTranspose")?.matmul(&turned(&b, "bTranspose")?)?;
    if alpha != 1.0 {
        result = result.mul(alpha)?;
    }
    if let Some(c) = args.maybe_tensor("c")? {
        result = result.add(&if beta == 1.0 { c } else { c.mul(beta)? })?;
    }
    one(result, a.kind)
}

/// The axes are all but the first where none are given. Over no axes each element is its own mean; scale and bias then
/// are numbers. Their axes otherwise are those that are named, in that order.
fn layer_norm(args: &Args) -> Results {
    let x = args.get("input")?;
    let rank = x.tensor.rank() as isize;
    let axes = args.maybe_list("axes")?.unwrap_or_else(|| (1..rank).collect());
    let epsilon = args.number("epsilon", 1e-5)?;
    let (scale, bias) = (args.maybe_tensor("scale")?, args.maybe_tensor("bias")?);
    if axes.is_empty() {
        let x1 = x.tensor.unsqueeze(-1)?;
        let normal = x1.layer_norm(&[-1], scale.as_ref(), bias.as_ref(), epsilon)?;
        return one(normal.squeeze(-1)?, x.kind);
    }
    let spread = |given: Option<Tensor>| -> Result<Option<Tensor>, Stop> {
        let Some(given) = given else { return Ok(None) };
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&n| axes[n]);
        let order: Vec<isize> = order.into_iter().map(|n| n as isize).collect();
        let extent = |axis: isize| match axes.contains(&axis) {
            true => x.tensor.shape()[axis as usize],
            false => 1,
        };
        let shape: Vec<usize> = (0..rank).map(extent).collect();
        Ok(Some(given.permute(&order)?.reshape(&shape)?))
    };
    let (scale, bias) = (spread(scale)?, spread(bias)?);
    one(x.tensor.layer_norm(&axes, scale.as_ref(), bias.as_ref(), epsilon)?, x.kind)
}

/// Each element of `x` repeated over a block, so that the shape is `shape`: block-wise scales.
pub fn blockwise(x: &Tensor, shape: &[usize]) -> Result<Tensor, Stop> {
    let mut dims = vec![1; shape.len() - x.rank()];
    dims.extend(x.shape());
    let mut spread = x.reshape(&dims)?;
    for (axis, &extent) in shape.iter().enumerate() {
        let factor = extent / dims[axis];
        if factor > 1 {
            let before: usize = dims[..axis].iter().product();
            let after: usize = dims[axis + 1..].iter().product();
            let blocks = spread.reshape(&[before, dims[axis], 1, after])?;
            dims[axis] = extent;
            spread = blocks.expand(&[before, extent / factor, factor, after])?.reshape(&dims)?;
        }
    }
    Ok(spread)
}

/// `clamp(round(x / scale) + zero point)`, halves to even.
fn quantize(args: &Args) -> Results {
    let (x, scale, zero) = (args.get("input")?, args.get("scale")?, args.get("zeroPoint")?);
    let shape = x.tensor.shape();
    let scaled = x.tensor.div(&blockwise(&scale.tensor, shape)?)?.round().cast(DType::I32)?;
    let (low, high) = zero.kind.range();
    let shifted = scaled.add(&blockwise(&zero.numbers()?, shape)?)?;
    one(shifted.clamp(low as f64, high as f64)?, zero.kind)
}

/// `(x - zero point) * scale`.
fn dequantize(args: &Args) -> Results {
    let (x, scale) = (args.get("input")?, args.get("scale")?);
    let shape = x.tensor.shape();
    let zero: Option<Operand> = args.maybe("zeroPoint")?;
    let mut number = x.numbers()?;
    if let Some(zero) = zero {
        number = number.sub(&blockwise(&zero.numbers()?, shape)?)?;
    }
    let float = number.cast(scale.kind.held())?;
    one(float.mul(&blockwise(&scale.tensor, shape)?)?, scale.kind)
}
