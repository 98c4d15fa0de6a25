//! One operation by its code: the arguments taken from the lists they come in, and the tensor method called.

use super::codes::Code;
use super::numbers::Numbers;
use super::objects;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::conv::{ConvWindow, Ends};
use crate::tensor::pool::{Pool, PoolWindow};
use crate::tensor::{AttentionOptions, PadMode, Reduction, Resize, Tensor};

/// Creates a tensor on a device.
pub fn create(code: Code, device: &Device, numbers: &[f64]) -> Result<Tensor> {
    let n = &mut Numbers::new(code.name(), numbers);
    match code {
        Code::full => {
            let (dtype, value) = (n.dtype()?, n.real()?);
            device.full(dtype, value, &n.sizes()?)
        }
        Code::iota => {
            let axis = n.axis()?;
            device.iota(&n.sizes()?, axis)
        }
        Code::arange => device.arange(n.real()?, n.real()?, n.size()?),
        Code::linspace => device.linspace(n.real()?, n.real()?, n.size()?),
        Code::eye => device.eye(n.size()?),
        Code::uniform => {
            let (low, high, seed) = (n.real()?, n.real()?, n.seed()?);
            device.uniform(&n.sizes()?, low, high, seed)
        }
        Code::normal => {
            let (mean, deviation, seed) = (n.real()?, n.real()?, n.seed()?);
            device.normal(&n.sizes()?, mean, deviation, seed)
        }
        Code::bernoulli => {
            let (p, seed) = (n.real()?, n.seed()?);
            device.bernoulli(&n.sizes()?, p, seed)
        }
        _ => Err(unknown(code)),
    }
}

fn unknown(code: Code) -> Error {
    Error::data(format!("{}: does not work like this", code.name()))
}

/// The operands of an operation; a handle of 0 stands for one that is left out.
struct Operands(Vec<Option<Tensor>>);

impl Operands {
    fn new(handles: &[u32]) -> Result<Operands> {
        Ok(Operands(objects::operands(handles)?))
    }

    fn get(&self, n: usize) -> Option<&Tensor> {
        self.0.get(n)?.as_ref()
    }

    fn need(&self, n: usize, code: Code) -> Result<&Tensor> {
        let missing = || Error::data(format!("{}: an operand is missing", code.name()));
        self.get(n).ok_or_else(missing)
    }

    fn others(&self) -> Vec<&Tensor> {
        self.0.iter().skip(1).flatten().collect()
    }
}

/// Applies an operation to tensors.
pub fn apply(code: Code, handles: &[u32], numbers: &[f64]) -> Result<Tensor> {
    let operands = &Operands::new(handles)?;
    let x = operands.need(0, code)?;
    let n = &mut Numbers::new(code.name(), numbers);
    match code {
        Code::cast => x.cast(n.dtype()?),
        Code::reshape => x.reshape(&n.sizes()?),
        Code::permute => x.permute(&n.axes()?),
        Code::transpose => x.transpose(n.axis()?, n.axis()?),
        Code::expand => x.expand(&n.sizes()?),
        Code::unsqueeze => x.unsqueeze(n.axis()?),
        Code::squeeze => x.squeeze(n.axis()?),
        Code::slice => x.slice_step(n.axis()?, n.axis()?, n.axis()?, n.size()?),
        Code::flip => x.flip(&n.axes()?),
        Code::pad => {
            let value = n.real()?;
            x.pad(&pairs(&n.sizes()?), value)
        }
        Code::unfold => x.unfold(n.axis()?, n.size()?, n.size()?, n.size()?),
        Code::pad_with => {
            let mode = [PadMode::Reflect, PadMode::Edge, PadMode::Wrap, PadMode::Symmetric]
                [n.size()?.min(3)];
            x.pad_with(&pairs(&n.sizes()?), mode)
        }
        Code::concat => x.concat(&operands.others(), n.axis()?),
        Code::stack => x.stack(&operands.others(), n.axis()?),
        Code::index_select => x.index_select(n.axis()?, operands.need(1, code)?),
        Code::tril => x.tril(n.integer()?),
        Code::triu => x.triu(n.integer()?),
        Code::one_hot => x.one_hot(n.size()?),
        Code::tile => x.tile(&n.sizes()?),
        Code::dropout => x.dropout(n.real()?, n.seed()?),
        Code::softmax => x.softmax(n.axis()?),
        Code::log_softmax => x.log_softmax(n.axis()?),
        Code::layer_norm | Code::rms_norm | Code::batch_norm => norm(code, x, operands, n),
        Code::group_norm | Code::instance_norm => norm(code, x, operands, n),
        Code::detach => Ok(x.detach()),
        Code::matmul => x.matmul(operands.need(1, code)?),
        Code::outer => x.outer(operands.need(1, code)?),
        Code::dot => x.dot(operands.need(1, code)?),
        Code::rotary => x.rotary(operands.need(1, code)?, operands.need(2, code)?, n.flag()?),
        Code::adaptive_avg_pool => x.adaptive_avg_pool(&n.sizes()?),
        Code::resize => {
            let modes =
                [Resize::Nearest, Resize::NearestExact, Resize::Linear, Resize::LinearCorners];
            let mode = modes[n.size()?.min(3)];
            x.resize(&n.sizes()?, mode)
        }
        Code::conv1d | Code::conv2d | Code::conv3d => {
            window(code, x, operands.need(1, code)?, operands.get(2), n)
        }
        Code::conv_transpose1d | Code::conv_transpose2d | Code::conv_transpose3d => {
            window(code, x, operands.need(1, code)?, operands.get(2), n)
        }
        Code::max_pool | Code::avg_pool | Code::l2_pool => pool(code, x, n),
        Code::attention => {
            let causal = n.flag()?;
            let window = n.flag()?.then(|| n.size()).transpose()?;
            let scale = n.flag()?.then(|| n.real()).transpose()?;
            let options = AttentionOptions { causal, window, mask: operands.get(3), scale };
            x.attention(operands.need(1, code)?, operands.need(2, code)?, options)
        }
        Code::roll => x.roll(n.axis()?, n.axis()?),
        Code::cumsum => x.cumsum(n.axis()?, n.flag()?, n.flag()?),
        Code::cumprod => x.cumprod(n.axis()?, n.flag()?, n.flag()?),
        Code::cummax => x.cummax(n.axis()?, n.flag()?, n.flag()?),
        Code::cummin => x.cummin(n.axis()?, n.flag()?, n.flag()?),
        Code::argsort => x.argsort(n.axis()?, n.flag()?),
        Code::top_k => Ok(x.top_k(n.axis()?, n.size()?, n.flag()?)?.1),
        Code::take_along => x.take_along(n.axis()?, operands.need(1, code)?),
        Code::gather_nd => x.gather_nd(operands.need(1, code)?),
        Code::masked_fill => x.masked_fill(operands.need(1, code)?, n.real()?),
        // The values as one more column: JavaScript takes them apart.
        Code::eigh => {
            let (values, vectors) = x.eigh()?;
            vectors.concat(&[&values.unsqueeze(-1)?], -1)
        }
        Code::scatter | Code::scatter_add | Code::scatter_reduce => {
            scatter(code, x, operands.need(1, code)?, operands.need(2, code)?, n)
        }
        Code::index_add => x.index_add(n.axis()?, operands.need(1, code)?, operands.need(2, code)?),
        Code::scatter_nd => {
            let op = if n.flag()? { Some(reduction(n)?) } else { None };
            x.scatter_nd(operands.need(1, code)?, operands.need(2, code)?, op)
        }
        _ => reduce(code, x, n),
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
        Code::instance_norm => x.instance_norm(operands.get(1), operands.get(2), n.real()?),
        _ => Err(unknown(code)),
    }
}

fn scatter(
    code: Code,
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    n: &mut Numbers,
) -> Result<Tensor> {
    let axis = n.axis()?;
    match code {
        Code::scatter => x.scatter(axis, index, source),
        Code::scatter_add => x.scatter_add(axis, index, source),
        _ => x.scatter_reduce(axis, index, source, reduction(n)?),
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

fn reduce(code: Code, x: &Tensor, n: &mut Numbers) -> Result<Tensor> {
    if matches!(code, Code::argmax | Code::argmin) {
        let axis = n.axis()?;
        return if code == Code::argmax { x.argmax(axis) } else { x.argmin(axis) };
    }
    let keep = n.flag()?;
    if matches!(code, Code::var | Code::std) {
        let correction = n.real()?;
        let axes = &n.axes()?;
        return match (code, keep) {
            (Code::var, true) => x.var_keepdim(axes, correction),
            (Code::var, false) => x.var(axes, correction),
            (_, true) => x.std_keepdim(axes, correction),
            (_, false) => x.std(axes, correction),
        };
    }
    let axes = &n.axes()?;
    let op = match code {
        Code::sum => Reduction::Sum,
        Code::prod => Reduction::Prod,
        Code::max => Reduction::Max,
        Code::min => Reduction::Min,
        Code::any => Reduction::Any,
        Code::all => Reduction::All,
        Code::mean if keep => return x.mean_keepdim(axes),
        Code::mean => return x.mean(axes),
        Code::logsumexp if keep => return x.logsumexp_keepdim(axes),
        Code::logsumexp => return x.logsumexp(axes),
        Code::norm_l1 if keep => return x.norm_l1_keepdim(axes),
        Code::norm_l1 => return x.norm_l1(axes),
        Code::norm_l2 if keep => return x.norm_l2_keepdim(axes),
        Code::norm_l2 => return x.norm_l2(axes),
        Code::norm_linf if keep => return x.norm_linf_keepdim(axes),
        Code::norm_linf => return x.norm_linf(axes),
        _ => return Err(unknown(code)),
    };
    x.reduce(op, axes, keep)
}

fn pairs(numbers: &[usize]) -> Vec<(usize, usize)> {
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// The lists that follow for `axes` axes: strides, dilations, then pairs of padding, if there are any.
struct Axes {
    stride: Vec<usize>,
    dilation: Vec<usize>,
    padding: Option<Vec<(usize, usize)>>,
}

impl Axes {
    /// The padding is 1 (as long as the input divided by the stride), or 0 and its pairs.
    fn new(n: &mut Numbers, axes: usize) -> Result<Axes> {
        let (stride, dilation) = (n.some_sizes(axes)?, n.some_sizes(axes)?);
        let padding = match n.flag()? {
            true => None,
            false => Some(pairs(&n.some_sizes(2 * axes)?)),
        };
        Ok(Axes { stride, dilation, padding })
    }

    fn ends(&self) -> Ends<'_> {
        self.padding.as_ref().map_or(Ends::Same, |ends| Ends::Explicit(ends))
    }
}

/// Numbers: groups, the axes' lists, and for a transposed convolution how much more there is at each end.
fn window(
    code: Code,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    n: &mut Numbers,
) -> Result<Tensor> {
    let axes = match code {
        Code::conv1d | Code::conv_transpose1d => 1,
        Code::conv2d | Code::conv_transpose2d => 2,
        _ => 3,
    };
    let groups = n.size()?;
    let lists = Axes::new(n, axes)?;
    let (name, padding) = (code.name(), lists.ends());
    let window =
        ConvWindow { name, stride: &lists.stride, padding, dilation: &lists.dilation, groups };
    match code {
        Code::conv1d | Code::conv2d | Code::conv3d => x.convolution(weight, bias, &window),
        _ => x.transposed(weight, bias, &window, &n.some_sizes(axes)?),
    }
}

/// Numbers: whether padding counts, whether the last window may reach out, sizes, then the axes' lists.
fn pool(code: Code, x: &Tensor, n: &mut Numbers) -> Result<Tensor> {
    let (count_padding, ceil) = (n.flag()?, n.flag()?);
    let axes = x.rank().saturating_sub(2);
    let size = n.some_sizes(axes)?;
    let lists = Axes::new(n, axes)?;
    let (name, padding) = (code.name(), lists.ends());
    let (size, stride, dilation) = (&size[..], &lists.stride[..], &lists.dilation[..]);
    let kind = match code {
        Code::max_pool => Pool::Max,
        Code::avg_pool => Pool::Average { count_padding },
        _ => Pool::L2,
    };
    x.pool(kind, &PoolWindow { name, size, stride, padding, dilation, ceil })
}
