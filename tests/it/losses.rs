//! How many kernels losses are, with browsers' limits. Their values are cases: `tests/cases/losses.rs`.

use crate::reference;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::nn::{CrossEntropyOptions, LossReduction};
use warpweft::tensor::Tensor;

/// The kinds of the kernels of a loss and its gradient, in one batch.
fn kinds(loss: impl FnOnce(&Tensor, &Device) -> Result<Tensor>) -> Vec<&'static str> {
    let device = reference::device();
    let work = || -> Result<Vec<&'static str>> {
        let x = device.tensor(&vec![1.0f32; 64 * 1000], &[64, 1000])?;
        let loss = loss(&x, &device)?;
        let gradient = loss.grad(&[&x])?.remove(0);
        let mut batch = device.batch();
        batch.add(&loss)?;
        batch.add(&gradient)?;
        Ok(batch.plan()?.dispatches.iter().map(|d| d.kernel.kind()).collect())
    };
    work().expect("it can be planned")
}

#[test]
fn a_cross_entropy_and_its_gradient_are_few_kernels() {
    let plain = kinds(|x, d| {
        let target = d.tensor(&[7i32; 64], &[64])?;
        x.cross_entropy(&target, None, CrossEntropyOptions::default())
    });
    println!("plain: {plain:?}");
    let all = kinds(|x, d| {
        let target = d.tensor(&[7i32; 64], &[64])?;
        let weight = d.tensor(&[0.5f32; 1000], &[1000])?;
        let options =
            CrossEntropyOptions { label_smoothing: 0.1, ignore_index: 3, ..Default::default() };
        x.cross_entropy(&target, Some(&weight), options)
    });
    println!("all: {all:?}");
    let soft = kinds(|x, d| {
        let target = d.tensor(&vec![1e-3f32; 64 * 1000], &[64, 1000])?;
        x.cross_entropy(&target, None, CrossEntropyOptions::default())
    });
    println!("soft: {soft:?}");
    let mse = kinds(|x, _| x.mse_loss(&x.detach(), LossReduction::Mean));
    println!("mse: {mse:?}");
    panic!("look");
}
