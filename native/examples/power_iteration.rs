//! The largest eigenvalue of a matrix by power iteration: a loop that waits only at its end.
//! `cargo run -p warpweft-native --example power_iteration`

use warpweft_native::prelude::*;

const SIZE: usize = 64;

/// Returns a matrix with 2 on the diagonal and -1 next to it. Its largest eigenvalue is 2 - 2 cos(pi n / (n + 1)).
fn matrix(device: &Device) -> Result<Tensor> {
    let (row, column) = (device.iota(&[SIZE, SIZE], 0)?, device.iota(&[SIZE, SIZE], 1)?);
    let distance = row.sub(&column)?.abs();
    let beside = distance.eq(1)?.cast(DType::F32)?;
    device.eye(SIZE)?.mul(2)?.sub(&beside)
}

fn main() -> Result<()> {
    let device = Device::new_blocking()?;
    let a = matrix(&device)?;
    // A loop assigns to variables. Everything else is immutable.
    let x = Variable::new(&device.uniform(&[SIZE, 1], -1.0, 1.0, 7)?);
    for _ in 0..1_500 {
        let y = a.matmul(&x.value())?;
        // Recorded, and submitted automatically in large parts. Nothing waits here.
        x.assign(&y.div(&y.norm_l2(&[])?)?)?;
    }
    // The Rayleigh quotient of a vector of length 1.
    let x = x.value();
    let largest = x.transpose(0, 1)?.matmul(&a.matmul(&x)?)?.item_blocking::<f32>()?;
    let n = SIZE as f64;
    let exact = 2.0 - 2.0 * (std::f64::consts::PI * n / (n + 1.0)).cos();
    println!("by iteration: {largest:.4}");
    println!("exact: {exact:.4}");
    let stats = device.stats();
    println!("{} kernels in {} submissions, {} plans", stats.kernels, stats.submits, stats.plans);
    Ok(())
}
