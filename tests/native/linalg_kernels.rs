//! Tests the number of kernels of linear algebra, `einsum` and Fourier transforms, with a browser's limits.

use crate::reference;
use warpweft::error::Result;
use warpweft::tensor::{FftNorm, FftOptions, GridSampleOptions, SampleMode, SamplePadding, Tensor};

/// Returns the kinds of the kernels of one batch that computes all results.
fn kinds(
    build: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    shapes: &[&[usize]],
) -> Vec<&'static str> {
    let device = reference::device();
    let inputs: Result<Vec<Tensor>> = shapes
        .iter()
        .map(|shape| device.tensor(&vec![1.0f32; shape.iter().product()], shape))
        .collect();
    let results = build(&inputs.expect("the inputs")).expect("it can be recorded");
    let mut batch = device.batch();
    for result in &results {
        batch.add(result).expect("it lives on this device");
    }
    let plan = batch.plan().expect("it can be planned");
    batch.run().expect("it runs on the reference");
    plan.dispatches.iter().map(|dispatch| dispatch.kernel.kind()).collect()
}

/// Checks the documented bound of kernels: a number for each row, and a number for each doubling of the rows.
#[test]
fn factors_take_kernels_in_proportion_to_rows() {
    type Work = fn(&Tensor) -> Result<Vec<Tensor>>;
    const WORK: &[(&str, f64, usize, Work)] = &[
        ("inv", 2.0, 1, |a| Ok(vec![a.inv()?])),
        ("solve", 2.0, 1, |a| Ok(vec![a.solve(a)?])),
        ("slogdet", 2.0, 1, |a| {
            let (sign, log) = a.slogdet()?;
            Ok(vec![sign, log])
        }),
        ("cholesky", 0.5, 5, |a| Ok(vec![a.cholesky()?])),
        ("qr", 3.5, 10, |a| {
            let (q, r) = a.qr()?;
            Ok(vec![q, r])
        }),
        ("lstsq", 3.5, 10, |a| Ok(vec![a.lstsq(a)?])),
    ];
    for (name, by_row, by_doubling, work) in WORK {
        for rows in [32usize, 65] {
            let most = (by_row * rows as f64) as usize + by_doubling * rows.ilog2() as usize + 24;
            let shape = [rows, rows];
            let count = kinds(|x| work(&x[0]), &[&shape]).len();
            assert!(count <= most, "{name} of {rows}: {count} kernels, more than {most}");
            // The gradient adds a few products, but does not double the number of kernels.
            let gradient = |x: &[Tensor]| {
                let mut sum = x[0].device().zeros(&[])?;
                for result in work(&x[0])? {
                    sum = sum.add(result.square().sum(())?)?;
                }
                sum.grad(&[&x[0]])
            };
            let count = kinds(gradient, &[&shape]).len();
            assert!(count <= most + 40, "gradient of {name} of {rows}: {count} kernels");
        }
    }
}

#[test]
fn a_sum_of_products_is_one_kernel() {
    let einsum = |equation: &'static str, shapes: &[&[usize]]| {
        kinds(|x| Ok(vec![Tensor::einsum(equation, x)?]), shapes)
    };
    assert_eq!(einsum("ij,jk->ik", &[&[40, 50], &[50, 60]]), ["matmul"]);
    assert_eq!(einsum("bhid,bhjd->bhij", &[&[2, 3, 40, 16], &[2, 3, 50, 16]]), ["matmul"]);
    assert_eq!(einsum("ij,ij->i", &[&[40, 50], &[40, 50]]), ["row"]);
    assert_eq!(einsum("ij,ij->ij", &[&[40, 50], &[40, 50]]), ["map"]);
    assert_eq!(einsum("i,j->ij", &[&[40], &[50]]), ["map"]);
    assert_eq!(einsum("ii->i", &[&[40, 40]]), ["map"]);
    // Multiplies the smallest operands first: two products with a vector instead of a product of matrices.
    assert_eq!(einsum("ij,jk,k->i", &[&[40, 50], &[50, 60], &[60]]).len(), 2);
}

/// Tests the operations that PyTorch has as `addmm`, `baddbmm` and `addmv`.
#[test]
fn a_product_and_a_sum_are_one_kernel() {
    let one = |shapes: &[&[usize]]| kinds(|x| Ok(vec![x[1].matmul(&x[2])?.add(&x[0])?]), shapes);
    assert_eq!(one(&[&[60], &[40, 50], &[50, 60]]), ["matmul"]);
    assert_eq!(one(&[&[40, 60], &[40, 50], &[50, 60]]), ["matmul"]);
    assert_eq!(one(&[&[3, 40, 60], &[3, 40, 50], &[3, 50, 60]]), ["matmul"]);
    let scaled = |x: &[Tensor]| Ok(vec![x[1].matmul(&x[2])?.mul(0.5)?.add(x[0].mul(2.0)?)?]);
    assert_eq!(kinds(scaled, &[&[40, 60], &[40, 50], &[50, 60]]), ["matmul"]);
}

#[test]
fn transforms_and_samples_are_few_kernels() {
    let fft = |n: usize| {
        kinds(
            |x| Ok(vec![x[0].fft(FftOptions { norm: FftNorm::Ortho, ..Default::default() })?]),
            &[&[8, n, 2]],
        )
        .len()
    };
    assert_eq!((fft(64), fft(97)), (1, 1));
    assert!(fft(1024) <= 6, "{}", fft(1024));
    assert!(fft(131) <= 20, "{}", fft(131));
    let rfft = kinds(|x| Ok(vec![x[0].rfft(FftOptions::default())?]), &[&[8, 60]]);
    assert_eq!(rfft, ["matmul"]);
    let (mode, padding) = (SampleMode::Bilinear, SamplePadding::Zeros);
    let sampled = kinds(
        |x| {
            Ok(vec![x[0].grid_sample(
                &x[1],
                GridSampleOptions { mode, padding_mode: padding, ..Default::default() },
            )?])
        },
        &[&[2, 3, 20, 30], &[2, 10, 12, 2]],
    );
    assert_eq!(sampled, ["map"]);
}
