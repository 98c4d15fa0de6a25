//! Shows the plan of some operations: the planned kernels, and the WGSL of one.
//! `cargo run -p warpweft-native --example show_plan`

use warpweft_native::prelude::*;

fn main() -> Result<()> {
    // Shows the plan of a GPU, or a software GPU. The CPU runs the same plans, but without WGSL.
    let device = Device::with_blocking(Preference::Gpu)
        .or_else(|_| Device::with_blocking(Preference::Software))
        .or_else(|_| Device::with_blocking(Preference::Cpu))?;
    println!("on {}", device.info().backend);

    let x = device.uniform(&[128, 64], -1.0, 1.0, 1)?;
    let w = device.uniform(&[64, 32], -1.0, 1.0, 2)?;
    device.submit()?;
    let layer = x.matmul(&w)?.add(0.5)?.gelu();
    let scores = layer.softmax(-1)?;

    // A batch returns its plan before it runs.
    let mut batch = device.batch();
    batch.add(&layer)?.add(&scores)?;
    let plan = batch.plan()?;
    println!("{} operations are {} kernels:\n{plan}", plan.operations, plan.dispatches.len());
    println!("{} bytes of temporaries", plan.temporaries.iter().sum::<u64>());

    // The source of the last kernel: the whole softmax.
    let last = plan.dispatches.len() - 1;
    match device.kernel_source(&plan, last) {
        Some(wgsl) => println!("\n{wgsl}"),
        None => println!("\nthe CPU needs no text"),
    }
    batch.run()?;
    let sum = scores.sum(&[])?.item_blocking::<f32>()?;
    println!("the scores of 128 rows add up to {sum:.3}");
    Ok(())
}
