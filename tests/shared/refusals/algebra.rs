//! Rejected calls of linear algebra, transforms, sampling and statistics.

use super::{of, t, Refusal, TYPE};
use warpweft::dtype::DType::{Bool, I32};
use warpweft::error::ErrorKind::{InvalidArgument, Limit, Shape};
use warpweft::tensor::{
    FftNorm, FftOptions, GridSampleOptions, MatrixNorm, SampleMode, SamplePadding, Tensor,
};

const BACK: FftNorm = FftNorm::Backward;
const NEAR: SampleMode = SampleMode::Nearest;
const ZEROS: SamplePadding = SamplePadding::Zeros;

pub const ALGEBRA: &[Refusal] = &[
    ("inv", Shape, |d| t(d, &[2, 3])?.inv()),
    ("inv", Shape, |d| t(d, &[4])?.inv()),
    ("inv", TYPE, |d| of(d, I32, &[2, 2])?.inv()),
    ("inv", Limit, |d| d.zeros(&[1025, 1025])?.inv()),
    ("det", Shape, |d| t(d, &[3, 2, 3])?.det()),
    ("slogdet", Shape, |d| Ok(t(d, &[3, 2, 3])?.slogdet()?.0)),
    ("cholesky", Shape, |d| t(d, &[2, 3])?.cholesky()),
    ("qr", Shape, |d| Ok(t(d, &[4])?.qr()?.0)),
    ("qr", TYPE, |d| Ok(of(d, Bool, &[2, 2])?.qr()?.0)),
    ("solve", Shape, |d| t(d, &[2, 3])?.solve(&t(d, &[2])?)),
    ("solve", Shape, |d| t(d, &[2, 2])?.solve(&t(d, &[3])?)),
    ("solve", Shape, |d| t(d, &[4, 2, 2])?.solve(&t(d, &[3, 2, 1])?)),
    ("solve", Shape, |d| t(d, &[2, 2])?.solve(&t(d, &[])?)),
    ("solve", TYPE, |d| t(d, &[2, 2])?.solve(&of(d, I32, &[2])?)),
    ("solve_triangular", Shape, |d| t(d, &[2, 2])?.solve_triangular(&t(d, &[3])?, true)),
    ("lstsq", Shape, |d| t(d, &[3, 2])?.lstsq(&t(d, &[2])?)),
    ("matrix_norm", Shape, |d| t(d, &[3])?.matrix_norm(MatrixNorm::One)),
    ("matrix_norm", Shape, |d| d.zeros(&[3, 0])?.matrix_norm(MatrixNorm::Nuclear)),
    ("matrix_norm", Limit, |d| d.zeros(&[129, 130])?.matrix_norm(MatrixNorm::Two)),
    ("matrix_norm", TYPE, |d| of(d, I32, &[2, 2])?.matrix_norm(MatrixNorm::Inf)),
    ("fft", Shape, |d| t(d, &[4, 3])?.fft(FftOptions::default())),
    ("fft", Shape, |d| t(d, &[2])?.fft(FftOptions::default())),
    ("fft", Shape, |d| t(d, &[4, 2])?.fft(FftOptions { axis: 1, ..Default::default() })),
    ("fft", Shape, |d| {
        t(d, &[4, 2])?.fft(FftOptions { n: Some(0), axis: 0, ..Default::default() })
    }),
    ("fft", Limit, |d| {
        t(d, &[4, 2])?.fft(FftOptions { n: Some(1 << 23), axis: 0, ..Default::default() })
    }),
    ("ifft", TYPE, |d| of(d, I32, &[4, 2])?.ifft(FftOptions::default())),
    ("rfft", Shape, |d| t(d, &[])?.rfft(FftOptions::default())),
    ("rfft", Shape, |d| t(d, &[1; 8])?.rfft(FftOptions::default())),
    ("irfft", Shape, |d| t(d, &[1, 2])?.irfft(FftOptions::default())),
    ("fft2", Shape, |d| t(d, &[3, 2])?.fft2(BACK)),
    ("complex_mul", Shape, |d| t(d, &[3])?.complex_mul(&t(d, &[2])?)),
    ("grid_sample", Shape, |d| {
        t(d, &[1, 1, 2])?.grid_sample(
            &t(d, &[1, 2, 1])?,
            GridSampleOptions { mode: NEAR, padding_mode: ZEROS, align_corners: true },
        )
    }),
    ("grid_sample", Shape, |d| {
        t(d, &[1, 1, 2, 2])?.grid_sample(
            &t(d, &[1, 2, 2, 3])?,
            GridSampleOptions { mode: NEAR, padding_mode: ZEROS, align_corners: true },
        )
    }),
    ("grid_sample", Shape, |d| {
        t(d, &[1, 1, 2, 2])?.grid_sample(
            &t(d, &[2, 2, 2, 2])?,
            GridSampleOptions { mode: NEAR, padding_mode: ZEROS, align_corners: true },
        )
    }),
    ("grid_sample", TYPE, |d| {
        t(d, &[1, 1, 2, 2])?.grid_sample(
            &of(d, I32, &[1, 2, 2, 2])?,
            GridSampleOptions { mode: NEAR, padding_mode: ZEROS, align_corners: true },
        )
    }),
    ("adaptive_max_pool", Shape, |d| t(d, &[4])?.adaptive_max_pool(&[0])),
    ("adaptive_max_pool", Shape, |d| t(d, &[4])?.adaptive_max_pool(&[2, 2])),
    ("adaptive_max_pool", TYPE, |d| of(d, Bool, &[4])?.adaptive_max_pool(&[2])),
    ("adaptive_max_pool_indices", Shape, |d| t(d, &[4])?.adaptive_max_pool_indices(&[0])),
    ("adaptive_max_pool_indices", TYPE, |d| of(d, Bool, &[4])?.adaptive_max_pool_indices(&[2])),
    ("grid_sample", Shape, |d| {
        let (x, grid) = (t(d, &[1, 1, 2, 2, 2])?, t(d, &[1, 1, 1, 1, 3])?);
        x.grid_sample(
            &grid,
            GridSampleOptions {
                mode: SampleMode::Bicubic,
                padding_mode: ZEROS,
                align_corners: true,
            },
        )
    }),
    ("diagonal", Shape, |d| t(d, &[2, 2])?.diagonal(0, 1, -1)),
    ("trace", Shape, |d| t(d, &[2])?.trace()),
    ("tensordot", Shape, |d| t(d, &[2, 3])?.tensordot(&t(d, &[2])?, &[1], &[0])),
    ("cov", Shape, |d| t(d, &[2, 2, 2])?.cov(1.0)),
    ("quantile", InvalidArgument, |d| t(d, &[2])?.quantile(1.5, 0)),
    ("quantile", Shape, |d| t(d, &[0])?.quantile(0.5, 0)),
    ("bincount", TYPE, |d| t(d, &[2])?.bincount(3)),
    ("bincount", Limit, |d| of(d, I32, &[4])?.bincount(1 << 30)),
    ("histc", InvalidArgument, |d| t(d, &[2])?.histc(3, 1.0, 1.0)),
    ("histc", InvalidArgument, |d| t(d, &[2])?.histc(0, 0.0, 1.0)),
    ("searchsorted", Shape, |d| t(d, &[2, 3])?.searchsorted(&t(d, &[3])?, false)),
    ("searchsorted", TYPE, |d| t(d, &[0])?.searchsorted(&of(d, I32, &[3])?, false)),
    ("searchsorted", TYPE, |d| of(d, Bool, &[2])?.searchsorted(&of(d, Bool, &[3])?, false)),
    ("bucketize", Shape, |d| t(d, &[2, 3])?.bucketize(&t(d, &[2, 3])?, false)),
    ("bucketize", TYPE, |d| t(d, &[2])?.bucketize(&of(d, I32, &[3])?, false)),
    ("pixel_shuffle", Shape, |d| t(d, &[4, 4])?.pixel_shuffle(2)),
    ("pixel_shuffle", Shape, |d| t(d, &[6, 1, 1])?.pixel_shuffle(2)),
    ("pixel_shuffle", Shape, |d| t(d, &[6, 1, 1])?.pixel_shuffle(0)),
    ("pixel_shuffle", Shape, |d| t(d, &[6, 1, 1])?.pixel_shuffle(usize::MAX)),
    ("pixel_unshuffle", Shape, |d| t(d, &[4, 4])?.pixel_unshuffle(2)),
    ("pixel_unshuffle", Shape, |d| t(d, &[1, 4, 3])?.pixel_unshuffle(2)),
    ("pixel_unshuffle", Shape, |d| t(d, &[1, 3, 4])?.pixel_unshuffle(2)),
    ("pixel_unshuffle", Shape, |d| t(d, &[1, 4, 4])?.pixel_unshuffle(0)),
    ("searchsorted", TYPE, |d| t(d, &[3])?.searchsorted(&of(d, I32, &[3])?, false)),
    ("cdist", Shape, |d| t(d, &[2, 3])?.cdist(&t(d, &[2, 4])?, 2.0)),
    ("cdist", InvalidArgument, |d| t(d, &[2, 3])?.cdist(&t(d, &[2, 3])?, f64::NAN)),
    ("is_close", TYPE, |d| of(d, I32, &[2])?.is_close(1, 0.0, 0.0)),
    ("nan_to_num", TYPE, |d| of(d, I32, &[2])?.nan_to_num(0.0, 1.0, -1.0)),
    ("logaddexp", TYPE, |d| of(d, I32, &[2])?.logaddexp(1)),
    ("logcumsumexp", Shape, |d| t(d, &[2])?.logcumsumexp(1)),
    ("movedim", Shape, |d| t(d, &[2, 3])?.movedim(&[0], &[])),
    ("movedim", Shape, |d| t(d, &[2, 3])?.movedim(&[0, -2], &[0, 1])),
    ("unbind", Shape, |d| Ok(t(d, &[])?.unbind(0)?.remove(0))),
    ("narrow", Shape, |d| t(d, &[4])?.narrow(0, 2, 3)),
    ("narrow", Shape, |d| t(d, &[4])?.narrow(0, -5, 1)),
    ("narrow", Shape, |d| t(d, &[4])?.narrow(0, isize::MIN, usize::MAX)),
    ("repeat_interleave", Limit, |d| t(d, &[4])?.repeat_interleave(1 << 30, 0)),
    ("meshgrid", Shape, |d| Ok(Tensor::meshgrid(&[t(d, &[2, 2])?])?.remove(0))),
    ("diff", Shape, |d| t(d, &[2])?.diff(3, 0)),
    ("trapezoid", Shape, |d| t(d, &[0])?.trapezoid(1.0, 0)),
    ("cross", Shape, |d| t(d, &[4])?.cross(&t(d, &[4])?, -1)),
    ("kron", Shape, |d| t(d, &[1; 5])?.kron(&t(d, &[1])?)),
    ("vjp_all", InvalidArgument, |d| Ok(Tensor::vjp_all(&[], &[], &[&t(d, &[1])?])?.remove(0))),
    ("vjp_all", Shape, |d| {
        let x = t(d, &[2])?;
        Ok(Tensor::vjp_all(&[&x], &[&t(d, &[3])?], &[&x])?.remove(0))
    }),
];
