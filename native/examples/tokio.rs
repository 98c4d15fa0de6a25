//! The async API with tokio: tasks share a device, and wait without blocking a thread.
//! `cargo run -p warpweft-native --example tokio`

use std::time::Duration;
use tokio::task::JoinSet;
use warpweft_native::prelude::*;

/// Handles a request: returns the sum of the squares up to `n`, computed on the device.
async fn answer(device: Device, n: u32) -> Result<(u32, f32)> {
    let squares = device.arange(f64::from(n) + 1.0)?.square();
    // Submitted immediately. Other tasks run until the result is available.
    let sum = squares.sum(&[])?.item::<f32>().await?;
    Ok((n, sum))
}

#[tokio::main]
async fn main() -> Result<()> {
    // The async methods are those of the crate `warpweft`, without `_blocking`.
    let device = Device::new().await?;
    println!("on {}", device.info().backend);

    let mut tasks = JoinSet::new();
    for n in [10, 100, 200] {
        // Cloning a device or a tensor is cheap, and both can be sent to other threads.
        tasks.spawn(answer(device.clone(), n));
    }
    let mut answers = Vec::new();
    while let Some(done) = tasks.join_next().await {
        answers.push(done.expect("no task panics")?);
    }
    answers.sort_unstable_by_key(|&(n, _)| n);
    for (n, sum) in answers {
        println!("squares up to {n}: {sum}");
    }

    // A waiting call can be canceled. The work continues, and its result is dropped.
    let product = device.ones(&[256, 256])?.matmul(&device.ones(&[256, 256])?)?;
    match tokio::time::timeout(Duration::from_secs(60), product.mean(&[])?.item::<f32>()).await {
        Ok(mean) => println!("mean of a product: {}", mean?),
        Err(_) => println!("no answer within a minute"),
    }
    Ok(())
}
