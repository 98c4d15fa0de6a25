//! Convolutions and pools.

use super::super::args::{Operand, Stop};
use super::super::vectors::Kind;
use super::{one, Call, Results};
use warpweft::tensor::{ConvOptions, ConvTransposeOptions, Padding, PoolOptions, Tensor};

pub fn call(name: &str, call: &Call) -> Results {
    let operand = call.input(0)?;
    let x = &operand.tensor;
    let bias = call.maybe(2).map(|bias| &bias.tensor);
    let weight = || call.input(1).map(|weight| &weight.tensor);
    let result = match (name, x.rank()) {
        ("Conv", 3) => x.conv1d(weight()?, bias, convolution(call)?)?,
        ("Conv", 4) => x.conv2d(weight()?, bias, convolution(call)?)?,
        ("Conv", 5) => x.conv3d(weight()?, bias, convolution(call)?)?,
        ("ConvTranspose", 3) => x.conv_transpose1d(weight()?, bias, transposed(call)?)?,
        ("ConvTranspose", 4) => x.conv_transpose2d(weight()?, bias, transposed(call)?)?,
        ("ConvTranspose", 5) => x.conv_transpose3d(weight()?, bias, transposed(call)?)?,
        (_, 3) => pooled::<1>(name, call, x)?,
        (_, 4) => pooled::<2>(name, call, x)?,
        (_, 5) => pooled::<3>(name, call, x)?,
        (_, rank) => return Err(Stop::Wrong(format!("{name} of rank {rank}"))),
    };
    if call.args.names_output(1) {
        let places = match x.rank() {
            3 => places::<1>(call, x)?,
            4 => places::<2>(call, x)?,
            _ => places::<3>(call, x)?,
        };
        return Ok(vec![Operand::new(result, operand.kind), Operand::new(places, Kind::I64)]);
    }
    one(result, operand.kind)
}

/// Returns the positions of the largest elements in the whole tensor. The library counts within a channel.
fn places<const N: usize>(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let options = options::<N>(call, x)?;
    let mut planes = vec![1; x.rank()];
    planes[..2].copy_from_slice(&x.shape()[..2]);
    let plane: usize = x.shape()[2..].iter().product();
    let before = x.device().iota(&[planes[0] * planes[1]], 0)?.mul(plane as f64)?;
    let mut places = x.max_pool_indices(options)?;
    // Column-major in the last two axes.
    if call.args.integer("storage_order", 0)? != 0 && N == 2 {
        let (rows, columns) = (x.shape()[2] as f64, x.shape()[3] as f64);
        places = places.fmod(columns)?.mul(rows)?.add(&places.floor_divide(columns)?)?;
    }
    Ok(places.add(&before.reshape(&planes)?)?)
}

/// Returns the extents of the operand and of the kernel along the axes of the windows.
fn extents<const N: usize>(call: &Call) -> Result<([usize; N], [usize; N]), Stop> {
    let (x, weight) = (&call.input(0)?.tensor, &call.input(1)?.tensor);
    call.args.maybe_sizes("kernel_shape")?;
    let of = |x: &Tensor| std::array::from_fn(|i| x.shape()[2 + i]);
    Ok((of(x), of(weight)))
}

/// Returns the padding. The attribute has all starts, then all ends.
fn pads<const N: usize>(call: &Call) -> Result<[(usize, usize); N], Stop> {
    let given = call.args.maybe_sizes("pads")?.unwrap_or_else(|| vec![0; 2 * N]);
    if given.len() != 2 * N {
        return Err(Stop::Wrong(format!("pads {given:?}")));
    }
    Ok(std::array::from_fn(|i| (given[i], given[N + i])))
}

/// Returns the padding on both sides. If the result must have `ceil(input / stride)` windows, SAME_LOWER puts an odd element
/// first.
fn padding<const N: usize>(
    call: &Call,
    extents: [usize; N],
    size: [usize; N],
    stride: [usize; N],
    dilation: [usize; N],
) -> Result<Padding<N>, Stop> {
    let given = pads(call)?;
    Ok(match call.args.word("auto_pad", "NOTSET")? {
        "VALID" => Padding::Valid,
        "SAME_UPPER" => Padding::Same,
        "SAME_LOWER" => Padding::Explicit(std::array::from_fn(|i| {
            let reach = (size[i] - 1) * dilation[i] + 1;
            let windows = extents[i].div_ceil(stride[i]);
            let all = ((windows - 1) * stride[i] + reach).saturating_sub(extents[i]);
            (all - all / 2, all / 2)
        })),
        _ => Padding::Explicit(given),
    })
}

fn convolution<const N: usize>(call: &Call) -> Result<ConvOptions<N>, Stop> {
    let (extents, size) = extents(call)?;
    let (stride, dilation) = (call.args.array("strides", 1)?, call.args.array("dilations", 1)?);
    let padding = padding(call, extents, size, stride, dilation)?;
    let groups = call.args.integer("group", 1)? as usize;
    Ok(ConvOptions { stride, padding, dilation, groups })
}

/// Returns the options of a transposed convolution. If the result's shape is given or must be `input * stride`, the padding
/// follows from it. If the padding would be negative, the result is extended at the end instead.
fn transposed<const N: usize>(call: &Call) -> Result<ConvTransposeOptions<N>, Stop> {
    let (extents, size) = extents::<N>(call)?;
    let stride = call.args.array("strides", 1)?;
    let dilation = call.args.array("dilations", 1)?;
    let mut output_padding: [usize; N] = call.args.array("output_padding", 0)?;
    let mut padding = pads(call)?;
    let auto = call.args.word("auto_pad", "NOTSET")?;
    let wanted: Option<[usize; N]> = match call.args.raw("output_shape") {
        Some(_) => Some(call.args.array("output_shape", 0)?),
        None if auto.starts_with("SAME") => Some(std::array::from_fn(|i| extents[i] * stride[i])),
        None => None,
    };
    for (i, &wanted) in wanted.iter().flatten().enumerate() {
        let reach = dilation[i] * (size[i] - 1) + 1;
        let whole = (extents[i] - 1) * stride[i] + reach + output_padding[i];
        let (cut, half) = (whole.saturating_sub(wanted), whole.saturating_sub(wanted) / 2);
        output_padding[i] += wanted.saturating_sub(whole);
        padding[i] = if auto == "SAME_UPPER" { (half, cut - half) } else { (cut - half, half) };
    }
    let groups = call.args.integer("group", 1)? as usize;
    let padding = padding.into();
    Ok(ConvTransposeOptions { stride, padding, output_padding, dilation, groups })
}

fn options<const N: usize>(call: &Call, x: &Tensor) -> Result<PoolOptions<N>, Stop> {
    let kernel_size = call.args.array("kernel_shape", 1)?;
    let (stride, dilation) = (call.args.array("strides", 1)?, call.args.array("dilations", 1)?);
    let extents = std::array::from_fn(|i| x.shape()[2 + i]);
    let padding = padding(call, extents, kernel_size, stride, dilation)?;
    let ceil_mode = call.flag("ceil_mode", false)? && matches!(padding, Padding::Explicit(_));
    let count_include_pad = call.flag("count_include_pad", false)?;
    Ok(PoolOptions { kernel_size, stride, padding, dilation, ceil_mode, count_include_pad })
}

fn pooled<const N: usize>(name: &str, call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let options = options::<N>(call, x)?;
    Ok(match name {
        "MaxPool" => x.max_pool(options)?,
        "AveragePool" => x.avg_pool(options)?,
        // Other powers are computed from sums of squares.
        "LpPool" => match call.args.number("p", 2.0)? {
            2.0 => x.l2_pool(options)?,
            p => x.abs().pow(p / 2.0)?.l2_pool(options)?.pow(2.0 / p)?,
        },
        _ => return Err(Stop::Missing(name.into())),
    })
}
