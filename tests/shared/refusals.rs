//! Tests rejected calls: for every operation, the kind of error and the name of the operation at the start of the message.

mod algebra;
mod more;

use super::array::encode;
use super::call::call;
use super::check::{said, Outcome, Suite};
use super::form;
use warpweft::device::Device;
use warpweft::dtype::DType::{self, Bool, F16, F32, I32, U32};
use warpweft::error::ErrorKind::{self, InvalidArgument, Limit, Shape};
use warpweft::error::{Error, Result};
use warpweft::op::pointwise::TABLE;
use warpweft::op::Row;
use warpweft::tensor::{
    AttentionOptions, Axes, Conv2dOptions, ConvOptions, ConvTransposeOptions, DequantizeOptions,
    Filter, NormOptions, Operand, PadMode, Padding, PoolOptions, Reduction, Resize, RmsNormOptions,
    Sampling, Scan, Tensor,
};

pub const TYPE: ErrorKind = ErrorKind::DType;

/// An operation, the kind of error, and a call that must give it.
pub type Refusal = (&'static str, ErrorKind, fn(&Device) -> Result<Tensor>);

/// Returns ones of dtype `f32`.
pub fn t(device: &Device, shape: &[usize]) -> Result<Tensor> {
    of(device, F32, shape)
}

/// Returns ones.
pub fn of(device: &Device, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product();
    device.tensor_from_bytes(&encode(dtype, &vec![1.0; count]), shape, dtype)
}

/// Returns the error that a tensor carries, for operations that do not return a `Result`.
fn carried(tensor: Tensor) -> Result<Tensor> {
    tensor.error().map_or_else(|| Ok(tensor.clone()), |error| Err(error.clone()))
}

const EVERY: Sampling =
    Sampling { first: 0.0, step: 1.0, filter: Filter::Linear, antialias: false, inside: false };
const NINE: &[usize] = &[1; 9];
const HUGE: &[usize] = &[1 << 16, 1 << 16];

const CREATION: &[Refusal] = &[
    ("tensor", Shape, |d| d.tensor(&[1.0f32, 2.0], &[3])),
    ("tensor", Shape, |d| d.tensor::<i32>(&[], &[])),
    ("tensor", Shape, |d| d.tensor(&[1.0f32], NINE)),
    ("tensor", Limit, |d| d.tensor(&[1.0f32], HUGE)),
    ("tensor", Limit, |d| d.tensor::<f32>(&[], &[0, usize::MAX, usize::MAX])),
    ("tensor", Shape, |d| d.tensor_from_bytes(&[0; 7], &[2], F32)),
    ("full", Shape, |d| d.full(NINE, 0.0, F32)),
    ("full", Limit, |d| d.full(HUGE, 0.0, F32)),
    ("full", Limit, |d| d.full(&[usize::MAX, 2], 0.0, I32)),
    ("full", TYPE, |d| d.full(&[2], 0.5, I32)),
    ("full", TYPE, |d| d.full(&[2], -1.0, U32)),
    ("full", TYPE, |d| d.full(&[2], 2.0, Bool)),
    ("zeros", Shape, |d| d.zeros(NINE)),
    ("zeros", Limit, |d| d.zeros(HUGE)),
    ("ones", Limit, |d| d.ones(HUGE)),
    ("iota", Shape, |d| d.iota(&[2, 3], 2)),
    ("iota", Shape, |d| d.iota(&[2, 3], -3)),
    ("iota", Shape, |d| d.iota(&[], 0)),
    ("iota", Limit, |d| d.iota(HUGE, 0)),
    ("arange", Limit, |d| d.arange(f64::from(1u32 << 31))),
    ("linspace", Limit, |d| d.linspace(0.0, 1.0, 1 << 31)),
    ("eye", Limit, |d| d.eye(1 << 16)),
    ("random_bits", Shape, |d| d.random_bits(NINE, 0)),
    ("random_bits", Limit, |d| d.random_bits(HUGE, 0)),
    ("uniform", Limit, |d| d.uniform(HUGE, 0.0, 1.0, 0)),
    ("uniform", InvalidArgument, |d| d.uniform(&[2], 1.0, 0.0, 0)),
    ("uniform", InvalidArgument, |d| d.uniform(&[2], f64::NAN, 0.0, 0)),
    ("uniform", InvalidArgument, |d| d.uniform(&[2], 0.0, f64::INFINITY, 0)),
    ("normal", InvalidArgument, |d| d.normal(&[2], 0.0, -1.0, 0)),
    ("normal", InvalidArgument, |d| d.normal(&[2], f64::NAN, 1.0, 0)),
    ("normal", Shape, |d| d.normal(NINE, 0.0, 1.0, 0)),
    ("bernoulli", InvalidArgument, |d| d.bernoulli(&[2], 1.5, 0)),
    ("bernoulli", InvalidArgument, |d| d.bernoulli(&[2], -0.1, 0)),
    ("bernoulli", InvalidArgument, |d| d.bernoulli(&[2], f64::NAN, 0)),
    ("dropout", InvalidArgument, |d| t(d, &[2])?.dropout(1.5, 0)),
    ("dropout", InvalidArgument, |d| t(d, &[2])?.dropout(-0.5, 0)),
    ("dropout", TYPE, |d| of(d, I32, &[2])?.dropout(0.5, 0)),
];

const GRADIENTS: &[Refusal] = &[
    ("grad", Shape, |d| one(t(d, &[2])?.exp().grad(&[&t(d, &[2])?]))),
    ("grad", Shape, |d| one(t(d, &[0])?.grad(&[]))),
    ("grad", TYPE, |d| one(t(d, &[])?.grad(&[&of(d, I32, &[2])?]))),
    ("grad", TYPE, |d| one(t(d, &[])?.grad(&[&of(d, Bool, &[2])?]))),
    ("grad", TYPE, |d| one(of(d, U32, &[1])?.grad(&[&t(d, &[2])?]))),
    ("exp", TYPE, |d| one(of(d, I32, &[1])?.exp().grad(&[&t(d, &[2])?]))),
    ("exp", TYPE, |d| one(t(d, &[1])?.grad(&[&of(d, I32, &[1])?.exp()]))),
    ("vjp", Shape, |d| one(t(d, &[2])?.vjp(&t(d, &[3])?, &[]))),
    ("vjp", Shape, |d| one(t(d, &[2])?.vjp(&t(d, &[])?, &[]))),
    ("vjp", TYPE, |d| one(t(d, &[2])?.vjp(&of(d, I32, &[2])?, &[]))),
    ("vjp", TYPE, |d| one(t(d, &[2])?.vjp(&t(d, &[2])?, &[&of(d, U32, &[2])?]))),
];

/// Returns the first of several results.
fn one(results: Result<Vec<Tensor>>) -> Result<Tensor> {
    Ok(results?.remove(0))
}

const MOVEMENT: &[Refusal] = &[
    ("reshape", Shape, |d| t(d, &[2, 3])?.reshape(&[4, -1])),
    ("reshape", Shape, |d| t(d, &[2, 3])?.reshape(&[-1, -1])),
    ("reshape", Shape, |d| t(d, &[2, 3])?.reshape(&[-2, -3])),
    ("reshape", Shape, |d| t(d, &[0, 3])?.reshape(&[0, -1])),
    ("expand", Shape, |d| t(d, &[2, 3])?.expand(&[-1, 2, 3])),
    ("expand", Shape, |d| t(d, &[2, 3])?.expand(&[-2, 3])),
    ("flatten", Shape, |d| t(d, &[2, 3])?.flatten(1..1)),
    ("flatten", Shape, |d| t(d, &[2, 3])?.flatten(..3)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, 5..)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, ..=4)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, -5..)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, ..=isize::MAX)),
    ("select", Shape, |d| t(d, &[4])?.select(1, 0)),
    ("select", Shape, |d| t(d, &[4])?.select(0, 4)),
    ("select", Shape, |d| t(d, &[4])?.select(0, -5)),
    ("select", Shape, |d| t(d, &[0])?.select(0, 0)),
    ("pad", Shape, |d| t(d, &[4])?.pad(&[(-3, -2)], 0.0)),
    ("pad_with", Shape, |d| t(d, &[4])?.pad_with(&[(1, isize::MIN)], PadMode::Edge)),
    ("split", Shape, |d| Ok(t(d, &[4])?.split(0, 0)?.remove(0))),
    ("concat", Shape, |_| Tensor::concat::<Tensor>(&[], 0)),
    ("stack", Shape, |_| Tensor::stack::<Tensor>(&[], 0)),
    ("roll", Shape, |d| t(d, &[4, 2])?.roll([1, 2], 0)),
    ("roll", Shape, |d| t(d, &[4, 2])?.roll([1, 2], ())),
    ("rot90", Shape, |d| t(d, &[4, 2])?.rot90(1, (0, -2))),
    ("diag", Shape, |d| t(d, &[2, 2, 2])?.diag(0)),
    ("diag", Limit, |d| t(d, &[2])?.diag(i32::MIN)),
    ("take", TYPE, |d| t(d, &[4])?.take(&t(d, &[2])?)),
    ("masked_fill", Shape, |d| t(d, &[4])?.masked_fill(&of(d, Bool, &[4])?, &t(d, &[2, 4])?)),
    ("prelu", Shape, |d| t(d, &[4, 2])?.prelu(&t(d, &[4])?)),
    ("glu", Shape, |d| t(d, &[3])?.glu(0)),
    ("cosine_similarity", Shape, |d| t(d, &[3])?.cosine_similarity(&t(d, &[2])?, 0, 1e-8)),
    ("kthvalue", Shape, |d| Ok(t(d, &[3])?.kthvalue(0, 0)?.0)),
    ("kthvalue", Shape, |d| Ok(t(d, &[3])?.kthvalue(4, 0)?.0)),
    ("im2col", Shape, |d| t(d, &[2, 2])?.im2col([1, 1], Conv2dOptions::default())),
    ("im2col", Shape, |d| t(d, &[1, 1, 2, 2])?.im2col([3, 1], Conv2dOptions::default())),
    ("norm", InvalidArgument, |d| t(d, &[2])?.norm(f64::NAN, ())),
    ("norm", TYPE, |d| of(d, I32, &[2])?.norm(2.0, ())),
    ("reshape", Shape, |d| t(d, &[2, 3])?.reshape(&[4])),
    ("reshape", Shape, |d| t(d, &[2, 3])?.reshape(())),
    ("reshape", Shape, |d| t(d, &[1])?.reshape(NINE)),
    ("reshape", Limit, |d| t(d, &[1])?.reshape(HUGE)),
    ("permute", Shape, |d| t(d, &[2, 3])?.permute(&[0])),
    ("permute", Shape, |d| t(d, &[2, 3])?.permute(&[0, 0])),
    ("permute", Shape, |d| t(d, &[2, 3])?.permute(&[0, 2])),
    ("permute", Shape, |d| t(d, &[2, 3])?.permute(&[0, 1, -1])),
    ("transpose", Shape, |d| t(d, &[2, 3])?.transpose(0, 2)),
    ("transpose", Shape, |d| t(d, &[2, 3])?.transpose(-3, 0)),
    ("transpose", Shape, |d| t(d, &[])?.transpose(0, 1)),
    ("expand", Shape, |d| t(d, &[2, 3])?.expand(&[3])),
    ("expand", Shape, |d| t(d, &[2, 3])?.expand(&[2, 1])),
    ("expand", Shape, |d| t(d, &[2, 3])?.expand(&[4, 3])),
    ("expand", Limit, |d| t(d, &[1])?.expand(HUGE)),
    ("unsqueeze", Shape, |d| t(d, &[2, 3])?.unsqueeze(3)),
    ("unsqueeze", Shape, |d| t(d, &[2, 3])?.unsqueeze(-4)),
    ("unsqueeze", Shape, |d| t(d, &[1; 8])?.unsqueeze(0)),
    ("squeeze", Shape, |d| t(d, &[2, 1])?.squeeze(0)),
    ("squeeze", Shape, |d| t(d, &[2, 1])?.squeeze(2)),
    ("squeeze", Shape, |d| t(d, &[])?.squeeze(1)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, ..5)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, std::ops::Range { start: 3, end: 2 })),
    ("slice", Shape, |d| t(d, &[4])?.slice(1, ..1)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, -5..4)),
    ("slice", Shape, |d| t(d, &[4])?.slice_step(0, ..4, 0)),
    ("slice", Shape, |d| t(d, &[4])?.slice(0, isize::MIN..isize::MAX)),
    ("flip", Shape, |d| t(d, &[4])?.flip(&[1])),
    ("flip", Shape, |d| t(d, &[4, 2])?.flip(&[0, 0])),
    ("flip", Shape, |d| t(d, &[4, 2])?.flip(&[0, -2])),
    ("pad", Shape, |d| t(d, &[4])?.pad((), 0.0)),
    ("pad", Shape, |d| t(d, &[4])?.pad(&[(1, 1), (1, 1)], 0.0)),
    ("pad", TYPE, |d| of(d, I32, &[4])?.pad(&[(1, 1)], 0.5)),
    ("pad", Limit, |d| t(d, &[4])?.pad(&[(usize::MAX, 1)], 0.0)),
    ("pad", Limit, |d| t(d, &[4])?.pad(&[(1usize << 31, 0)], 0.0)),
    ("concat", Shape, |d| Tensor::concat(&[&t(d, &[2, 3])?, &t(d, &[2, 4])?], 0)),
    ("concat", Shape, |d| Tensor::concat(&[&t(d, &[2, 3])?, &t(d, &[3])?], 0)),
    ("concat", Shape, |d| Tensor::concat(&[&t(d, &[2, 3])?], 2)),
    ("concat", Shape, |d| Tensor::concat(&[&t(d, &[])?], 0)),
    ("concat", TYPE, |d| Tensor::concat(&[&t(d, &[2, 3])?, &of(d, I32, &[2, 3])?], 0)),
    ("stack", Shape, |d| Tensor::stack(&[&t(d, &[2])?, &t(d, &[3])?], 0)),
    ("stack", Shape, |d| Tensor::stack(&[&t(d, &[2])?, &t(d, &[2])?], 2)),
    ("stack", Shape, |d| Tensor::stack(&[&t(d, &[1; 8])?, &t(d, &[1; 8])?], 0)),
    ("stack", TYPE, |d| Tensor::stack(&[&t(d, &[2])?, &of(d, I32, &[2])?], 0)),
    ("split", Shape, |d| Ok(t(d, &[4])?.split(&[1, 2], 0)?.remove(0))),
    ("split", Shape, |d| Ok(t(d, &[4])?.split(&[2, 2], 1)?.remove(0))),
    ("split", Shape, |d| Ok(t(d, &[4])?.split(&[usize::MAX, 5], 0)?.remove(0))),
    ("index_select", TYPE, |d| t(d, &[4])?.index_select(0, &t(d, &[2])?)),
    ("index_select", Shape, |d| t(d, &[4])?.index_select(1, &of(d, I32, &[2])?)),
    ("index_select", Shape, |d| t(d, &[1; 8])?.index_select(0, &of(d, I32, &[1, 1])?)),
    ("index_select", TYPE, |d| t(d, &[4])?.index_select(0, &of(d, Bool, &[2])?)),
    ("tril", Shape, |d| t(d, &[4])?.tril(0)),
    ("tril", Shape, |d| t(d, &[])?.tril(0)),
    ("triu", Shape, |d| t(d, &[4])?.triu(1)),
    ("triu", Shape, |d| t(d, &[])?.triu(0)),
    ("one_hot", TYPE, |d| t(d, &[4])?.one_hot(3)),
    ("one_hot", TYPE, |d| of(d, Bool, &[4])?.one_hot(3)),
    ("one_hot", Shape, |d| of(d, I32, &[1; 8])?.one_hot(3)),
    ("one_hot", Limit, |d| of(d, I32, &[4])?.one_hot(1 << 30)),
    ("tile", Shape, |d| t(d, &[4])?.tile(&[])),
    ("tile", Shape, |d| t(d, &[4])?.tile(&[1, 2])),
    ("tile", Limit, |d| t(d, &[4])?.tile(&[1 << 30])),
    ("tile", Limit, |d| t(d, &[4])?.tile(&[usize::MAX])),
];

const ORDERING: &[Refusal] = &[
    ("cumsum", Shape, |d| t(d, &[4])?.cumsum(1)),
    ("cumsum", Shape, |d| t(d, &[])?.cumsum(1)),
    ("cumprod", Shape, |d| t(d, &[4])?.cumprod(-2)),
    ("cumprod", Limit, |d| d.zeros(&[1 << 30])?.cumprod(0)),
    ("cummax", Shape, |d| t(d, &[4])?.cummax(1)),
    ("cummax", Limit, |d| d.zeros(&[1 << 30])?.cummax(Scan::from(0).exclusive(true).reverse(true))),
    ("cummin", Shape, |d| t(d, &[2, 2])?.cummin(2)),
    ("sort", Shape, |d| Ok(t(d, &[4])?.sort(1, false)?.0)),
    ("sort", Shape, |d| Ok(t(d, &[])?.sort(1, false)?.0)),
    ("sort", Limit, |d| Ok(d.zeros(&[1 << 30])?.sort(0, false)?.0)),
    ("argsort", Shape, |d| t(d, &[4])?.argsort(-2, false)),
    ("argsort", Shape, |d| t(d, &[])?.argsort(-2, true)),
    ("argsort", Limit, |d| d.zeros(&[1 << 30])?.argsort(0, true)),
    ("topk", Shape, |d| Ok(t(d, &[4])?.topk(5, 0, true)?.0)),
    ("topk", Shape, |d| Ok(t(d, &[4])?.topk(1, 1, true)?.0)),
    ("topk", Limit, |d| Ok(d.zeros(&[1 << 30])?.topk(1, 0, true)?.0)),
    ("gather", Shape, |d| t(d, &[4])?.gather(1, &of(d, I32, &[2])?)),
    ("gather", Shape, |d| t(d, &[4, 2])?.gather(0, &of(d, I32, &[3, 3])?)),
    ("gather", Shape, |d| t(d, &[4, 2])?.gather(0, &of(d, I32, &[3])?)),
    ("gather", TYPE, |d| t(d, &[4])?.gather(0, &t(d, &[2])?)),
    ("scatter", Shape, |d| t(d, &[4])?.scatter(1, &of(d, I32, &[2])?, &t(d, &[2])?)),
    ("scatter", Shape, |d| t(d, &[4])?.scatter(0, &of(d, I32, &[3])?, &t(d, &[2])?)),
    ("scatter", Shape, |d| t(d, &[4, 2])?.scatter(0, &of(d, I32, &[2])?, &t(d, &[2])?)),
    ("scatter", TYPE, |d| t(d, &[4])?.scatter(0, &t(d, &[2])?, &t(d, &[2])?)),
    ("scatter", TYPE, |d| t(d, &[4])?.scatter(0, &of(d, I32, &[2])?, &of(d, I32, &[2])?)),
    ("scatter_add", Shape, |d| {
        t(d, &[4, 2])?.scatter_add(0, &of(d, I32, &[1, 3])?, &t(d, &[1, 3])?)
    }),
    ("scatter_add", TYPE, |d| {
        of(d, Bool, &[4])?.scatter_add(0, &of(d, I32, &[2])?, &of(d, Bool, &[2])?)
    }),
    ("scatter_add", TYPE, |d| t(d, &[4])?.scatter_add(0, &of(d, Bool, &[2])?, &t(d, &[2])?)),
    ("scatter_reduce", Shape, |d| {
        t(d, &[4])?.scatter_reduce(-2, &of(d, I32, &[2])?, &t(d, &[2])?, Reduction::Max)
    }),
    ("scatter_reduce", TYPE, |d| {
        t(d, &[4])?.scatter_reduce(0, &of(d, I32, &[2])?, &t(d, &[2])?, Reduction::Any)
    }),
    ("scatter_reduce", TYPE, |d| {
        of(d, Bool, &[4])?.scatter_reduce(
            0,
            &of(d, I32, &[0])?,
            &of(d, Bool, &[0])?,
            Reduction::Max,
        )
    }),
    ("index_add", Shape, |d| t(d, &[4])?.index_add(1, &of(d, I32, &[2])?, &t(d, &[2])?)),
    ("index_add", Shape, |d| t(d, &[4, 2])?.index_add(0, &of(d, I32, &[2])?, &t(d, &[3, 2])?)),
    ("index_add", Shape, |d| t(d, &[4, 2])?.index_add(0, &of(d, I32, &[3])?, &t(d, &[3, 3])?)),
    ("index_add", TYPE, |d| t(d, &[4])?.index_add(0, &t(d, &[2])?, &t(d, &[2])?)),
    ("index_add", TYPE, |d| {
        of(d, Bool, &[4])?.index_add(0, &of(d, I32, &[2])?, &of(d, Bool, &[2])?)
    }),
    ("gather_nd", Shape, |d| t(d, &[4])?.gather_nd(&of(d, I32, &[2])?)),
    ("gather_nd", Shape, |d| t(d, &[4])?.gather_nd(&of(d, I32, &[])?)),
    ("gather_nd", TYPE, |d| t(d, &[4])?.gather_nd(&t(d, &[1])?)),
    ("scatter_nd", Shape, |d| {
        t(d, &[4])?.scatter_nd(&of(d, I32, &[2, 2])?, &t(d, &[2])?, Default::default())
    }),
    ("scatter_nd", Shape, |d| {
        t(d, &[4, 2])?.scatter_nd(&of(d, I32, &[3, 1])?, &t(d, &[3])?, Default::default())
    }),
    ("scatter_nd", TYPE, |d| {
        t(d, &[4])?.scatter_nd(&of(d, I32, &[2, 1])?, &of(d, U32, &[2])?, Default::default())
    }),
    ("masked_fill", Shape, |d| t(d, &[4])?.masked_fill(&of(d, Bool, &[3])?, 0.0)),
    ("masked_fill", Shape, |d| t(d, &[4])?.masked_fill(&of(d, Bool, &[2, 4])?, &t(d, &[3, 1, 4])?)),
    ("masked_fill", TYPE, |d| t(d, &[4])?.masked_fill(&of(d, I32, &[4])?, 0.0)),
    ("masked_fill", TYPE, |d| of(d, I32, &[4])?.masked_fill(&of(d, Bool, &[4])?, 0.5)),
    ("eigh", Shape, |d| Ok(t(d, &[2, 3])?.eigh()?.0)),
    ("eigh", Shape, |d| Ok(t(d, &[4])?.eigh()?.0)),
    ("eigh", TYPE, |d| Ok(of(d, I32, &[2, 2])?.eigh()?.0)),
    ("eigh", Limit, |d| Ok(t(d, &[129, 129])?.eigh()?.0)),
    ("unpack", TYPE, |d| of(d, I32, &[4])?.unpack(4, false)),
    ("unpack", Shape, |d| of(d, U32, &[])?.unpack(4, false)),
    ("unpack", InvalidArgument, |d| of(d, U32, &[4])?.unpack(0, false)),
    ("unpack", InvalidArgument, |d| of(d, U32, &[4])?.unpack(3, true)),
    ("unpack", InvalidArgument, |d| of(d, U32, &[4])?.unpack(32, true)),
    ("unpack", Limit, |d| d.full(&[1 << 28], 0.0, U32)?.unpack(1, false)),
    ("unpack_bf16", TYPE, |d| t(d, &[4])?.unpack_bf16()),
    ("unpack_bf16", Shape, |d| of(d, U32, &[])?.unpack_bf16()),
    ("unpack_bf16", Limit, |d| d.full(&[1 << 30], 0.0, U32)?.unpack_bf16()),
    ("dequantize", TYPE, |d| t(d, &[4])?.dequantize(&t(d, &[])?, Default::default())),
    ("dequantize", TYPE, |d| of(d, I32, &[4])?.dequantize(&of(d, I32, &[])?, Default::default())),
    ("dequantize", TYPE, |d| {
        of(d, I32, &[4])?
            .dequantize(&t(d, &[])?, DequantizeOptions { zero_point: Some(&t(d, &[])?) })
    }),
    ("dequantize", Shape, |d| of(d, I32, &[4])?.dequantize(&t(d, &[3])?, Default::default())),
    ("dequantize", Shape, |d| of(d, I32, &[4])?.dequantize(&t(d, &[1, 4])?, Default::default())),
    ("dequantize", Shape, |d| of(d, I32, &[4])?.dequantize(&t(d, &[0])?, Default::default())),
    ("dequantize", Shape, |d| {
        of(d, I32, &[4])?
            .dequantize(&t(d, &[2])?, DequantizeOptions { zero_point: Some(&of(d, I32, &[4])?) })
    }),
    ("roll", Shape, |d| t(d, &[4])?.roll(1, 1)),
    ("roll", Shape, |d| t(d, &[])?.roll(1, 0)),
    ("roll", Limit, |d| d.zeros(&[1 << 30])?.roll(1, 0)),
    ("chunk", Shape, |d| Ok(t(d, &[4])?.chunk(0, 0)?.remove(0))),
    ("chunk", Shape, |d| Ok(t(d, &[4])?.chunk(2, 1)?.remove(0))),
    ("chunk", Shape, |d| Ok(t(d, &[])?.chunk(2, 0)?.remove(0))),
];

const REDUCTIONS: &[Refusal] = &[
    ("sum", Shape, |d| t(d, &[4])?.sum(&[1])),
    ("sum", Shape, |d| t(d, &[4, 2])?.sum(&[0, 0])),
    ("prod", Shape, |d| t(d, &[4])?.prod(&[-2])),
    ("prod", Shape, |d| t(d, &[4, 2])?.prod(&[1, -1])),
    ("max", Shape, |d| t(d, &[])?.max(&[1])),
    ("max", Shape, |d| t(d, &[4, 2])?.max(Axes::from(&[0, -2]).keepdim(true))),
    ("min", Shape, |d| t(d, &[4])?.min(&[3])),
    ("min", Shape, |d| t(d, &[4, 2])?.min(&[1, 1])),
    ("any", TYPE, |d| t(d, &[4])?.any(&[])),
    ("any", TYPE, |d| of(d, I32, &[4])?.any(&[])),
    ("any", Shape, |d| of(d, Bool, &[4])?.any(&[1])),
    ("all", TYPE, |d| t(d, &[4])?.all(&[])),
    ("all", TYPE, |d| of(d, U32, &[4])?.all(&[])),
    ("all", Shape, |d| of(d, Bool, &[4])?.all(&[0, 0])),
    ("mean", Shape, |d| t(d, &[4])?.mean(&[1])),
    ("mean", Shape, |d| t(d, &[4])?.mean(Axes::from(&[0, 0]).keepdim(true))),
    ("mean", TYPE, |d| of(d, I32, &[4])?.mean(&[])),
    ("var", Shape, |d| t(d, &[4])?.var(&[1], 1.0)),
    ("var", TYPE, |d| of(d, I32, &[4])?.var(&[], 1.0)),
    ("var", TYPE, |d| of(d, Bool, &[4])?.var(Axes::from(&[]).keepdim(true), 1.0)),
    ("std", Shape, |d| t(d, &[4])?.std(&[1], 1.0)),
    ("std", TYPE, |d| of(d, I32, &[4])?.std(&[], 1.0)),
    ("std", TYPE, |d| of(d, U32, &[4])?.std(&[], 1.0)),
    ("std", Shape, |d| t(d, &[4])?.std(Axes::from(&[0, 0]).keepdim(true), 1.0)),
    ("norm_l2", Shape, |d| t(d, &[4])?.norm_l2(Axes::from(1).keepdim(true))),
    ("logsumexp", TYPE, |d| of(d, I32, &[4])?.logsumexp(Axes::from(&[]).keepdim(true))),
    ("argmax", Shape, |d| t(d, &[4])?.argmax(1)),
    ("argmax", Shape, |d| t(d, &[4, 0])?.argmax(1)),
    ("argmin", Shape, |d| t(d, &[])?.argmin(1)),
    ("argmin", Shape, |d| t(d, &[0])?.argmin(0)),
    ("logsumexp", Shape, |d| t(d, &[4])?.logsumexp(&[1])),
    ("logsumexp", Shape, |d| t(d, &[4])?.logsumexp(&[0, 0])),
    ("logsumexp", TYPE, |d| of(d, I32, &[4])?.logsumexp(&[])),
    ("norm_l1", Shape, |d| t(d, &[4])?.norm_l1(&[1])),
    ("norm_l1", TYPE, |d| of(d, I32, &[4])?.norm_l1(&[])),
    ("norm_l1", TYPE, |d| of(d, Bool, &[4])?.norm_l1(&[])),
    ("norm_l2", Shape, |d| t(d, &[4])?.norm_l2(&[-2])),
    ("norm_l2", TYPE, |d| of(d, I32, &[4])?.norm_l2(&[])),
    ("norm_l2", TYPE, |d| of(d, U32, &[4])?.norm_l2(&[])),
    ("norm_linf", Shape, |d| t(d, &[4])?.norm_linf(&[0, 0])),
    ("norm_linf", TYPE, |d| of(d, I32, &[4])?.norm_linf(&[])),
    ("norm_linf", TYPE, |d| of(d, Bool, &[4])?.norm_linf(&[])),
    ("softmax", Shape, |d| t(d, &[4])?.softmax(1)),
    ("softmax", TYPE, |d| of(d, I32, &[4])?.softmax(0)),
    ("softmax", TYPE, |d| of(d, Bool, &[4])?.softmax(0)),
    ("log_softmax", Shape, |d| t(d, &[4])?.log_softmax(-2)),
    ("log_softmax", TYPE, |d| of(d, I32, &[4])?.log_softmax(0)),
    ("log_softmax", TYPE, |d| of(d, U32, &[4])?.log_softmax(0)),
    ("layer_norm", Shape, |d| t(d, &[4])?.layer_norm(&[1], Default::default())),
    ("layer_norm", TYPE, |d| of(d, I32, &[4])?.layer_norm(&[0], Default::default())),
    ("layer_norm", Shape, |d| {
        t(d, &[4])?
            .layer_norm(&[0], NormOptions { weight: Some(&t(d, &[3])?), ..Default::default() })
    }),
    ("layer_norm", Shape, |d| {
        t(d, &[4])?
            .layer_norm(&[0], NormOptions { bias: Some(&t(d, &[2, 4])?), ..Default::default() })
    }),
    ("layer_norm", TYPE, |d| {
        let weight = of(d, I32, &[4])?;
        let options = NormOptions { weight: Some(&weight), ..Default::default() };
        t(d, &[4])?.layer_norm(&[0], options)
    }),
    ("rms_norm", Shape, |d| t(d, &[4])?.rms_norm(&[0, 0], Default::default())),
    ("rms_norm", TYPE, |d| of(d, Bool, &[4])?.rms_norm(&[0], Default::default())),
    ("rms_norm", Shape, |d| {
        t(d, &[4])?
            .rms_norm(&[0], RmsNormOptions { weight: Some(&t(d, &[5])?), ..Default::default() })
    }),
    ("rms_norm", TYPE, |d| {
        let weight = of(d, U32, &[4])?;
        let options = RmsNormOptions { weight: Some(&weight), ..Default::default() };
        t(d, &[4])?.rms_norm(&[0], options)
    }),
];

fn conv(d: &Device, x: &[usize], w: &[usize], options: Conv2dOptions) -> Result<Tensor> {
    t(d, x)?.conv2d(&t(d, w)?, None, options)
}

fn plain() -> Conv2dOptions {
    Conv2dOptions::default()
}

fn attend(d: &Device, q: &[usize], k: &[usize], v: &[usize]) -> Result<Tensor> {
    t(d, q)?.attention(&t(d, k)?, &t(d, v)?, AttentionOptions::default())
}

fn masked(d: &Device, dtype: DType, mask: &[usize]) -> Result<Tensor> {
    let (q, mask) = (t(d, &[1, 2, 3, 4])?, of(d, dtype, mask)?);
    q.attention(&q, &q, AttentionOptions { attn_mask: Some(&mask), ..Default::default() })
}

fn first(d: &Device, keys: &[usize], kv_length: usize) -> Result<Tensor> {
    let (q, k) = (t(d, &[1, 2, 3, 4])?, t(d, keys)?);
    q.attention(&k, &k, AttentionOptions { kv_length: Some(kv_length), ..Default::default() })
}

const ROUTINES: &[Refusal] = &[
    ("matmul", Shape, |d| t(d, &[2, 3])?.matmul(&t(d, &[2, 3])?)),
    ("matmul", Shape, |d| t(d, &[])?.matmul(&t(d, &[2, 3])?)),
    ("matmul", Shape, |d| t(d, &[2, 3])?.matmul(&t(d, &[])?)),
    ("matmul", Shape, |d| t(d, &[3])?.matmul(&t(d, &[4])?)),
    ("matmul", Shape, |d| t(d, &[2, 3, 4])?.matmul(&t(d, &[3, 4, 5])?)),
    ("matmul", TYPE, |d| of(d, I32, &[2, 3])?.matmul(&of(d, I32, &[3, 2])?)),
    ("matmul", TYPE, |d| t(d, &[2, 3])?.matmul(&of(d, I32, &[3, 2])?)),
    ("outer", Shape, |d| t(d, &[2, 3])?.outer(&t(d, &[3])?)),
    ("outer", Shape, |d| t(d, &[3])?.outer(&t(d, &[])?)),
    ("outer", TYPE, |d| t(d, &[3])?.outer(&of(d, I32, &[3])?)),
    ("dot", Shape, |d| t(d, &[3])?.dot(&t(d, &[4])?)),
    ("dot", Shape, |d| t(d, &[3, 1])?.dot(&t(d, &[3, 1])?)),
    ("dot", TYPE, |d| t(d, &[3])?.dot(&of(d, I32, &[3])?)),
    ("dot", TYPE, |d| of(d, Bool, &[3])?.dot(&of(d, Bool, &[3])?)),
    ("conv2d", Shape, |d| conv(d, &[1, 2, 5], &[1, 2, 3, 3], plain())),
    ("conv2d", Shape, |d| conv(d, &[1, 2, 5, 5], &[1, 2, 3], plain())),
    ("conv2d", Shape, |d| conv(d, &[1, 2, 5, 5], &[1, 3, 3, 3], plain())),
    ("conv2d", Shape, |d| conv(d, &[1, 2, 2, 2], &[1, 2, 3, 3], plain())),
    ("conv2d", Shape, |d| conv(d, &[1, 2, 5, 5], &[1, 2, 0, 3], plain())),
    ("conv2d", Shape, |d| {
        conv(d, &[1, 2, 5, 5], &[1, 2, 3, 3], Conv2dOptions { stride: [0, 1], ..plain() })
    }),
    ("conv2d", Shape, |d| {
        conv(d, &[1, 2, 5, 5], &[1, 2, 3, 3], Conv2dOptions { dilation: [1, 0], ..plain() })
    }),
    ("conv2d", Shape, |d| {
        conv(d, &[1, 2, 5, 5], &[1, 2, 3, 3], Conv2dOptions { groups: 0, ..plain() })
    }),
    ("conv2d", Shape, |d| {
        conv(d, &[1, 4, 5, 5], &[3, 2, 3, 3], Conv2dOptions { groups: 2, ..plain() })
    }),
    ("conv2d", Shape, |d| {
        let padding = Padding::Explicit([(usize::MAX, 1), (0, 0)]);
        conv(d, &[1, 2, 5, 5], &[1, 2, 3, 3], Conv2dOptions { padding, ..plain() })
    }),
    ("conv2d", Shape, |d| {
        conv(
            d,
            &[1, 2, 5, 5],
            &[1, 2, 3, 3],
            Conv2dOptions { dilation: [usize::MAX, 1], ..plain() },
        )
    }),
    ("conv2d", Shape, |d| {
        t(d, &[1, 2, 5, 5])?.conv2d(&t(d, &[4, 2, 3, 3])?, Some(&t(d, &[3])?), plain())
    }),
    ("conv2d", TYPE, |d| {
        t(d, &[1, 2, 5, 5])?.conv2d(&t(d, &[4, 2, 3, 3])?, Some(&of(d, I32, &[4])?), plain())
    }),
    ("conv2d", TYPE, |d| {
        of(d, I32, &[1, 2, 5, 5])?.conv2d(&of(d, I32, &[1, 2, 3, 3])?, None, plain())
    }),
    ("attention", Shape, |d| attend(d, &[2, 3, 4], &[2, 3, 4], &[2, 3, 4])),
    ("attention", Shape, |d| first(d, &[1, 2, 5, 4], 6)),
    ("attention", Shape, |d| first(d, &[1, 2, 5, 4], usize::MAX)),
    ("attention", Shape, |d| first(d, &[1, 2], 1)),
    ("attention", Shape, |d| attend(d, &[1, 2, 3, 4], &[1, 2, 3, 5], &[1, 2, 3, 4])),
    ("attention", Shape, |d| attend(d, &[1, 2, 3, 4], &[1, 2, 3, 4], &[1, 2, 5, 4])),
    ("attention", Shape, |d| attend(d, &[1, 3, 3, 4], &[1, 2, 3, 4], &[1, 2, 3, 4])),
    ("attention", Shape, |d| attend(d, &[2, 2, 3, 4], &[1, 2, 3, 4], &[1, 2, 3, 4])),
    ("attention", Shape, |d| attend(d, &[1, 2, 3, 4], &[1, 0, 3, 4], &[1, 0, 3, 4])),
    ("attention", Shape, |d| attend(d, &[], &[1, 2, 3, 4], &[1, 2, 3, 4])),
    ("attention", TYPE, |d| {
        let q = of(d, I32, &[1, 2, 3, 4])?;
        q.attention(&q, &q, AttentionOptions::default())
    }),
    ("attention", TYPE, |d| {
        let (q, k) = (t(d, &[1, 2, 3, 4])?, of(d, I32, &[1, 2, 3, 4])?);
        q.attention(&k, &k, AttentionOptions::default())
    }),
    ("attention", Shape, |d| {
        let q = t(d, &[1, 2, 3, 4])?;
        q.attention(&q, &q, AttentionOptions { window: Some(0), ..Default::default() })
    }),
    ("attention", TYPE, |d| masked(d, I32, &[3, 3])),
    ("attention", Shape, |d| masked(d, F32, &[3, 4])),
    ("attention", Shape, |d| masked(d, Bool, &[3, 4])),
    ("attention", Shape, |d| masked(d, Bool, &[2, 1, 2, 3, 3])),
];

fn solid() -> ConvOptions<3> {
    ConvOptions::default()
}

fn turned(
    d: &Device,
    x: &[usize],
    w: &[usize],
    options: ConvTransposeOptions<2>,
) -> Result<Tensor> {
    t(d, x)?.conv_transpose2d(&t(d, w)?, None, options)
}

const WINDOWS: &[Refusal] = &[
    ("unfold", Shape, |d| t(d, &[4])?.unfold(0, 5, 1, 1)),
    ("unfold", Shape, |d| t(d, &[4])?.unfold(1, 1, 1, 1)),
    ("unfold", Shape, |d| t(d, &[4])?.unfold(0, 0, 1, 1)),
    ("unfold", Shape, |d| t(d, &[4])?.unfold(0, 2, 0, 1)),
    ("unfold", Shape, |d| t(d, &[4])?.unfold(0, 2, 1, usize::MAX)),
    ("unfold", Shape, |d| t(d, &[1; 8])?.unfold(0, 1, 1, 1)),
    ("conv1d", Shape, |d| {
        t(d, &[1, 2, 5, 5])?.conv1d(&t(d, &[1, 2, 3])?, None, Default::default())
    }),
    ("conv1d", Shape, |d| t(d, &[1, 2, 5])?.conv1d(&t(d, &[1, 3, 3])?, None, Default::default())),
    ("conv1d", Shape, |d| t(d, &[1, 2, 2])?.conv1d(&t(d, &[1, 2, 3])?, None, Default::default())),
    ("conv1d", TYPE, |d| {
        of(d, I32, &[1, 2, 5])?.conv1d(&of(d, I32, &[1, 2, 3])?, None, Default::default())
    }),
    ("conv3d", Shape, |d| t(d, &[1, 2, 5, 5])?.conv3d(&t(d, &[1, 2, 3, 3])?, None, solid())),
    ("conv3d", Shape, |d| t(d, &[1, 2, 5, 5, 5])?.conv3d(&t(d, &[1, 3, 3, 3, 3])?, None, solid())),
    ("conv3d", Shape, |d| t(d, &[1, 2, 2, 5, 5])?.conv3d(&t(d, &[1, 2, 3, 3, 3])?, None, solid())),
    ("conv3d", Shape, |d| {
        let options = ConvOptions { groups: 0, ..solid() };
        t(d, &[1, 2, 5, 5, 5])?.conv3d(&t(d, &[1, 2, 3, 3, 3])?, None, options)
    }),
    ("conv_transpose2d", Shape, |d| turned(d, &[1, 2, 3], &[2, 1, 3, 3], Default::default())),
    ("conv_transpose2d", Shape, |d| turned(d, &[1, 2, 3, 3], &[3, 1, 3, 3], Default::default())),
    ("conv_transpose2d", Shape, |d| {
        let options = ConvTransposeOptions { stride: [0, 1], ..Default::default() };
        turned(d, &[1, 2, 3, 3], &[2, 1, 3, 3], options)
    }),
    ("conv_transpose2d", Shape, |d| {
        let options =
            ConvTransposeOptions { padding: [(9, 9), (0, 0)].into(), ..Default::default() };
        turned(d, &[1, 2, 3, 3], &[2, 1, 3, 3], options)
    }),
    ("conv_transpose2d", Limit, |d| {
        let options = ConvTransposeOptions { stride: [1 << 30, 1 << 30], ..Default::default() };
        turned(d, &[1, 2, 3, 3], &[2, 1, 3, 3], options)
    }),
    ("max_pool", Shape, |d| t(d, &[4, 4])?.max_pool(PoolOptions::new([2, 2]))),
    ("max_pool", Shape, |d| t(d, &[1, 1, 4, 4])?.max_pool(PoolOptions::new([5, 2]))),
    ("max_pool", Shape, |d| t(d, &[1, 1, 4, 4])?.max_pool(PoolOptions::new([0, 2]))),
    ("max_pool", TYPE, |d| of(d, Bool, &[1, 1, 4])?.max_pool(PoolOptions::new([2]))),
    ("avg_pool", Shape, |d| t(d, &[4])?.avg_pool(PoolOptions::new([2]))),
    ("avg_pool", Shape, |d| t(d, &[1, 1, 4])?.avg_pool(PoolOptions::new([5]))),
    ("avg_pool", TYPE, |d| of(d, I32, &[1, 1, 4])?.avg_pool(PoolOptions::new([2]))),
    ("l2_pool", Shape, |d| t(d, &[1, 1, 4])?.l2_pool(PoolOptions::new([2, 2]))),
    ("l2_pool", Shape, |d| {
        t(d, &[1, 1, 4])?.l2_pool(PoolOptions { stride: [0], ..PoolOptions::new([2]) })
    }),
    ("l2_pool", TYPE, |d| of(d, U32, &[1, 1, 4])?.l2_pool(PoolOptions::new([2]))),
    ("adaptive_avg_pool", Shape, |d| t(d, &[4])?.adaptive_avg_pool(&[1, 1])),
    ("adaptive_avg_pool", Shape, |d| t(d, &[4])?.adaptive_avg_pool(&[0])),
    ("adaptive_avg_pool", TYPE, |d| of(d, I32, &[4])?.adaptive_avg_pool(&[2])),
    ("resize", Shape, |d| t(d, &[4])?.resize(&[2, 2], Resize::Linear)),
    ("resize", Shape, |d| t(d, &[4])?.resize(&[0], Resize::Nearest)),
    ("resize", Shape, |d| t(d, &[4, 0])?.resize(&[2], Resize::Linear)),
    ("resize", Limit, |d| t(d, &[4])?.resize(&[1 << 29], Resize::Linear)),
    ("resize", TYPE, |d| of(d, I32, &[4])?.resize(&[2], Resize::Linear)),
    ("resize", Limit, |d| t(d, &[4])?.resize(&[1 << 27], Resize::Cubic)),
    ("resample", Shape, |d| t(d, &[4])?.resample(1, 2, EVERY)),
    ("resample", Shape, |d| t(d, &[4])?.resample(0, 0, EVERY)),
    ("resample", Shape, |d| t(d, &[4, 0])?.resample(1, 2, EVERY)),
    ("resample", TYPE, |d| of(d, I32, &[4])?.resample(0, 2, EVERY)),
    ("resample", InvalidArgument, |d| {
        t(d, &[4])?.resample(0, 2, Sampling { step: f64::NAN, ..EVERY })
    }),
    ("resample", InvalidArgument, |d| {
        t(d, &[4])?.resample(0, 2, Sampling { first: f64::INFINITY, ..EVERY })
    }),
    ("resample", InvalidArgument, |d| {
        t(d, &[4])?.resample(0, 2, Sampling { filter: Filter::Cubic(f64::NAN), ..EVERY })
    }),
    ("resample", Limit, |d| t(d, &[4])?.resample(0, 2, Sampling { first: 2e9, ..EVERY })),
    ("resample", Limit, |d| {
        t(d, &[4])?.resample(0, 2, Sampling { step: 1e8, antialias: true, ..EVERY })
    }),
    ("max_pool_indices", Shape, |d| t(d, &[4, 4])?.max_pool_indices(PoolOptions::new([2, 2]))),
    ("max_pool_indices", Shape, |d| t(d, &[1, 1, 1])?.max_pool_indices(PoolOptions::new([2]))),
    ("max_pool_indices", TYPE, |d| {
        of(d, Bool, &[1, 1, 4])?.max_pool_indices(PoolOptions::new([2]))
    }),
    ("pad_with", Shape, |d| t(d, &[4])?.pad_with((), PadMode::Edge)),
    ("pad_with", Shape, |d| t(d, &[4])?.pad_with(&[(4, 0)], PadMode::Reflect)),
    ("pad_with", Shape, |d| t(d, &[0])?.pad_with(&[(1, 0)], PadMode::Wrap)),
    ("pad_with", Limit, |d| t(d, &[4])?.pad_with(&[(1usize << 31, 0)], PadMode::Edge)),
    ("batch_norm", Shape, |d| {
        t(d, &[4])?.batch_norm(&t(d, &[4])?, &t(d, &[4])?, Default::default())
    }),
    ("batch_norm", Shape, |d| {
        t(d, &[2, 4])?.batch_norm(&t(d, &[2])?, &t(d, &[4])?, Default::default())
    }),
    ("batch_norm", TYPE, |d| {
        let m = of(d, I32, &[4])?;
        of(d, I32, &[2, 4])?.batch_norm(&m, &m, Default::default())
    }),
    ("group_norm", Shape, |d| t(d, &[4])?.group_norm(2, Default::default())),
    ("group_norm", Shape, |d| t(d, &[2, 4])?.group_norm(3, Default::default())),
    ("group_norm", Shape, |d| t(d, &[2, 4])?.group_norm(0, Default::default())),
    ("group_norm", Shape, |d| {
        t(d, &[2, 4])?
            .group_norm(2, NormOptions { weight: Some(&t(d, &[2])?), ..Default::default() })
    }),
    ("instance_norm", Shape, |d| t(d, &[4])?.instance_norm(Default::default())),
    ("instance_norm", Shape, |d| {
        t(d, &[2, 4])?
            .instance_norm(NormOptions { bias: Some(&t(d, &[2, 4])?), ..Default::default() })
    }),
    ("instance_norm", TYPE, |d| of(d, Bool, &[2, 4])?.instance_norm(Default::default())),
    ("rotary", Shape, |d| t(d, &[2, 4])?.rotary(&t(d, &[3])?, &t(d, &[3])?, false)),
    ("rotary", Shape, |d| t(d, &[2, 4])?.rotary(&t(d, &[2])?, &t(d, &[1])?, false)),
    ("rotary", Shape, |d| t(d, &[2, 4])?.rotary(&t(d, &[3, 1, 2])?, &t(d, &[3, 1, 2])?, true)),
    ("rotary", Shape, |d| t(d, &[])?.rotary(&t(d, &[])?, &t(d, &[])?, true)),
    ("rotary", TYPE, |d| t(d, &[4])?.rotary(&of(d, I32, &[2])?, &of(d, I32, &[2])?, true)),
];

/// Checks the error of a result.
pub fn is(result: Result<Tensor>, name: &str, kind: ErrorKind) -> Outcome {
    let error: Error = match result.and_then(carried) {
        Ok(tensor) => return Err(format!("{name}: took it, and gave {tensor:?}")),
        Err(error) => error,
    };
    if error.kind() != kind || !error.message().starts_with(&format!("{name}: ")) {
        let (got, message) = (error.kind(), error.message());
        return Err(format!("{name} should say {kind:?}, and says {got:?} {message:?}"));
    }
    form::check(name, error.message())
}

/// All lists of rejected calls.
pub const LISTS: [&[Refusal]; 13] = [
    CREATION,
    MOVEMENT,
    REDUCTIONS,
    ROUTINES,
    WINDOWS,
    GRADIENTS,
    ORDERING,
    algebra::ALGEBRA,
    more::MADE,
    more::ARRANGED,
    more::STATISTICS,
    more::LINEAR,
    more::STATE,
];

pub fn cases() -> Suite {
    let mut suite = Suite::new("refusals");
    for (number, list) in LISTS.into_iter().enumerate() {
        for (at, &(name, kind, refused)) in list.iter().enumerate() {
            suite.steps(format!("{name} {kind:?} {number}.{at}"), move |device| async move {
                is(refused(&device), name, kind)
            });
        }
    }
    for row in TABLE {
        suite.steps(format!("{} of wrong types and shapes", row.name), move |device| async move {
            pointwise(&device, row)
        });
    }
    reading(&mut suite);
    numbers(&mut suite);
    super::indices::refusals(&mut suite);
    suite
}

/// Checks every combination of dtypes that the row does not take, and shapes that do not broadcast.
fn pointwise(device: &Device, row: &'static Row) -> Outcome {
    let mut all = vec![F32, I32, U32, Bool];
    if device.limits().f16 {
        all.push(F16);
    }
    let count = row.operands.len();
    let parameters: Vec<f64> = row.parameters.iter().map(|p| p.1).collect();
    let apply = |types: &[DType], shapes: &[&[usize]]| {
        let operands: Vec<Tensor> = types
            .iter()
            .zip(shapes)
            .map(|(&dtype, shape)| of(device, dtype, shape))
            .collect::<Result<_>>()?;
        let rest: Vec<Operand> = operands[1..].iter().map(Operand::from).collect();
        call(row.name, &operands[0], &rest, &parameters)
    };
    let digit = |at: usize, n: usize| at / all.len().pow(n as u32) % all.len();
    let mut fine = None;
    for at in 0..all.len().pow(count as u32) {
        let types: Vec<DType> = (0..count).map(|n| all[digit(at, n)]).collect();
        let shapes = vec![&[2usize][..]; count];
        if row.dtype(&types).is_ok() {
            fine = fine.or(Some(types));
        } else if !converts(row.name, &types) {
            is(apply(&types, &shapes), row.name, TYPE).map_err(|e| format!("{types:?}: {e}"))?;
        }
    }
    let fine = fine.ok_or_else(|| format!("{} takes nothing", row.name))?;
    let pairs: [(&[usize], &[usize]); 3] = [(&[2], &[3]), (&[2, 3], &[3, 2]), (&[4, 0], &[4, 2])];
    for (a, b) in pairs.iter().filter(|_| count > 1) {
        for at in 1..count {
            let mut shapes = vec![*a; count];
            shapes[at] = b;
            is(apply(&fine, &shapes), row.name, Shape).map_err(|e| format!("{shapes:?}: {e}"))?;
        }
    }
    apply(&fine, &vec![&[2][..]; count]).and_then(carried).map(|_| ()).map_err(said)
}

/// Whether the method accepts dtypes that its row does not: true quotients of integers, and floor quotients of floats.
fn converts(name: &str, types: &[DType]) -> bool {
    match name {
        "div" => !types[0].is_float(),
        "floor_divide" => types[0].is_float(),
        _ => false,
    }
}

/// Checks the kind of error of a read.
pub(super) fn refuses<T>(what: &str, result: Result<T>, kind: ErrorKind) -> Outcome {
    match result {
        Err(error) if error.kind() == kind && error.message().starts_with(what) => Ok(()),
        Err(error) => Err(format!("{what} says {:?} {error}", error.kind())),
        Ok(_) => Err(format!("{what} was taken")),
    }
}

fn reading(suite: &mut Suite) {
    suite.steps("read as another type", |device| async move {
        let a = t(&device, &[3]).map_err(said)?;
        let b = of(&device, Bool, &[3]).map_err(said)?;
        refuses("read:", a.read::<i32>().await, TYPE)?;
        refuses("read:", a.read::<bool>().await, TYPE)?;
        refuses("read:", b.read::<u32>().await, TYPE)
    });
    suite.steps("read beyond the end", |device| async move {
        let a = t(&device, &[3]).map_err(said)?;
        refuses("read:", a.read_range::<f32>(0, 4).await, Shape)?;
        refuses("read:", a.read_range::<f32>(4, 0).await, Shape)?;
        refuses("read:", a.read_range::<f32>(1, usize::MAX).await, Shape)
    });
    suite.steps("item of several", |device| async move {
        let a = t(&device, &[3]).map_err(said)?;
        let none = t(&device, &[0]).map_err(said)?;
        refuses("item:", a.item::<f32>().await, Shape)?;
        refuses("item:", none.item::<f32>().await, Shape)?;
        refuses("read:", t(&device, &[1]).map_err(said)?.item::<u32>().await, TYPE)
    });
    suite.steps("a cast to f16 where there is none", |device| async move {
        if device.limits().f16 {
            return Ok(());
        }
        let a = t(&device, &[3]).map_err(said)?;
        refuses("cast:", a.cast(F16), ErrorKind::Unsupported)?;
        refuses("tensor:", of(&device, F16, &[3]), ErrorKind::Unsupported)?;
        refuses("full:", device.full(&[3], 1.0, F16), ErrorKind::Unsupported)
    });
    suite.steps("a device goes on after an error", |device| async move {
        let a = t(&device, &[3]).map_err(said)?;
        refuses("reshape:", a.reshape(&[4]), Shape)?;
        let sum = a.add(1.0).and_then(|a| a.sum(&[])).map_err(said)?;
        let got = sum.item::<f32>().await.map_err(said)?;
        if got == 6.0 {
            Ok(())
        } else {
            Err(format!("{got}"))
        }
    });
    suite.steps("a tensor beyond what a kernel can use", |device| async move {
        let most = device.limits().binding_bytes / 4;
        let Ok(count) = usize::try_from(most + 1) else { return Ok(()) };
        if count > i32::MAX as usize {
            return Ok(());
        }
        let a = device.zeros(&[count]).map_err(said)?;
        let error = a.read_range::<f32>(0, 1).await;
        let Err(error) = error else { return Err("it was read".into()) };
        let numbers = error.message().contains(&(4 * count).to_string());
        match error.kind() == Limit && numbers {
            true => Ok(()),
            false => Err(format!("{:?} {error}", error.kind())),
        }
    });
}

fn numbers(suite: &mut Suite) {
    suite.steps("numbers that the type cannot hold", |device| async move {
        let (i, u) = (of(&device, I32, &[2]).map_err(said)?, of(&device, U32, &[2]).map_err(said)?);
        let b = of(&device, Bool, &[2]).map_err(said)?;
        is(i.add(0.5), "add", TYPE)?;
        is(i.mul(3e9), "mul", TYPE)?;
        is(i.sub(f64::NAN), "sub", TYPE)?;
        is(u.add(-1), "add", TYPE)?;
        is(u.maximum(f64::INFINITY), "maximum", TYPE)?;
        is(b.eq(2), "eq", TYPE)?;
        is(b.where_cond(1.0, &i).and_then(|x| x.add(0.5)), "add", TYPE)
    });
}
