//! What a program is printed as. `UPDATE_EXPECT=1` writes it anew.

use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Axes, Conv2dOptions, PadMode, Padding, PoolOptions, Scan, Tensor};

pub fn pasted(device: &Device) -> Result<Vec<Tensor>> {
    let a0 = device.tensor::<f32>(&[1.0, -2.0, 3.0, 0.0, 5.0, -1.0], &[2, 3])?;
    let a1 = a0.minimum(9.0)?.maximum(-9.0)?;
    let a2 = a0.mul(0.25)?.tanh().mul(4.0)?;
    let a3 = a0.relu();
    let a4 = a0.abs();
    let a5 = a0.neg();
    let a6 = a0.square();
    let a7 = a0.tanh();
    let a8 = a0.sigmoid();
    let a9 = a0.exp();
    let a10 = a0.square().add(1.0)?.sqrt();
    let a11 = a0.square().add(1.0)?.log();
    let a12 = a0.cast(DType::I32)?.add(1)?.cast(DType::F32)?;
    let a13 = a0.abs().cast(DType::U32)?.cast(DType::F32)?;
    let a14 = a0.cast(DType::Bool)?.cast(DType::F32)?;
    let a15 = a0.add(&a0)?;
    let a16 = a0.sub(&a0)?;
    let a17 = a0.mul(&a0)?;
    let a18 = a0.maximum(&a0)?;
    let a19 = a0.minimum(&a0)?;
    let a20 = a0.div(&a0.square().add(1.0)?)?;
    let a21 = a0.lt(&a0)?.cast(DType::F32)?;
    let a22 = a0.ge(0.0)?.where_cond(&a0, &a0)?;
    let a23 = device.tensor::<f32>(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &[1, 2, 2, 2])?;
    let a24 = device.tensor::<f32>(&[1.0, 2.0, -1.0, 0.5], &[2, 1, 1, 2])?;
    let a25 = {
        let padding = Padding::Explicit([(1, 0), (0, 1)]);
        let (stride, dilation) = ([1, 2], [1, 1]);
        a23.conv2d(&a24, None, Conv2dOptions { stride, padding, dilation, groups: 2 })?
    };
    let a26 = {
        let (stride, padding) = ([1, 2], Padding::Explicit([(1, 0), (0, 1)]));
        a23.max_pool(PoolOptions { stride, padding, ..PoolOptions::new([2, 2]) })?
    };
    let a27 = {
        let (stride, padding) = ([1, 2], Padding::Explicit([(1, 0), (0, 1)]));
        a23.avg_pool(PoolOptions { stride, padding, ..PoolOptions::new([2, 2]) })?
    };
    let a28 = a0.transpose(-1, -2)?.matmul(&a0)?;
    let a29 = a0.matmul(&a0.transpose(-1, -2)?)?;
    let a30 = a0.sum(Axes::from(&[1]).keepdim(true))?;
    let a31 = a0.sum(&[1])?;
    let a32 = a0.mean(Axes::from(&[1]).keepdim(true))?;
    let a33 = a0.mean(&[1])?;
    let a34 = a0.max(Axes::from(&[1]).keepdim(true))?;
    let a35 = a0.max(&[1])?;
    let a36 = a0.min(Axes::from(&[1]).keepdim(true))?;
    let a37 = a0.min(&[1])?;
    let a38 = a0.argmax(1)?.cast(DType::F32)?;
    let a39 = a0.add(2.0)?;
    let a40 = a0.mul(0.5)?;
    let a41 = a0.gt(1.0)?.cast(DType::F32)?;
    let a42 = a0.reshape(&[3, 2])?;
    let a43 = a0.permute(&[1, 0])?;
    let a44 = a0.expand(&[2, 2, 3])?;
    let a45 = a0.slice_step(1, 0..3, 2)?;
    let a46 = a0.flip(&[0])?;
    let a47 = a0.pad(&[(0, 1), (2, 0)], 2.0)?;
    let a48 = a0.pad_with(&[(0, 1), (2, 0)], PadMode::Reflect)?;
    let a49 = a0.softmax(1)?;
    let i50 = device.tensor::<i32>(&[0, -1, 1], &[3])?;
    let a50 = a0.index_select(0, &i50)?;
    let i51 = device.tensor::<i32>(&[0, -1, 1, 0], &[2, 2])?;
    let a51 = a0.gather(1, &i51)?;
    let a52 = a0.cumsum(Scan::from(1).exclusive(false).reverse(true))?;
    let a53 = a0.sort(1, true)?.0;
    let a54 = a0.argsort(1, false)?.cast(DType::F32)?;
    let a55 = a0.topk(2, 1, true)?.0;
    let a56 = device.iota(&[2, 3], 1)?.lt(1)?.where_cond(&a0, &a0)?;
    let a57 = Tensor::concat(&[&a0, &a0], 1)?;
    let i58 = device.tensor::<i32>(&[0, -1], &[2])?;
    let a58 = a0.index_add(0, &i58, &a0)?;
    let i59 = device.tensor::<i32>(&[0, -1, 1, 0, -1, 1], &[2, 3])?;
    let a59 = a0.scatter_add(0, &i59, &a0)?;
    Ok(vec![a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16,
        a17, a18, a19, a20, a21, a22, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34,
        a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50,
        a51, a52, a53, a54, a55, a56, a57, a58, a59])
}
