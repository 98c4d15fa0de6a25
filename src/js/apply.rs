//! One operation by its code: the arguments taken from the lists they come in, and the tensor method called.

use super::codes::Code;
use super::numbers::Numbers;
use super::objects;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::{AttentionOptions, Conv2dOptions, Padding, Reduction, Tensor};

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
            let amounts = n.sizes()?;
            let pairs: Vec<(usize, usize)> =
                amounts.chunks_exact(2).map(|p| (p[0], p[1])).collect();
            x.pad(&pairs, value)
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
        Code::layer_norm => {
            let epsilon = n.real()?;
            x.layer_norm(&n.axes()?, operands.get(1), operands.get(2), epsilon)
        }
        Code::rms_norm => {
            let epsilon = n.real()?;
            x.rms_norm(&n.axes()?, operands.get(1), epsilon)
        }
        Code::detach => Ok(x.detach()),
        Code::matmul => x.matmul(operands.need(1, code)?),
        Code::outer => x.outer(operands.need(1, code)?),
        Code::dot => x.dot(operands.need(1, code)?),
        Code::conv2d => conv2d(x, operands.need(1, code)?, operands.get(2), n),
        Code::attention => {
            let causal = n.flag()?;
            let scale = n.flag()?.then(|| n.real()).transpose()?;
            let options = AttentionOptions { causal, mask: operands.get(3), scale };
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

/// Numbers: stride, dilation, groups, then 0 (valid), 1 (same) or 2 and the zeros before and after each axis.
fn conv2d(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, n: &mut Numbers) -> Result<Tensor> {
    let stride = [n.size()?, n.size()?];
    let dilation = [n.size()?, n.size()?];
    let groups = n.size()?;
    let padding = match n.size()? {
        0 => Padding::Valid,
        1 => Padding::Same,
        _ => Padding::Explicit([(n.size()?, n.size()?), (n.size()?, n.size()?)]),
    };
    x.conv2d(weight, bias, Conv2dOptions { stride, padding, dilation, groups })
}
