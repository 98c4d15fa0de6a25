//! The operations beyond the few in `apply`.

use super::apply::{pairs, unknown, Operands, PerAxis};
use super::codes::Code;
use super::numbers::Numbers;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::pool::{Pool, PoolWindow};
use crate::tensor::{
    AttentionOptions, Axes, Filter, PadMode, Reduction, Resize, Sampling, Scan, Tensor,
};

/// Creates a tensor on a device.
pub fn create(code: Code, device: &Device, n: &mut Numbers) -> Result<Tensor> {
    match code {
        Code::linspace => device.linspace(n.real()?, n.real()?, n.size()?),
        Code::eye => device.eye(n.size()?),
        Code::uniform => {
            let (low, high, seed) = (n.real()?, n.real()?, n.seed()?);
            device.uniform(n.sizes()?, low, high, seed)
        }
        Code::normal => {
            let (mean, deviation, seed) = (n.real()?, n.real()?, n.seed()?);
            device.normal(n.sizes()?, mean, deviation, seed)
        }
        Code::bernoulli => {
            let (p, seed) = (n.real()?, n.seed()?);
            device.bernoulli(n.sizes()?, p, seed)
        }
        _ => Err(unknown(code)),
    }
}

/// Applies an operation to a tensor and the other operands.
pub fn apply(code: Code, x: &Tensor, operands: &Operands, n: &mut Numbers) -> Result<Tensor> {
    match code {
        Code::stack => Tensor::stack(&operands.all(), n.axis()?),
        Code::index_select => x.index_select(n.axis()?, operands.need(1, code)?),
        Code::unfold => x.unfold(n.axis()?, n.size()?, n.size()?, n.size()?),
        Code::unpack => x.unpack(n.size()?.min(64) as u32, n.flag()?),
        Code::unpack_bf16 => x.unpack_bf16(),
        Code::dequantize => x.dequantize(operands.need(1, code)?, operands.get(2)),
        Code::pad_with => {
            let modes = [PadMode::Reflect, PadMode::Edge, PadMode::Wrap, PadMode::Symmetric];
            let mode = modes[n.size()?.min(3)];
            x.pad_with(&pairs(&n.sizes()?), mode)
        }
        Code::tril => x.tril(n.integer()?),
        Code::triu => x.triu(n.integer()?),
        Code::one_hot => x.one_hot(n.size()?),
        Code::tile => x.tile(&n.sizes()?),
        Code::roll => x.roll(n.axis()?, n.axis()?),
        Code::dropout => x.dropout(n.real()?, n.seed()?),
        Code::argmax => x.argmax(n.axis()?),
        Code::argmin => x.argmin(n.axis()?),
        Code::var | Code::std => spread(code, x, n),
        Code::logsumexp | Code::norm_l1 | Code::norm_l2 | Code::norm_linf => size(code, x, n),
        Code::log_softmax => x.log_softmax(n.axis()?),
        Code::layer_norm
        | Code::rms_norm
        | Code::batch_norm
        | Code::group_norm
        | Code::instance_norm => norm(code, x, operands, n),
        Code::outer => x.outer(operands.need(1, code)?),
        Code::dot => x.dot(operands.need(1, code)?),
        Code::rotary => x.rotary(operands.need(1, code)?, operands.need(2, code)?, n.flag()?),
        Code::attention => {
            let causal = n.flag()?;
            let window = n.flag()?.then(|| n.size()).transpose()?;
            let scale = n.flag()?.then(|| n.real()).transpose()?;
            let options = AttentionOptions { causal, window, mask: operands.get(3), scale };
            x.attention(operands.need(1, code)?, operands.need(2, code)?, options)
        }
        Code::conv2d => {
            let groups = n.size()?;
            let lists = PerAxis::new(n, 2)?;
            let window = lists.window(code, groups);
            x.planar(operands.need(1, code)?, &window)?.biased(operands.get(2), &window)
        }
        Code::conv1d | Code::conv_transpose1d => convolution(code, x, operands, 1, n),
        Code::conv_transpose2d => convolution(code, x, operands, 2, n),
        Code::conv3d | Code::conv_transpose3d => convolution(code, x, operands, 3, n),
        Code::max_pool | Code::max_pool_indices | Code::avg_pool | Code::l2_pool => {
            pool(code, x, n)
        }
        Code::adaptive_avg_pool => x.adaptive_avg_pool(&n.sizes()?),
        Code::resize => {
            const MODES: [Resize; 8] = [
                Resize::Nearest,
                Resize::NearestExact,
                Resize::Linear,
                Resize::LinearCorners,
                Resize::Cubic,
                Resize::CubicCorners,
                Resize::LinearAntialias,
                Resize::CubicAntialias,
            ];
            let mode = MODES[n.size()?.min(7)];
            x.resize(&n.sizes()?, mode)
        }
        Code::resample => {
            let (axis, size, first, step) = (n.axis()?, n.size()?, n.real()?, n.real()?);
            let (filter, sharpness) = (n.size()?, n.real()?);
            let filter = match filter {
                0 => Filter::Floor,
                1 => Filter::Ceil,
                2 => Filter::HalfDown,
                3 => Filter::HalfUp,
                4 => Filter::Linear,
                _ => Filter::Cubic(sharpness),
            };
            let (antialias, inside) = (n.flag()?, n.flag()?);
            x.resample(axis, size, Sampling { first, step, filter, antialias, inside })
        }
        Code::cumsum => x.cumsum(scan(n)?),
        Code::cumprod => x.cumprod(scan(n)?),
        Code::cummax => x.cummax(scan(n)?),
        Code::cummin => x.cummin(scan(n)?),
        Code::argsort => x.argsort(n.axis()?, n.flag()?),
        Code::top_k => {
            let (axis, k) = (n.axis()?, n.size()?);
            Ok(x.topk(k, axis, n.flag()?)?.1)
        }
        Code::take_along => x.gather(n.axis()?, operands.need(1, code)?),
        Code::gather_nd => x.gather_nd(operands.need(1, code)?),
        Code::masked_fill => x.masked_fill(operands.need(1, code)?, n.real()?),
        // The values as one more column: JavaScript takes them apart.
        Code::eigh => {
            let (values, vectors) = x.eigh()?;
            Tensor::concat(&[vectors, values.unsqueeze(-1)?], -1)
        }
        _ => scatter(code, x, operands.need(1, code)?, operands.need(2, code)?, n),
    }
}

fn norm(code: Code, x: &Tensor, operands: &Operands, n: &mut Numbers) -> Result<Tensor> {
    match code {
        Code::layer_norm => {
            let epsilon = n.real()?;
            x.layer_norm(&n.axes()?, operands.get(1), operands.get(2), epsilon)
        }
        Code::rms_norm => {
            let epsilon = n.real()?;
            x.rms_norm(&n.axes()?, operands.get(1), epsilon)
        }
        Code::batch_norm => {
            let (mean, variance) = (operands.need(1, code)?, operands.need(2, code)?);
            x.batch_norm(mean, variance, operands.get(3), operands.get(4), n.real()?)
        }
        Code::group_norm => {
            let groups = n.size()?;
            x.group_norm(groups, operands.get(1), operands.get(2), n.real()?)
        }
        _ => x.instance_norm(operands.get(1), operands.get(2), n.real()?),
    }
}

/// Numbers: whether the axes stay, what is taken from the count, and the axes.
fn spread(code: Code, x: &Tensor, n: &mut Numbers) -> Result<Tensor> {
    let (keep, correction) = (n.flag()?, n.real()?);
    let axes = Axes::from(n.axes()?).keepdim(keep);
    match code {
        Code::var => x.var(axes, correction),
        _ => x.std(axes, correction),
    }
}

/// Numbers: whether the axes stay, and the axes.
fn size(code: Code, x: &Tensor, n: &mut Numbers) -> Result<Tensor> {
    let keep = n.flag()?;
    let axes = Axes::from(n.axes()?).keepdim(keep);
    match code {
        Code::logsumexp => x.logsumexp(axes),
        Code::norm_l1 => x.norm_l1(axes),
        Code::norm_l2 => x.norm_l2(axes),
        _ => x.norm_linf(axes),
    }
}

/// Numbers: the axis, whether the element itself is left out, and whether it goes from the end.
fn scan(n: &mut Numbers) -> Result<Scan> {
    Ok(Scan::from(n.axis()?).exclusive(n.flag()?).reverse(n.flag()?))
}

fn scatter(
    code: Code,
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    n: &mut Numbers,
) -> Result<Tensor> {
    match code {
        Code::scatter => x.scatter(n.axis()?, index, source),
        Code::scatter_add => x.scatter_add(n.axis()?, index, source),
        Code::scatter_reduce => x.scatter_reduce(n.axis()?, index, source, reduction(n)?),
        Code::index_add => x.index_add(n.axis()?, index, source),
        Code::scatter_nd => {
            let op = if n.flag()? { Some(reduction(n)?) } else { None };
            x.scatter_nd(index, source, op)
        }
        _ => Err(unknown(code)),
    }
}

/// A reduction by number, as JavaScript has them.
fn reduction(n: &mut Numbers) -> Result<Reduction> {
    const ALL: [Reduction; 6] = [
        Reduction::Sum,
        Reduction::Prod,
        Reduction::Max,
        Reduction::Min,
        Reduction::Any,
        Reduction::All,
    ];
    let known = ALL.get(n.size()?).copied();
    known.ok_or_else(|| Error::data("scatter: there is no such reduction"))
}

/// Numbers: groups, the axes' lists, and for a transposed convolution how much more there is at each end.
fn convolution(
    code: Code,
    x: &Tensor,
    operands: &Operands,
    axes: usize,
    n: &mut Numbers,
) -> Result<Tensor> {
    let groups = n.size()?;
    let lists = PerAxis::new(n, axes)?;
    let window = lists.window(code, groups);
    let (weight, bias) = (operands.need(1, code)?, operands.get(2));
    match code {
        Code::conv1d | Code::conv3d => x.convolution(weight, bias, &window),
        _ => x.transposed(weight, bias, &window, &n.some_sizes(axes)?),
    }
}

/// Numbers: whether padding counts, whether the last window may reach out, sizes, then the axes' lists.
fn pool(code: Code, x: &Tensor, n: &mut Numbers) -> Result<Tensor> {
    let (count_padding, ceil) = (n.flag()?, n.flag()?);
    let axes = x.rank().saturating_sub(2);
    let size = n.some_sizes(axes)?;
    let lists = PerAxis::new(n, axes)?;
    let (name, padding) = (code.name(), lists.ends());
    let (size, stride, dilation) = (&size[..], &lists.stride[..], &lists.dilation[..]);
    let windows = PoolWindow { name, size, stride, padding, dilation, ceil };
    let kind = match code {
        Code::max_pool => Pool::Max,
        Code::avg_pool => Pool::Average { count_padding },
        Code::l2_pool => Pool::L2,
        _ => return x.pool_indices(&windows),
    };
    x.pool(kind, &windows)
}
