//! Rejected calls that the other lists do not contain, so that each documented kind of error of an operation is tested.

use super::{of, t, Refusal, TYPE};
use warpweft::device::Device;
use warpweft::dtype::DType::{Bool, I32, U8};
use warpweft::error::ErrorKind::{InvalidArgument, Limit, Shape};
use warpweft::error::Result;
use warpweft::op::PackedFormat;
use warpweft::tensor::{
    FftNorm, FftOptions, MatrixNorm, NormOptions, PackedTensor, PadMode, Padding, PoolOptions,
    Reduction, Tensor, Variable,
};

const BACK: FftNorm = FftNorm::Backward;

/// More than half of the largest size, so that twice as much overflows.
const HALF: usize = usize::MAX / 2 + 1;

/// Creates a packed matrix of two columns, and selects rows of it.
fn rows(device: &Device, index: &Tensor) -> Result<Tensor> {
    let words = [0x4000_3F80, 0x4080_4040];
    PackedTensor::new(device, PackedFormat::BF16, [2, 2], &words)?.rows(index)
}

/// Creates a packed matrix of one row without words.
fn packed(device: &Device, format: PackedFormat, columns: usize) -> Result<Tensor> {
    PackedTensor::new(device, format, [1, columns], &[])?.dequantize()
}

/// Returns the first of several results.
fn first(results: Result<Vec<Tensor>>) -> Result<Tensor> {
    Ok(results?.remove(0))
}

pub const MADE: &[Refusal] = &[
    ("tensor", Shape, |d| d.tensor_from_bytes(&[0; 8], &[3], I32)),
    ("arange", InvalidArgument, |d| d.arange(f64::NAN)),
    ("arange", InvalidArgument, |d| d.arange_step(0.0, 1.0, 0.0)),
    ("linspace", Shape, |d| d.linspace(0.0, 1.0, &[2usize, 2][..])),
    ("eye", Shape, |d| d.eye(&[2usize, 2, 2][..])),
    ("ones", Shape, |d| d.ones(&[1usize; 9][..])),
    ("uniform", Shape, |d| d.uniform(&[1usize; 9][..], 0.0, 1.0, 0)),
    ("bernoulli", Shape, |d| d.bernoulli(&[1usize; 9][..], 0.5, 0)),
    ("full_like", TYPE, |d| of(d, I32, &[2])?.full_like(0.5)),
    ("bitcast", TYPE, |d| of(d, Bool, &[2])?.bitcast(I32)),
    ("bitcast", TYPE, |d| t(d, &[2])?.bitcast(U8)),
];

pub const ARRANGED: &[Refusal] = &[
    ("repeat_interleave", Shape, |d| t(d, &[2])?.repeat_interleave(2, 1)),
    ("unbind", Shape, |d| first(t(d, &[2])?.unbind(1))),
    ("meshgrid", Shape, |d| first(Tensor::meshgrid(&[t(d, &[2, 2])?]))),
    ("diff", TYPE, |d| of(d, Bool, &[2])?.diff(1, 0)),
    ("trapezoid", TYPE, |d| of(d, I32, &[2])?.trapezoid(1.0, 0)),
    ("cross", TYPE, |d| t(d, &[3])?.cross(&of(d, I32, &[3])?, 0)),
    ("kron", TYPE, |d| t(d, &[3])?.kron(&of(d, I32, &[3])?)),
    ("glu", TYPE, |d| of(d, I32, &[2])?.glu(0)),
    ("prelu", TYPE, |d| of(d, I32, &[2])?.prelu(&t(d, &[1])?)),
    ("cosine_similarity", TYPE, |d| of(d, I32, &[3])?.cosine_similarity(&t(d, &[3])?, 0, 1e-8)),
    ("slice", Shape, |d| t(d, &[4])?.slice_step(0, .., 0)),
    ("slice", Shape, |d| t(d, &[4])?.slice_step(1, .., 1)),
    ("slice_scatter", Shape, |d| t(d, &[4])?.slice_scatter(0, 3, &t(d, &[2])?)),
    ("slice_scatter", Shape, |d| t(d, &[4])?.slice_scatter(0, 0, &t(d, &[2, 2])?)),
    ("slice_scatter", TYPE, |d| t(d, &[4])?.slice_scatter(0, 0, &of(d, I32, &[2])?)),
    ("norm", Shape, |d| t(d, &[4])?.norm(3.0, 1)),
    ("sum", Shape, |d| t(d, &[4])?.reduce(Reduction::Sum, 1)),
    ("any", TYPE, |d| t(d, &[4])?.reduce(Reduction::Any, 0)),
    ("median", Shape, |d| t(d, &[4])?.median(1)),
    ("median", TYPE, |d| of(d, I32, &[4])?.median(0)),
    ("max_pool_indices", TYPE, |d| {
        of(d, Bool, &[1, 1, 4])?.max_pool_indices(PoolOptions::new([2]))
    }),
    ("rows", TYPE, |d| rows(d, &t(d, &[1])?)),
    ("rows", TYPE, |d| rows(d, &of(d, U8, &[1])?)),
    // Numbers whose sums and products overflow.
    ("PackedTensor", Limit, |d| packed(d, PackedFormat::F32, usize::MAX)),
    ("PackedTensor", Limit, |d| packed(d, PackedFormat::Q6_K, usize::MAX - 255)),
    ("group_norm", Limit, |d| d.zeros(&[3, 0])?.group_norm(HALF, Default::default())),
    ("pad_with", Limit, |d| d.zeros(&[1 << 30])?.pad_with(&[(1, 0)], PadMode::Symmetric)),
    ("max_pool", Limit, |d| {
        let options = PoolOptions {
            stride: [HALF],
            dilation: [HALF],
            padding: Padding::Explicit([(usize::MAX - 100, 0)]),
            ceil_mode: true,
            ..PoolOptions::new([2])
        };
        t(d, &[1, 1, 4])?.max_pool(options)
    }),
    ("avg_pool", Limit, |d| {
        let options = PoolOptions {
            padding: Padding::Explicit([(HALF, HALF)]),
            ceil_mode: true,
            ..PoolOptions::new([2])
        };
        t(d, &[1, 1, 4])?.avg_pool(options)
    }),
];

pub const STATISTICS: &[Refusal] = &[
    ("group_norm", TYPE, |d| {
        of(d, I32, &[2, 4])?.group_norm(2, NormOptions { eps: 0.1, ..Default::default() })
    }),
    ("cov", TYPE, |d| of(d, I32, &[2, 2])?.cov(1.0)),
    ("quantile", TYPE, |d| of(d, I32, &[2])?.quantile(0.5, 0)),
    ("histc", TYPE, |d| of(d, I32, &[2])?.histc(2, 0.0, 1.0)),
    ("cdist", TYPE, |d| of(d, I32, &[2, 2])?.cdist(&of(d, I32, &[2, 2])?, 2.0)),
    ("is_close", Shape, |d| t(d, &[2])?.is_close(&t(d, &[3])?, 0.0, 0.0)),
    ("all_close", Shape, |d| t(d, &[2])?.all_close(&t(d, &[3])?, 0.0, 0.0)),
    ("all_close", TYPE, |d| t(d, &[2])?.all_close(&of(d, I32, &[2])?, 0.0, 0.0)),
    ("logcumsumexp", Shape, |d| t(d, &[2])?.logcumsumexp(1)),
    ("logcumsumexp", TYPE, |d| of(d, I32, &[2])?.logcumsumexp(0)),
    ("logaddexp", Shape, |d| t(d, &[2])?.logaddexp(&t(d, &[3])?)),
];

pub const LINEAR: &[Refusal] = &[
    ("einsum", Shape, |d| Tensor::einsum("ij,jk->ik", &[t(d, &[2, 3])?, t(d, &[4, 5])?])),
    ("einsum", Shape, |d| Tensor::einsum("i", &[t(d, &[2, 3])?])),
    ("einsum", Shape, |d| Tensor::einsum("i1", &[t(d, &[2, 3])?])),
    ("einsum", TYPE, |d| Tensor::einsum("i,i", &[t(d, &[2])?, of(d, I32, &[2])?])),
    ("tensordot", TYPE, |d| t(d, &[2])?.tensordot(&of(d, I32, &[2])?, &[0], &[0])),
    ("fft", TYPE, |d| of(d, I32, &[4, 2])?.fft(FftOptions { axis: 0, ..Default::default() })),
    ("ifft", Shape, |d| t(d, &[4, 3])?.ifft(FftOptions { axis: 0, ..Default::default() })),
    ("ifft", TYPE, |d| of(d, I32, &[4, 2])?.ifft(FftOptions { axis: 0, ..Default::default() })),
    ("rfft", TYPE, |d| of(d, I32, &[4])?.rfft(FftOptions { axis: 0, ..Default::default() })),
    ("irfft", TYPE, |d| of(d, I32, &[4, 2])?.irfft(FftOptions { axis: 0, ..Default::default() })),
    ("irfft", Shape, |d| t(d, &[4, 3])?.irfft(FftOptions { axis: 0, ..Default::default() })),
    ("fft2", Shape, |d| t(d, &[4, 3])?.fft2(BACK)),
    ("fft2", TYPE, |d| of(d, I32, &[4, 4, 2])?.fft2(BACK)),
    ("ifft2", Shape, |d| t(d, &[4, 3])?.ifft2(BACK)),
    ("ifft2", TYPE, |d| of(d, I32, &[4, 4, 2])?.ifft2(BACK)),
    ("complex_mul", TYPE, |d| t(d, &[2])?.complex_mul(&of(d, I32, &[2])?)),
    ("cholesky", TYPE, |d| of(d, I32, &[2, 2])?.cholesky()),
    ("det", TYPE, |d| of(d, I32, &[2, 2])?.det()),
    ("slogdet", TYPE, |d| Ok(of(d, I32, &[2, 2])?.slogdet()?.0)),
    ("lstsq", TYPE, |d| t(d, &[2, 2])?.lstsq(&of(d, I32, &[2])?)),
    ("solve_triangular", TYPE, |d| t(d, &[2, 2])?.solve_triangular(&of(d, I32, &[2])?, true)),
    ("matrix_norm", TYPE, |d| of(d, I32, &[2, 2])?.matrix_norm(MatrixNorm::One)),
    ("matrix_norm", Limit, |d| d.zeros(&[1025, 1025])?.matrix_norm(MatrixNorm::Nuclear)),
];

pub const STATE: &[Refusal] = &[
    ("vjp_all", InvalidArgument, |d| first(Tensor::vjp_all(&[&t(d, &[2])?], &[], &[]))),
    ("assign", Shape, |d| {
        let variable = Variable::new(&t(d, &[2])?);
        variable.assign(&t(d, &[3])?).map(|()| variable.value())
    }),
    ("assign", TYPE, |d| {
        let variable = Variable::new(&t(d, &[2])?);
        variable.assign(&of(d, I32, &[2])?).map(|()| variable.value())
    }),
    ("assign_slice", Shape, |d| {
        let variable = Variable::new(&t(d, &[2])?);
        variable.assign_slice(0, 1, &t(d, &[2])?).map(|()| variable.value())
    }),
    ("assign_slice", TYPE, |d| {
        let variable = Variable::new(&t(d, &[2])?);
        variable.assign_slice(0, 0, &of(d, I32, &[1])?).map(|()| variable.value())
    }),
    ("flatten", InvalidArgument, |_| Variable::flatten(&[]).map(|flat| flat.value())),
    ("flatten", TYPE, |d| {
        let parts = [Variable::new(&t(d, &[2])?), Variable::new(&of(d, I32, &[2])?)];
        Variable::flatten(&parts).map(|flat| flat.value())
    }),
    ("flatten", InvalidArgument, |d| {
        let part = Variable::new(&t(d, &[2])?);
        Variable::flatten(&[part.clone(), part]).map(|flat| flat.value())
    }),
    ("backward", Shape, |d| {
        let variable = Variable::new(&t(d, &[2])?);
        let loss = variable.value();
        loss.backward(&[&variable]).map(|()| loss)
    }),
    ("program", InvalidArgument, |d| {
        let program = d.compile(&[(&[2usize][..], I32)], |x| Ok(x.to_vec()))?;
        first(program.run(&[]))
    }),
    ("program", Shape, |d| {
        let program = d.compile(&[(&[2usize][..], I32)], |x| Ok(x.to_vec()))?;
        first(program.run(&[&of(d, I32, &[3])?]))
    }),
    ("program", TYPE, |d| {
        let program = d.compile(&[(&[2usize][..], I32)], |x| Ok(x.to_vec()))?;
        first(program.run(&[&t(d, &[2])?]))
    }),
];
