//! Tests the number of kernels of losses, with a browser's limits. `tests/shared/losses.rs` tests their values.

use crate::reference;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::nn::{CrossEntropyOptions, LossReduction};
use warpweft::tensor::Tensor;

/// Returns the number of kernels of a loss of [64, 1000] and its gradient, in one batch.
fn kernels(loss: impl FnOnce(&Tensor, &Device) -> Result<Tensor>) -> usize {
    let device = reference::device();
    let work = || -> Result<usize> {
        let x = device.tensor(&vec![1.0f32; 64 * 1000], &[64, 1000])?;
        let loss = loss(&x, &device)?;
        let gradient = loss.grad(&[&x])?.remove(0);
        let mut batch = device.batch();
        batch.add(&loss)?;
        batch.add(&gradient)?;
        Ok(batch.plan()?.dispatches.len())
    };
    work().expect("it can be planned")
}

/// Four kernels: distances, exponentials and their sum, which the loss and the gradient share, and the gradient.
#[test]
fn a_cross_entropy_and_its_gradient_are_few_kernels() {
    let plain = kernels(|x, d| {
        let target = d.tensor(&[7i32; 64], &[64])?;
        x.cross_entropy(&target, CrossEntropyOptions::default())
    });
    assert!(plain <= 7, "{plain}");
    let all = kernels(|x, d| {
        let target = d.tensor(&[7i32; 64], &[64])?;
        let weight = d.tensor(&[0.5f32; 1000], &[1000])?;
        let options =
            CrossEntropyOptions { label_smoothing: 0.1, ignore_index: 3, ..Default::default() };
        x.cross_entropy(&target, CrossEntropyOptions { weight: Some(&weight), ..options })
    });
    assert!(all <= 9, "{all}");
    let probabilities = kernels(|x, d| {
        let target = d.tensor(&vec![1e-3f32; 64 * 1000], &[64, 1000])?;
        x.cross_entropy(&target, CrossEntropyOptions::default())
    });
    assert!(probabilities <= 5, "{probabilities}");
}

#[test]
fn a_squared_error_and_its_gradient_are_two_kernels() {
    let squares = kernels(|x, d| {
        let target = d.tensor(&vec![0.5f32; 64 * 1000], &[64, 1000])?;
        x.mse_loss(&target, LossReduction::Mean)
    });
    assert_eq!(squares, 2);
}
