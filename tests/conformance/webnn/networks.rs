//! Matmuls, normalizations and quantized numbers.

use super::super::args::{Args, Operand, Stop};
use super::windows::{arranged, kernel};
use super::{one, Results};
use warpweft::dtype::DType;
use warpweft::tensor::{DequantizeOptions, NormOptions, Tensor};

pub fn call(name: &str, args: &Args) -> Results {
    match name {
        "batchNormalization" => batch_norm(args),
        "instanceNormalization" => instance_norm(args),
        "gemm" => gemm(args),
        "matmul" => {
            let (a, b) = (args.get("a")?, args.tensor("b")?);
            one(a.tensor.matmul(&b)?, a.kind)
        }
        "layerNormalization" => layer_norm(args),
        "softmax" => {
            let x = args.get("input")?;
            // Without an axis, this is the older softmax over the rows of a matrix.
            one(x.tensor.softmax(args.integer("axis", 1)? as isize)?, x.kind)
        }
        "quantizeLinear" => quantize(args),
        _ => dequantize(args),
    }
}

/// Returns the limits in units in the last place that web-platform-tests computes from shapes (`utils.js` and the subgraph
/// tests, whose limit is the sum over their operators). Returns `None` for operators that never need a limit.
pub fn limit(name: &str, args: &Args) -> Result<Option<f64>, Stop> {
    Ok(match name {
        "reshape" | "relu" | "clamp" => Some(0.0),
        "quantizeLinear" | "dequantizeLinear" => Some(1.0),
        // A product and a sum per element that an output sums: 2 (kernel height * width * channels per group).
        "conv2d" | "convTranspose2d" => Some(2.0 * kernel(name, args)? as f64),
        "batchNormalization" => Some(6.0),
        // 2 K for the product, and one for each of alpha, beta and c.
        "gemm" => {
            let (a, transposed) = (args.tensor("a")?, args.flag("aTranspose", false)?);
            let width = a.shape()[if transposed { 0 } else { 1 }] as f64;
            let more = [args.number("alpha", 1.0)? != 1.0, args.number("beta", 1.0)? != 1.0];
            let more = more.iter().filter(|m| **m).count() + args.raw("c").iter().count();
            Some(2.0 * width + more as f64)
        }
        // 3 per element of the axis, and 3.
        "softmax" => {
            let x = args.tensor("input")?;
            let axis = args.integer("axis", 1)? as usize;
            Some(3.0 * x.shape()[axis] as f64 + 3.0)
        }
        _ => None,
    })
}

/// Computes `alpha * a * b + beta * c`.
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

/// Normalizes over all axes except one, which is moved to the position of the library's channels.
fn batch_norm(args: &Args) -> Results {
    let (x, mean, variance) = (args.get("input")?, args.tensor("mean")?, args.tensor("variance")?);
    let (scale, bias) = (args.maybe_tensor("scale")?, args.maybe_tensor("bias")?);
    let (axis, eps) = (args.integer("axis", 1)? as isize, args.number("epsilon", 1e-5)?);
    let flat = x.tensor.rank() == 1;
    let t = if flat { x.tensor.unsqueeze(0)? } else { x.tensor.transpose(1, axis)? };
    let normal = t.batch_norm(
        &mean,
        &variance,
        NormOptions { weight: scale.as_ref(), bias: bias.as_ref(), eps },
    )?;
    one(if flat { normal.squeeze(0)? } else { normal.transpose(1, axis)? }, x.kind)
}

fn instance_norm(args: &Args) -> Results {
    let x = args.get("input")?;
    let layout = args.word("layout", "nchw")?;
    let (scale, bias) = (args.maybe_tensor("scale")?, args.maybe_tensor("bias")?);
    let eps = args.number("epsilon", 1e-5)?;
    let t = arranged(&x.tensor, layout, "nchw")?;
    let normal =
        t.instance_norm(NormOptions { weight: scale.as_ref(), bias: bias.as_ref(), eps })?;
    one(arranged(&normal, "nchw", layout)?, x.kind)
}

/// Normalizes over axes, by default all except the first. Over no axes, each element is its mean, and scale and bias are
/// scalars. Otherwise, the axes of scale and bias are the given axes, in that order.
fn layer_norm(args: &Args) -> Results {
    let x = args.get("input")?;
    let rank = x.tensor.rank() as isize;
    let axes = args.maybe_list("axes")?.unwrap_or_else(|| (1..rank).collect());
    let eps = args.number("epsilon", 1e-5)?;
    let (scale, bias) = (args.maybe_tensor("scale")?, args.maybe_tensor("bias")?);
    if axes.is_empty() {
        let x1 = x.tensor.unsqueeze(-1)?;
        let normal =
            x1.layer_norm(&[-1], NormOptions { weight: scale.as_ref(), bias: bias.as_ref(), eps })?;
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
    one(
        x.tensor
            .layer_norm(&axes, NormOptions { weight: scale.as_ref(), bias: bias.as_ref(), eps })?,
        x.kind,
    )
}

/// Repeats each element of `x` over a block up to the shape `shape`, for block-wise scales.
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

/// Computes `clamp(round(x / scale) + zero point)`, with halves rounded to even.
fn quantize(args: &Args) -> Results {
    let (x, scale, zero) = (args.get("input")?, args.get("scale")?, args.get("zeroPoint")?);
    let shape = x.tensor.shape();
    let scaled = x.tensor.div(&blockwise(&scale.tensor, shape)?)?.round().cast(DType::I32)?;
    let (low, high) = zero.kind.range();
    let shifted = scaled.add(&blockwise(&zero.numbers()?, shape)?)?;
    one(shifted.clamp(low as f64, high as f64)?, zero.kind)
}

/// Computes `(x - zero point) * scale`.
fn dequantize(args: &Args) -> Results {
    let (x, scale) = (args.get("input")?, args.get("scale")?);
    let zero: Option<Operand> = args.maybe("zeroPoint")?;
    let zero = zero.map(|zero| Ok::<_, Stop>(zero.numbers()?.cast(DType::I32)?)).transpose()?;
    let number = x.numbers()?.cast(DType::I32)?;
    one(
        number.dequantize(&scale.tensor, DequantizeOptions { zero_point: zero.as_ref() })?,
        scale.kind,
    )
}
