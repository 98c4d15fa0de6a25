//! The first tensors: data in, a few operations, numbers out. `cargo run -p warpweft-native --example first_tensors`

use warpweft_native::prelude::*;

fn main() -> Result<()> {
    // A GPU, or else the CPU; WARPWEFT_DEVICE=cpu chooses.
    let device = Device::new_blocking()?;
    println!("on {} ({})", device.info().name, device.info().backend);
    if let Some(why) = device.fallback() {
        println!("{why}");
    }

    // Data and a shape, row by row.
    let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let w = device.tensor(&[1.0f32, 0.0, -1.0, 2.0, 0.5, 0.5], &[3, 2])?;

    // Nothing runs here: operations are recorded, and shapes are checked.
    let product = x.matmul(&w)?;
    let shifted = product.add(1)?;
    // Shapes broadcast as in NumPy: [2, 2] divided by [2, 1].
    let shares = shifted.div(&shifted.sum(Axes::from(1).keepdim(true))?)?;
    println!("{product:?} has {} axes", product.shape().len());

    // Reading runs all that is needed, as one batch; `read_blocking` of one tensor, or of several at once.
    let product: Vec<f32> = product.read_blocking()?;
    println!("x times w: {product:?}");
    let all = device.read_blocking::<f32>(&[&shares, &shares.argmax(1)?.cast(DType::F32)?])?;
    println!("shares of each row: {:?}", all[0]);
    println!("the largest of each row is at {:?}", all[1]);

    // What does not fit is an error that names the operation and both shapes.
    if let Err(error) = x.matmul(&x) {
        println!("{error}");
    }
    Ok(())
}
