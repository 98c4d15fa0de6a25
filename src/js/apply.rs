//! One operation by its code: the arguments taken from the lists they come in, and the tensor method called.

use super::codes::Code;
use super::extras;
use super::numbers::Numbers;
use super::objects;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::conv::{ConvWindow, Ends};
use crate::tensor::{Axes, Reduction, Tensor};

/// Creates a tensor on a device.
pub fn create(code: Code, device: &Device, numbers: &[f64]) -> Result<Tensor> {
    let n = &mut Numbers::new(code.name(), numbers);
    match code {
        Code::full => {
            let (dtype, value) = (n.dtype()?, n.real()?);
            device.full(&n.sizes()?, value, dtype)
        }
        Code::iota => {
            let axis = n.axis()?;
            device.iota(&n.sizes()?, axis)
        }
        Code::arange => {
            let (start, step, count) = (n.real()?, n.real()?, n.size()?);
            device.iota(&[count], 0)?.cast(DType::F32)?.mul(step)?.add(start)
        }
        _ => extras::create(code, device, n),
    }
}

/// The error for an operation that is asked for in a way that it is not for.
pub fn unknown(code: Code) -> Error {
    Error::data(format!("{}: does not work like this", code.name()))
}

/// The operands of an operation; a handle of 0 stands for one that is left out.
pub struct Operands(Vec<Option<Tensor>>);

impl Operands {
    fn new(handles: &[u32]) -> Result<Operands> {
        Ok(Operands(objects::operands(handles)?))
    }

    /// An operand that may be left out.
    pub fn get(&self, n: usize) -> Option<&Tensor> {
        self.0.get(n)?.as_ref()
    }

    /// An operand that there must be.
    pub fn need(&self, n: usize, code: Code) -> Result<&Tensor> {
        let missing = || Error::data(format!("{}: an operand is missing", code.name()));
        self.get(n).ok_or_else(missing)
    }

    /// All operands.
    pub fn all(&self) -> Vec<&Tensor> {
        self.0.iter().flatten().collect()
    }
}

/// Applies an operation to tensors.
pub fn apply(code: Code, handles: &[u32], numbers: &[f64]) -> Result<Tensor> {
    let operands = &Operands::new(handles)?;
    let x = operands.need(0, code)?;
    let n = &mut Numbers::new(code.name(), numbers);
    match code {
        Code::cast => x.cast(n.dtype()?),
        Code::reshape => x.reshape(n.sizes()?),
        Code::permute => x.permute(&n.axes()?),
        Code::transpose => x.transpose(n.axis()?, n.axis()?),
        Code::expand => x.expand(n.sizes()?),
        Code::unsqueeze => x.unsqueeze(n.axis()?),
        Code::squeeze => x.squeeze(n.axis()?),
        Code::slice => {
            let (axis, start, end) = (n.axis()?, n.axis()?, n.axis()?);
            x.slice_step(axis, start..end, n.size()?)
        }
        Code::flip => x.flip(&n.axes()?),
        Code::pad => {
            let value = n.real()?;
            x.pad(&pairs(&n.sizes()?), value)
        }
        Code::concat => Tensor::concat(&operands.all(), n.axis()?),
        Code::softmax => x.softmax(n.axis()?),
        Code::detach => Ok(x.detach()),
        Code::matmul => x.matmul(operands.need(1, code)?),
        Code::sum | Code::prod | Code::max | Code::min | Code::any | Code::all | Code::mean => {
            reduce(code, x, n)
        }
        _ => extras::apply(code, x, operands, n),
    }
}

fn reduce(code: Code, x: &Tensor, n: &mut Numbers) -> Result<Tensor> {
    let keep = n.flag()?;
    let axes = Axes::from(n.axes()?).keepdim(keep);
    let op = match code {
        Code::sum => Reduction::Sum,
        Code::prod => Reduction::Prod,
        Code::max => Reduction::Max,
        Code::min => Reduction::Min,
        Code::any => Reduction::Any,
        Code::all => Reduction::All,
        Code::mean => return x.mean(axes),
        _ => return Err(unknown(code)),
    };
    x.reduce(op, axes)
}

/// Numbers two by two.
pub fn pairs(numbers: &[usize]) -> Vec<(usize, usize)> {
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// The lists that follow for `axes` axes: strides, dilations, then pairs of padding, if there are any.
pub struct PerAxis {
    pub stride: Vec<usize>,
    pub dilation: Vec<usize>,
    padding: Option<Vec<(usize, usize)>>,
}

impl PerAxis {
    /// The padding is 1 (as long as the input divided by the stride), or 0 and its pairs.
    pub fn new(n: &mut Numbers, axes: usize) -> Result<PerAxis> {
        let (stride, dilation) = (n.some_sizes(axes)?, n.some_sizes(axes)?);
        let padding = match n.flag()? {
            true => None,
            false => Some(pairs(&n.some_sizes(2 * axes)?)),
        };
        Ok(PerAxis { stride, dilation, padding })
    }

    /// The padding as the operations take it.
    pub fn ends(&self) -> Ends<'_> {
        self.padding.as_ref().map_or(Ends::Same, |ends| Ends::Explicit(ends))
    }

    /// A convolution's window.
    pub fn window(&self, code: Code, groups: usize) -> ConvWindow<'_> {
        let (stride, dilation) = (&self.stride, &self.dilation);
        ConvWindow { name: code.name(), stride, padding: self.ends(), dilation, groups }
    }
}
