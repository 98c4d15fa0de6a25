//! The first tensors: uploads data, runs a few operations and reads the results.
//! `cargo run -p warpweft-native --example first_tensors`

use warpweft_native::prelude::*;

fn main() -> Result<()> {
    // A GPU, otherwise the CPU. WARPWEFT_DEVICE=cpu chooses the CPU.
    let device = Device::new_blocking()?;
    println!("on {} ({})", device.info().name, device.info().backend);
    if let Some(why) = device.fallback() {
        println!("{why}");
    }

    // Data and a shape, in row-major order.
    let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let w = device.tensor(&[1.0f32, 0.0, -1.0, 2.0, 0.5, 0.5], &[3, 2])?;

    // Nothing runs here. Operations are recorded, and shapes are checked.
    let product = x.matmul(&w)?;
    let shifted = product.add(1)?;
    // Shapes broadcast as in NumPy: [2, 2] divided by [2, 1].
    let shares = shifted.div(&shifted.sum(Axes::from(1).keepdim(true))?)?;
    println!("{product:?} has {} axes", product.shape().len());

    // A read runs everything that it needs as one batch. `read_blocking` reads one tensor or several at once.
    let product: Vec<f32> = product.read_blocking()?;
    println!("x times w: {product:?}");
    let all = device.read_blocking::<f32>(&[&shares, &shares.argmax(1)?.cast(DType::F32)?])?;
    println!("shares of each row: {:?}", all[0]);
    println!("the largest of each row is at {:?}", all[1]);

    // Shapes that do not fit give an error that names the operation and both shapes.
    if let Err(error) = x.matmul(&x) {
        println!("{error}");
    }
    Ok(())
}
