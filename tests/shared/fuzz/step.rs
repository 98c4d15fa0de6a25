//! The steps of a program, as data: their effect on tensors, and their text in a test.

use crate::shared::array::{encode, Array};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Axes, Conv2dOptions, PadMode, Padding, PoolOptions, Scan, Tensor};

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Small whole numbers, with exact results.
    Whole,
    /// Any numbers, and functions without jumps.
    Float,
    /// Functions that are differentiable everywhere.
    Smooth,
}

/// The kinds of programs that may contain a step.
pub const ALL: &[Kind] = &[Kind::Whole, Kind::Float, Kind::Smooth];
const KINKED: &[Kind] = &[Kind::Whole, Kind::Float];
const FLOATS: &[Kind] = &[Kind::Float, Kind::Smooth];
const WHOLE: &[Kind] = &[Kind::Whole];

/// A step: an operation on the tensors of earlier steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: Op,
    /// The numbers of the steps that are operands.
    pub of: Vec<usize>,
}

/// The operation of a step. Lists of indices repeat where they are too short.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Input(Array<f64>),
    /// A row of [`UNARY`].
    Unary(usize),
    /// A row of [`BINARY`].
    Binary(usize),
    Add(f64),
    Mul(f64),
    Above(f64),
    /// The first operand where the coordinate along an axis is below a number, otherwise the second.
    Choose {
        axis: usize,
        below: usize,
    },
    Reshape(Vec<usize>),
    Permute(Vec<usize>),
    Expand(Vec<usize>),
    Slice {
        axis: usize,
        start: usize,
        end: usize,
        step: usize,
    },
    Flip(Vec<usize>),
    Pad(Vec<(usize, usize)>, f64),
    PadWith(Vec<(usize, usize)>, PadMode),
    Concat(usize),
    Reduce {
        op: Reduce,
        axes: Vec<usize>,
        keep: bool,
    },
    Softmax(usize),
    Matmul {
        turn: [bool; 2],
    },
    Conv2d {
        stride: [usize; 2],
        pads: [(usize, usize); 2],
        dilation: [usize; 2],
        groups: usize,
    },
    Pool {
        max: bool,
        size: [usize; 2],
        stride: [usize; 2],
        pads: [(usize, usize); 2],
    },
    Take {
        axis: usize,
        index: Vec<i32>,
    },
    TakeAlong {
        axis: usize,
        extent: usize,
        index: Vec<i32>,
    },
    IndexAdd {
        axis: usize,
        index: Vec<i32>,
    },
    ScatterAdd {
        axis: usize,
        index: Vec<i32>,
    },
    Cumsum {
        axis: usize,
        exclusive: bool,
        reverse: bool,
    },
    Sort {
        axis: usize,
        descending: bool,
    },
    Argsort {
        axis: usize,
        descending: bool,
    },
    TopK {
        axis: usize,
        k: usize,
        largest: bool,
    },
}

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Mean,
    Max,
    Min,
    ArgMax,
}

/// A function of one tensor: its text, and its effect on tensors and on numbers.
pub struct Unary {
    pub code: &'static str,
    make: fn(&Tensor) -> Result<Tensor>,
    pub value: fn(f64) -> f64,
    kinds: &'static [Kind],
}

/// A function of two tensors.
pub struct Binary {
    pub code: &'static str,
    make: fn(&Tensor, &Tensor) -> Result<Tensor>,
    pub value: fn(f64, f64) -> f64,
    kinds: &'static [Kind],
}

macro_rules! unary {
    ($($kinds:ident |$x:ident| $code:expr => $value:expr;)*) => { &[$( Unary {
        code: stringify!($code), make: |$x| Ok($code), value: |$x| $value, kinds: $kinds,
    }),*] };
}

macro_rules! binary {
    ($($kinds:ident |$x:ident, $y:ident| $code:expr => $value:expr;)*) => { &[$( Binary {
        code: stringify!($code),
        make: |$x, $y| { let $y = $y.clone(); Ok($code) },
        value: |$x, $y| $value, kinds: $kinds,
    }),*] };
}

/// Functions of one tensor. The first two keep numbers small: one with kinks, one without.
pub const UNARY: &[Unary] = unary! {
    KINKED |x| x.minimum(9.0)?.maximum(-9.0)? => x.clamp(-9.0, 9.0);
    FLOATS |x| x.mul(0.25)?.tanh().mul(4.0)? => 4.0 * (0.25 * x).tanh();
    KINKED |x| x.relu() => x.max(0.0);
    KINKED |x| x.abs() => x.abs();
    ALL |x| x.neg() => -x;
    ALL |x| x.square() => x * x;
    FLOATS |x| x.tanh() => x.tanh();
    FLOATS |x| x.sigmoid() => 1.0 / (1.0 + (-x).exp());
    FLOATS |x| x.exp() => x.exp();
    FLOATS |x| x.square().add(1.0)?.sqrt() => (x * x + 1.0).sqrt();
    FLOATS |x| x.square().add(1.0)?.log() => (x * x + 1.0).ln();
    WHOLE |x| x.cast(DType::I32)?.add(1)?.cast(DType::F32)? => x + 1.0;
    WHOLE |x| x.abs().cast(DType::U32)?.cast(DType::F32)? => x.abs();
    WHOLE |x| x.cast(DType::Bool)?.cast(DType::F32)? => f64::from(x != 0.0);
};

/// Functions of two tensors.
pub const BINARY: &[Binary] = binary! {
    ALL |x, y| x.add(&y)? => x + y;
    ALL |x, y| x.sub(&y)? => x - y;
    ALL |x, y| x.mul(&y)? => x * y;
    KINKED |x, y| x.maximum(&y)? => x.max(y);
    KINKED |x, y| x.minimum(&y)? => x.min(y);
    FLOATS |x, y| x.div(&y.square().add(1.0)?)? => x / (y * y + 1.0);
    WHOLE |x, y| x.lt(&y)?.cast(DType::F32)? => f64::from(x < y);
    WHOLE |x, y| x.ge(0.0)?.where_cond(&y, x)? => if x >= 0.0 { y } else { x };
};

impl Op {
    /// Returns the kinds of programs that may contain the operation.
    pub fn kinds(&self) -> &'static [Kind] {
        match self {
            Op::Unary(row) => UNARY[*row].kinds,
            Op::Binary(row) => BINARY[*row].kinds,
            Op::Above(_) | Op::Argsort { .. } => WHOLE,
            Op::Reduce { op: Reduce::ArgMax, .. } => WHOLE,
            Op::Reduce { op: Reduce::Max | Reduce::Min, .. } => KINKED,
            Op::Reduce { op: Reduce::Mean, .. } | Op::Softmax(_) => FLOATS,
            Op::Pool { max, .. } => [FLOATS, KINKED][usize::from(*max)],
            Op::Sort { .. } | Op::TopK { .. } => KINKED,
            _ => ALL,
        }
    }
}

fn isizes(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&a| a as isize).collect()
}

/// Returns `count` indices of a list that repeats.
pub fn cycled(index: &[i32], count: usize) -> Vec<i32> {
    index.iter().copied().cycle().take(count).collect()
}

/// Returns a shape with the extent of one axis replaced.
pub fn with(shape: &[usize], axis: usize, extent: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[axis] = extent;
    shape
}

/// Records the tensor of a step, whose operands are `of`. Adds its indices to `held`, because a gradient needs them again.
pub fn record(device: &Device, op: &Op, of: &[&Tensor], held: &mut Vec<Tensor>) -> Result<Tensor> {
    if let Op::Input(array) = op {
        return device.tensor_from_bytes(
            &encode(DType::F32, &array.data),
            &array.shape,
            DType::F32,
        );
    }
    let x = of[0];
    let mut indices = |index: &[i32], shape: &[usize]| {
        let index = device.tensor(&cycled(index, shape.iter().product()), shape)?;
        held.push(index.clone());
        Ok(index)
    };
    match op {
        Op::Input(_) => unreachable!("it was recorded above"),
        Op::Unary(row) => (UNARY[*row].make)(x),
        Op::Binary(row) => (BINARY[*row].make)(x, of[1]),
        Op::Add(number) => x.add(*number),
        Op::Mul(number) => x.mul(*number),
        Op::Above(number) => x.gt(*number)?.cast(DType::F32),
        Op::Choose { axis, below } => {
            device.iota(x.shape(), *axis as isize)?.lt(*below as i32)?.where_cond(x, of[1])
        }
        Op::Matmul { turn } => {
            let turned = |x: &Tensor, turn| match turn {
                true => x.transpose(-1, -2),
                false => Ok(x.clone()),
            };
            turned(x, turn[0])?.matmul(&turned(of[1], turn[1])?)
        }
        &Op::Conv2d { stride, pads, dilation, groups } => {
            let padding = Padding::Explicit(pads);
            x.conv2d(of[1], None, Conv2dOptions { stride, padding, dilation, groups })
        }
        &Op::Pool { max, size, stride, pads } => {
            let padding = Padding::Explicit(pads);
            let options = PoolOptions { stride, padding, ..PoolOptions::new(size) };
            match max {
                true => x.max_pool(options),
                false => x.avg_pool(options),
            }
        }
        Op::Take { axis, index } => {
            x.index_select(*axis as isize, &indices(index, &[index.len()])?)
        }
        Op::TakeAlong { axis, extent, index } => {
            x.gather(*axis as isize, &indices(index, &with(x.shape(), *axis, *extent))?)
        }
        Op::IndexAdd { axis, index } => {
            let count = of[1].shape()[*axis];
            x.index_add(*axis as isize, &indices(index, &[count])?, of[1])
        }
        Op::ScatterAdd { axis, index } => {
            x.scatter_add(*axis as isize, &indices(index, of[1].shape())?, of[1])
        }
        Op::Concat(axis) => Tensor::concat(&[x, of[1]], *axis as isize),
        _ => moved_or_reduced(op, x),
    }
}

/// Records a step that rearranges or combines the elements of one tensor.
fn moved_or_reduced(op: &Op, x: &Tensor) -> Result<Tensor> {
    match op {
        Op::Reshape(shape) => x.reshape(shape),
        Op::Permute(order) => x.permute(&isizes(order)),
        Op::Expand(shape) => x.expand(shape),
        Op::Slice { axis, start, end, step } => {
            x.slice_step(*axis as isize, *start as isize..*end as isize, *step)
        }
        Op::Flip(axes) => x.flip(&isizes(axes)),
        Op::Pad(amounts, value) => x.pad(amounts, *value),
        Op::PadWith(amounts, mode) => x.pad_with(amounts, *mode),
        Op::Reduce { op, axes, keep } => {
            let axes = isizes(axes);
            match (op, keep) {
                (Reduce::Sum, true) => x.sum(Axes::from(&axes).keepdim(true)),
                (Reduce::Sum, false) => x.sum(&axes),
                (Reduce::Mean, true) => x.mean(Axes::from(&axes).keepdim(true)),
                (Reduce::Mean, false) => x.mean(&axes),
                (Reduce::Max, true) => x.max(Axes::from(&axes).keepdim(true)),
                (Reduce::Max, false) => x.max(&axes),
                (Reduce::Min, true) => x.min(Axes::from(&axes).keepdim(true)),
                (Reduce::Min, false) => x.min(&axes),
                (Reduce::ArgMax, _) => x.argmax(axes[0])?.cast(DType::F32),
            }
        }
        Op::Softmax(axis) => x.softmax(*axis as isize),
        Op::Cumsum { axis, exclusive, reverse } => {
            x.cumsum(Scan::from(*axis as isize).exclusive(*exclusive).reverse(*reverse))
        }
        Op::Sort { axis, descending } => Ok(x.sort(*axis as isize, *descending)?.0),
        Op::Argsort { axis, descending } => {
            x.argsort(*axis as isize, *descending)?.cast(DType::F32)
        }
        Op::TopK { axis, k, largest } => Ok(x.topk(*k, *axis as isize, *largest)?.0),
        _ => unreachable!("{op:?} was recorded before"),
    }
}

/// Returns the text of the indices that a step takes.
pub fn index_code(op: &Op, shapes: &[&[usize]]) -> Option<String> {
    let (index, shape) = match op {
        Op::Take { index, .. } => (index, vec![index.len()]),
        Op::TakeAlong { axis, extent, index } => (index, with(shapes[0], *axis, *extent)),
        Op::IndexAdd { axis, index } => (index, vec![shapes[1][*axis]]),
        Op::ScatterAdd { index, .. } => (index, shapes[1].to_vec()),
        _ => return None,
    };
    let index = cycled(index, shape.iter().product());
    Some(format!("device.tensor::<i32>(&{index:?}, &{shape:?})?"))
}

/// Returns the text of a step in a test. `shapes` are the shapes of its operands. Its indices are named `i` and its number.
pub fn code(step: &Step, number: usize, shapes: &[&[usize]]) -> String {
    let name = |n: usize| format!("a{}", step.of[n]);
    if let Op::Input(Array { shape, data }) = &step.op {
        return format!("device.tensor::<f32>(&{data:?}, &{shape:?})?");
    }
    let x = name(0);
    match &step.op {
        Op::Unary(row) => format!("{x}{}", &UNARY[*row].code[1..]),
        Op::Binary(row) => {
            let y = name(1);
            let code = BINARY[*row].code.replace("&y", &format!("&{y}"));
            format!("{x}{}", code[1..].replace(" x)", &format!(" &{x})")))
        }
        Op::Add(number) => format!("{x}.add({number:?})?"),
        Op::Mul(number) => format!("{x}.mul({number:?})?"),
        Op::Above(number) => format!("{x}.gt({number:?})?.cast(DType::F32)?"),
        Op::Choose { axis, below } => {
            let (shape, y) = (shapes[0], name(1));
            format!("device.iota(&{shape:?}, {axis})?.lt({below})?.where_cond(&{x}, &{y})?")
        }
        Op::Matmul { turn } => {
            let turned = |turn| if turn { ".transpose(-1, -2)?" } else { "" };
            format!("{x}{}.matmul(&{}{})?", turned(turn[0]), name(1), turned(turn[1]))
        }
        Op::Conv2d { stride, pads, dilation, groups } => format!(
            "{{\n        let padding = Padding::Explicit({pads:?});\n        let (stride, dilation) = ({stride:?}, \
             {dilation:?});\n        {x}.conv2d(&{}, None, Conv2dOptions {{ stride, padding, dilation, groups: {groups} \
             }})?\n    }}",
            name(1)
        ),
        Op::Pool { max, size, stride, pads } => {
            let name = if *max { "max_pool" } else { "avg_pool" };
            format!(
                "{{\n        let (stride, padding) = ({stride:?}, Padding::Explicit({pads:?}));\n        \
                 {x}.{name}(PoolOptions {{ stride, padding, ..PoolOptions::new({size:?}) }})?\n    }}"
            )
        }
        Op::Take { axis, .. } => format!("{x}.index_select({axis}, &i{number})?"),
        Op::TakeAlong { axis, .. } => format!("{x}.gather({axis}, &i{number})?"),
        Op::IndexAdd { axis, .. } => format!("{x}.index_add({axis}, &i{number}, &{})?", name(1)),
        Op::ScatterAdd { axis, .. } => {
            format!("{x}.scatter_add({axis}, &i{number}, &{})?", name(1))
        }
        Op::Concat(axis) => format!("Tensor::concat(&[&{x}, &{}], {axis})?", name(1)),
        other => format!("{x}.{}", moved_or_reduced_code(other)),
    }
}

fn moved_or_reduced_code(op: &Op) -> String {
    match op {
        Op::Reshape(shape) if shape.is_empty() => "reshape(())?".into(),
        Op::Reshape(shape) => format!("reshape(&{shape:?})?"),
        Op::Permute(order) => format!("permute(&{order:?})?"),
        Op::Expand(shape) => format!("expand(&{shape:?})?"),
        Op::Slice { axis, start, end, step } => {
            format!("slice_step({axis}, {start}..{end}, {step})?")
        }
        Op::Flip(axes) => format!("flip(&{axes:?})?"),
        Op::Pad(amounts, value) => format!("pad(&{amounts:?}, {value:?})?"),
        Op::PadWith(amounts, mode) => format!("pad_with(&{amounts:?}, PadMode::{mode:?})?"),
        Op::Reduce { op: Reduce::ArgMax, axes, .. } => {
            format!("argmax({})?.cast(DType::F32)?", axes[0])
        }
        Op::Reduce { op, axes, keep } => {
            let name = format!("{op:?}").to_lowercase();
            match keep {
                true => format!("{name}(Axes::from(&{axes:?}).keepdim(true))?"),
                false => format!("{name}(&{axes:?})?"),
            }
        }
        Op::Softmax(axis) => format!("softmax({axis})?"),
        Op::Cumsum { axis, exclusive, reverse } => {
            format!("cumsum(Scan::from({axis}).exclusive({exclusive}).reverse({reverse}))?")
        }
        Op::Sort { axis, descending } => format!("sort({axis}, {descending})?.0"),
        Op::Argsort { axis, descending } => {
            format!("argsort({axis}, {descending})?.cast(DType::F32)?")
        }
        Op::TopK { axis, k, largest } => format!("topk({k}, {axis}, {largest})?.0"),
        _ => unreachable!("{op:?} was written before"),
    }
}
